"""Episodes as gists: what each policy seat heard and said. A bad episode is refused by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from envs.episode import Episode, Turn
from envs.registry import game_class
from reward_service.intentions.gist import LONGEST, NOTHING, Gist, answer_of, gist_by, observations_of
from reward_service.intentions.trajectory import Player

LARGEST_OUTCOME = 1000  # they lie in [0, 1]; what is far beyond would not fit an exact sum


class EpisodeRefused(ValueError):
    """`reason` is a word for the counter; the text says which episode, and what is wrong with it."""

    def __init__(self, episode: Episode, reason: str, text: str):
        ticket = episode.ticket
        super().__init__(f"episode {ticket.number} (attempt {ticket.attempt}) of run {ticket.run!r} refused: {text}")
        self.reason = reason


class Reading(NamedTuple):
    """One seat's game: a gist, or a fixed label, before each gist that it said."""

    player: Player
    said: list[Gist]
    heard: list[Gist | int]
    outcome: float


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
        if not isinstance(outcome, int | float) or not abs(outcome) <= LARGEST_OUTCOME:
            raise EpisodeRefused(
                episode,
                "bad_outcome",
                f"the outcome of seat {seat!r} is {outcome!r}, not a number up to {LARGEST_OUTCOME}",
            )


def read(episode: Episode, observations: str) -> list[Reading]:
    """One for each policy seat that spoke. `observations`: "game", "text", "labels" or "none"."""
    game, made_by = episode.ticket.game, game_class(episode.ticket.game)
    mode = observations_of(game) if observations == "game" else observations
    readings = []
    for seat in episode.policy_seats():
        said, heard, since = [], [], []
        for turn in episode.turns:
            if turn.seat != seat:
                since.append(turn)
                continue
            heard.append(_heard(episode, turn, since, mode, opening=not said, made_by=made_by))
            said.append(gist_by(made_by, turn.utterance))
            since = []
        if said:
            readings.append(Reading((game, seat), said, heard, float(episode.outcome[seat])))
    return readings


def _heard(episode: Episode, turn: Turn, since: Sequence[Turn], mode: str, opening: bool, made_by: type) -> Gist | int:
    """Where there are other seats: what they said since this one spoke. Else the observation,
    but for the first one, which is the game's and says nothing about how it is played."""
    alone = len(episode.ticket.players) == 1
    if mode == "none" or (opening if alone else not since):
        return NOTHING
    if mode == "labels":
        return answer_of(turn.observation if alone else since[-1].utterance)
    if alone:
        return Gist(" ".join(turn.observation.split())[:LONGEST])
    gists = [gist_by(made_by, other.utterance) for other in since]
    return gists[0] if len(gists) == 1 else Gist(" / ".join(gist.text for gist in gists)[:LONGEST])
