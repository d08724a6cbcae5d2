"""What a rollout worker is made from: its engine, and the players of its games."""

from __future__ import annotations

from dataclasses import dataclass

from actors.engines.contract import Engine
from actors.play.players import Cast, Endpoint, Policy
from actors.settings import RolloutSettings
from envs.game import Player
from envs.registry import make_player
from envs.settings import GameSettings
from envs.text.dialogue import Dialogue
from parley.light import without_sklearn


@dataclass(frozen=True)
class WorkerSpec:
    """What every worker of a fleet is made from."""

    run: str
    model_path: str
    games: dict[str, GameSettings]  # by the name that tickets use
    rollout: RolloutSettings
    transport: str | None = "shared_memory"  # None: the engine keeps the weights of its folder
    lora_rank: int = 0
    seed: int = 0
    version: int = 0  # of the weights in model_path
    trust_remote_code: bool = False
    record_experts: bool = False  # that the policy's tokens are sent to, for a trainer that replays them
    ray_metrics: bool = True  # report vLLM's own metrics through Ray


def import_engine(spec: WorkerSpec) -> None:
    """What can be done before the engine is made, and needs no memory of a GPU."""
    without_sklearn()
    if spec.rollout.engine.kind == "transformers":
        import actors.engines.transformers_engine  # noqa: F401
    else:
        from actors.engines.vllm_platform import import_vllm, look_at_class

        import_vllm(spec.rollout.engine, on_gpu=bool(spec.rollout.gpus_per_worker))
        look_at_class(spec.model_path, spec.trust_remote_code)


def make_engine(spec: WorkerSpec, index: int) -> Engine:
    settings = spec.rollout.engine
    shared = {
        "transport": spec.transport,
        "lora_rank": spec.lora_rank,
        "version": spec.version,
        "trust_remote_code": spec.trust_remote_code,
        "on_gpu": bool(spec.rollout.gpus_per_worker),
        "record_experts": spec.record_experts,
    }
    without_sklearn()
    if settings.kind == "transformers":
        from actors.engines.transformers_engine import TransformersEngine

        return TransformersEngine(settings, spec.model_path, **shared)
    from actors.engines.vllm_engine import VllmEngine  # of `auto` too, where no plan has decided

    own = {"seed": spec.seed + index, "ray_metrics": spec.ray_metrics, "name": spec.run}
    return VllmEngine(settings, spec.model_path, **own, **shared)


def make_cast(spec: WorkerSpec, engine: Engine) -> Cast:
    """The policy, and whoever else the settings name: on the plain engine, for two of vLLM would share memory."""
    from transformers import AutoTokenizer

    def dialogue(path: str) -> Dialogue:
        return Dialogue(AutoTokenizer.from_pretrained(path, trust_remote_code=spec.trust_remote_code))

    policies = {"policy": Policy(engine, dialogue(spec.model_path), trained=True)}
    for name, path in spec.rollout.frozen.items():
        from actors.engines.transformers_engine import TransformersEngine

        own = {"tensor_parallel": 1, "max_sequences": spec.rollout.frozen_sequences}
        place = {"on_gpu": bool(spec.rollout.gpus_per_worker), "trust_remote_code": spec.trust_remote_code}
        try:
            frozen = TransformersEngine(spec.rollout.engine.model_copy(update=own), path, **place)
        except ValueError as error:
            raise ValueError(f"rollout.frozen.{name}, which the transformers engine plays: {error}") from error
        policies[f"frozen:{name}"] = Policy(frozen, dialogue(path), trained=False)
    endpoints = {f"endpoint:{name}": Endpoint(name, settings) for name, settings in spec.rollout.endpoints.items()}

    def scripted(game: str, player: str) -> Player:
        return make_player(spec.games[game].name, player, spec.games[game].options)

    return Cast(policies, endpoints, scripted)
