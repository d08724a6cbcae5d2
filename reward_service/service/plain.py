"""Episodes as plain JSON: what callers send, and what the journal keeps.

Only what shapers read: texts, who said them, what the game paid and how it ended. Whoever has an
outcome is valued, unless `players` says who sits where: then the seats of "policy" are.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from envs.episode import Episode, Ticket, Turn

POLICY, OTHER = "policy", "other"


class Plain(BaseModel):
    """A number is not text, text is no number, and an unknown key is a mistake."""

    model_config = ConfigDict(extra="forbid", strict=True)


class PlainTurn(Plain):
    seat: str = Field(description="who spoke")
    utterance: str = Field(description="what was said")
    observation: str = Field("", description="what the seat saw that was new")
    executable: bool = Field(True, description="whether the game could execute it")
    reward: float = Field(0.0, description="what the game paid for it")
    caption: str = Field("", description="what happened, in words")
    actions: list[str] = Field(default_factory=list, description="what the game listed")


class PlainEpisode(Plain):
    run: str = Field(min_length=1, description="name of the training run")
    game: str = Field(min_length=1, description="a game of Parley, or one that reward.http.games names")
    number: int = Field(ge=0, lt=2**63, description="unique in the run")
    attempt: int = Field(0, ge=0, description="which try at this number")
    seed: int = Field(0, description="of the game")
    turns: list[PlainTurn] = Field(description="in the order they were played, by all seats")
    outcome: dict[str, float] = Field(description="result of each valued seat, 0 to 1")
    players: dict[str, str] | None = Field(
        None, description='seat -> who sits there; the seats of "policy" are valued. Default: seats with an outcome'
    )
    terminated: bool = Field(True, description="false: it was cut off")
    closing: dict[str, str] = Field(default_factory=dict, description="what each seat would have seen next")
    facts: dict[str, str] = Field(default_factory=dict, description="what may be revealed afterwards")


def episode_of(plain: PlainEpisode) -> Episode:
    players = plain.players or seats_of(plain)
    return Episode(
        ticket=Ticket(plain.run, plain.game, plain.number, plain.seed, tuple(players.items()), plain.attempt),
        turns=[
            Turn(**vars(turn) | {"player": players.get(turn.seat, OTHER), "actions": tuple(turn.actions)})
            for turn in plain.turns
        ],
        outcome=dict(plain.outcome),
        terminated=plain.terminated,
        closing=dict(plain.closing),
        facts=dict(plain.facts),
    )


def seats_of(plain: PlainEpisode) -> dict[str, str]:
    """Who sits where, if nobody says it. A seat with an outcome may have been silent only if all that spoke have one:
    else its name is more likely to be misspelt, and it stays out."""
    speakers = dict.fromkeys(turn.seat for turn in plain.turns)
    silent = plain.outcome if speakers.keys() <= plain.outcome.keys() else {}
    return {seat: POLICY if seat in plain.outcome else OTHER for seat in [*speakers, *silent]}


def plain_of(episode: Episode) -> dict[str, Any]:
    """What `PlainEpisode` reads back to an equal episode, but for tokens and seconds."""
    ticket = episode.ticket
    return {
        "run": ticket.run,
        "game": ticket.game,
        "number": ticket.number,
        "attempt": ticket.attempt,
        "seed": ticket.seed,
        "players": dict(ticket.players),
        "turns": [
            {name: getattr(turn, name) for name in PlainTurn.model_fields} | {"actions": list(turn.actions)}
            for turn in episode.turns
        ],
        "outcome": episode.outcome,
        "terminated": episode.terminated,
        "closing": episode.closing,
        "facts": episode.facts,
    }
