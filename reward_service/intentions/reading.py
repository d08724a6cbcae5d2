"""A policy seat's game as every shaper reads it: what the seat was shown, heard and said, and what came of it.

Everything that a seat saw is in `shown`, and nothing that it did not. `heard` is the part of it that intentions
group by: what the other seats said since, or the world's answer. A bad episode is refused by name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from envs.episode import Episode, Identity
from envs.registry import game_class
from envs.text.thinking import spoken
from reward_service.intentions.gist import (
    LONGEST,
    NOTHING,
    Gist,
    answer_of,
    gist_by,
    gist_of,
    observations_of,
    one_line,
)
from reward_service.intentions.trajectory import Player

Place = tuple[Identity, Player]  # of a seat's game
LARGEST_OUTCOME = 1000  # they lie in [0, 1]; what is far beyond would not fit an exact sum


class EpisodeRefused(ValueError):
    """`reason` is a word for the counter; the text says which episode, and what is wrong with it."""

    def __init__(self, episode: Episode, reason: str, text: str):
        ticket = episode.ticket
        super().__init__(f"episode {ticket.number} (attempt {ticket.attempt}) of run {ticket.run!r} refused: {text}")
        self.reason = reason


class Reading(NamedTuple):
    """One seat's game, turn by turn: a gist, or a fixed label, heard before each gist that it said."""

    player: Player
    said: Sequence[Gist]
    heard: Sequence[Gist | int]
    outcome: float
    shown: Sequence[Gist] = ()  # whole observations, with the amounts that the other seats named since its last turn
    executable: Sequence[bool] = ()  # whether the game could execute what was said
    identity: Identity = ("", 0, 0)  # of the episode

    @property
    def turns(self) -> int:
        return len(self.said)

    @property
    def place(self) -> Place:
        """Sorts games in an order of their own, whoever came first."""
        return self.identity, self.player

    @property
    def clustered(self) -> list[Gist]:
        """What intentions are made of."""
        return [gist for gist in (*self.said, *self.heard) if isinstance(gist, Gist)]

    @property
    def texts(self) -> tuple[Gist, ...]:
        """What reward models read."""
        return *self.shown, *self.said


class EpisodeReading(NamedTuple):
    """One for each policy seat that spoke."""

    identity: Identity
    seats: Sequence[Reading]


def is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def check(episode: Episode) -> None:
    try:
        game_class(episode.ticket.game)
    except ValueError as error:
        raise EpisodeRefused(episode, "unknown_game", str(error)) from None
    if not episode.turns:
        raise EpisodeRefused(episode, "no_turns", "it has no turns")
    for number, turn in enumerate(episode.turns):
        for what, text in (("utterance", turn.utterance), ("observation", turn.observation)):
            if not isinstance(text, str):
                kind = type(text).__name__
                raise EpisodeRefused(episode, "not_text", f"the {what} of turn {number} is {kind}, not text")
    for seat in episode.policy_seats():
        outcome = episode.outcome.get(seat)
        if not is_number(outcome) or not abs(outcome) <= LARGEST_OUTCOME:
            raise EpisodeRefused(
                episode,
                "bad_outcome",
                f"the outcome of seat {seat!r} is {outcome!r}, not a number from 0 to 1",
            )


def read(episode: Episode, observations: str = "none") -> list[Reading]:
    """One for each policy seat that spoke. `observations`: what `heard` holds, "game", "text", "labels" or "none"."""
    game, made_by = episode.ticket.game, game_class(episode.ticket.game)
    mode = observations_of(game) if observations == "game" else observations
    gists = [gist_by(made_by, turn.utterance) for turn in episode.turns]
    alone = len(episode.ticket.players) == 1
    readings = []
    for seat in episode.policy_seats():
        said, heard, shown, executable, since = [], [], [], [], []
        for number, turn in enumerate(episode.turns):
            if turn.seat != seat:
                since.append(number)
                continue
            if alone:  # the first observation is the game's, and says nothing about how it is played
                heard.append(world_heard(turn.observation, mode) if said else NOTHING)
            elif not since or mode == "none":
                heard.append(NOTHING)
            elif mode == "labels":
                heard.append(answer_of(spoken(episode.turns[since[-1]].utterance)))
            else:
                heard.append(_joined([gists[other] for other in since]))
            named = {name: amount for other in since for name, amount in gists[other].amounts}
            shown.append(Gist(one_line(turn.observation), tuple(sorted(named.items()))))
            said.append(gists[number])
            executable.append(bool(turn.executable))
            since = []
        if said:
            outcome = float(episode.outcome[seat])
            readings.append(Reading((game, seat), said, heard, outcome, shown, executable, episode.ticket.identity))
    return readings


def world_heard(observation: str, mode: str) -> Gist | int:
    """What a lone player hears."""
    if mode == "none":
        return NOTHING
    return answer_of(observation) if mode == "labels" else Gist(one_line(observation))


def _joined(gists: Sequence[Gist]) -> Gist:
    """Of several seats that spoke, one after the other."""
    return gists[0] if len(gists) == 1 else Gist(" / ".join(gist.text for gist in gists)[:LONGEST])


def captions_of(episode: Episode, kind: str) -> list[str]:
    """Of each turn, of all seats: the game's account of it, or with `kind` "utterance", or where there is none,
    what was said; empty where there is nothing to say."""
    captions = []
    for turn in episode.turns:
        caption = one_line(turn.caption).rstrip() if kind == "game" else ""
        captions.append(caption or gist_of(episode.ticket.game, turn.utterance).text)
    return captions
