"""Families: does every kind of model go through the whole loop, and come out as it went in?

Each is a small random model (benchmarks.architectures). A DeepSpeed rank loads it, a vLLM engine
starts from the same folder; weights are sent, updated twice and sent again; what was learned is
exported, an adapter merged, and loaded by an engine of its own and by transformers. A figure is
the largest difference of log-probs between the rank and that engine over whole sequences, longer
than the sliding windows; `moved` is how far the updates took the rank's own.

    full     all weights, ZeRO-2
    zero3    all weights, in slices that are gathered for each sync
    lora     an adapter that travels by itself; of experts, into the transformers engine, for
             vLLM has no kernel on CPU for them where adapters are served
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.table import Table

from benchmarks.architectures import EXPERTS, FORMS, make, projections
from benchmarks.learner import ray_and_deepspeed
from benchmarks.report import Say, run_alone
from envs.episode import Episode, Ticket, Turn, TurnTokens
from envs.registry import make_game
from learners.embedded.tokenizer import make_tokenizer
from learners.settings import LearnerSettings
from reward_service.shaper import ShapedRewards

FIGURES = ("sync", "export", "transformers")
TOLERANCE = 1e-4  # that of a sync in float32
MODES: dict[str, dict[str, Any]] = {"full": {"zero": 2}, "zero3": {"zero": 3}, "lora": {"zero": 2}}
LORA_RANK = 4
LENGTHS = (48, 31, 7, 48)
START_SECONDS, CALL_SECONDS = 300, 120


def measure(quick: bool, say: Say) -> dict[str, Any]:
    """Quick: an adapter on one form of each family, ZeRO-3 on one without experts and one with."""
    import ray

    found: dict[str, dict[str, Any]] = {}
    usual = LearnerSettings()
    with tempfile.TemporaryDirectory(prefix="parley-benchmark-") as folder, ray_and_deepspeed(usual):
        from learners.transport.rendezvous import meeting_point

        tokenizer = make_tokenizer(make_game("twenty_questions", {}).language(), 512)
        engines, meet = engine_host(), meeting_point()
        # vLLM makes the group of processes that share experts with the first engine, or never
        for family, tied in sorted(FORMS, key=lambda form: form[0] not in EXPERTS):
            name = f"{family}, {'tied' if tied else 'untied'}"
            model = make(family, tied, tokenizer, Path(folder) / name.replace(", ", "-"))
            found[name] = {}
            for mode in MODES:
                if quick and not worth_it(family, tied, mode):
                    continue
                began = time.monotonic()
                # vLLM runs this one by transformers' code, which it changes for all of its process
                host = engine_host() if (family, mode) == ("gpt_neox", "lora") else engines
                found[name][mode] = through_the_loop(host, meet, family, mode, model)
                if host is not engines:
                    ray.kill(host)
                say(f"{name}, {mode}: {worst(found[name][mode]):.1e} in {time.monotonic() - began:.1f} s")
    bad = [f"{name} {mode}" for name, modes in found.items() for mode in modes if worst(modes[mode]) > TOLERANCE]
    if bad:
        raise RuntimeError(f"engine and learner differ by more than {TOLERANCE:g}: {', '.join(bad)}")
    return {"families": found}


def worth_it(family: str, tied: bool, mode: str) -> bool:
    first = not tied or (family, False) not in FORMS
    return mode == "full" or first and (mode == "lora" or family in ("qwen3", "qwen3_moe"))


def worst(figures: dict[str, float]) -> float:
    return max(figures[name] for name in FIGURES)


def through_the_loop(engines: Any, meet: tuple[str, int], family: str, mode: str, model: Path) -> dict[str, float]:
    import ray
    from transformers import AutoModelForCausalLM

    from cluster.run.policy import merge_adapter
    from learners.rank import LearnerRank

    lora = {"rank": LORA_RANK, "targets": projections(family)} if mode == "lora" else {}
    settings = LearnerSettings(
        **MODES[mode], lora=lora, learning_rate=1e-2, tokens_per_micro_batch=256, sync={"bucket_mib": 1}
    )
    settings.logprob_gap_warn = settings.logprob_gap_stop = 1e9  # the games below are made up
    transport = "adapter" if lora else "shared_memory"
    rank = LearnerRank(settings, str(model), 1.0, 0, 0, transport)
    rank.start(*meet)
    kind = "transformers" if lora and family in EXPERTS else "vllm"
    ray.get(engines.open.remote(str(model), transport, lora.get("rank", 0), kind), timeout=CALL_SECONDS)
    sequences = probe(model)
    before = rank.score(sequences)
    rank.send_weights([engines], 0)
    first = gap(before, ray.get(engines.score.remote(sequences), timeout=CALL_SECONDS))
    for version in (0, 1):
        rank.update(*made_up_games(model, version))
        rank.send_weights([engines], version + 1)
    after = rank.score(sequences)
    figures = {
        "moved": gap(before, after),
        "sync": max(first, gap(after, ray.get(engines.score.remote(sequences), timeout=CALL_SECONDS))),
    }
    out = Path(f"{model}-{mode}")
    rank.export(str(out))
    if lora:
        out = merge_adapter(str(out), Path(f"{out}-merged"))
    ray.get(engines.open.remote(str(out), "shared_memory", 0), timeout=CALL_SECONDS)
    figures["export"] = gap(after, ray.get(engines.score.remote(sequences), timeout=CALL_SECONDS))
    plain = AutoModelForCausalLM.from_pretrained(out, dtype=torch.float32, attn_implementation="eager").eval()
    figures["transformers"] = gap(after, [alone(plain, sequence) for sequence in sequences])
    return figures


def gap(ours: list[np.ndarray], theirs: list[np.ndarray]) -> float:
    gaps = [np.abs(a - b).max() for a, b in zip(ours, theirs, strict=True)]
    return float(max(gaps)) if np.isfinite(gaps).all() else float("inf")


@torch.no_grad()
def alone(model: torch.nn.Module, sequence: list[int]) -> np.ndarray:
    ids = torch.tensor([sequence])
    logp = model(input_ids=ids).logits[0, :-1].float().log_softmax(-1)
    return logp.gather(1, ids[0, 1:, None])[:, 0].numpy()


def vocabulary(model: Path) -> int:
    from transformers import AutoConfig

    return AutoConfig.from_pretrained(model).vocab_size


def probe(model: Path) -> list[list[int]]:
    rng = np.random.default_rng(0)
    return [rng.integers(0, vocabulary(model), size=length).tolist() for length in LENGTHS]


def made_up_games(model: Path, version: int) -> tuple[list[Episode], list[ShapedRewards]]:
    """Of random tokens: what is learned does not matter, that it moves every weight does."""
    rng, words = np.random.default_rng(version), vocabulary(model)
    episodes, rewards = [], []
    for number in range(6):
        turns = []
        for seen, said in rng.integers(3, 10, (3, 2)):
            ids = rng.integers(0, words, seen + said).astype(np.int32)
            stored = rng.normal(-4, 0.5, said).astype(np.float32), np.full(said, version, np.int32)
            turns.append(Turn("me", "policy", "", "", tokens=TurnTokens(ids[:seen], ids[seen:], *stored)))
        ticket = Ticket("run", "game", number, seed=number, players=(("me", "policy"),))
        episodes.append(Episode(ticket, turns, {"me": 1.0}, terminated=True))
        rewards.append(ShapedRewards(number, "me", rng.random(len(turns)).astype(np.float32), version=0))
    return episodes, rewards


def engine_host() -> Any:
    """An actor that is one vLLM engine after another, with what a sync asks of a rollout worker."""
    import ray

    @ray.remote(num_cpus=0)
    class Engines:
        def __init__(self):
            self.opened: list[Any] = []  # vLLM's engines share what the first one set up: none may go

        def ready(self) -> None:
            from actors.engines.vllm_platform import prepare_environment

            prepare_environment()
            import vllm  # noqa: F401  (slow)

        def open(self, model: str, transport: str, lora_rank: int, kind: str = "vllm") -> None:
            from actors.engines.transformers_engine import TransformersEngine
            from actors.engines.vllm_engine import VllmEngine
            from actors.settings import EngineSettings

            torch.set_num_threads(1)
            settings = EngineSettings(max_context=256, max_sequences=8, max_batched_tokens=512, cpu_cache_gib=0.02)
            if kind == "vllm":
                register_here(model)
            made_by = VllmEngine if kind == "vllm" else TransformersEngine
            self.engine = made_by(settings, model, transport=transport, lora_rank=lora_rank)
            self.opened.append(self.engine)

        def score(self, sequences: list[list[int]]) -> list[np.ndarray]:
            return self.engine.score(sequences)

        def init_weight_transfer_engine(self, info: dict[str, Any]) -> None:
            self.engine.init_weight_transfer_engine(info)

        def start_weight_update(self) -> None:
            self.engine.start_weight_update()

        def update_weights(self, info: dict[str, Any]) -> None:
            self.engine.update_weights(info)

        def finish_weight_update(self, version: str) -> None:
            self.engine.finish_weight_update(version)

    host = Engines.remote()
    ray.get(host.ready.remote(), timeout=START_SECONDS)
    return host


def register_here(model: str) -> None:
    """Tell vLLM the model's class: it would start a process for each family, to look at it there."""
    from transformers import AutoConfig
    from vllm.config import VllmConfig, set_current_vllm_config
    from vllm.model_executor.models.registry import ModelRegistry

    (name,) = AutoConfig.from_pretrained(model).architectures
    known = ModelRegistry.models[name]
    with set_current_vllm_config(VllmConfig()):
        ModelRegistry.register_model(name, known.load_model_cls())


def tables(found: dict[str, Any]) -> list[Table]:
    table = Table(title="largest log-prob difference between engine and learner")
    table.add_column("family")
    for mode in MODES:
        for key in ("sync", "export"):
            table.add_column(f"{mode}, {'merged export' if (mode, key) == ('lora', 'export') else key}")
    for name, modes in found["families"].items():
        cells = []
        for mode in MODES:
            figures = modes.get(mode)
            cells += (
                [f"{figures['sync']:.0e}", f"{max(figures['export'], figures['transformers']):.0e}"]
                if figures
                else ["", ""]
            )
        table.add_row(name, *cells)
    return [table]


if __name__ == "__main__":
    run_alone("families", measure, tables)
