"""Games to measure on: the demo's, played by a Play over one engine, without Ray.

A Recorder between the Play and its engine writes down every request and what came of it,
in chains: a chain is one seat's requests in one episode, each of which can only be asked
once the one before is answered.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from actors.engines.contract import Completion, Engine, Request
from actors.play.live import Failure
from actors.play.play import Play
from actors.worker_parts import WorkerSpec, make_cast, make_engine
from cluster.recipe.config import RunConfig
from cluster.recipe.reading import load_recipe
from cluster.run.session import seats_and_players
from envs.episode import Episode, Ticket
from envs.registry import make_game

RECIPE = Path(__file__).parent.parent / "recipes" / "demo.yaml"

ONE_STEP = (  # on each batch, which is what is measured unless a method says otherwise
    "learner.loss=policy_gradient",
    "learner.loss.kl_guard=null",
    "learner.epochs=1",
    "learner.minibatches=1",
)


def demo(*overrides: str) -> RunConfig:
    return load_recipe(RECIPE, [*ONE_STEP, *overrides])


def start_engine(config: RunConfig, model: Path) -> Engine:
    return make_engine(worker_spec(config, model), index=0)


def worker_spec(config: RunConfig, model: Path, run: str = "benchmark", **other: Any) -> WorkerSpec:
    return WorkerSpec(run, str(model), {config.game.name: config.game}, config.rollout, ray_metrics=False, **other)


def new_play(config: RunConfig, model: Path, engine: Engine, kind: type[Play] = Play) -> Play:
    options = {config.game.name: config.game.options}
    return kind(
        make_cast(worker_spec(config, model), engine), config.rollout, lambda game: make_game(game, options[game])
    )


def tickets(config: RunConfig, count: int, first: int = 0) -> list[Ticket]:
    players = seats_and_players(config)
    return [Ticket("benchmark", config.game.name, n, seed=n, players=players) for n in range(first, first + count)]


def play_out(play: Play, wanted: list[Ticket]) -> list[Episode]:
    """All of them to the end, in the order of their tickets."""
    play.admit(wanted)
    episodes = []
    while play.busy():
        for ticket, result, _ in play.step():
            if isinstance(result, Failure):
                raise RuntimeError(f"episode {ticket.number} failed: {result.reason}")
            episodes.append(result)
    return sorted(episodes, key=lambda episode: episode.ticket.number)


def tokens_made(episodes: list[Episode]) -> int:
    """Sampled by the policy."""
    return sum(len(turn.tokens.utterance_ids) for episode in episodes for turn in episode.turns if turn.tokens)


@dataclass(frozen=True, slots=True)
class Recorded:
    request: Request
    made: tuple[int, ...]


class Recorder:
    """An Engine that passes everything on and remembers the requests it served."""

    def __init__(self, engine: Engine):
        self.engine = engine
        self.requests: dict[str, Request] = {}
        self.made: dict[str, tuple[int, ...]] = {}

    def submit(self, request: Request) -> None:
        self.requests[request.id] = request
        self.engine.submit(request)

    def step(self) -> list[Completion]:
        done = self.engine.step()
        self.made |= {completion.id: tuple(completion.token_ids.tolist()) for completion in done}
        return done

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)

    def chains(self) -> list[list[Recorded]]:
        """In the order in which their first requests came."""
        chains: dict[str, list[Recorded]] = {}
        for name, request in self.requests.items():
            episode_and_seat = name.rpartition(".")[0]
            chains.setdefault(episode_and_seat, []).append(Recorded(request, self.made[name]))
        return list(chains.values())
