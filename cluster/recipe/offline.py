"""Settings of `parley offline`. Plain pydantic: no torch, vllm or ray. The defaults are the published ones."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from envs.settings import Settings

PUBLISHED_K = {"bargaining": 20, "negotiation": 16, "guess_my_city": 28, "twenty_questions": 36}
PUBLISHED_BATCH = {1: 16, 2: 32}  # by number of seats


class OfflineSettings(Settings):
    iterations: int = Field(3, ge=1, description="how often games are collected, clustered and trained on")
    input: str = Field(
        "", description="file of recorded games that the first iteration starts from; empty: it collects, too"
    )
    games: int = Field(1000, ge=1, description="games collected in each iteration")
    at_once: int = Field(
        256, ge=1, description="games played, and written, together: the most that a stop in mid-collection loses"
    )
    epochs: int = Field(3, ge=1, description="times each iteration's games are trained on")
    batch: int | None = Field(
        None,
        ge=1,
        description="turns an update trains on, rounded up to whole games of a seat; default: 32 in games of two "
        "seats, 16 in games of one",
    )
    context: int = Field(
        4096, ge=16, description="most tokens of one seat's game; turns that lie beyond are counted and left out"
    )
    reward_scale: Literal["auto", "minus_one", "outcome"] = Field(
        "auto",
        description="single-agent records: minus_one: reward -1 is lost and 0 won, as ARIA's tools write it; outcome: "
        "0 is lost and 1 won; auto: by the first reward that is not 0",
    )
    recorded_embeddings: bool = Field(
        True, description="use the embeddings that a file brings; false, or without any: embed every utterance here"
    )
    evaluate: bool = Field(True, description="play held-out games before the first and after every iteration")
    rival: str = Field(
        "",
        description="games of two seats: who plays held-out games against the policy, which has each seat in half of "
        "them, e.g. scripted:conceding; empty: everybody sits where game.players says",
    )
