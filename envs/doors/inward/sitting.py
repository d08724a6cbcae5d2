"""A game as another library's environment steps it: some seats are its agents, the others are
played by scripts in between.

    paid to a seat = collected with its next look or at the end + still owed

so rewards that fall to a seat while others act are neither lost nor paid twice.
"""

from __future__ import annotations

from typing import Any

from envs.game import Step
from envs.registry import make_game, make_player

PAY = ("steps", "outcome")


class Sitting:
    """`players` names the scripts of the seats that are not free: {seat: "random"}. `pay`:
    each step's rewards, or only the outcome, at the end."""

    def __init__(
        self,
        name: str,
        options: dict[str, Any] | None = None,
        players: dict[str, str] | None = None,
        pay: str = "steps",
    ):
        if pay not in PAY:
            raise ValueError(f"pay={pay!r} must be one of: {', '.join(PAY)}")
        self.game, self.pay = make_game(name, options), pay
        players = players or {}
        strangers = set(players) - set(self.game.seats)
        if strangers:
            raise ValueError(f"game {name!r} has no seat {min(strangers)!r}; it has: {', '.join(self.game.seats)}")
        self.free = tuple(seat for seat in self.game.seats if seat not in players)
        if not self.free:
            raise ValueError(f"players={players!r} leave no seat of game {name!r} to an agent")
        self.scripts = {
            seat: make_player(name, player.removeprefix("scripted:"), options) for seat, player in players.items()
        }
        self.owed: dict[str, float] = {}
        self.spoken: set[str] = set()

    def begin(self, seed: int) -> None:
        self.game.reset(seed)
        for number, script in enumerate(self.scripts.values()):
            script.reset(seed * len(self.game.seats) + number)
        self.owed = dict.fromkeys(self.game.seats, 0.0)
        self.spoken.clear()
        self.last: Step | None = None
        self._scripts_go_on()

    @property
    def seat(self) -> str | None:
        """The agent to act; None once the game is over."""
        return self.game.seat

    def say(self, utterance: str) -> Step:
        """What the utterance itself did; the scripts have answered when it returns."""
        self.spoken.add(self.game.seat)
        step = self._step(utterance)
        self._scripts_go_on()
        return step

    def _scripts_go_on(self) -> None:
        while (seat := self.game.seat) in self.scripts:
            self._step(self.scripts[seat].reply(self.game.observe(), tuple(self.game.actions())))

    def _step(self, utterance: str) -> Step:
        self.last = self.game.step(utterance)
        if self.pay == "steps":
            for seat, reward in self.last.rewards.items():
                self.owed[seat] += reward
        elif self.game.seat is None:
            self.owed |= self.game.outcome()
        return self.last

    def collect(self, seat: str) -> float:
        reward, self.owed[seat] = self.owed[seat], 0.0
        return float(reward)

    @property
    def ended(self) -> tuple[bool, bool]:
        """Whether the game terminated, whether it was cut off."""
        over = self.game.seat is None
        return over and not self.last.truncated, over and self.last.truncated
