"""Faults by process and mode: how many trials, what was lost, and how long it took to go on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from benchmarks.chaos.evidence import faults, unequal
from benchmarks.chaos.schedule import BATCH, LATER, MODES, NEVER, UPDATES, Trial, digest, undisturbed
from benchmarks.lab.pages import table
from benchmarks.lab.store import Store

HEAD = (
    "process",
    "mode",
    "trials",
    "lost",
    "twice",
    "hangs",
    "unequal",
    "orphans",
    "left over",
    "recovery, s",
    "wrong",
)


def reference(store: Store, trial: Trial, figures: Mapping) -> Mapping | None:
    """The undisturbed run of the kind of processor that the trial ran on."""
    record = store.get(undisturbed(trial.setup, figures["processor"]))
    return record.figures if record else None


def wrong(store: Store, trial: Trial, figures: Mapping) -> list[str]:
    return faults(trial, figures, reference(store, trial, figures), UPDATES, BATCH)


def recorded(store: Store, only: Sequence[str] = ()) -> list[Trial]:
    """All trials of today's settings, in whatever order and of whatever seed they were run."""
    trials = [Trial(**record.trial) for record in store.records.values()]
    mine = [trial for trial in trials if trial.settings.split()[0] == digest(trial.setup)]
    return [trial for trial in mine if not only or any(word in trial.name for word in only)]


def page(store: Store, trials: Sequence[Trial]) -> str:
    """The table, and below it each trial of which something is wrong."""
    ran = [(trial, record.figures) for trial in trials if (record := store.get(trial))]
    hit = [(trial, figures) for trial, figures in ran if figures["struck"]]
    cells = [(process, mode) for process, modes in [*MODES.items(), *LATER] for mode in modes]
    rows = [_row(store, process, mode, hit) for process, mode in cells]
    rows.append(_row(store, "all", "", hit, every=True))
    bad = [f"- {trial.name}: {', '.join(found)}" for trial, figures in ran if (found := wrong(store, trial, figures))]
    missed = [trial.name for trial, figures in ran if not figures["struck"] and trial.process != NEVER]
    parts = [table(list(HEAD), [row for row in rows if row])]
    parts += ["Wrong:\n\n" + "\n".join(bad)] if bad else []
    parts += [f"Over before the fault: {len(missed)}."] if missed else []
    return "\n\n".join(parts)


def _row(store: Store, process: str, mode: str, hit: Sequence[tuple[Trial, Mapping]], every: bool = False) -> list[str]:
    mine = [(trial, each) for trial, each in hit if every or (trial.process, trial.mode) == (process, mode)]
    if not mine:
        return []
    took = sorted(each["recovery"] for _, each in mine if each["recovery"] is not None)
    total = {name: sum(each[name] for _, each in mine) for name in ("lost", "twice", "orphans", "leftovers")}
    seconds = f"{median(took):.0f}, at most {took[-1]:.0f}" if took else ""
    return [
        process,
        mode,
        str(len(mine)),
        str(total["lost"]),
        str(total["twice"]),
        str(sum("hang" in each["wrong"] for _, each in mine)),
        str(sum(unequal(trial, each, reference(store, trial, each)) for trial, each in mine)),
        str(total["orphans"]),
        str(total["leftovers"]),
        seconds,
        str(sum(bool(wrong(store, trial, each)) for trial, each in mine)),
    ]
