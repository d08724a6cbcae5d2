"""A run of a model as large as the recipe of one card asks for: who sits where, and how fast each part is.

Its weights are random and its words a game's own, so it plays nonsense at full cost: what is looked at is that
engine, learner and the transfer of all weights fit the card beside each other as planned, and at which speed.
"""

from __future__ import annotations

import threading
from pathlib import Path
from statistics import median

import torch

from benchmarks.gpu.bench import Bench
from benchmarks.gpu.demo import ended_well, train
from benchmarks.gpu.made_up import TINY, large_model, prepare
from envs.registry import make_game
from learners.embedded.tokenizer import make_tokenizer

RECIPES = ("recipes/games/negotiation.yaml", "recipes/gpu/1x80.yaml")
WORDS = {"vocab_size": 151_936, "tie_word_embeddings": True}
QWEN3_1_7B = {
    "hidden_size": 2048,
    "intermediate_size": 6144,
    "num_hidden_layers": 28,
}
UPDATES, SECONDS = 3, 320
SMALL = (f"updates={UPDATES}", "batch_episodes=128", "evaluation.episodes=64", "learner.warmup_updates=0")
SMALL += ("rollout.max_utterance_tokens=32",)  # nonsense never ends before it has to
ON_CPU = ("batch_episodes=8", "evaluation.episodes=8", "rollout.engine.cpu_cache_gib=0.1")
ON_CPU += ("rollout.max_utterance_tokens=8", "learner.gradient_checkpointing=false")


def check(bench: Bench) -> None:
    device = prepare(bench)
    with bench.part("the model"):
        path = model(bench.folder, device, **(QWEN3_1_7B if bench.on_card else TINY) | WORDS)
    torch.cuda.empty_cache()
    what = f"{sum(file.stat().st_size for file in path.glob('*.safetensors')) / 1e9:.1f} GB of weights"
    with bench.part(what):
        settings = (f"model.path={path}", *SMALL, *(() if bench.on_card else ON_CPU))
        with Most(device) as most:
            output, said = train(bench, RECIPES, *settings, seconds=SECONDS)
        if bench.on_card:
            bench.figure(
                f"{what}: most of the card that was in use", f"{most.used / 2**30:.1f} of {most.total / 2**30:.1f} GiB"
            )
        _, updates = ended_well(bench, what, output, said, UPDATES)
        speeds(bench, what, updates)


def model(folder: Path, device: torch.device, **shape: int) -> Path:
    tokenizer = make_tokenizer(make_game("negotiation", {}).language(), 4096)
    ends = {"pad_token_id": tokenizer.pad_token_id, "eos_token_id": tokenizer.eos_token_id}
    path = large_model(folder, device, **shape, **ends)
    tokenizer.save_pretrained(path)
    return path


class Most:
    """The most memory of the card in use at once, of all processes, looked at twice a second."""

    def __init__(self, device: torch.device):
        self.device, self.used, self.total = device, 0, 0
        self.over = threading.Event()
        self.looking = threading.Thread(target=self.look, daemon=True)

    def look(self) -> None:
        while not self.over.wait(0.5):
            free, self.total = torch.cuda.mem_get_info(self.device)
            self.used = max(self.used, self.total - free)

    def __enter__(self) -> Most:
        if self.device.type == "cuda":
            self.looking.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.over.set()


def speeds(bench: Bench, what: str, updates: list[dict]) -> None:
    """Medians, without the first update, which warms up."""
    for name in ("rollout/tokens_per_second", "learner/tokens_per_second"):
        found = [line[name] for line in updates[1:] if name in line]
        if found:
            bench.figure(f"{what}: {name}", f"{median(found):,.0f}")
