"""BabyAI in words: missions in rooms of coloured balls, boxes, keys and doors, from the package minigrid.

The first observation says the mission; each one tells what is in view, with steps to the left, the right and forward.
There are six actions; what is none of them is not executable and costs the turn. The episode's seed chooses rooms and
mission. Outcome is 1 for a mission that is done, so a mean is the papers' success rate; paid is what minigrid pays,
1 - 0.9 * steps / (the level's steps), which is kept as `money`, too.
"""

from __future__ import annotations

import difflib
import io
import random
from collections.abc import Iterable
from contextlib import redirect_stdout
from typing import Annotated, Any

from envs.doors.inward.imported import ImportedGame, paid_by, world
from envs.game import Player, Step, Trial
from envs.options import Menu, words
from envs.text.listed import menu_of, named, yes_or_no
from envs.worlds.babyai.players import Mediocre, Random, Seeker
from envs.worlds.babyai.words import ACTIONS, seen, thing, vocabulary
from envs.worlds.package import package, text_of

SEAT = "agent"
PREFIX = "BabyAI-"
MISSIONS = 200  # that are read for their words
LEVELS = (
    "GoToObj", "GoToRedBallGrey", "GoToRedBall", "GoToLocal", "PutNextLocal", "PickupLoc", "GoToObjMaze", "GoTo",
    "Pickup", "UnblockPickup", "Open", "Unlock", "PutNextS7N4", "Synth", "SynthLoc", "GoToSeq", "SynthSeq",
    "GoToImpUnlock", "BossLevel",
)  # fmt: skip


class BabyAI(ImportedGame):
    name = "babyai"
    seats = (SEAT,)

    def __init__(
        self,
        level: Annotated[
            str, "GoToRedBallGrey, GoToRedBall, GoToLocal, ... BossLevel: every level that minigrid has"
        ] = "GoToLocal",
        turns: Annotated[int | None, "until it is truncated; null: the level's own number of steps"] = None,
        menu: Menu = False,
    ):
        self.level, self.menu = level, yes_or_no("menu", menu)
        self._env = self._made(level)
        self._reset(0)
        super().__init__(self._env.max_steps if turns is None else turns)
        self._paid, self._ended = 0.0, False

    @staticmethod
    def _made(level: Any) -> Any:
        package("minigrid")
        registry = package("gymnasium").registry
        known = {each.removeprefix(PREFIX).rpartition("-v")[0]: each for each in registry if each.startswith(PREFIX)}
        if words("level", level) not in known:
            close = difflib.get_close_matches(level, known, n=1, cutoff=0.0)
            raise ValueError(f"game option level={level!r}: BabyAI has no such level; did you mean {close[0]}?")
        return package("gymnasium").make(known[level]).unwrapped

    def _reset(self, number: int) -> dict[str, Any]:
        with world(f"BabyAI {self.level}: reset"), redirect_stdout(io.StringIO()):  # it prints what it draws again
            found, _ = self._env.reset(seed=number)
        return found

    def _begin(self, seed: int) -> None:
        self._paid, self._ended, self._goal = 0.0, False, ""
        found = self._reset(random.Random(f"babyai {seed}").getrandbits(31))
        self._goal = f"Goal: {text_of(found['mission'])}.\n"
        self._look(found, self._goal)

    def _look(self, found: dict[str, Any], before: str = "") -> None:
        held = self._env.carrying
        self._carried = thing(*held.encode()) if held is not None else ""
        self._shown = before + seen(found["image"].tolist(), self._carried)
        if self.menu:
            self._shown += f"\n{menu_of(ACTIONS)}"

    def _acting(self) -> str | None:
        return None if self._ended else SEAT

    def _say(self, utterance: str) -> Step:
        said = named(" ".join(utterance.lower().split()), ACTIONS) or named(utterance, ACTIONS)
        if said is None:
            return Step(executable=False, caption="The agent says what is no action.")
        carried = self._carried
        with world(f"BabyAI {self.level}: step"):
            found, paid, done, cut, _ = self._env.step(ACTIONS.index(said))
        reward = paid_by(f"BabyAI {self.level}", paid)
        self._paid, self._ended = self._paid + reward, bool(done or cut)
        self._look(found)
        changed = "" if self._carried == carried else f" It carries {self._carried or 'nothing'} now."
        return Step(
            rewards={SEAT: reward} if reward else {},
            terminated=bool(done),
            truncated=bool(cut and not done),
            caption=f"The agent does this: {said}.{changed}{' The mission is done.' if self._paid > 0 else ''}",
        )

    def briefing(self, seat: str) -> str:
        return (
            "You are in rooms with walls, doors and things, and see what is before you. The first words say your goal. "
            f"Each time, say exactly one action and nothing else: {', '.join(ACTIONS)}. toggle opens or closes the "
            "door or the box that is 1 step forward; a locked door needs the key of its colour. You have "
            f"{self.horizon} turns."
        )

    def observe(self) -> str:
        return self._shown

    def actions(self) -> tuple[str, ...]:
        return ACTIONS if self.seat is not None else ()

    def _over(self) -> bool:
        return self._seed is not None and self.seat is None

    def outcome(self) -> dict[str, float]:
        return {SEAT: float(self._over() and self._paid > 0)}

    def money(self, seat: str) -> float | None:
        return self._paid if self._over() else None

    def closing(self) -> dict[str, str]:
        return {SEAT: self._shown} if self._over() else {}

    def facts(self) -> dict[str, str]:
        return {"mission": self._goal.removeprefix("Goal: ").strip()} if self._over() else {}

    def language(self) -> Iterable[str]:
        yield from (text.lower() for text in vocabulary())
        yield menu_of(ACTIONS).lower()
        for number in range(MISSIONS):
            yield f"goal: {self._reset(number)['mission'].lower()}."

    @classmethod
    def trials(cls) -> list[Trial]:
        """The levels of the BabyAI paper, with their own numbers of steps."""
        return [Trial(level, {"level": level}) for level in LEVELS]

    @classmethod
    def players(cls) -> dict[str, type[Player]]:
        return {"seeker": Seeker, "mediocre": Mediocre, "random": Random}
