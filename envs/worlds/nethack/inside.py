"""NetHack itself, in a process of its own: one game after the other, told in words.

    reset(seed), step(key) -> {
        text        what is new: messages, the question if one is asked, the player's state, what is around, and what
                    the player has where that has changed
        said        the messages alone
        question    which one is asked, or ""
        reward      of the task, as the NetHack Learning Environment pays it
        over        whether the game has ended, or the task is done
        done        whether the task is done
        score, depth (the deepest), turns, level, gold
    }

NLE passes messages that fill several screens; each of them is told.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from nle import nethack
from nle.env import tasks

from envs.worlds.nethack.keys import every_key
from envs.worlds.nethack.sight import Sight

TASKS = {
    "score": tasks.NetHackScore,
    "staircase": tasks.NetHackStaircase,
    "staircase_pet": tasks.NetHackStaircasePet,
    "oracle": tasks.NetHackOracle,
    "gold": tasks.NetHackGold,
    "eat": tasks.NetHackEat,
    "scout": tasks.NetHackScout,
}
SEEN = ("glyphs", "blstats", "message", "misc", "inv_strs", "inv_letters")
ENDLESS = 10**9  # the game counts its turns itself
HUNGER = ("satiated", "", "hungry", "weak from hunger", "fainting", "fainted", "starved")
LOAD = ("", "burdened", "stressed", "strained", "overtaxed", "overloaded")
CONDITIONS = {
    nethack.BL_MASK_BLIND: "blind", nethack.BL_MASK_CONF: "confused", nethack.BL_MASK_STUN: "stunned",
    nethack.BL_MASK_HALLU: "hallucinating", nethack.BL_MASK_DEAF: "deaf", nethack.BL_MASK_LEV: "levitating",
    nethack.BL_MASK_FLY: "flying", nethack.BL_MASK_RIDE: "riding", nethack.BL_MASK_STONE: "turning to stone",
    nethack.BL_MASK_SLIME: "turning to slime", nethack.BL_MASK_STRNGL: "strangled",
    nethack.BL_MASK_FOODPOIS: "poisoned by food", nethack.BL_MASK_TERMILL: "deathly sick",
}  # fmt: skip


class Dungeon:
    def __init__(self, task: str, character: str, questions: bool, things: int, inventory: bool):
        """`questions`: NetHack may ask all of them, not only those that NLE's tasks need."""
        keys = every_key()
        self.number = {key: number for number, key in enumerate(keys)}
        self.env = TASKS[task](
            actions=tuple(keys),
            character=character,
            observation_keys=SEEN,
            max_episode_steps=ENDLESS,
            allow_all_yn_questions=questions,
            render_mode="ansi",
            fix_moon_phase=True,
        )
        self.sight, self.inventory = Sight(things), inventory
        self.messages: list[str] = []
        self.env.nethack.step, self.env.nethack.reset = self._heard_after_each(self.env.nethack)

    def _heard_after_each(self, game: nethack.Nethack) -> tuple[Callable, Callable]:
        """The keys that NLE presses, some by itself, and what NetHack says to each."""
        press, begin = game.step, game.reset

        def pressed(key: int) -> Any:
            observation, done = press(key)
            self._hear(observation)
            return observation, done

        def begun(*given: Any, **more: Any) -> Any:
            observation = begin(*given, **more)
            self._hear(observation)
            return observation

        return pressed, begun

    def _hear(self, observation: tuple) -> None:
        said = text(observation[SEEN.index("message")])
        if said and (not self.messages or said != self.messages[-1]):
            self.messages.append(said)

    def reset(self, seed: int) -> dict[str, Any]:
        self.env.seed(seed, seed, reseed=False)
        self.messages, self.had, self.deepest = [], b"", 0
        self.sight.forget()
        self.stats: list[int] = []
        seen, _ = self.env.reset()
        return self._told(seen, 0.0, False, False)

    def step(self, key: int) -> dict[str, Any]:
        self.messages = []
        seen, reward, over, _, info = self.env.step(self.number[key])
        return self._told(seen, reward, bool(over), int(info["end_status"]) == 2)

    def _told(self, seen: dict[str, np.ndarray], reward: float, over: bool, done: bool) -> dict[str, Any]:
        stats = seen["blstats"].tolist()
        if stats[nethack.NLE_BL_HPMAX] or not self.stats:  # after the end there is nothing
            self.stats = stats
        stats = self.stats
        self.deepest = max(self.deepest, stats[nethack.NLE_BL_DEPTH])
        asked = not over and bool(seen["misc"][0])
        lines = list(self.messages)
        if not over and not asked:
            lines += [state(stats), *self.sight.look(seen["glyphs"], seen["blstats"]), *self._things(seen)]
        return {
            "text": "\n".join(lines),
            "said": " ".join(self.messages),
            "question": self.messages[-1] if asked and self.messages else "?" if asked else "",
            "reward": float(reward),
            "over": over,
            "done": done,
            "score": stats[nethack.NLE_BL_SCORE],
            "depth": self.deepest,
            "turns": stats[nethack.NLE_BL_TIME],
            "level": stats[nethack.NLE_BL_XP],
            "gold": stats[nethack.NLE_BL_GOLD],
        }

    def _things(self, seen: dict[str, np.ndarray]) -> list[str]:
        has = seen["inv_strs"].tobytes()
        if not self.inventory or has == self.had:
            return []
        self.had = has
        letters = seen["inv_letters"].tobytes().rstrip(b"\0").decode("latin-1")
        things = [f"{letter} - {text(row)}" for letter, row in zip(letters, seen["inv_strs"], strict=False)]
        return [f"You have: {'; '.join(things)}."] if things else ["You have nothing."]


def state(stats: list[int]) -> str:
    how = [
        f"HP {stats[nethack.NLE_BL_HP]} of {stats[nethack.NLE_BL_HPMAX]}",
        f"depth {stats[nethack.NLE_BL_DEPTH]}",
        HUNGER[stats[nethack.NLE_BL_HUNGER]],
        LOAD[stats[nethack.NLE_BL_CAP]],
        *(name for mask, name in CONDITIONS.items() if stats[nethack.NLE_BL_CONDITION] & mask),
    ]
    return f"{', '.join(filter(None, how))}."


def text(row: np.ndarray) -> str:
    return " ".join(row.tobytes().partition(b"\0")[0].decode("latin-1").split())
