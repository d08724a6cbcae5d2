"""ALFWorld: household tasks in rooms of text, as `textworld` plays them; each room is one of ALFRED's.

You download its games and unpack them:

    https://github.com/alfworld/alfworld/releases/download/0.4.2/json_2.1.3_tw-pddl.zip

Its six kinds of tasks are pick_and_place_simple, look_at_obj_in_light, pick_clean_then_place_in_recep,
pick_heat_then_place_in_recep, pick_cool_then_place_in_recep and pick_two_obj_and_place.

The episode's seed chooses a game of the split: its remainder by how many there are, in the order of their paths, so
that the trials play each game of a split once. Things are numbered as in ALFWorld's own transcripts. The commands that
can be given are listed; anything else makes nothing happen, is not executable, and costs the turn. Reward and outcome
are 1 for a task that is done. `facts` tells task, scene, and which game it was.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Annotated, Any

from envs.doors.inward.players import Curious
from envs.game import Player, Step, Trial
from envs.options import ShowCommands, one_of, several
from envs.processes.process import Kind
from envs.text.listed import menu_of, named, yes_or_no
from envs.worlds.alfworld.data import SPLITS, TASKS, folder_of, games
from envs.worlds.alfworld.players import Expert, Mediocre, Random
from envs.worlds.alfworld.words import words_of
from envs.worlds.hosted import HostedGame
from envs.worlds.package import present

SEAT = "agent"
NOTHING = "Nothing happens."
TITLE = re.compile(r"-= .* =-")


class ALFWorld(HostedGame):
    name = "alfworld"
    seats = (SEAT,)
    kind = Kind("ALFWorld", "envs.worlds.alfworld.inside:House", processes=8, megabytes=500, seconds=120.0)
    open_vocabulary = True

    def __init__(
        self,
        data: Annotated[str | None, "folder of the games; null: $ALFWORLD_DATA, or ~/.cache/alfworld"] = None,
        split: Annotated[
            str, "train (3,553 games), valid_seen (140) or valid_unseen (134, in rooms that training has not)"
        ] = "train",
        tasks: Annotated[str | Sequence[str], "kinds of tasks; an empty list: all six"] = (),
        turns: Annotated[int, "until it is truncated"] = 50,
        show_commands: ShowCommands = True,
        processes: Annotated[
            int | None, "engines in one worker, at most; an episode that finds none waits; null: 8"
        ] = None,
    ):
        for needed in ("fast_downward", "textworld"):
            present(needed)
        super().__init__(turns, processes)
        if data is not None and not isinstance(data, str):
            raise ValueError(f"game option data={data!r} must be the path of a folder")
        self.split, self.folder = one_of("split", split, tuple(SPLITS)), folder_of(data)
        self.tasks = tuple(one_of("tasks", each, TASKS) for each in several("tasks", tasks)) or TASKS
        self.show_commands = yes_or_no("show_commands", show_commands)
        self.games = games(self.folder, self.split, self.tasks)
        self._won, self._listed = False, ()

    async def _begin(self, seed: int) -> None:
        self._found = self.games[seed % len(self.games)]
        self._look(await self.call("reset", str(self._found.path)))

    def _look(self, seen: dict[str, Any]) -> None:
        self._won = seen["won"]
        self._listed = () if self._won else tuple(seen["actions"])
        self._show(plain(seen["text"]))

    def _show(self, text: str) -> None:
        self._shown = f"{text}\n{menu_of(self._listed)}" if self.show_commands and self._listed else text

    async def _say(self, utterance: str) -> Step:
        command = named(utterance, self._listed)
        if command is None:
            self._show(NOTHING)
            return Step(executable=False, caption="the agent says something that cannot be done")
        seen = await self.call("step", command)
        self._look(seen)
        return Step(
            rewards={SEAT: 1.0} if self._won else {},
            terminated=self._won,
            caption=f"the agent does this: {command}. {' '.join(seen['text'].split())}"[:400].rstrip(),
        )

    def _acting(self) -> str | None:
        return None if self._won else SEAT

    def briefing(self, seat: str) -> str:
        where = "Each time you are told what you can do; say" if self.show_commands else "Each time, say"
        return (
            f"You are in a room, and its first words tell you your task. {where} exactly one command and nothing else. "
            "Commands are like: go to cabinet 1; open cabinet 1; take mug 1 from shelf 2; move mug 1 to cabinet 1; "
            "heat mug 1 with microwave 1; cool mug 1 with fridge 1; clean mug 1 with sinkbasin 1; use desklamp 1; "
            f"examine mug 1; inventory; look. You carry one thing at most. You have {self.horizon} turns."
        )

    def observe(self) -> str:
        return self._shown

    def actions(self) -> tuple[str, ...]:
        return self._listed

    def _over(self) -> bool:
        return self._seed is not None and self.seat is None

    def outcome(self) -> dict[str, float]:
        return {SEAT: float(self._over() and self._won)}

    def closing(self) -> dict[str, str]:
        return {SEAT: self._shown} if self._over() else {}

    def facts(self) -> dict[str, str]:
        if not self._over():
            return {}
        room, trial = self._found.path.parts[-3:-1]
        return {"task": self._found.task, "scene": self._found.scene, "game": f"{self.split}/{room}/{trial}"}

    def _texts(self) -> Iterator[str]:
        yield from (NOTHING, menu_of(()), self.briefing(SEAT))
        yield from words_of(self.folder)

    @classmethod
    def trials(cls) -> list[Trial]:
        """The published evaluation: every game of both splits once."""
        return [Trial(split, {"split": split}, episodes=SPLITS[split]) for split in ("valid_seen", "valid_unseen")]

    @classmethod
    def players(cls) -> dict[str, type[Player]]:
        return {"curious": Curious, "expert": Expert, "mediocre": Mediocre, "random": Random}


def plain(text: str) -> str:
    """Its lines without empty ones and without the title."""
    lines = (" ".join(line.split()) for line in text.splitlines())
    return "\n".join(line for line in lines if line and not TITLE.fullmatch(line))
