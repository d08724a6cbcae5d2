"""Games that nobody played: random tokens in real Episodes, and small random models to read them.

Random games have what real ones lack when a policy is young: turns of any length, rewards that
differ, choices among listed actions with branches of every size.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
import transformers

from benchmarks.gpu.bench import Bench
from envs.episode import Choice, Episode, Ticket, Turn, TurnTokens
from learners.batch import Trajectory, collect
from learners.settings import LearnerSettings
from reward_service.shaper import ShapedRewards

WORDS = 128  # of the small models' vocabulary
SEAT = "player"
NO_ENGINE = {"logprob_gap_warn": 1e9, "logprob_gap_stop": 1e9}  # the stored log-probs are no engine's


def prepare(bench: Bench) -> torch.device:
    """A process group of one, which is what learners sum over; quiet libraries; one thread on a CPU."""
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


def random_model(folder: Path, family: str = "qwen3", dtype: torch.dtype = torch.float32, **changes) -> Path:
    """A folder that transformers loads; weights large enough that every part moves the log-probs."""
    config = transformers.AutoConfig.for_model(family, **(SHAPES[family] | changes), dtype=dtype)
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(config).to(dtype)
    target = folder / f"{family}-{len(list(folder.iterdir()))}"
    model.save_pretrained(target)
    return target


SMALL = {
    "vocab_size": WORDS,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "initializer_range": 0.1,
    "pad_token_id": 0,
    "bos_token_id": None,
    "eos_token_id": 0,
}
SHAPES = {
    "qwen3": SMALL | {"head_dim": 32},
    "llama": SMALL,
    "mistral": SMALL | {"sliding_window": 16},
    "phi3": SMALL | {"resid_pdrop": 0.0},
    "gemma3_text": SMALL | {"head_dim": 32, "sliding_window": 16},
    "gpt_neox": SMALL,
    "qwen3_moe": SMALL | {"head_dim": 32, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 48},
}
