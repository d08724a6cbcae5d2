"""What the metrics say about how a run goes, in words: rules, each with the figure that it rests on.

A rule looks at the newest rows and says nothing where it has no reason to. None is a verdict: each names what to look
at, and the setting that changes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

Row = Mapping[str, Any]
RECENT = 10  # updates that a rule looks at
FEWEST = 3  # of them, before it says anything


def advice(rows: Sequence[Row]) -> list[str]:
    """Of a run's rows of metrics, the oldest first."""
    trained = [row for row in rows if "rollout/outcome" in row]
    recent = trained[-RECENT:]
    if len(recent) < FEWEST:
        return []
    return [said for rule in RULES for said in rule(recent, trained)]


def _mean(rows: Sequence[Row], key: str) -> float | None:
    found = [row[key] for row in rows if isinstance(row.get(key), int | float)]
    return sum(found) / len(found) if found else None


def _share(rows: Sequence[Row], stage: str) -> float:
    """Of their time; most stages are not in every row."""
    whole = sum(row.get("seconds/update", 0.0) for row in rows)
    return sum(row.get(f"seconds/{stage}", 0.0) for row in rows) / whole if whole else 0.0


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def waits_for_games(recent: Sequence[Row], trained: Sequence[Row]) -> Iterator[str]:
    share = _share(recent, "collect")
    if share > 0.5:
        yield (
            f"The learner waits {_percent(share)} of its time for games: add workers (rollout.workers), or let play "
            "run ahead (max_staleness)."
        )


def waits_for_rewards(recent: Sequence[Row], trained: Sequence[Row]) -> Iterator[str]:
    if (share := _share(recent, "shape")) > 0.2:
        yield f"{_percent(share)} of the time goes to waiting for rewards: give the reward service CPUs (reward.cpus)."


def syncs_and_saves(recent: Sequence[Row], trained: Sequence[Row]) -> Iterator[str]:
    if (share := _share(recent, "checkpoint")) > 0.2:
        yield f"{_percent(share)} of the time goes to checkpoints: save less often (checkpoint.every)."
    if (share := _share(recent, "evaluate")) > 0.3:
        yield f"{_percent(share)} of the time goes to held-out games: evaluation.every or evaluation.beside."


def no_signal(recent: Sequence[Row], trained: Sequence[Row]) -> Iterator[str]:
    alike = _mean(recent, "rollout/groups_without_spread")
    if alike is not None and alike > 0.5:
        yield (
            f"In {_percent(alike)} of the groups all games went alike, so they teach nothing: other tasks, more games "
            "of each (group_size), or group_redraws."
        )
    nothing = _mean(recent, "learner/nothing_to_learn")
    if nothing is not None and nothing >= 0.5:
        yield f"In {_percent(nothing)} of the last updates all returns were equal: nothing was learned."


def entropy_fell(recent: Sequence[Row], trained: Sequence[Row]) -> Iterator[str]:
    found = [row["learner/entropy"] for row in recent if isinstance(row.get("learner/entropy"), int | float)]
    if len(found) >= FEWEST and found[0] > 0.05 and found[-1] < 0.1 * found[0]:
        yield (
            f"The entropy fell by {_percent(1 - found[-1] / found[0])} in {len(found)} updates: the policy says nearly "
            "always the same. A smaller learner.learning_rate or learner.loss.kl keeps more of it."
        )


def engines_differ(recent: Sequence[Row], trained: Sequence[Row]) -> Iterator[str]:
    if any(row.get("learner/logprob_gap_warned") for row in recent):
        found = [row.get("learner/logprob_gap_mean") for row in recent]
        gap = max((each for each in found if isinstance(each, int | float)), default=0.0)
        yield f"Trainer and engine differ: a mean gap of {gap:.2g} between their log-probs. Is it the same precision?"


def bad_steps(recent: Sequence[Row], trained: Sequence[Row]) -> Iterator[str]:
    if count := sum(row.get("learner/bad_steps", 0.0) for row in recent):
        yield f"{count:g} steps of the last {len(recent)} updates had a gradient that is not finite, and were skipped."


def failing(recent: Sequence[Row], trained: Sequence[Row]) -> Iterator[str]:
    """Failures are counted from the run's start on, and by older versions from a resume on."""
    before = trained[-len(recent) - 1] if len(trained) > len(recent) else {}
    for key in sorted(key for key in recent[-1] if key.startswith("failures/")):
        now, then = recent[-1][key], before.get(key, 0.0)
        new = now - then if now >= then else now
        played = sum(row.get("rollout/episodes", 0.0) for row in recent)
        if played and new > 0.1 * played:
            reason = key.removeprefix("failures/")
            yield f"{new:g} episodes failed for {reason} while {played:g} were trained on: see parley.log."


def cut_off(recent: Sequence[Row], trained: Sequence[Row]) -> Iterator[str]:
    share = _mean(recent, "rollout/cut_off")
    if share is not None and share > 0.3:
        yield (
            f"{_percent(share)} of the games are cut off: more turns (the game's options), a longer context "
            "(rollout.engine.max_context), or learner.mask_cut_off."
        )


RULES: tuple[Callable[[Sequence[Row], Sequence[Row]], Iterator[str]], ...] = (
    waits_for_games,
    waits_for_rewards,
    syncs_and_saves,
    no_signal,
    entropy_fell,
    engines_differ,
    bad_steps,
    failing,
    cut_off,
)
