"""A game's texts as the token ids of one growing prompt.

The tokenizer's own chat template decides the form. The opening prompt is rendered
once; each later turn adds only what the template puts between one assistant message
and the next, so ids that were sampled are never made from text again.

The increment is found by rendering a short conversation around a sentinel answer and
keeping what follows the sentinel. A template that rewrites earlier turns (dropping old
reasoning, for instance) is still only ever asked about its newest turn.

Where a template refuses a system message, the briefing opens the first message
of the user.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from envs.text.thinking import TAG

SENTINEL = "\u241e42\u241e"
KEPT = 1024  # texts whose ids are remembered; one may have thousands of ids
RESULT = re.compile(r"(<tool_response>\n)((?:(?!</?tool_response>).)*)(\n</tool_response>)", re.DOTALL)
RESULTS = re.compile(rf"{RESULT.pattern}(?:\n{RESULT.pattern})*", re.DOTALL)


class Dialogue:
    """Turns observations into token ids for one tokenizer. Stateless; shared by all games."""

    def __init__(self, tokenizer):
        self.tokenizer = tokenizer
        if not getattr(tokenizer, "chat_template", None):
            raise ValueError(
                f"tokenizer {tokenizer.name_or_path!r} has no chat template; "
                "use an instruction-tuned model or put a chat_template.jinja beside it"
            )
        # Longest first, so that none is left behind as part of another.
        self.markers = sorted({*tokenizer.all_special_tokens, *tokenizer.get_added_vocab()}, key=len, reverse=True)
        added = getattr(tokenizer, "added_tokens_decoder", {})  # some families name no role for their end of turn
        self.special = dict(zip(tokenizer.all_special_ids, tokenizer.all_special_tokens, strict=True))
        self.special |= {token: str(how) for token, how in added.items() if how.special}
        self.tags = {token: text for token, text in self.special.items() if TAG.fullmatch(text)}  # of thinking
        self.controls = [
            marker for marker in self.markers if marker in {*self.special.values()} - {*self.tags.values()}
        ]
        self.end_ids = self._end_ids()
        self.takes_system = self._takes_system()
        self.utterance = lru_cache(maxsize=16 * KEPT)(self._utterance)
        self.opening = lru_cache(maxsize=KEPT)(self._opening)
        self.reply = lru_cache(maxsize=KEPT)(self._reply)

    def _end_ids(self) -> tuple[int, ...]:
        """Ids at which an utterance ends: whatever the template closes an answer with,
        and the tokenizer's own end of sequence."""
        after = self._after_answer("x")
        closing = self.tokenizer.encode(after, add_special_tokens=False)[:1]
        ends = {token for token in closing if token in self.special}
        if self.tokenizer.eos_token_id is not None:
            ends.add(self.tokenizer.eos_token_id)
        if not ends:
            raise ValueError(f"tokenizer {self.tokenizer.name_or_path!r} has no end token")
        return tuple(sorted(ends))

    def _takes_system(self) -> bool:
        from jinja2 import TemplateError

        try:
            self._render([{"role": "system", "content": "x"}, {"role": "user", "content": "x"}])
        except TemplateError:
            return False
        return True

    def _render(self, messages: list[dict]) -> str:
        return self.tokenizer.apply_chat_template(
            messages, tokenize=False, add_generation_prompt=True, enable_thinking=False
        )

    def _plain(self, text: str) -> str:
        """Text of a game or of another player, with the tokenizer's control tokens spelled
        out: whoever writes `<|im_end|>` says these characters and ends nobody's turn. Where the whole
        text is results of tools, the tags around each of them stay, as templates have them."""
        if RESULTS.fullmatch(text):
            return RESULT.sub(lambda found: f"{found[1]}{self._spelled(found[2], self.markers)}{found[3]}", text)
        return self._spelled(text, self.markers)

    @staticmethod
    def _spelled(text: str, markers: Sequence[str]) -> str:
        for marker in markers:
            if marker.strip():
                text = text.replace(marker, " ".join(marker))
        return text

    def _after_answer(self, observation: str) -> str:
        rendered = self._render(
            [
                {"role": "user", "content": "x"},
                {"role": "assistant", "content": SENTINEL},
                {"role": "user", "content": self._plain(observation)},
            ]
        )
        return rendered.partition(SENTINEL)[2]  # the first: an observation may hold anything

    def _opening(self, briefing: str, observation: str) -> tuple[int, ...]:
        """Ids of the whole prompt before a seat's first utterance. A briefing may say how to think or to call a tool,
        so only control tokens proper are spelled out in it: it may hold what a server tells of its tools."""
        briefing = self._spelled(briefing, self.controls)
        system = [{"role": "system", "content": briefing}] if briefing and self.takes_system else []
        first = f"{briefing}\n\n" if briefing and not self.takes_system else ""
        text = self._render([*system, {"role": "user", "content": first + self._plain(observation)}])
        return tuple(self.tokenizer.encode(text, add_special_tokens=False))

    def _reply(self, observation: str, last_id: int) -> tuple[int, ...]:
        """Ids between an utterance that ended in `last_id` and the next one. If the
        utterance already sampled its end token, that token is not repeated, nor blanks before it;
        if it was cut off, the template's end token is part of the observation."""
        ids = self.tokenizer.encode(self._after_answer(observation), add_special_tokens=False)
        end = next((place for place, token in enumerate(ids) if token in self.end_ids), None)
        if last_id in self.end_ids and end is not None and not self.tokenizer.decode(ids[:end]).strip():
            ids = ids[end + 1 :]
        return tuple(ids)

    def _utterance(self, text: str) -> tuple[int, ...]:
        """Ids of a whole answer that says `text`, with the token that ends it."""
        closing = self.tokenizer.encode(self._after_answer("x"), add_special_tokens=False)[:1]
        end = closing[0] if closing and closing[0] in self.end_ids else self.end_ids[0]
        return (*self.tokenizer.encode(self._plain(text), add_special_tokens=False), end)

    def text(self, utterance_ids) -> str:
        """What was said, with what was thought, between its tags also where these are control tokens."""
        ids = list(utterance_ids)
        cuts = [place for place, token in enumerate(ids) if token in self.tags]
        parts = [ids[start + 1 : end] for start, end in zip([-1, *cuts], [*cuts, len(ids)], strict=True)]
        texts = [self.tokenizer.decode(part, skip_special_tokens=True) for part in parts]
        marks = ["", *(self.tags[ids[cut]] for cut in cuts)]
        return "".join(mark + text for mark, text in zip(marks, texts, strict=True)).strip()
