"""Text adventures of TextWorld: `textworld` with `world=coin_collector` and so on.

The outcome is the share of the world's score that was reached.
Commands are the admissible ones, listed; any other text costs a turn and does nothing, so the
interpreter's own commands (undo, restore, quit) are out of reach. Rewards are shares of the
score too, paid when they are earned.

Worlds are files, generated when an episode first needs them: see `envs.doors.inward.worlds`.
"""

from __future__ import annotations

import json
import random
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

from envs.doors.inward.followers import Expert, Mediocre
from envs.doors.inward.imported import ImportedGame, library, settings_of
from envs.doors.inward.players import Curious, Random
from envs.doors.inward.worlds import CHALLENGES, generated
from envs.game import Player, Step, Trial
from envs.options import ShowCommands, whole_number, words
from envs.text.listed import named, yes_or_no

SEAT = "adventurer"
UNKNOWN = "That is not something you can do here."
WORLDS = 10
WORLDS_READ = 100  # for their words, at most
INSTRUCTION = re.compile(r"\[[^\]]*\]")  # to the interpreter, within a description
TITLE = re.compile(r"^-= (.*) =-$")
STATUS = re.compile(r"-= .* =- ?\d+/\d+")
INTERPRETING = threading.Lock()  # TextWorld's parser is one for all games of a process
AFTER_THE_END = re.compile(r"Would you like to RESTART.*", re.DOTALL)


