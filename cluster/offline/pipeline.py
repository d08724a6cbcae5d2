"""A whole offline run, or one stage of it.

    for each iteration:  for each of its stages:  done and still right? -> next one : do it

So a run that was stopped goes on where it was, a run whose settings were changed does again what they
change and nothing else, and a run that is done does nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.markup import escape

from cluster.errors import ConfigError, RunError
from cluster.offline.manifest import NOT_YET
from cluster.offline.resources import Resources
from cluster.offline.stages import NAMES, Stage, do, stages_of, why_again
from cluster.offline.terminal import Terminal, results_table
from cluster.offline.work import LookedAt, Work
from cluster.recipe.config import RunConfig
from cluster.record.job_status import JobMessage
from cluster.record.run_folder import RunFolder
from cluster.record.terminal import display_path, page
from cluster.run.signals import interruptible


def run(config: RunConfig, folder: RunFolder, until: str = "", terminal: Terminal | None = None) -> dict:
    """All iterations; with `until` only the first one, up to that stage: a training set needs no policy
    to be measured before."""
    message = JobMessage()
    with interruptible(), terminal or Terminal() as terminal, Resources(config, folder, terminal) as resources:
        terminal.line(f"[bold]parley offline[/bold] {escape(config.game.name)}, model {escape(config.model.path)}")
        terminal.line(f"work folder {escape(str(folder.path))}")
        if "working_dir_files" in str(folder.path):  # Ray's copy of a submitted job's working directory
            terminal.line(f"warning: {folder.path} goes when the job's node does; give output=/a/shared/folder")
        works = [Work(config, folder, number, resources, terminal) for number in range(config.offline.iterations + 1)]
        if until:
            _named(works[1], until)
        for work in works[bool(until) :]:
            for stage in stages_of(work):
                message.say(f"iteration {work.number} of {config.offline.iterations}: {stage.name}")
                why = why_again(work, stage)
                if why is None:
                    terminal.line(f"[dim]iteration {work.number}  {stage.name} is done[/dim]")
                else:
                    do(work, stage, why)
                if work.number == 1 and stage.name == until:
                    terminal.line(f"stopped after {until}, as asked")
                    return {}
        found = summarise(config, folder, works)
    folder.write_summary(found)
    page().print(
        results_table(f"{config.game.name}: {config.model.path}", [_row(each) for each in found["iterations"]])
    )
    print(f"{display_path(folder.path)}: summary.json, iteration-*/policy, transcripts/")
    return found


def run_stage(config: RunConfig, folder: RunFolder, name: str, number: int | None) -> None:
    """One stage, if it has to be done, of the iteration asked for, or of the first that is not finished."""
    with interruptible(), Terminal() as terminal, Resources(config, folder, terminal) as resources:
        works = [Work(config, folder, each, resources, terminal) for each in range(config.offline.iterations + 1)]
        if number is not None and number not in range(len(works)):
            raise ConfigError(f"--iteration {number}: this run has iterations 1 to {config.offline.iterations}")
        work = works[number] if number is not None else _current(works, name)
        stages = _named(work, name)
        for earlier in list(stages.values())[: list(stages).index(name)]:
            if (reason := why_again(work, earlier)) is not None:
                raise RunError(
                    f"{name} of iteration {work.number} comes after {earlier.name}, which has to be done first "
                    f"({reason}): parley offline {earlier.name} {display_path(folder.path)}"
                )
        why = why_again(work, stages[name])
        if why is None:
            terminal.line(f"iteration {work.number}  {name} is done, and nothing it depends on has changed")
        else:
            do(work, stages[name], why)


def _named(work: Work, name: str) -> dict[str, Stage]:
    """Its stages, of which `name` has to be one."""
    stages = {stage.name: stage for stage in stages_of(work)}
    if name not in stages:
        why = f"it starts from {work.config.offline.input}" if work.number else "it only measures the first policy"
        if name == "evaluate":
            why = "offline.evaluate is false"
        raise ConfigError(f"iteration {work.number} has no {name}: {why}")
    return stages


def _current(works: list[Work], name: str) -> Work:
    """The first iteration with such a stage in which anything is left to do; the last one if nothing is."""
    having = [work for work in works if name in [stage.name for stage in stages_of(work)]]
    unfinished = (work for work in having if any(why_again(work, stage) for stage in stages_of(work)))
    return next(unfinished, having[-1] if having else works[-1])


def status(config: RunConfig, path: Path) -> list[str]:
    """One line a stage. Starts nothing, and writes nothing."""
    terminal, folder = Terminal(), LookedAt(path.resolve())
    works = [
        Work(config, folder, number, Resources(config, folder, terminal), terminal)
        for number in range(config.offline.iterations + 1)
    ]
    lines, open_ = [], ""  # the first stage that has to be done
    for work in works:
        for stage in stages_of(work):
            why = why_again(work, stage)
            state = "done" if why is None else why if why == NOT_YET else f"to be done again: {why}"
            if why is None and open_:
                state = f"done, and again if {open_} comes out different"
            elif why is not None and work.number:
                open_ = open_ or stage.name
            lines.append(f"iteration {work.number}  {stage.name:<10} {state}")
    return lines


def summarise(config: RunConfig, folder: RunFolder, works: list[Work]) -> dict[str, Any]:
    """The figures of each iteration, by stage."""
    found, before = [], works[0].manifest.figures("evaluate")
    for work in works[1:]:
        stages = {name: work.manifest.figures(name) for name in NAMES if work.manifest.figures(name)}
        seconds = sum(stage["seconds"] for stage in work.manifest.stages.values())
        found.append({"iteration": work.number, "before": before, "stages": stages, "seconds": round(seconds, 1)})
        before = stages.get("evaluate", {})
    return {"run": folder.name, "game": config.game.name, "model": config.model.path, "iterations": found}


def _row(iteration: Mapping[str, Any]) -> dict[str, str]:
    stages = iteration["stages"]
    chosen, grouped = stages["choose"], stages["aggregate"]
    return {
        "iteration": str(iteration["iteration"]),
        "games": f"{stages['embed']['games']:,}",
        "win % before": _win(iteration["before"]),
        "win % after": _win(stages.get("evaluate", {})),
        "k": f"{chosen['k']}{'' if chosen['settled'] else ' (unsettled)'}",
        "published k": str(chosen["published"] or ""),
        "groups": f"{grouped['groups']:,}",
        "alone": f"{100 * grouped['singletons']:.0f} %",
        "variance": f"{grouped['variance_before']:.4f} -> {grouped['variance_after']:.4f}",
        "updates": f"{stages['train']['updates']:,}",
        "s": f"{iteration['seconds']:.0f}",
    }


def _win(evaluation: Mapping[str, Any]) -> str:
    if not evaluation:
        return ""
    rate, low, high = (100 * evaluation[name] for name in ("win_rate", "win_low", "win_high"))
    return f"{rate:.1f} ({low:.0f}-{high:.0f})"
