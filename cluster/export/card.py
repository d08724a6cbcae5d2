"""The model card: what the policy plays, how well, how it was trained, and how all of it is done again.

Hugging Face reads the block of YAML at its beginning. Every number is one that the run recorded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from actors.engines.vllm_platform import LORA_RANKS, USUAL_LORA_RANK, lora_capacity
from cluster.record.run_folder import installed
from cluster.report.figures import settings
from cluster.report.reading import Run

RECIPE = "recipe.yaml"
TAGS = ("parley", "reinforcement-learning", "text-games")


def card(run: Run, update: int, name: str, adapter_of: str | None) -> str:
    """`adapter_of`: the base model, of an adapter that stays apart."""
    return "\n".join(
        [
            *_head(run, adapter_of),
            *_about(run, update, name),
            *_results(run, update),
            *_use(adapter_of, run.config.learner.lora.rank),
            *_again(run),
        ]
    )


def _head(run: Run, adapter_of: str | None) -> Iterator[str]:
    base = adapter_of or (run.config.model.path if run.config.model.path != "embedded" else None)
    told: dict[str, Any] = {"library_name": "peft" if adapter_of else "transformers", "pipeline_tag": "text-generation"}
    if base is not None and not Path(base).exists():  # a folder on this machine means nothing elsewhere
        told["base_model"] = base
    told["tags"] = [*TAGS, run.config.game.name]
    yield f"---\n{yaml.safe_dump(told, sort_keys=False)}---\n"


def _about(run: Run, update: int, name: str) -> Iterator[str]:
    game = run.config.game.name
    yield f"# {name}\n"
    yield (
        f"A policy for the game `{game}`, trained by online reinforcement learning with "
        f"Parley{f' {version}' if (version := installed('parley')) else ''}, after update {update:,} of "
        f"{run.config.updates:,} of the run `{run.name}`.\n"
    )
    yield from _table(("setting", ""), [(label, f"`{value}`") for label, value in settings(run)])
    trained = [row for row in run.trained if row["update"] <= update]
    episodes, tokens, seconds = (
        sum(row.get(key, 0.0) for row in trained) for key in ("rollout/episodes", "rollout/tokens", "seconds/update")
    )
    yield f"Trained on {episodes:,.0f} games with {tokens:,.0f} sampled tokens, in {seconds / 3600:.2f} hours.\n"


def _results(run: Run, update: int) -> Iterator[str]:
    """Before training, and at the last evaluation up to that update."""
    found = [row for row in run.evaluated if row["update"] <= update]
    if not found:
        return
    yield "## Results\n"
    yield "Held-out games, whose seeds are those of no training game, with 95 % intervals (Wilson's and Student's).\n"
    shown = [found[0], found[-1]] if len(found) > 1 else found
    yield from _table(("after update", "games", "win rate", "mean outcome"), [_result(row) for row in shown])


def _result(row: Mapping[str, Any]) -> tuple[str, ...]:
    def interval(name: str, middle: str) -> str:
        low, high = (row.get(f"evaluation/{name}_{end}") for end in ("low", "high"))
        whole = f"{100 * row[f'evaluation/{middle}']:.1f} %"
        return whole if low is None or high is None else f"{whole} ({100 * low:.1f} to {100 * high:.1f})"

    games = f"{row['evaluation/episodes']:,.0f}"
    return f"{row['update']:,}", games, interval("win", "win_rate"), interval("outcome", "outcome")


def _use(adapter_of: str | None, rank: int) -> Iterator[str]:
    serve = f"vllm serve {adapter_of} --enable-lora --lora-modules policy=." if adapter_of else "vllm serve ."
    if adapter_of and USUAL_LORA_RANK < rank <= LORA_RANKS[-1]:
        serve += f" --max-lora-rank {lora_capacity(rank)}"
    yield "## Use\n"
    yield (
        "The chat template and the tokenizer are those that it was trained with: the rules are the system's message, "
        "each observation one of the user's, and each utterance the assistant's answer.\n"
    )
    yield f"```\n{serve}\nparley evaluate . --recipe {RECIPE}\n```\n"


def _again(run: Run) -> Iterator[str]:
    yield "## Train it again\n"
    yield f"```\nparley train {RECIPE}\n```\n"
    packages = run.versions.get("packages") or {}
    made = [
        f"{name} {version}" for name, version in ({"commit": run.versions.get("commit")} | packages).items() if version
    ]
    if made:
        yield f"Made with {', '.join(made)}.\n"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    lines = [head, ["---"] * len(head), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    yield "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"