class TextWorldGame(ImportedGame):
    name = "textworld"
    seats = (SEAT,)

    def __init__(
        self,
        world: Annotated[
            str, "coin_collector, cooking, simple, treasure_hunter, or the path of a .z8 file beside its .json"
        ] = "coin_collector",
        settings: Annotated[
            dict | None,
            "of the challenge, such as {level: 5}; the others have the defaults of `envs.doors.inward.worlds`",
        ] = None,
        worlds: Annotated[
            int, "how many different worlds are generated; the seed of an episode chooses one of them"
        ] = WORLDS,
        first: Annotated[
            int, "the seed of the first world, so that worlds to train on and to evaluate on can be kept apart"
        ] = 0,
        turns: Annotated[int, "until it is truncated"] = 30,
        show_commands: ShowCommands = True,
    ):
        super().__init__(turns)
        self.world, self.settings = words("world", world), settings_of("settings", settings)
        self.worlds = whole_number("worlds", worlds, 1, 100_000)
        self.first = whole_number("first", first, 0, 2**31)
        self.show_commands = yes_or_no("show_commands", show_commands)
        self._textworld = library("textworld", self.name)
        self._file = self._checked()
        self.slow = self._file is None  # a world takes seconds to be generated
        self._environment: Any = None
        self._loaded: Path | None = None

    def _checked(self) -> Path | None:
        """The file of a world that exists already; None if worlds are generated."""
        if self.world in CHALLENGES:
            unknown = set(self.settings) - set(CHALLENGES[self.world])
            if unknown:
                known = ", ".join(CHALLENGES[self.world])
                raise ValueError(f"game option settings: {self.world} has no {sorted(unknown)[0]!r}; it has: {known}")
            return None
        path = Path(self.world).expanduser()
        if path.suffix != ".z8" or not path.is_file():
            known = ", ".join(CHALLENGES)
            raise ValueError(f"game option world={self.world!r} is neither a .z8 file nor one of: {known}")
        if not path.with_suffix(".json").is_file():
            raise ValueError(f"game option world={self.world!r}: {path.with_suffix('.json').name} is not beside it")
        given = {"settings": self.settings, "worlds": self.worlds != WORLDS, "first": self.first}
        if beside := [option for option, value in given.items() if value]:
            raise ValueError(f"game option {beside[0]} is for worlds that are generated; world={self.world!r} is there")
        return path

    def _begin(self, seed: int) -> None:
        number = random.Random(f"textworld {seed}").randrange(self.worlds)
        path = self._path(number)
        with INTERPRETING:
            self._load(path)
            self._state = self._environment.reset()
        self._score, self._ended = 0, False
        parts = (self._state.objective, self._state.description, self._state.inventory)
        self._show("\n".join(_tidy(part) for part in parts if part))

    def _path(self, number: int) -> Path:
        return self._file or generated(self.world, CHALLENGES[self.world] | self.settings, self.first + number)

    def _load(self, path: Path) -> None:
        if path == self._loaded:
            return
        if self._environment is not None:
            self._environment.close()
        wanted = self._textworld.EnvInfos(
            admissible_commands=True, description=True, inventory=True, objective=True,
            score=True, max_score=True, won=True, lost=True,
        )  # fmt: skip
        self._environment, self._loaded = self._textworld.start(str(path), wanted), path

    def _show(self, text: str) -> None:
        self._listed = () if self._ended else tuple(self._state.admissible_commands)
        if self.show_commands and self._listed:
            text = f"{text}\nYou can: {'; '.join(self._listed)}"
        self._shown = text

    def _acting(self) -> str | None:
        return None if self._ended else SEAT

    def _say(self, utterance: str) -> Step:
        command = " ".join(utterance.lower().split())
        if command not in self._listed:
            command = named(utterance, self._listed)
        if command is None:
            self._show(UNKNOWN)
            return Step(executable=False, caption="the adventurer says something that cannot be done")
        with INTERPRETING:
            self._state, _, self._ended = self._environment.step(command)
        feedback = _tidy(AFTER_THE_END.sub("", self._state.feedback))
        self._show(feedback)
        gained = (self._state.score - self._score) / self._state.max_score if self._state.max_score else 0.0
        self._score = self._state.score
        return Step(
            rewards={SEAT: gained} if gained else {},
            terminated=self._ended,
            caption=f"the adventurer does this: {command}. {feedback}"[:400].rstrip(),
        )

    def briefing(self, seat: str) -> str:
        where = "Each time you are told what you can do; say" if self.show_commands else "Each time, say"
        return (
            "You are in a text adventure. Its first words tell you what to do. "
            f"{where} exactly one command, such as: go north. Say nothing else. You have {self.horizon} turns."
        )

    def observe(self) -> str:
        return self._shown

    def actions(self) -> tuple[str, ...]:
        return self._listed

    def outcome(self) -> dict[str, float]:
        if self._seed is None or self.seat is not None or not self._state.max_score:
            return {SEAT: 0.0}
        return {SEAT: min(1.0, max(0.0, self._score / self._state.max_score))}

    def closing(self) -> dict[str, str]:
        return {SEAT: self._shown} if self._seed is not None and self.seat is None else {}

    def _texts(self) -> Iterator[str]:
        """The words in the worlds' files, where the descriptions of all rooms and things are, and
        those of practice games."""
        yield UNKNOWN
        for number in range(1 if self._file else min(self.worlds, WORLDS_READ)):
            for text in _strings(json.loads(self._path(number).with_suffix(".json").read_text(encoding="utf-8"))):
                yield INSTRUCTION.sub(" ", text)
        yield from super()._texts()

    def _options(self) -> dict[str, Any]:
        return {
            "world": self.world,
            "settings": self.settings,
            "worlds": self.worlds,
            "first": self.first,
            "turns": self.horizon,
            "show_commands": self.show_commands,
        }

    @classmethod
    def trials(cls) -> list[Trial]:
        return [Trial(world, {"world": world}) for world in CHALLENGES]

    @classmethod
    def players(cls) -> dict[str, type[Player]]:
        return {"curious": Curious, "expert": Expert, "mediocre": Mediocre, "random": Random}


def _strings(value: Any) -> Iterator[str]:
    """Every text in a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | dict):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _strings(each)


def _tidy(text: str) -> str:
    """One line for each paragraph: without the interpreter's prompt and its status line, which
    counts the moves, and without the rules around a room's title."""
    lines = (" ".join(line.strip("> \t").split()) for line in text.splitlines())
    return "\n".join(TITLE.sub(r"\1", line) for line in lines if line and not STATUS.fullmatch(line))
