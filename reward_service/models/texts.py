"""Episodes as texts: for each policy seat, what it was shown, said, and got in the end.

    heard[0] said[0] heard[1] said[1] ... said[T-1]     outcome

Everything that a seat saw is in it, and nothing that it did not: a turn is valued by what came
before it and by what was said. Amounts that the other seats named since the seat's last turn, where
the game can parse them, come with what it heard.
"""

from __future__ import annotations

from typing import NamedTuple

from envs.episode import Episode
from reward_service.intentions.gist import LONGEST, Gist, gist_of
from reward_service.intentions.reading import check
from reward_service.intentions.trajectory import Player
from reward_service.intentions.window import Identity


class SeatGame(NamedTuple):
    """One seat's game. `executable[t]`: whether the game could execute what was said."""

    identity: Identity
    player: Player
    heard: tuple[Gist, ...]
    said: tuple[Gist, ...]
    executable: tuple[bool, ...]
    outcome: float

    @property
    def turns(self) -> int:
        return len(self.said)

    @property
    def place(self) -> tuple[Identity, Player]:
        """Sorts games in an order of their own, whoever came first."""
        return self.identity, self.player

    @property
    def gists(self) -> tuple[Gist, ...]:
        return *self.heard, *self.said


def tell(episode: Episode) -> list[SeatGame]:
    """One for each policy seat that spoke. Refuses a bad episode (EpisodeRefused)."""
    check(episode)
    game = episode.ticket.game
    told = []
    for seat in episode.policy_seats():
        heard, said, executable = [], [], []
        amounts: dict[str, float] = {}
        for turn in episode.turns:
            if turn.seat != seat:
                amounts |= dict(gist_of(game, turn.utterance).amounts)
                continue
            heard.append(Gist(" ".join(turn.observation.split())[:LONGEST], tuple(sorted(amounts.items()))))
            said.append(gist_of(game, turn.utterance))
            executable.append(bool(turn.executable))
            amounts = {}
        if said:
            outcome = float(episode.outcome[seat])
            told.append(
                SeatGame(identity_of(episode), (game, seat), tuple(heard), tuple(said), tuple(executable), outcome)
            )
    return told


def identity_of(episode: Episode) -> Identity:
    return episode.ticket.run, episode.ticket.number, episode.ticket.attempt
