"""Learner: what an update costs on top of a bare loop on the same batch, in time and in memory.

    parley     LearnerRank.update, whole, with one thread and with all cores; `core` is its forward,
               backward and step alone, as it reports them itself
    bare       the same packed tokens through plain transformers and torch
    padded     without packing

Two batches are games that the demo's policy plays, for two sizes of model; one is of all games, each
played by its own policy, eight times. Tokens are those of whole sequences, observations included;
padding does not count. core / bare is the price of DeepSpeed, importance weights and measures;
parley / bare adds everything around them. Memory is what a process of its own comes to need for two
updates on top of its imports.
"""

from __future__ import annotations

import multiprocessing
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.table import Table
from transformers import AutoConfig

from benchmarks.games import demo, new_play, play_out, start_engine, tickets
from benchmarks.loops import PARTS, RANKS, BareLoop, Work, packs_of
from benchmarks.models import parameters_of, untrained
from benchmarks.private_ray import private_ray
from benchmarks.report import Say, run_alone, short, spread_of
from benchmarks.rounds import Sample, cpu_ratio, ratio, speed, spread, take_turns
from cluster.recipe.config import RunConfig
from cluster.recipe.reading import load_recipe
from envs.episode import Episode
from learners.embedded.build import build_policy
from learners.group import environment
from learners.settings import LearnerSettings

RECIPES = Path(__file__).parents[1] / "recipes" / "games"
GAMES = (
    *("bargaining", "case_study", "data_science", "guess_my_city", "negotiation", "overcooked", "../demo"),
    "virtualhome",
)
OF_EACH = 8
EPISODES = {"0.1M": 128, "10M": 32}
ROUNDS = {"0.1M": 15, "10M": 5, "all games": 5}
CLONED = ("model.embedded.steps=80", "model.embedded.games_per_step=8")  # enough to play a game to its end
LONGEST = 8192  # tokens of a micro-batch, so that every game fits
UPDATE_TOLERANCE = 0.01  # share of the update by which contestants may differ
OTHERS_PLAYED = (
    "learner.logprob_gap_warn=1e9",
    "learner.logprob_gap_stop=1e9",
)  # what is learned from is not one's own
ALONE_SECONDS, END_SECONDS = 600.0, 20.0  # for two updates in a process of their own, and for its end
CORE = ("forward_backward", "step")
LABELS = {
    "zero2": "Parley, ZeRO 2",
    "zero2, wide": "the same, all cores",
    "zero0": "Parley, ZeRO 0",
    "bare": "bare loop, packed",
    "padded": "bare loop, padded",
}


def measure(quick: bool, say: Say) -> dict[str, Any]:
    config = demo("rollout.engine.kind=transformers", *OTHERS_PLAYED)
    policy = build_policy(config.game, config.model.embedded)
    results = {}
    with tempfile.TemporaryDirectory(prefix="parley-benchmark-") as folder, ray_and_deepspeed(config.learner):
        for size in list(EPISODES)[: 1 if quick else None]:
            say(f"{size} parameters")
            model = policy if size == "0.1M" else untrained(size, config, Path(folder))
            work = Work(model, config, play(config, policy, EPISODES[size]))
            results[size] = contest(work, 5 if quick else ROUNDS[size])
        if not quick:
            results["all games"] = contest(all_games(config, say), ROUNDS["all games"])
    return {"batches": results}


def play(config: RunConfig, policy: Path, count: int) -> list[Episode]:
    engine = start_engine(config, policy)
    try:
        return play_out(new_play(config, policy, engine), tickets(config, count))
    finally:
        engine.close()


def all_games(config: RunConfig, say: Say) -> Work:
    """In no order, for the policy that knows the most tokens: to the others' numbers it is just as fast."""
    episodes, words = [], {}
    for game in GAMES:
        say(f"playing {game}")
        theirs = load_recipe(RECIPES / f"{game}.yaml", ["rollout.engine.kind=transformers", *CLONED])
        policy = build_policy(theirs.game, theirs.model.embedded)
        words[policy] = AutoConfig.from_pretrained(policy).vocab_size
        episodes += play(theirs, policy, OF_EACH)
    for episode, number in zip(episodes, np.random.default_rng(0).permutation(len(episodes)), strict=True):
        episode.ticket = replace(episode.ticket, number=int(number))
    config = config.model_copy(deep=True)
    config.learner.tokens_per_micro_batch = LONGEST
    return Work(max(words, key=words.get), config, sorted(episodes, key=lambda episode: episode.ticket.number))


@contextmanager
def ray_and_deepspeed(settings: LearnerSettings) -> Iterator[None]:
    """A rank reads its batch from Ray's object store, and is set up by its environment."""
    os.environ |= environment(settings)
    torch.set_num_threads(max(1, int(settings.cpus_per_rank)))
    with private_ray(cpus=1):
        yield


