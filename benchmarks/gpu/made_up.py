"""Games that nobody played: random tokens in real Episodes, and small random models to read them.

Random games have what real ones lack when a policy is young: turns of any length, rewards that
differ, choices among listed actions with branches of every size.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
import transformers

from benchmarks.architectures import make
from benchmarks.gpu.bench import Bench
from benchmarks.gpu.card import needed
from envs.episode import Choice, Episode, Ticket, Turn, TurnTokens
from envs.registry import make_game
from learners.batch.trajectories import Trajectory, collect
from learners.embedded.tokenizer import make_tokenizer
from learners.settings import LearnerSettings
from reward_service.shaper import ShapedRewards

WORDS = 64  # ids below this exist in every small model
SEAT = "player"
NO_ENGINE = {"logprob_gap_warn": 1e9, "logprob_gap_stop": 1e9}  # the stored log-probs are no engine's


def prepare(bench: Bench) -> torch.device:
    """A process group of one, which is what learners sum over; quiet libraries; one thread on a CPU."""
    needed(bench)
    transformers.utils.logging.disable_progress_bar()
    transformers.utils.logging.set_verbosity_error()
    if not bench.on_card:
        torch.set_num_threads(1)
    if not dist.is_initialized():
        backend = "cpu:gloo,cuda:nccl" if bench.on_card else "gloo"
        meet = f"file://{bench.folder / 'group'}"
        dist.init_process_group(backend, init_method=meet, rank=0, world_size=1)
    return torch.device(bench.device, 0) if bench.on_card else torch.device("cpu")


def settings(**changes) -> LearnerSettings:
    """In float32, where numbers can be compared; the device is said to whoever is asked."""
    usual = NO_ENGINE | {"dtype": "float32", "attention": "sdpa", "learning_rate": 1e-3, "tokens_per_micro_batch": 256}
    return LearnerSettings(**(usual | changes))


def games(
    count: int, seed: int, version: int = 0, listed: bool = False, group: int = 1, words: int = WORDS, said: int = 12
) -> tuple[list[Episode], list[ShapedRewards]]:
    """`group` games in a row are of one task; with `listed` every other turn is a choice."""
    rng = np.random.default_rng(seed)
    episodes, rewards = [], []
    for number in range(count):
        played = int(rng.integers(1, 5))
        turns = [_turn(rng, version, words, said, listed and turn % 2 == 0) for turn in range(played)]
        ticket = Ticket("made up", "none", number, seed=number // group, players=((SEAT, "policy"),))
        episodes.append(Episode(ticket, turns, {SEAT: 1.0}, terminated=True))
        rewards.append(ShapedRewards(number, SEAT, rng.random(played).astype(np.float32), version=0))
    return episodes, rewards


def trajectories(*count_and_seed: int, **how) -> list[Trajectory]:
    return collect(*games(*count_and_seed, **how))


def behind(opening: np.ndarray, trajectory: Trajectory) -> Trajectory:
    """The same game, whose seat was told this first."""
    whole, size = trajectory.sequence, len(opening)

    def after(of_tokens: np.ndarray) -> np.ndarray:
        return np.append(np.zeros(size, of_tokens.dtype), of_tokens)

    longer = {name: after(getattr(whole, name)) for name in ("mask", "turn", "logprobs", "versions")}
    sequence = replace(whole, ids=np.append(opening.astype(whole.ids.dtype), whole.ids), **longer)
    return replace(trajectory, sequence=sequence)


def _turn(rng: np.random.Generator, version: int, words: int, said: int, listed: bool) -> Turn:
    seen = rng.integers(0, words, int(rng.integers(2, 16))).astype(np.int32)
    choice, utterance = None, rng.integers(0, words, int(rng.integers(1, said + 1))).astype(np.int32)
    if listed:
        tokens = rng.integers(1, 6, 4)
        ids = rng.integers(0, words, int(tokens.sum())).astype(np.int32)
        chosen = int(rng.integers(len(tokens)))
        choice = Choice(ids, tokens, tokens.astype(np.float64), chosen)
        utterance = np.split(ids, np.cumsum(tokens)[:-1])[chosen]
    logprobs = rng.normal(-4, 0.5, len(utterance)).astype(np.float32)
    if listed:
        logprobs[1:] = 0
    tokens = TurnTokens(seen, utterance, logprobs, np.full(len(utterance), version, np.int32), choice=choice)
    return Turn(SEAT, "policy", "seen", "said", tokens=tokens)


def random_model(folder: Path, family: str = "qwen3", tied: bool = False) -> Path:
    """A small one, with the words of a game."""
    tokenizer = make_tokenizer(make_game("twenty_questions", {}).language(), 512)
    return make(family, tied, tokenizer, folder / f"{family}-{len(list(folder.iterdir()))}")


def large_model(folder: Path, device: torch.device, **changes: int) -> Path:
    """A Qwen3 of 440M weights in bfloat16; `changes` make it another size."""
    config = transformers.AutoConfig.for_model("qwen3", **(LARGE | changes), dtype=torch.bfloat16)
    torch.manual_seed(0)
    with device:
        model = transformers.AutoModelForCausalLM.from_config(config)
    target = folder / f"large-{len(list(folder.iterdir()))}"
    model.save_pretrained(target)
    return target


LARGE = {
    "vocab_size": 32_000,
    "hidden_size": 1024,
    "intermediate_size": 3072,
    "num_hidden_layers": 24,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "max_position_embeddings": 4096,
    "tie_word_embeddings": False,
}
TINY = {"vocab_size": 256, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 2}
TINY |= {"num_key_value_heads": 1, "head_dim": 32}
