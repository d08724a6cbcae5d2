"""ScienceWorld: thirty tasks of an elementary science class in a house of ten rooms, simulated in Java.

Its simplifications are teleportAction, openDoors, openContainers, selfWateringFlowerPots, noElectricalAction, and easy
for all of them.

The episode's seed chooses a variation of the split: its remainder by how many there are. Any command that the world
understands is taken, listed or not, but for "reset task". One that it does not know, or that may mean several things,
is not executable; of several it asks which one, and a number answers.

The score is the package's, from 0 to 100, with the parts of a task that were done; a mistake that cannot be mended ends
the episode with -100, which counts as 0. Rewards are what is added to it, and the outcome is the score, both by 100.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

from envs.game import Player, Step, Trial
from envs.options import ShowScene, one_of, several
from envs.text import listed as listing
from envs.text.listed import named, yes_or_no
from envs.worlds.java.adventure import SEAT, Adventure
from envs.worlds.java.following import opening, plain
from envs.worlds.package import package
from envs.worlds.scienceworld.players import Gold, Mediocre, Random
from envs.worlds.scienceworld.settings import (
    ELECTRICAL,
    KIND,
    NO_CONNECTING,
    PER_PROCESS,
    SIMPLIFICATIONS,
    SPLITS,
    TASKS,
)

UNKNOWN = "No known action matches that input."
NOT_UNDERSTOOD = (UNKNOWN, "Unknown action.", "Ambiguous request")
WAIT_ONE = "wait1"  # of the package's solutions
COMMAND = re.compile(r"[a-z0-9][a-z0-9 ,.'()/:-]{0,149}")
RESET = re.compile(r"reset\b")


class ScienceWorldGame(Adventure):
    name = "scienceworld"
    kind, per_process = KIND, PER_PROCESS
    open_vocabulary = True

    def __init__(
        self,
        task: Annotated[
            str, "as the package names it: boil, find-plant, power-component, ..."
        ] = "chemistry-mix-paint-secondary-color",
        split: Annotated[
            str, "train, dev or test: the package's own halves and quarters of a task's variations"
        ] = "train",
        simplifications: Annotated[
            str | Sequence[str],
            "the package's own: easy, teleportAction, openDoors, openContainers, ... or a list of them",
        ] = (),
        turns: Annotated[int, "until it is truncated; the package's own limit is 100"] = 100,
        listed: Annotated[
            bool, "list the commands that do something now: hundreds, found a hundred times as slowly as one is done"
        ] = False,
        show_scene: ShowScene = False,
        processes: Annotated[int, "Java machines in one worker, at most; each plays up to 16 episodes at once"] = 4,
    ):
        package("scienceworld")
        super().__init__(turns, processes)
        self.task, self.split = one_of("task", task, tuple(TASKS)), one_of("split", split, SPLITS)
        wanted = several("simplifications", simplifications)
        self.simplifications = [one_of("simplifications", each, SIMPLIFICATIONS) for each in wanted]
        refused = [each for each in self.simplifications if each in NO_CONNECTING and task.startswith(ELECTRICAL)]
        if refused:
            raise ValueError(f"game option simplifications={refused[0]!r}: {task} cannot be done without connecting")
        self.listed, self.show_scene = yes_or_no("listed", listed), yes_or_no("show_scene", show_scene)

    def _chosen(self, seed: int) -> dict[str, Any]:
        return {
            "task": self.task,
            "split": self.split,
            "simplifications": ",".join(self.simplifications),
            "seed": seed,
            "listed": self.listed,
            "scene": self.show_scene,
        }

    def _open(self, found: dict[str, Any]) -> None:
        self._variation = found["variation"]
        self._take(found, opening(found))

    def _take(self, found: dict[str, Any], text: str) -> None:
        self._score = found["score"]
        self._over = found["over"] or self._score < 0
        self._listed = () if self._over else tuple(found.get("actions", ()))
        self._scene = plain(f"{found['look']}\n{found['inventory']}") if self.show_scene else ""
        self._shown = self._worded(text)

    def _worded(self, text: str) -> str:
        return f"{text}\n{self._scene}" if self._scene else text

    def _command(self, said: str) -> str | None:
        if (command := named(said, self._listed)) is not None:
            return command
        command = " ".join(listing.gist(said).lower().removesuffix(".").split())
        return command if COMMAND.fullmatch(command) and not RESET.match(command) else None

    def _refused(self) -> Step:
        self._shown = self._worded(UNKNOWN)
        return Step(executable=False, caption="the adventurer says something that is no command")

    def _answered(self, command: str, found: dict[str, Any]) -> Step:
        before, text = self._score, plain(found["text"])
        self._take(found, text)
        gained = (self._score - before) / 100
        return Step(
            rewards={SEAT: gained} if gained else {},
            executable=not text.startswith(NOT_UNDERSTOOD),
            terminated=self._over,
            caption=f"the adventurer does this: {command}. {' '.join(text.split())}"[:400].rstrip(),
        )

    def briefing(self, seat: str) -> str:
        return (
            "You are in a house with everything that a science class needs. Its first words tell you the task. Each "
            "time, say exactly one command and nothing else. Commands are like: look around; open door to kitchen; go "
            "to kitchen; look at stove; look in cupboard; pick up thermometer; put down pot; move pot to stove; "
            "activate stove; pour water in pot; mix bowl; use thermometer on water; connect battery anode to wire "
            "terminal 1; read book; eat apple; focus on water; wait; inventory; task. Focus on nothing but what the "
            f"task names. You have {self.horizon} turns."
        )

    def observe(self) -> str:
        return self._shown

    def actions(self) -> tuple[str, ...]:
        return self._listed

    def outcome(self) -> dict[str, float]:
        return {SEAT: min(1.0, max(0.0, self._score / 100)) if self.ended else 0.0}

    def closing(self) -> dict[str, str]:
        return {SEAT: self._shown} if self.ended else {}

    def facts(self) -> dict[str, str]:
        if not self.ended:
            return {}
        return {"task": f"{self.task}, variation {self._variation} of {self.split}", "score": f"{self._score:g}"}

    def _texts(self) -> Iterator[str]:
        """The package's own table of things, too: what is said may be about any of them. It writes StopWatch for a
        stopwatch and GlassCup for a glass cup."""
        table = Path(package("scienceworld.constants", self.name).BASEPATH) / "object_type_ids.tsv"
        for kind in re.findall(r"(\w+)\t", table.read_text(encoding="utf-8")):
            yield f"{' '.join(re.findall(r'[A-Z]?[a-z]+', kind))} {kind}"
        yield f"{UNKNOWN} {WAIT_ONE}"
        yield from super()._texts()

    def _options(self) -> dict[str, Any]:
        return {
            "task": self.task,
            "split": self.split,
            "simplifications": self.simplifications,
            "turns": self.horizon,
            "listed": self.listed,
            "show_scene": self.show_scene,
        }

    @classmethod
    def players(cls) -> dict[str, type[Player]]:
        return {"gold": Gold, "mediocre": Mediocre, "random": Random}

    @classmethod
    def trials(cls) -> list[Trial]:
        """Ten test variations of every task, or all where there are fewer, as many papers count them."""
        return [
            Trial(f"{task}, test", {"task": task, "split": "test"}, episodes=min(10, count))
            for task, count in TASKS.items()
        ]
