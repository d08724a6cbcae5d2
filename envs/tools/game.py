"""Tools: call functions that JSON schemas describe until the task is done, and say the answer.

A call is plain, `calculate x times y`, or JSON, `<tool_call>{"name": ..., "arguments": ...}</tool_call>`; so is an
answer, `answer r1` or `Answer: 391`.

Sixteen tools: calculate; add_days, days_between, weekday; convert; lookup, filter, join on tables of people and teams;
list_files, read_file, write_file, delete_file; price, stock, buy, purse. All that they work on is drawn from the
episode's seed, and so is the task.

An answer is right if it is the one that the tools give and the files, the stock and the purse are as they should be
then: nothing is missing and nothing else was changed. Right pays 1 and wrong 0; either ends the game. A call that does
not fit its tool's schema is not executable; one that fits and cannot be done is told so.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Any

from envs.game import OVER, Game, Player, Step, Trial
from envs.options import one_of, whole_number
from envs.practice import texts_of_practice
from envs.tools.box.every import BOX
from envs.tools.calls import Answer, Call, Unread, read_json, read_plain, same
from envs.tools.families import families, next_name, results_in, task_of
from envs.tools.language import sentences
from envs.tools.players import PLAYERS
from envs.tools.tool import ToolError
from envs.tools.words import briefing, question, response, shown
from envs.tools.world import SIZES

SEAT = "agent"
FORMS = ("plain", "json")


class Tools(Game):
    name = "tools"
    seats = (SEAT,)

    def __init__(
        self,
        families: Annotated[str | Sequence[str] | None, "kinds of tasks, each of 1 to 4 calls; null: all 21"] = None,
        form: Annotated[
            str, "plain: `calculate x times y`, for small policies; json, as language models say it"
        ] = "plain",
        size: Annotated[str, "of numbers, tables and the calendar: small (its words are few) or large"] = "small",
        turns: Annotated[
            int, "a turn is one call (json: several) or the answer; when they run out, the task has failed"
        ] = 8,
        partial: Annotated[float, "what it pays at most to have made the right calls, without the right answer"] = 0.0,
    ):
        self.families = families_named(families)
        self.form, self.size = one_of("form", form, FORMS), one_of("size", size, SIZES)
        self.horizon = whole_number("turns", turns, 1, 100)
        if isinstance(partial, bool) or not isinstance(partial, int | float) or not 0 <= partial < 1:
            raise ValueError(f"game option partial={partial!r} must be a number from 0 to below 1")
        self.partial = float(partial)
        self._seed: int | None = None

    def reset(self, seed: int) -> None:
        self._seed = None
        self._world, self._task = task_of(seed, self.families, self.size)
        self._known: dict[str, Any] = dict(self._task.given)
        self._made = 0  # calls of the task's own that were made, in their order
        self._turn, self._over, self._right = 0, False, False
        self._shown = question(self._task, self.form)
        self._seed = seed

    @property
    def seat(self) -> str | None:
        return None if self._seed is None or self._over else SEAT

    def briefing(self, seat: str) -> str:
        return briefing(BOX.values(), self.form, self.horizon)

    def observe(self) -> str:
        return self._shown

    def step(self, utterance: str) -> Step:
        if self.seat is None:
            raise RuntimeError(OVER)
        said = read_json(utterance, BOX) if self.form == "json" else read_plain(utterance, BOX, self._known)
        self._turn += 1
        if isinstance(said, Answer):
            self._over = True
            self._right = same(said.text, self._task.answer) and self._world.state() == self._task.end
            caption = f"the agent answers {said.text.strip()[:100]}, which is {'right' if self._right else 'wrong'}"
        elif isinstance(said, Unread):
            caption = f"the agent says nothing that could be read: {said.why}"
            self._shown = f"error {said.why}" if self.form == "plain" else response(f"error: {said.why}")
        else:
            caption = self._call(said)
        if not self._over and self._turn >= self.horizon:
            self._over = True
            caption += ", and has no turns left"
        return Step(
            rewards={SEAT: pay} if self._over and (pay := self._pay()) else {},
            executable=not isinstance(said, Unread),
            terminated=self._over,
            caption=caption,
        )

    def _call(self, calls: list[Call]) -> str:
        """Makes them, shows what they return, and tells it as a caption."""
        told, results, names = [], [], []
        for call in calls:
            try:
                result, failed = BOX[call.name].function(self._world, **call.arguments), False
            except ToolError as error:
                result, failed = str(error), True
            if not failed:
                self._follow(call)
                for value in results_in(result):
                    names.append(next_name(self._known))
                    self._known[names[-1]] = value
            results.append(f"error: {result}" if failed else result)
            told.append(f"{call}: {results[-1]}")
        plain_error = self.form == "plain" and failed
        self._shown = f"error {result}" if plain_error else shown(results, self.form, names)
        return f"the agent calls {'; '.join(told)}"[:400]

    def _follow(self, call: Call) -> None:
        if self._made < len(self._task.calls) and call == self._task.calls[self._made]:
            self._made += 1

    def _pay(self) -> float:
        return 1.0 if self._right else self.partial * self._made / len(self._task.calls)

    def outcome(self) -> dict[str, float]:
        return {SEAT: self._pay() if self._seed is not None and self._over else 0.0}

    def closing(self) -> dict[str, str]:
        if self._seed is None or not self._over:
            return {}
        return {SEAT: "right" if self._right else f"wrong ; the answer is {self._task.answer}"}

    def facts(self) -> dict[str, str]:
        if self._seed is None or not self._over:
            return {}
        calls = ", ".join(map(str, self._task.calls))
        return {"family": self._task.family.name, "answer": self._task.answer, "calls": calls}

    def save(self) -> dict[str, Any]:
        if self._seed is None:
            return {"seed": None}
        return {
            "seed": self._seed,
            "state": self._world.state(),
            "results": [value for name, value in self._known.items() if len(name) > 1],
            "made": self._made,
            "turn": self._turn,
            "over": self._over,
            "right": self._right,
            "shown": self._shown,
        }

    def restore(self, saved: dict[str, Any]) -> None:
        if saved["seed"] is None:
            self._seed = None
            return
        self.reset(saved["seed"])
        self._world.put_back(saved["state"])
        for value in saved["results"]:
            self._known[next_name(self._known)] = value
        self._made, self._turn = saved["made"], saved["turn"]
        self._over, self._right, self._shown = saved["over"], saved["right"], saved["shown"]

    def language(self) -> Iterable[str]:
        """Of the plain form and a small world every word; of others as many as practice shows, too few for the embedded
        policy."""
        if (self.form, self.size) == ("plain", "small"):
            return sentences(self.horizon)
        options = {"families": self.families, "form": self.form, "size": self.size, "turns": self.horizon}
        return texts_of_practice(type(self), options)

    @classmethod
    def players(cls) -> dict[str, type[Player]]:
        return PLAYERS

    @classmethod
    def trials(cls) -> list[Trial]:
        by_calls: dict[int, list[str]] = {}
        for name, family in families().items():
            by_calls.setdefault(len(family.calls), []).append(name)
        calls = [Trial(f"{count} call{'s' * (count > 1)}", {"families": by_calls[count]}) for count in sorted(by_calls)]
        return [*calls, Trial("large, json", {"form": "json", "size": "large"})]


def families_named(names: Any) -> tuple[str, ...]:
    known = families()
    if names is None:
        return tuple(known)
    listed = [names] if isinstance(names, str) else names
    if not isinstance(listed, list | tuple) or not listed:
        raise ValueError(f"game option families={names!r} must be a list of names")
    for name in listed:
        one_of("families", name, tuple(known))
    return tuple(dict.fromkeys(listed))
