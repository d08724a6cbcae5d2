"""NetHack in words, on the NetHack Learning Environment (NLE): explore the dungeon as deep as you can.

A seat is told what NetHack said, its state, what stands under it, where it can go, and what it sees, with directions
and steps; no potion is told by more than its class. The caption of a turn is what NetHack said. Where NetHack asks
something, the answers are listed: a direction, yes and no, the letters of things. What is no listed action is not
handed on: it costs the turn.

The sum of NLE's rewards is kept as `money`: the scale of the papers, with their -0.01 for actions that took no time.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Annotated, Any

from envs.coroutines import finish
from envs.doors.inward.imported import paid_by, share_of
from envs.game import Player, Step, Trial
from envs.options import Menu, one_of, whole_number
from envs.processes.process import Kind
from envs.text.listed import menu_of, named, yes_or_no
from envs.worlds.hosted import HostedGame
from envs.worlds.nethack.characters import character_of
from envs.worlds.nethack.helpful import helpful
from envs.worlds.nethack.keys import ANSWERS, KEYS, LETTERS, SETS, answers_to
from envs.worlds.nethack.players import Explorer, Mediocre, Random
from envs.worlds.package import present, text_of

SEAT = "adventurer"
WAYS = "make setup WORLDS=1, or pip install --no-deps nle==1.3.0"  # it asks for an older gymnasium, and needs none
BEST = {
    "score": 1000.0, "staircase": 1.0, "staircase_pet": 1.0, "oracle": 1.0,
    "gold": 200.0, "eat": 1000.0, "scout": 1000.0,
}  # fmt: skip
GOALS = {
    "score": "Get a high score: go deeper, kill monsters, find gold, and stay alive.",
    "staircase": "Stand on a staircase down.",
    "staircase_pet": "Stand on a staircase down, with your pet next to you.",
    "oracle": "Stand next to the Oracle, who lives some levels below.",
    "gold": "Pick up as much gold as you can.",
    "eat": "Eat: each time you become less hungry you are paid.",
    "scout": "See as much of the dungeon as you can.",
}
TURNS_OF_PAPERS = 5000
SILENCE = "Nothing is said."
UNKNOWN = "That is none of your actions."
PRACTICE_GAMES, PRACTICE_TURNS = 24, 150


class NetHack(HostedGame):
    name = "nethack"
    seats = (SEAT,)
    kind = Kind("NetHack", "envs.worlds.nethack.inside:Dungeon", megabytes=400, seconds=20.0, start_seconds=60.0)
    open_vocabulary = True
    helpful = staticmethod(helpful)

    def __init__(
        self,
        task: Annotated[
            str, "score, staircase, staircase_pet, oracle, gold, eat or scout: NLE's own, paid as NLE pays them"
        ] = "score",
        character: Annotated[
            str, "as NLE writes it: role, race, alignment, gender, such as val-dwa-law-fem; @ for any"
        ] = "mon-hum-neu-mal",
        actions: Annotated[
            str, "task: the 22 of NLE's tasks; all: 65 commands, and every question may be answered"
        ] = "task",
        turns: Annotated[int, "until it is truncated; NLE's tasks have 5000"] = 200,
        best: Annotated[
            float | None, "the return of the task that is worth 1, where 0 is worth 0; null: one for each task"
        ] = None,
        things: Annotated[int, "how many things around are told, the nearest first"] = 8,
        inventory: Annotated[bool, "whether it is told, at the beginning and whenever it has changed"] = True,
        menu: Menu = False,
        processes: Annotated[
            int | None, "of NetHack in one worker, at most; an episode that finds none waits; null: 16"
        ] = None,
    ):
        present("nle", WAYS)
        super().__init__(turns, processes)
        self.task, self.set = one_of("task", task, tuple(BEST)), one_of("actions", actions, tuple(SETS))
        self.keys = {word: KEYS[word] for word in SETS[self.set]}
        self.character = character_of(character)
        self.best = BEST[task] if best is None else best
        if isinstance(best, bool) or not isinstance(self.best, int | float) or not 0 < self.best < 1e9:
            raise ValueError(f"game option best={best!r} must be a number above 0, the return that is worth 1")
        self.things, self.inventory = whole_number("things", things, 0, 100), yes_or_no("inventory", inventory)
        self.menu = yes_or_no("menu", menu)
        self._now: dict[str, Any] = {}

    def _made_with(self) -> dict[str, Any]:
        told = {"things": self.things, "inventory": self.inventory}
        return {"task": self.task, "character": self.character, "questions": self.set == "all", **told}

    async def _begin(self, seed: int) -> None:
        self._return = 0.0
        self._look(await self.call("reset", random.Random(f"nethack {seed}").getrandbits(31)))

    def _look(self, now: dict[str, Any]) -> None:
        self._now = now
        self._can = {} if now["over"] else answers_to(now["question"]) if now["question"] else self.keys
        self._listed = tuple(self._can)
        self._shown = text_of(now["text"])
        if self.menu and self._listed:
            self._shown += f"\n{menu_of(self._listed)}"

    async def _say(self, utterance: str) -> Step:
        said = named(utterance, self._listed) or " ".join(utterance.lower().split())
        if said not in self._can:
            self._shown = f"{UNKNOWN}\n{self._shown.removeprefix(UNKNOWN).lstrip()}"
            return Step(executable=False, caption="The adventurer says something that is no action.")
        self._look(await self.call("step", self._can[said]))
        reward = paid_by("NetHack", self._now["reward"])
        self._return += reward
        rewards = {SEAT: reward / self.best} if reward else {}
        return Step(rewards=rewards, terminated=self._now["over"], caption=text_of(self._now["said"], 400) or SILENCE)

    def _acting(self) -> str | None:
        return None if not self._now or self._now["over"] else SEAT

    def briefing(self, seat: str) -> str:
        return (
            f"You are in the dungeon of NetHack. {GOALS[self.task]} Each time you are told what happened, how you "
            "are, and what is around you, with directions and numbers of steps. Say exactly one action and nothing "
            f"else: {', '.join(self.keys)}. A question is answered with what it offers, or with escape. You have "
            f"{self.horizon} turns."
        )

    def observe(self) -> str:
        return self._shown or "Nothing new."

    def actions(self) -> tuple[str, ...]:
        return self._listed

    def _over(self) -> bool:
        return self._seed is not None and self.seat is None

    def outcome(self) -> dict[str, float]:
        return {SEAT: share_of(self._return, (0.0, self.best)) if self._over() else 0.0}

    def money(self, seat: str) -> float | None:
        return self._return if self._over() else None

    def closing(self) -> dict[str, str]:
        return {SEAT: self.observe()} if self._over() else {}

    def facts(self) -> dict[str, str]:
        told = ("score", "depth", "turns", "level", "gold", "done")
        return {name: str(self._now[name]) for name in told} if self._over() else {}

    def _texts(self) -> Iterator[str]:
        """NetHack has more words than can be listed: those of practice games, whose seeds are below zero."""
        yield from (UNKNOWN, "Nothing new.", *KEYS, *answers_to("direction"), *ANSWERS, *LETTERS)
        players = [Explorer(), Random()]
        for number in range(PRACTICE_GAMES):
            player = players[number % 2]
            player.reset(number)
            finish(self.reset(-1 - number))
            for _ in range(PRACTICE_TURNS):
                if self.seat is None:
                    break
                seen = self.observe()
                yield seen
                finish(self.step(player.reply(seen, self.actions())))
            yield self.observe()
        self.close()

    @classmethod
    def trials(cls) -> list[Trial]:
        return [Trial(task, {"task": task, "turns": TURNS_OF_PAPERS}, episodes=100) for task in BEST]

    @classmethod
    def players(cls) -> dict[str, type[Player]]:
        return {"explorer": Explorer, "mediocre": Mediocre, "random": Random}
