"""What a run left behind, and what is wrong with it. Reads files and text alone; nothing here runs anything.

The ledger's equation, from the last state that the run saved:

    issued = consumed + open + reissued + redrawn + dropped

and each episode that was trained on, by its ticket's number, as samples.jsonl names them: the settings of a trial have
every episode of every batch in it.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.chaos.schedule import COMMAND, NEVER, NODE, Trial
from cluster.errors import LostError
from cluster.record.checkpoints import latest
from cluster.run.keep_going import STOPPED

GOES_ON = re.compile(r"parley: (the run's process (ended with|has been frozen)|everything is being closed)")
DOCUMENTED = {0, 1, LostError.exit_code, STOPPED}
RECOVERY_SECONDS = 150.0  # from the fault to what comes after it: an update, or a named end
STOP_SECONDS = 20.0  # from a Ctrl-C or a SIGTERM to the end of the command


@dataclass(frozen=True, slots=True)
class Books:
    """Of the run's folder."""

    updates: int  # of the last checkpoint
    issued: int
    explained: int  # the right side of the equation
    dropped: int
    lost: int  # episodes that should have been trained on and were not; those dropped are counted there
    twice: int  # episodes that were trained on again
    policy: int | None  # digest of the last checkpoint's weights


def books(run: Path, updates: int, batch: int) -> Books:
    newest = latest(run / "checkpoints")
    if newest is None:
        return Books(0, 0, 0, 0, updates * batch, 0, None)
    state = json.loads((newest / "state.json").read_text())
    trained = [(line["update"], line["number"]) for line in _lines(run / "samples.jsonl")]
    return account(state, trained, updates * batch, policy_of(newest / "policy"))


def account(state: Mapping, trained: Sequence[tuple[int, int]], episodes: int, policy: int | None) -> Books:
    """`trained`: update and number of each episode; `episodes`: how many there should be."""
    ledger = state["ledger"]
    counts = ledger["counts"]
    dropped = sum(counts["dropped"].values())
    explained = counts["consumed"] + len(ledger["open"]) + counts["reissued"] + counts["redrawn"] + dropped
    times = Counter(number for _, number in trained)
    lost = len(set(range(episodes)) - times.keys()) - dropped
    twice = sum(count - 1 for count in times.values())
    return Books(state["update"], counts["issued"], explained, dropped, lost, twice, policy)


def policy_of(folder: Path) -> int | None:
    """The first bits of a digest, as a number."""
    digest = hashlib.sha256()
    files = sorted(folder.glob("*.safetensors"))
    for file in files:
        digest.update(file.name.encode() + file.read_bytes())
    return int(digest.hexdigest()[:12], 16) if files else None


def _lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []


@dataclass(frozen=True, slots=True)
class Ending:
    """Of one command of the trial: how it ended, and what it said."""

    code: int | None  # below 0: by a signal; None: it did not end
    said: list[str]  # error lines of Parley
    tracebacks: int
    goes_on_with: str  # the folder that it says can be gone on with
    tries: int  # further processes that --keep-going started


def ending(code: int | None, output: str) -> Ending:
    lines = output.splitlines()
    named = [line for line in lines if line.startswith("parley: ")]
    again = [line for line in named if GOES_ON.match(line)]
    said = [line for line in named if line not in again]
    found = re.search(r"parley resume (\S+)", said[-1]) if said else None
    tracebacks = sum(line.startswith("Traceback (most recent call last)") for line in lines)
    return Ending(
        code, said, tracebacks, found[1] if found else "", len([line for line in again if "ended with" in line])
    )


def faults_of_end(ending: Ending, hurt: str, mode: str, keep_going: bool) -> list[str]:
    """What is wrong with how a command ended: by itself, or with one line and a code that the docs name."""
    if ending.code is None:
        return ["hang"]
    found = ["traceback"] if ending.tracebacks else []
    if ending.code == 0:
        return [*found, "not stopped"] if hurt == COMMAND else found
    if ending.code < 0 or (hurt == "driver" and mode != "term"):  # the command itself was what was hit
        return found if hurt == "driver" and not keep_going else [*found, "unnamed end"]
    if len(ending.said) != 1:
        found.append("unnamed end" if not ending.said else "several error lines")
    elif not ending.goes_on_with and ending.code != STOPPED:
        found.append("no way on")
    if hurt == NODE:
        found.append("ended")  # where it should have gone on without the node
    if ending.code not in DOCUMENTED:
        found.append("exit code")
    return found


def faults(trial: Trial, figures: Mapping, reference: Mapping | None, updates: int, batch: int) -> list[str]:
    """What is wrong with a trial, each by a word of the table. `reference`: the figures of the undisturbed run."""
    found = list(figures["wrong"])
    if figures["updates"] != updates:
        found.append("unfinished")
    if figures["issued"] != figures["explained"]:
        found.append("ledger")
    found += [name for name in ("lost", "twice", "orphans", "leftovers") if figures[name]]
    if unequal(trial, figures, reference):
        found.append("unequal")
    limit = STOP_SECONDS if trial.process == COMMAND else RECOVERY_SECONDS
    if figures["recovery"] is not None and figures["recovery"] > limit:
        found.append("slow")
    return found


def unequal(trial: Trial, figures: Mapping, reference: Mapping | None) -> bool:
    """Whether the final weights differ from those of the undisturbed run, where they must not. A run that did not
    come to its end has none to compare."""
    comparable = trial.exact and trial.process != NEVER and reference is not None and figures["policy"] is not None
    return comparable and figures["updates"] == reference["updates"] and figures["policy"] != reference["policy"]
