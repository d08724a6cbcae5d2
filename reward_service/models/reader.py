"""A Hugging Face model that reads games, all of its weights trained.

Reads "turn": one pass for each turn, over its history and its utterance.
Reads "game": one pass over the whole game, read off at the last token of each turn, whose hidden
state knows what came before and nothing that came after.

    begin  shown end said end  shown end said end  ...        `end` of `said` is the turn's last token

Of what is too long, the end is read. A game that does not fit into one pass is read in several, each
with the end of what came before it as its history, at most half of the pass.

The first weights of each training are those of the folder, so a model does not depend on the one
before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from reward_service.models.language_model import Tokens, load_model, made_head
from reward_service.models.memory import Texts
from reward_service.models.settings import Reads

if TYPE_CHECKING:
    from reward_service.models.transformer import Transformer


@dataclass(frozen=True, slots=True)
class Passage:
    """Tokens of one pass, the turns that are read off it, and at which of its places."""

    ids: list[int]
    turns: list[int]
    places: list[int]


@dataclass(frozen=True, slots=True)
class Passages:
    passages: list[Passage]
    of_turn: np.ndarray  # number of the passage that each turn is read off


class TransformerReader:
    def __init__(self, settings: Transformer, reads: Reads, seed: int = 0, weights: bool = True):
        self.settings, self.whole_games = settings, reads == "game"
        generator = torch.Generator().manual_seed(seed)
        self.tokens = Tokens(settings)
        self.model = load_model(settings, reads, self.tokens.filler, generator, weights)
        self.head = made_head(self.model, generator) if self.whole_games else None

    def read(self, texts: Texts) -> Passages:
        gists = list(texts.row)
        tokens = dict(zip(gists, self.tokens.ids([gist.text for gist in gists]), strict=True))
        room = self.settings.max_tokens - len(self.tokens.begin)
        passages, first = [], 0
        for game in texts.games:
            turns = [
                [*tokens[shown], self.tokens.end, *tokens[said], self.tokens.end]
                for shown, said in zip(game.shown, game.said, strict=True)
            ]
            cut = together(turns, room) if self.whole_games else one_by_one(turns, room)
            for ids, read in cut:
                places = [len(self.tokens.begin) + place for _, place in read]
                passages.append(Passage(self.tokens.begin + ids, [first + turn for turn, _ in read], places))
            first += len(turns)
        of_turn = np.zeros(first, np.int64)
        for number, passage in enumerate(passages):
            of_turn[passage.turns] = number
        return Passages(passages, of_turn)

    def shares(self, read: Passages, examples: Sequence[np.ndarray]) -> Iterator[slice]:
        """Examples whose passages, padded, are at most `tokens_at_once` tokens; one at least."""
        first, widest, rows = 0, 0, 0
        for number, turns in enumerate(examples):
            needed = sorted(set(read.of_turn[turns].tolist()))
            longest = max(len(read.passages[each].ids) for each in needed)
            full = max(widest, longest) * (rows + len(needed)) > self.settings.tokens_at_once
            if full and number > first:
                yield slice(first, number)
                first, widest, rows = number, 0, 0
            widest, rows = max(widest, longest), rows + len(needed)
        if first < len(examples):
            yield slice(first, len(examples))

    def values(self, read: Passages, turns: np.ndarray) -> torch.Tensor:
        """Where one game needs more than `tokens_at_once`, pass after pass, each computed again for its gradients."""
        chosen = [read.passages[number] for number in np.unique(read.of_turn[turns])]
        cuts = list(_cuts([len(passage.ids) for passage in chosen], self.settings.tokens_at_once))
        if len(cuts) == 1:
            found = self._values(chosen)
        else:
            found = torch.cat([checkpoint(self._values, chosen[cut], use_reentrant=False) for cut in cuts])
        place = {turn: number for number, turn in enumerate(turn for passage in chosen for turn in passage.turns)}
        return found[torch.tensor([place[turn] for turn in turns.tolist()])]

    def _values(self, chosen: Sequence[Passage]) -> torch.Tensor:
        """Of each turn that is read off these passages, in their order."""
        length = max(len(passage.ids) for passage in chosen)
        ids = torch.full((len(chosen), length), self.tokens.filler)
        mask = torch.zeros((len(chosen), length), dtype=torch.long)
        for number, passage in enumerate(chosen):
            ids[number, : len(passage.ids)] = torch.tensor(passage.ids)
            mask[number, : len(passage.ids)] = 1
        if not self.whole_games:
            return self.model(input_ids=ids, attention_mask=mask).logits.squeeze(-1)
        hidden = self.model(input_ids=ids, attention_mask=mask).last_hidden_state
        row = [number for number, passage in enumerate(chosen) for _ in passage.turns]
        return self.head(hidden[row, [place for passage in chosen for place in passage.places]]).squeeze(-1)

    def _modules(self) -> dict[str, nn.Module]:
        return {"model": self.model} | ({"head": self.head} if self.head else {})

    def parameters(self) -> list[nn.Parameter]:
        return [weight for module in self._modules().values() for weight in module.parameters()]

    def state(self) -> dict[str, Any]:
        return {
            name: {key: weight.numpy().copy() for key, weight in module.state_dict().items()}
            for name, module in self._modules().items()
        }

    @classmethod
    def of_state(cls, settings: Transformer, reads: Reads, state: dict[str, Any]) -> TransformerReader:
        made = cls(settings, reads, weights=False)
        for name, module in made._modules().items():
            module.load_state_dict({key: torch.from_numpy(weight.copy()) for key, weight in state[name].items()})
        return made


def _cuts(lengths: Sequence[int], most: int) -> Iterator[slice]:
    """Passages that, padded, are at most so many tokens together; one at least."""
    first, widest = 0, 0
    for number, length in enumerate(lengths):
        if number > first and max(widest, length) * (number - first + 1) > most:
            yield slice(first, number)
            first, widest = number, 0
        widest = max(widest, length)
    yield slice(first, len(lengths))


def one_by_one(turns: Sequence[Sequence[int]], room: int) -> list[tuple[list[int], list[tuple[int, int]]]]:
    """For each turn its tokens with their history, and (turn, place of its last token)."""
    passages, so_far = [], []
    for number, turn in enumerate(turns):
        so_far = [*so_far, *turn][-room:]
        passages.append((so_far, [(number, len(so_far) - 1)]))
    return passages


def together(turns: Sequence[Sequence[int]], room: int) -> list[tuple[list[int], list[tuple[int, int]]]]:
    """As few passes as hold all turns, in order; each begins with at most `room // 2` tokens of history."""
    passages, before, number = [], [], 0
    while number < len(turns):
        ids, places = before[-(room // 2) :], []
        while number < len(turns) and (not places or len(ids) + len(turns[number]) <= room):
            ids = [*ids, *turns[number]][-room:]
            before = [*before, *turns[number]]
            places.append((number, len(ids) - 1))
            number += 1
        passages.append((ids, places))
    return passages