def contest(work: Work, rounds: int) -> dict[str, Any]:
    everyone = {name: work.contestant(name) for name in LABELS}
    before = weights_of(everyone["bare"])
    for contestant in everyone.values():
        contestant.update()
    after = weights_of(everyone["bare"])
    same_update("padded", before, weights_of(everyone["padded"]), after)
    for name in RANKS:
        same_update(name, before, everyone[name].rank.parameters(), after)
        everyone[name].parts.clear()
    samples = take_turns({name: contestant.update for name, contestant in everyone.items()}, rounds)
    cores = {name: core_of(samples[name], everyone[name].parts) for name in RANKS}
    packs = packs_of(work.trajectories(), work.config.learner)
    lengths = np.concatenate([pack.lengths for pack in packs])
    return {
        "parameters": parameters_of(work.model),
        "episodes": len(work.episodes),
        "tokens": everyone["bare"].tokens,
        "longest": int(lengths.max()),
        "median": float(np.median(lengths)),
        "trained_tokens": sum(len(pack.targets) for pack in packs),
        "micro_batches": len(packs),
        "tokens_per_second": {name: asdict(speed(each)) for name, each in samples.items()},
        "core_tokens_per_second": {name: asdict(speed(each)) for name, each in cores.items()},
        "core_to_bare": {name: asdict(ratio(each, samples["bare"])) for name, each in cores.items()},
        "parley_to_bare": {name: asdict(ratio(samples[name], samples["bare"])) for name in RANKS},
        "parley_to_bare_cpu": {name: asdict(cpu_ratio(samples[name], samples["bare"])) for name in RANKS},
        "parley_to_padded": {name: asdict(ratio(samples[name], samples["padded"])) for name in RANKS},
        "peak_bytes": {name: _alone(work, name) for name in LABELS},
        "seconds": {
            name: {part: asdict(spread([one[part] for one in everyone[name].parts])) for part in PARTS}
            for name in RANKS
        },
        "samples": {name: [asdict(sample) for sample in each] for name, each in samples.items()},
    }


def _alone(work: Work, name: str) -> int:
    with multiprocessing.get_context("spawn").Pool(1) as pool:  # which ends a process that takes too long
        found = pool.apply_async(peak_bytes, (work, name)).get(ALONE_SECONDS)
        pool.close()
        for process in multiprocessing.active_children():  # it gives back what it holds, if it is let end by itself
            process.join(END_SECONDS)
    return found


def peak_bytes(work: Work, name: str) -> int:
    """Of two updates, on top of what was there; to be asked in a fresh process."""
    from learners import rank  # noqa: F401  (its imports are nobody's own)

    with ray_and_deepspeed(work.config.learner):
        before = resident("VmRSS")
        Path("/proc/self/clear_refs").write_text("5")  # the peak begins here
        contestant = work.contestant(name)
        contestant.update()
        contestant.update()
        return resident("VmHWM") - before


def resident(field: str) -> int:
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(field))
    return int(line.split()[1]) * 1024


def weights_of(loop: BareLoop) -> dict[str, np.ndarray]:
    return {name: weight.detach().numpy().copy() for name, weight in loop.model.named_parameters()}


def same_update(name: str, before: dict, ours: dict, bare: dict) -> None:
    """The contest is only fair if the first update moved the weights to the same place. AdamW's
    first step is about the same size for every weight, so rounding moves a few that have
    hardly a gradient: what is compared is the mean."""
    moved = sum(float(np.abs(bare[key] - before[key]).sum()) for key in bare)
    apart = sum(float(np.abs(bare[key] - ours[key]).sum()) for key in bare)
    if not moved or apart > UPDATE_TOLERANCE * moved:
        raise RuntimeError(
            f"{name} and the bare loop did not make the same update: {apart:.2e} apart of {moved:.2e} moved"
        )


def core_of(samples: list[Sample], parts: list[dict[str, float]]) -> list[Sample]:
    """The same updates, of their forward, backward and step alone."""
    seconds = [sum(one[part] for part in CORE) for one in parts]
    return [Sample(sample.tokens, each, each) for sample, each in zip(samples, seconds, strict=True)]


def tables(result: dict[str, Any]) -> list[Table]:
    table = Table(title="Learner: one update on real games", title_justify="left")
    table.add_column("batch")
    table.add_column("")
    for heading in ("tokens/s", "/ bare, wall", "/ bare, CPU", "core / bare", "/ padded", "peak MB", "/ bare"):
        table.add_column(heading, justify="right")
    columns = (
        ("parley_to_bare", ".2f"),
        ("parley_to_bare_cpu", ".2f"),
        ("core_to_bare", ".2f"),
        ("parley_to_padded", ".2f"),
    )
    for batch, one in result["batches"].items():
        of_all = batch == "all games"
        what = [
            "all games" if of_all else "twenty_questions",
            f"{short(one['parameters'])} parameters",
            f"{one['tokens']:,} tokens of {one['episodes']} games",
            f"a game: {one['median']:,.0f}, at most {one['longest']:,}",
            "",
        ]
        for (name, label), about in zip(LABELS.items(), what, strict=True):
            peak = one["peak_bytes"][name]
            table.add_row(
                about,
                label,
                spread_of(one["tokens_per_second"][name], ",.0f"),
                *(spread_of(one[key][name], form) if name in one[key] else "" for key, form in columns),
                f"{peak / 1e6:,.0f}",
                f"{peak / one['peak_bytes']['bare']:.2f}",
                end_section=name == "padded",
            )
    return [table]


if __name__ == "__main__":
    run_alone("learner", measure, tables)
