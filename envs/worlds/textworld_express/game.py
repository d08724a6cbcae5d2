"""TextWorldExpress: eight kinds of text games, generated in Java as fast as they are played.

The episode's seed chooses a world of the split: its remainder by 1000. Commands are the admissible ones, listed; any
other text costs a turn and does nothing. A reward is what a command adds to the normalised score of the package, and
the outcome is that score: 1 for success, a share for what was done of the task, also where it can no longer be done,
which ends the episode.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

from envs.doors.inward.imported import settings_of
from envs.doors.inward.players import Curious, Random
from envs.game import Player, Step, Trial
from envs.options import ShowCommands, ShowScene, one_of, whole_number
from envs.text.listed import menu_of, named, yes_or_no
from envs.worlds.java.adventure import SEAT, Adventure
from envs.worlds.java.following import opening, plain
from envs.worlds.package import package
from envs.worlds.textworld_express.gold import walked
from envs.worlds.textworld_express.players import Gold, Mediocre
from envs.worlds.textworld_express.settings import GAMES, KIND, PER_PROCESS, SPLITS, WORLDS

UNKNOWN = "That is not something you can do here."


class TextWorldExpressGame(Adventure):
    name = "textworld_express"
    kind, per_process = KIND, PER_PROCESS

    def __init__(
        self,
        game: Annotated[
            str, "coin, cookingworld, twc, mapreader, arithmetic, sorting, simonsays or peckingorder"
        ] = "coin",
        settings: Annotated[
            dict | None, "of the game, such as {numLocations: 4, includeDoors: 0}; null: the package's defaults"
        ] = None,
        split: Annotated[str, "train, dev or test: the package's own 1000 worlds of each"] = "train",
        turns: Annotated[int, "until it is truncated; the package's own limit is 100"] = 100,
        show_commands: ShowCommands = True,
        show_scene: ShowScene = False,
        processes: Annotated[int, "Java machines in one worker, at most; each plays up to 64 episodes at once"] = 4,
    ):
        package("textworld_express")
        super().__init__(turns, processes)
        self.game, self.split = one_of("game", game, tuple(GAMES)), one_of("split", split, tuple(SPLITS))
        self.settings = settings_of("settings", settings)
        for name, value in self.settings.items():
            if name not in GAMES[game]:
                known = ", ".join(GAMES[game]) or "none"
                raise ValueError(f"game option settings: {game} has no {name!r}; it has: {known}")
            whole_number(f"settings: {name}", value, *GAMES[game][name])
        self.show_commands = yes_or_no("show_commands", show_commands)
        self.show_scene = yes_or_no("show_scene", show_scene)

    def _chosen(self, seed: int) -> dict[str, Any]:
        number = SPLITS[self.split] + seed % WORLDS
        return {"game": self.game, "settings": self.settings, "split": self.split, "seed": number}

    def _open(self, found: dict[str, Any]) -> None:
        self._show(opening(found), found, "")

    def _show(self, text: str, found: dict[str, Any], scene: str) -> None:
        self._score, self._over = found["score"], found["won"] or found["lost"] or found["score"] >= 1
        self._listed = () if self._over else tuple(found["actions"])
        self._scene = "\n".join(each for each in (found["look"], found["inventory"]) if each)
        self._shown = self._worded(text, scene)

    def _worded(self, text: str, scene: str) -> str:
        menu = menu_of(self._listed) if self.show_commands and self._listed else ""
        return plain("\n".join([text, scene if self.show_scene else "", menu]))

    def _command(self, said: str) -> str | None:
        return named(said, self._listed)

    def _refused(self) -> Step:
        self._shown = self._worded(UNKNOWN, self._scene)
        return Step(executable=False, caption="the adventurer says something that cannot be done")

    def _answered(self, command: str, found: dict[str, Any]) -> Step:
        before = self._score
        scene = "\n".join(found[part] for part in ("look", "inventory") if found[part] != found["text"])
        self._show(found["text"], found, scene)
        feedback = " ".join(found["text"].split())
        return Step(
            rewards={SEAT: self._score - before} if self._score != before else {},
            terminated=self._over,
            caption=f"the adventurer does this: {command}. {feedback}"[:400].rstrip(),
        )

    def briefing(self, seat: str) -> str:
        where = "Each time you are told what you can do; say" if self.show_commands else "Each time, say"
        return (
            "You are in a text adventure. Its first words tell you what to do. "
            f"{where} exactly one command, such as: look around. Say nothing else. You have {self.horizon} turns."
        )

    def observe(self) -> str:
        return self._shown

    def actions(self) -> tuple[str, ...]:
        return self._listed

    def outcome(self) -> dict[str, float]:
        return {SEAT: min(1.0, max(0.0, self._score)) if self.ended else 0.0}

    def closing(self) -> dict[str, str]:
        return {SEAT: self._shown} if self.ended else {}

    def facts(self) -> dict[str, str]:
        return {"world": f"{self.game}, {self._asked['seed']} of {self.split}"} if self.ended else {}

    def _texts(self) -> Iterator[str]:
        yield from (UNKNOWN, "You can:")
        yield from walked(self.game, self.settings, self.split)
        yield from super()._texts()

    def _options(self) -> dict[str, Any]:
        return {
            "game": self.game,
            "settings": self.settings,
            "split": self.split,
            "turns": self.horizon,
            "show_commands": self.show_commands,
            "show_scene": self.show_scene,
        }

    @classmethod
    def players(cls) -> dict[str, type[Player]]:
        return {"curious": Curious, "gold": Gold, "mediocre": Mediocre, "random": Random}

    @classmethod
    def trials(cls) -> list[Trial]:
        """The first hundred worlds that training does not see, of every game."""
        return [Trial(f"{game}, test", {"game": game, "split": "test"}, episodes=100) for game in GAMES]
