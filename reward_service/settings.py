"""Settings of the reward service floor. Plain pydantic: no torch, vllm or ray."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from envs.settings import Resource, Settings
from reward_service.shaper import SHAPERS, AnyShaper


class StreamSettings(Settings):
    """How requests become micro-batches, and how much is kept."""

    episodes: int = Field(64, ge=1, description="most episodes that are shaped together")
    milliseconds: float = Field(
        2.0, ge=0, description="longest wait for more episodes to shape together, from the first one on"
    )
    queue_episodes: int = Field(2048, ge=1, description="most episodes that wait; beyond, requests are refused as busy")
    longest_text: int = Field(20_000, ge=1, description="most characters of an utterance or an observation")
    longest_episode: int = Field(2000, ge=1, description="most turns of an episode, of all its seats together")
    remembered_episodes: int = Field(
        10_000,
        ge=1,
        description="an episode sent again among so many is refused, and a request sent again among so many episodes "
        "gets the answer it had",
    )
    snapshot_episodes: int = Field(
        5000,
        ge=1,
        description="episodes in the journal before the state is written whole, beside the traffic, and another "
        "journal begun; eight versions or a full journal do as well",
    )


class DialogueSettings(Settings):
    """A game that is played elsewhere: free text between a policy and whoever prompts it."""

    judge: Literal["given", "equals", "contains"] = Field(
        "given",
        description="outcome of a sample that comes with a label; given: the label is the outcome, a number from 0 to "
        "1; equals: 1 if the last utterance is the label; contains: 1 if it contains the label as words",
    )


class HttpSettings(Settings):
    """The reward service over HTTP (`parley rewards serve`)."""

    host: str = Field("127.0.0.1", description="address to listen on; 0.0.0.0: on all of the machine's")
    port: int = Field(8400, ge=1, le=65535, description="port to listen on")
    shards: int = Field(1, ge=1, description="actors that share the work; all episodes of a game go to one of them")
    ingresses: int = Field(1, ge=1, description="processes that read requests and write answers")
    state: str = Field("runs/rewards", description="folder that keeps journal and state of each shard")
    key_file: str = Field("", description="file with the API key; empty: the environment variable PARLEY_API_KEY")
    request_bytes: int = Field(8 * 2**20, ge=1, description="largest request")
    answer_seconds: float = Field(60.0, gt=0, description="longest wait for the values of a request")
    start_seconds: float = Field(300.0, gt=0, description="longest wait for shards and HTTP proxy to be ready")
    stream: StreamSettings = Field(default_factory=StreamSettings)
    games: dict[str, DialogueSettings] = Field(
        default_factory=dict, description="games that are played elsewhere, by name: free text, no rules known here"
    )


class RewardSettings(Settings):
    shaper: AnyShaper = Field(
        default_factory=lambda: SHAPERS.make(SHAPERS.default),
        description="how finished episodes become per-turn rewards (docs/concepts/shapers.md)",
    )
    cpus: float = Field(0.0, ge=0, description="CPUs that the reward service reserves from Ray")
    batch_seconds: float = Field(300.0, gt=0, description="longest wait for the rewards of a batch, beside a refit")
    refit_seconds: float = Field(600.0, gt=0, description="time limit of a refit, where a batch waits for it")
    silence_seconds: Resource[float] = Field(
        120.0, gt=0, description="a reward service that shows no sign of life for longer while it works is replaced"
    )
    max_restarts: int = Field(5, ge=0, description="times the reward service is replaced before the run stops")
    http: HttpSettings = Field(default_factory=HttpSettings)
