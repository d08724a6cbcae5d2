"""Training on a recorded data set: maximise the sum of  log pi(a_t | h_t) * A(h_t, a_t).

    sequences -> shuffled anew in every epoch -> batches of whole games, at least `batch` turns each
              -> LastingLearners.update_on -> checkpoints -> policy

This is `learner.loss.kind=likelihood`: it does not matter who played, and for files of others nobody knows.

The order of the batches follows from the seed alone, so training that was stopped goes on from its last
checkpoint with the very batches that were left.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from cluster.offline.examples import Sequences
from cluster.offline.resources import Resources
from cluster.offline.terminal import Terminal
from cluster.recipe.config import RunConfig
from cluster.recipe.offline import PUBLISHED_BATCH
from cluster.record.checkpoints import CheckpointStore
from cluster.record.run_folder import to_json
from cluster.run.lasting_learners import LastingLearners
from cluster.run.policy import merge_adapter
from cluster.run.shared_folder import check_shared
from envs.registry import make_game
from learners.batch.trajectories import Trajectory, recorded

SHOWN = ("loss", "entropy", "grad_norm", "advantage_mean", "trained_tokens", "applied")


def batch_turns(config: RunConfig) -> int:
    seats = len(make_game(config.game.name, config.game.options).seats)
    return config.offline.batch or PUBLISHED_BATCH[seats]


def batches(turns: np.ndarray, least: int, epochs: int, seed: int) -> Iterator[np.ndarray]:
    """Indices of games: each game once an epoch, in an order of its own; only the last batch of
    an epoch may have fewer than `least` turns."""
    for epoch in range(epochs):
        order = np.random.default_rng((seed, epoch)).permutation(len(turns))
        before = np.cumsum(turns[order]) - turns[order]
        batch, first = [], 0
        for game, start in zip(order, before, strict=True):
            if start - first >= least:
                yield np.array(batch)
                batch, first = [], start
            batch.append(game)
        yield np.array(batch)


def trajectory(sequences: Sequences, game: int) -> Trajectory:
    """What the learner takes: the tokens of every turn, and its worth as an advantage."""
    spoken = sequences.game(game)
    return recorded(game, [(turn.seen, turn.said) for turn in spoken], [turn.worth for turn in spoken])


def train(
    config: RunConfig, sequences: Sequences, policy: str, scratch: Path, resources: Resources, terminal: Terminal
) -> dict:
    """Fills scratch/policy; training_log.jsonl and the checkpoints lie beside it. Returns the figures."""
    plan = list(batches(sequences.turns, batch_turns(config), config.offline.epochs, config.seed))
    store = CheckpointStore(scratch / "checkpoints", keep=1)
    metrics = scratch / "training_log.jsonl"
    with resources.learners(policy, len(plan)) as learners:
        check_shared(scratch, learners)
        done = _restored(learners, store, metrics)
        if done:
            terminal.line(f"  training goes on after update {done}")
        with open(metrics, "a", encoding="utf-8") as log:
            for update in range(done, len(plan)):
                learned = learners.update_on([trajectory(sequences, game) for game in plan[update].tolist()])
                log.write(to_json({"update": update + 1} | {name: learned[name] for name in SHOWN}, indent=None))
                log.flush()
                terminal.at(update + 1, len(plan), f"updates, loss {learned['loss']:.4f}")
                if (update + 1) % config.checkpoint.every == 0 and update + 1 < len(plan):
                    learners.saved(store.save(update + 1, lambda folder: learners.save(folder / "learner")) / "learner")
        shutil.rmtree(scratch / "policy", ignore_errors=True)
        learners.export(scratch / "policy")
    if config.learner.lora.rank:  # the next iteration starts from a whole model
        adapter = scratch / "adapter"
        shutil.rmtree(adapter, ignore_errors=True)
        (scratch / "policy").rename(adapter)
        merge_adapter(adapter, scratch / "policy", config.model.trust_remote_code)
    rows = [json.loads(line) for line in metrics.read_text(encoding="utf-8").splitlines()]
    return {
        "updates": len(plan),
        "applied": int(sum(row["applied"] for row in rows)),
        "loss_first": rows[0]["loss"],
        "loss_last": rows[-1]["loss"],
    }


def _restored(learners: LastingLearners, store: CheckpointStore, metrics: Path) -> int:
    """How many updates are behind the weights that the learners hold now."""
    newest = store.latest()
    done = 0 if newest is None else store.update_of(newest)
    if newest is not None:
        learners.load(newest / "learner")
    lines = metrics.read_text(encoding="utf-8").splitlines() if metrics.exists() else []
    kept = "".join(f"{line}\n" for line in lines[:done])
    metrics.write_text(kept, encoding="utf-8")
    return done
