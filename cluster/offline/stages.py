"""The stages of an iteration: what each reads, writes and depends on, and how one is done.

    collect -> embed -> cluster -> choose -> label -> aggregate -> tokenize -> train -> evaluate

A stage writes into a scratch folder; when all of it is whole, its files get their names and the manifest
records it. A stop leaves the scratch folder, which collect, embed and train go on with as long as
what they read and depend on is the same; the others begin anew.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.markup import escape

from cluster.errors import RunError
from cluster.offline import intentions, play
from cluster.offline.manifest import NOT_YET, content
from cluster.offline.work import Work
from cluster.record.run_folder import write_whole


@dataclass(frozen=True)
class Stage:
    name: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    sections: tuple[str, ...]  # of the settings: it depends on all that they say of what is computed
    do: Callable[[Work, Path], Mapping[str, Any]]
    but: tuple[str, ...] = ()  # those inside them that it does not depend on


def tokenize(work: Work, scratch: Path) -> dict:
    from transformers import AutoTokenizer

    from cluster.offline.examples import Speech, write_sequences
    from cluster.offline.recording import tokenizer_name

    shutil.rmtree(scratch / "tokens", ignore_errors=True)
    trust = work.config.model.trust_remote_code
    tokenizer = AutoTokenizer.from_pretrained(work.beginning(), trust_remote_code=trust)
    path = work.file("training")
    seen = work.terminal.bytes_of(path.stat().st_size)
    speech = Speech(tokenizer, tokenizer_name(tokenizer))
    found = write_sequences(scratch / "tokens", path, speech, work.config.offline.context, seen)
    if not found["turns"]:
        raise RunError(f"{path}: no turn fits into offline.context={work.config.offline.context}")
    return found


def train(work: Work, scratch: Path) -> dict:
    from cluster.offline.examples import Sequences
    from cluster.offline.train import train as train_on

    sequences = Sequences(work.file("tokens"))
    found = train_on(work.config, sequences, work.beginning(), scratch, work.resources, work.terminal)
    return found


INTENTIONS = "reward.shaper.intentions"
STAGES = (
    Stage(
        "collect",
        ("beginning",),
        ("msgs",),
        ("seed", "game", "model", "rollout", "offline.games"),
        play.collect,
    ),
    Stage(
        "embed",
        ("msgs",),
        ("utterances", "embeddings", "coded"),
        (
            "game",
            f"{INTENTIONS}.model",
            f"{INTENTIONS}.embedding.endpoint",
            f"{INTENTIONS}.observations",
            "offline.reward_scale",
            "offline.recorded_embeddings",
        ),
        intentions.embed,
    ),
    Stage(
        "cluster",
        ("utterances", "embeddings"),
        ("space", "labels"),
        (f"{INTENTIONS}.space",),
        intentions.cluster,
        but=(f"{INTENTIONS}.space.granularity",),
    ),
    Stage(
        "choose",
        ("coded", "space", "labels"),
        ("scores",),
        ("game", f"{INTENTIONS}.space", f"{INTENTIONS}.aggregate"),
        intentions.choose,
    ),
    Stage("label", ("msgs", "coded", "labels", "scores"), ("labelled",), ("game",), intentions.label),
    Stage(
        "aggregate",
        ("labelled", "coded", "labels", "scores"),
        ("training",),
        ("game", f"{INTENTIONS}.aggregate"),
        intentions.aggregate,
    ),
    Stage("tokenize", ("beginning", "training"), ("tokens",), ("model", "offline.context"), tokenize),
    Stage(
        "train",
        ("beginning", "tokens"),
        ("policy", "log"),
        ("seed", "game", "model", "rollout.temperature", "learner", "offline.epochs", "offline.batch"),
        train,
    ),
    Stage(
        "evaluate",
        ("policy",),
        ("evaluation",),
        ("evaluation", "game", "model", "rollout", "learner.credit", "offline.rival"),
        play.evaluate,
    ),
)
NAMES = tuple(stage.name for stage in STAGES)
GOES_ON = {"collect", "embed", "train"}  # stages that use what a stop left of them
BEGUN_WITH = "begun-with"


def stages_of(work: Work) -> list[Stage]:
    """Those that this iteration has."""
    if not work.number:
        return [stage for stage in STAGES if stage.name == "evaluate" and work.config.offline.evaluate]
    left_out = {"collect"} if work.input else set()
    left_out |= set() if work.config.offline.evaluate else {"evaluate"}
    return [stage for stage in STAGES if stage.name not in left_out]


def reads_of(work: Work, stage: Stage) -> dict[str, Path]:
    """Its files by name. What comes before the first iteration is told by settings."""
    return {name: work.file(name) for name in stage.reads if not _from_settings(work, name)}


def _from_settings(work: Work, name: str) -> bool:
    return (name == "beginning" and work.number <= 1) or (name == "policy" and not work.number)


def settings_of(work: Work, stage: Stage) -> dict[str, Any]:
    """What its sections say of what is computed, by dotted key."""
    every = work.config.what_is_computed()
    found = {key: every[key] for key in every if _inside(key, stage.sections) and not _inside(key, stage.but)}
    if work.number > 1:  # the model of the recipe is what only the first iteration begins with
        found = {key: value for key, value in found.items() if not key.startswith("model.")}
    return found


def _inside(key: str, sections: Sequence[str]) -> bool:
    return any(f"{key}.".startswith(f"{each}.") for each in sections)


def why_again(work: Work, stage: Stage) -> str | None:
    """Why a stage has to be done; None if it is done and holds."""
    writes = {name: work.file(name) for name in stage.writes}
    return work.manifest.why_again(stage.name, settings_of(work, stage), reads_of(work, stage), writes)


def do(work: Work, stage: Stage, why: str) -> Mapping[str, Any]:
    """Do it, or go on with it, whatever was there before."""
    started, terminal = time.monotonic(), work.terminal
    reads = reads_of(work, stage)
    for name, path in reads.items():
        if not path.exists():
            raise RunError(f"{stage.name} reads {path}, which is not there{_made_by(work, name)}")
    terminal.line(f"[bold]iteration {work.number}  {stage.name}[/bold]{'' if why == NOT_YET else f'  ({escape(why)})'}")
    contents = {name: content(path) for name, path in reads.items()}
    settings = settings_of(work, stage)
    scratch = _scratch(work, stage, {"settings": settings, "reads": {n: c["sha256"] for n, c in contents.items()}})
    with terminal.doing(stage.name):
        figures = dict(stage.do(work, scratch))
    work.manifest.forget(stage.name)
    (scratch / BEGUN_WITH).unlink()  # whoever is stopped from here on begins anew: its files are on their way
    for name in stage.writes:
        path = work.file(name)
        if path.is_dir():
            shutil.rmtree(path)
        (scratch / path.name).replace(path)
    seconds = time.monotonic() - started
    work.manifest.record(
        stage.name, settings, contents, {name: work.file(name) for name in stage.writes}, figures, seconds
    )
    shutil.rmtree(scratch, ignore_errors=True)
    terminal.line(f"  {escape(in_words(figures))}  [dim]{seconds:.1f} s[/dim]")
    return figures


def _made_by(work: Work, name: str) -> str:
    if name == "beginning":
        return f": iteration {work.number} begins with the policy that iteration {work.number - 1} trains"
    maker = next((stage.name for stage in stages_of(work) if name in stage.writes), None)
    return f"; it is made by: parley offline {maker} {work.folder.path}" if maker else ""


def _scratch(work: Work, stage: Stage, identity: dict[str, Any]) -> Path:
    """The stage's scratch folder, emptied unless it was begun with the very same."""
    folder = work.scratch(stage.name)
    digest = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()
    note = folder / BEGUN_WITH
    same = note.exists() and note.read_text() == digest
    if not same or stage.name not in GOES_ON:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        write_whole(note, digest)
    return folder


def in_words(figures: Mapping[str, Any]) -> str:
    """The short ones."""
    words = []
    for name, value in figures.items():
        if isinstance(value, dict):
            words.append(f"{name} {' '.join(f'{reason}: {count}' for reason, count in value.items())}")
        elif isinstance(value, int | float | str) and not (isinstance(value, bool) or name.endswith(("_low", "_high"))):
            words.append(f"{name.replace('_', ' ')} {f'{value:.4g}' if isinstance(value, float) else value}")
    return ", ".join(words)
