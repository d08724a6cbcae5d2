"""Environments of Gymnasium: `gymnasium` with `id=FrozenLake-v1` and so on.

    utterance     the name of an action; of a Text space, the text itself
    observation   the environment's text, or its numbers in words, or both where it is a Dict, of which `keys`
                  chooses the parts; or its own picture in letters (`show=picture`, where it can render as "ansi")
    outcome       the sum of rewards, put from `returns` = [worst, best] to [0, 1]

What is no action is not handed on: it costs a turn and nothing else happens. An action that the
environment masks out (`info["action_mask"]`) is not listed and treated the same.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from enum import IntEnum
from functools import lru_cache
from typing import Annotated, Any

from envs.doors.inward.imported import ImportedGame, library, paid_by, returns_of, settings_of, share_of, world
from envs.doors.inward.players import Curious, Random, TextReader
from envs.doors.inward.practice import best_actions
from envs.doors.inward.told import TooLarge, told
from envs.game import Player, Step, Trial
from envs.kinds import see_current_folder
from envs.options import Returns, several, words
from envs.text.listed import named, yes_or_no

SEAT = "player"
DEFAULT_TURNS = 100  # where the environment sets no limit itself
COLOURS = re.compile(r"\x1b\[([0-9;]*)m([^\x1b]*)")
NAMES = {
    "FrozenLake": ("left", "down", "right", "up"),
    "FrozenLake8x8": ("left", "down", "right", "up"),
    "CliffWalking": ("up", "right", "down", "left"),
    "Taxi": ("south", "north", "east", "west", "pick up", "drop off"),
    "Blackjack": ("stick", "hit"),
}

OF_MINIGRID = ("MiniGrid-", "BabyAI-")  # which registers them when it is imported
TOYS = {"FrozenLake-v1": (0, 1), "CliffWalking-v1": (-100, -13), "Taxi-v3": (-200, 15), "Blackjack-v1": (-1, 1)}


class GymnasiumGame(ImportedGame):
    name = "gymnasium"
    seats = (SEAT,)

    def __init__(
        self,
        id: Annotated[str, "of the environment, or module:Env-v0, which imports the module first"] = "FrozenLake-v1",
        settings: Annotated[dict | None, "of the environment, as gymnasium.make takes them"] = None,
        action_names: Annotated[
            list[str] | None, "a name for each action; null: those that are known, or action 0, action 1, ..."
        ] = None,
        returns: Returns = (0.0, 1.0),
        show: Annotated[
            str, "state: the observation in words; picture: what the environment draws as text (ansi)"
        ] = "state",
        keys: Annotated[list[str] | None, "the parts of a Dict observation that are shown; null: all"] = None,
        turns: Annotated[int | None, "until it is truncated; null: the environment's own limit, or 100"] = None,
        slow: Annotated[bool, "a step may take long: it works in a thread, and other games go on"] = False,
    ):
        self.id, self.settings, self.show = words("id", id), settings_of("settings", settings), show
        self.returns, self.slow = returns_of(returns), yes_or_no("slow", slow)
        if show not in ("state", "picture"):
            raise ValueError(f"game option show={show!r} must be state or picture")
        self.keys = _keys_of(keys)
        self._environment = self._made()
        limit = self._environment.spec.max_episode_steps if self._environment.spec else None
        super().__init__((limit or DEFAULT_TURNS) if turns is None else turns)
        self.action_names = self._action_names(action_names)
        with world(f"environment {self.id}: its observation space"):
            sample = self._environment.observation_space.sample()
        if keys is not None and (show == "picture" or not isinstance(sample, dict)):
            raise ValueError(f"game option keys={keys!r}: what is shown of {self.id} is no Dict")
        try:
            if self.show == "state":
                self._text(sample)
        except TooLarge as error:
            hint = f"choose parts with keys=, of: {', '.join(sample)}" if isinstance(sample, dict) else "wrap it"
            raise ValueError(f"game option id={self.id!r}: its observation cannot be told: {error}; {hint}") from None

    def _made(self) -> Any:
        gymnasium = library("gymnasium", self.name)
        if self.id.startswith(OF_MINIGRID):
            library("minigrid", self.name)
        see_current_folder()  # `id` may be module:Env-v0
        picture = {"render_mode": "ansi"} if self.show == "picture" else {}
        try:
            made = gymnasium.make(self.id, **self.settings, **picture)
        except Exception as error:  # of whoever wrote the environment
            reason = " ".join(str(error).split()) or type(error).__name__
            raise ValueError(f"game option id={self.id!r} cannot be made: {reason[:200]}") from None
        modes = made.metadata.get("render_modes", ())
        if picture and "ansi" not in modes:
            raise ValueError(
                f"game option show='picture': {self.id} draws as {', '.join(modes) or 'nothing'}, not as ansi"
            )
        return made

    def _action_names(self, names: list[str] | None) -> tuple[str, ...]:
        from gymnasium.spaces import Discrete, Text

        space = self._environment.action_space
        if isinstance(space, Text):
            if names is not None:
                raise ValueError(f"game option action_names={names!r}: the actions of {self.id} are free text")
            return ()
        if not isinstance(space, Discrete):
            raise ValueError(f"game option id={self.id!r}: actions {space} are neither Discrete nor Text")
        if names is None:
            known = NAMES.get(re.split("[/:]", self.id)[-1].rpartition("-v")[0], ())
            names = list(known) or self._enumerated(space.n) or [f"action {number}" for number in range(space.n)]
        plain = tuple(" ".join(each.lower().split()) for each in several("action_names", names))
        if len(plain) != space.n or len(set(plain)) != len(plain) or "" in plain:
            raise ValueError(f"game option action_names={names!r} must be {space.n} different names")
        return plain

    def _enumerated(self, count: int) -> list[str]:
        """Many environments, those of MiniGrid too, name their actions in an enumeration."""
        named = getattr(self._environment.unwrapped, "actions", None)
        members = list(named) if isinstance(named, type) and issubclass(named, IntEnum) else []
        return [each.name for each in members] if [int(each) for each in members] == list(range(count)) else []

    def _begin(self, seed: int) -> None:
        number = random.Random(f"gymnasium {seed}").getrandbits(31)
        self._return, self._ended, self._cut = 0.0, False, False
        with world(f"environment {self.id}: reset"):
            seen, info = self._environment.reset(seed=number)
            self._look(seen, info)

    def _look(self, seen: Any, info: dict[str, Any]) -> None:
        mask = info.get("action_mask")
        self._listed = (
            self.action_names
            if mask is None
            else tuple(name for name, allowed in zip(self.action_names, mask, strict=True) if allowed)
        )
        self._shown = _plain(self._environment.render()) if self.show == "picture" else self._text(seen)

    def _text(self, seen: Any) -> str:
        from gymnasium.spaces import Box, Discrete, MultiBinary, MultiDiscrete

        space = self._environment.observation_space
        if isinstance(seen, dict) and self.keys is not None:
            unknown = [key for key in self.keys if key not in seen]
            if unknown:
                raise ValueError(f"game option keys: no part {unknown[0]!r}; it has: {', '.join(map(str, seen))}")
            seen = {key: seen[key] for key in self.keys}
        numbers = isinstance(space, Box | Discrete | MultiBinary | MultiDiscrete)
        return f"state {told(seen)}" if numbers else told(seen)

    def _acting(self) -> str | None:
        return None if self._ended or self._cut else SEAT

    def _say(self, utterance: str) -> Step:
        said = self._named(utterance) if self.action_names else utterance
        if not self._possible(said):
            return Step(executable=False, caption=f"the player says something that is no action at {self._shown}")
        before = self._shown
        action = self.action_names.index(said) + self._environment.action_space.start if self.action_names else said
        with world(f"environment {self.id}: step"):
            seen, paid, ended, cut, info = self._environment.step(action)
            self._ended, self._cut = bool(ended), bool(cut)
            reward = paid_by(f"environment {self.id}", paid)
            self._return += reward
            self._look(seen, info)
        return Step(
            rewards={SEAT: reward} if reward else {},
            terminated=self._ended,
            truncated=self._cut and not self._ended,
            caption=f"the player says {said} at {before}",
        )

    def _named(self, utterance: str) -> str:
        said = " ".join(utterance.lower().split())
        return said if said in self._listed else named(utterance, self._listed) or said

    def _possible(self, said: str) -> bool:
        return said in self._listed if self.action_names else said in self._environment.action_space

    def briefing(self, seat: str) -> str:
        rules = f"You act in the environment {self.id.rpartition('/')[2]}, at most {self.horizon} times. "
        if self.action_names:
            rules += f"Each time, say one of these actions and nothing else: {', '.join(self.action_names)}."
        else:
            rules += "Each time, say your action and nothing else."
        return rules

    def observe(self) -> str:
        return self._shown

    def actions(self) -> tuple[str, ...]:
        return self._listed

    def outcome(self) -> dict[str, float]:
        over = self._seed is not None and self.seat is None
        return {SEAT: share_of(self._return, self.returns) if over else 0.0}

    def closing(self) -> dict[str, str]:
        return {SEAT: self._shown} if self._seed is not None and self.seat is None else {}

    def _texts(self) -> Iterator[str]:
        yield from self.action_names
        space = self._environment.observation_space
        if self.show == "state" and hasattr(space, "start") and space.n <= 4000:
            yield from (f"state {number}" for number in range(space.start, space.start + space.n))
        else:
            yield from super()._texts()

    def _options(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "settings": self.settings,
            "action_names": list(self.action_names) or None,
            "returns": list(self.returns),
            "show": self.show,
            "keys": self.keys,
            "turns": self.horizon,
            "slow": self.slow,
        }

    @classmethod
    def trials(cls) -> list[Trial]:
        return [Trial(id, {"id": id, "returns": list(returns)}, episodes=1000) for id, returns in TOYS.items()]

    @classmethod
    def players(cls) -> dict[str, type[Player]]:
        return {"curious": Curious, "mediocre": PractisedMediocre, "practised": Practised, "random": Random}


@lru_cache(maxsize=16)
def _practised(options: str) -> dict[str, str]:
    """Practice is done once in a process for each set of options."""
    game = GymnasiumGame(**json.loads(options))
    return best_actions(game) if game.action_names else {}


class Practised(TextReader):
    """Does what was best in practice, anything where it never was. Wins 73 % of the slippery
    frozen lakes of Gymnasium."""

    def __init__(self, **options):
        super().__init__()
        self.best = _practised(json.dumps(options, sort_keys=True))

    def choose(self, observation: str, listed: tuple[str, ...], speech: tuple[str, ...]) -> str:
        best = self.best.get(observation)
        return best if best in listed else self.anything(listed or speech)


class PractisedMediocre(Practised):
    """Practised in four of five turns, random in the others: wins 24 % of the slippery frozen lakes."""

    def choose(self, observation: str, listed: tuple[str, ...], speech: tuple[str, ...]) -> str:
        if self.random.random() < 1 / 5:
            return self.anything(listed or speech)
        return super().choose(observation, listed, speech)


def _keys_of(keys: Any) -> list[str] | None:
    if keys is not None and (not isinstance(keys, list | tuple) or not all(isinstance(key, str) for key in keys)):
        raise ValueError(f"game option keys={keys!r} must be a list of names, the parts of a Dict that are shown")
    return None if keys is None else list(keys)


def _plain(picture: str) -> str:
    """Without colours; what stands on a coloured ground, such as where the player is, in angle brackets."""

    def unpainted(found: re.Match) -> str:
        ground = any(code.startswith("4") and len(code) == 2 for code in found[1].split(";"))
        return f"<{found[2]}>" if ground else found[2]

    return COLOURS.sub(unpainted, picture).strip("\n")
