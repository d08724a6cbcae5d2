"""How far float32 rounds the log-probs of a policy: those of a run's own games, against float64 and the same weights.

    python -m benchmarks.rounding runs/NAME                the newest checkpoint, 5,000 of the newest games
    python -m benchmarks.rounding runs/NAME --games 500

Gaps are shares of a log-prob where it is below -1, as the probe after a weight sync takes them (cluster/run/parity.py).
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from rich.table import Table

from benchmarks.report import quiet
from cluster.episodes.reader import Episodes
from cluster.record import checkpoints
from cluster.record.terminal import page

QUANTILES = 0.5, 0.9, 0.99, 0.999, 0.9999, 1.0


def token_ids(run: Path, most: int) -> Iterator[tuple[int, ...]]:
    """Of different games, the newest first."""
    games = Episodes(run / "episodes")
    seen = set()
    for game in games.first(3 * most, by="-update"):
        ids = tuple(token for turn in game["dialogue"] for token in (*turn["observation_ids"], *turn["utterance_ids"]))
        if ids not in seen and len(seen) < most:
            seen.add(ids)
            yield ids


@torch.no_grad()
def logprobs(model: torch.nn.Module, ids: tuple[int, ...]) -> np.ndarray:
    row = torch.tensor([ids])
    found = model(row).logits[0, :-1].log_softmax(-1).gather(1, row[0, 1:, None])[:, 0]
    return found.double().numpy()


def gaps(policy: Path, run: Path, most: int) -> np.ndarray:
    from transformers import AutoModelForCausalLM

    models = [
        AutoModelForCausalLM.from_pretrained(policy, dtype=each).eval() for each in (torch.float32, torch.float64)
    ]
    found = []
    for ids in token_ids(run, most):
        rounded, exact = (logprobs(model, ids) for model in models)
        found.append(np.abs(rounded - exact) / np.maximum(1.0, np.abs(exact)))
    return np.concatenate(found)


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.rounding", description=__doc__.partition("\n")[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("--games", type=int, default=5000)
    asked = parser.parse_args()
    quiet()
    checkpoint = checkpoints.latest(asked.run / "checkpoints")
    found = gaps(checkpoint / "policy", asked.run, asked.games)
    table = Table("of all tokens", "are within")
    for share in QUANTILES:
        table.add_row(f"{100 * share:g} %", f"{np.quantile(found, share):.1e}")
    page().print(f"{checkpoint.name}: {len(found):,} log-probs, float32 against float64", table)


if __name__ == "__main__":
    main()
