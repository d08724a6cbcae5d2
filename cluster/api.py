"""What the commands `train`, `resume` and `evaluate` do, and the same from Python (`import parley`).

    parley train RECIPE key=value    -> load_recipe -> start
    parley.train(RECIPE, key=value)  -> words       -> load_recipe -> start -> Run

The commands print and parse; what they start is here. torch, vllm and ray are imported when a run starts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from cluster.errors import CheckpointError, ConfigError, LostError, RunError, RunFolderError
from cluster.recipe.config import RunConfig
from cluster.recipe.reading import COMMAND_LINE, load_recipe
from cluster.recipe.resumable import RESUMABLE
from cluster.record import checkpoints
from cluster.record.begin_again import begin_again, check_begins_again
from cluster.record.manner import busy
from cluster.record.run import Run
from cluster.record.run_folder import RunFolder, existing, is_run, read_config, write_whole
from cluster.run.keep_going import keep_going

Layers = str | Path | Sequence[str | Path]


def train(recipe: Layers, **overrides: Any) -> Run:
    """Train a policy as a recipe says, and wait for the end. `recipe` is a YAML file, or a list of files: a recipe and
    layers over it. Overrides are settings by dotted key or as nested dicts:

        train("recipes/demo.yaml", updates=5, learner={"epochs": 2}, **{"rollout.workers": 2})
    """
    first, *layers = _files(recipe)
    with _without_command_line():
        config = load_recipe(first, [*map(str, layers), *words_of(overrides)])
    return start(config)


def _files(recipe: Layers) -> Sequence[str | Path]:
    files = [recipe] if isinstance(recipe, str | Path) else recipe
    if not isinstance(files, list | tuple) or not files or not all(isinstance(each, str | Path) for each in files):
        raise ConfigError(f"the recipe has to be a YAML file, or a list of a recipe and layers, not {recipe!r}")
    return files


def resume(run: str | Path, **overrides: Any) -> Run:
    """Go on with a run from its newest whole checkpoint, in its own folder. Only settings that leave it the same run
    may change, such as `updates`."""
    with _without_command_line():
        return go_on(run, words_of(_dotted(overrides)))


def evaluate(
    target: str | Path,
    *,
    recipe: Layers | None = None,
    checkpoint: str | int = "latest",
    trials: str | None = None,
    episodes: int | None = None,
    **overrides: Any,
) -> Run:
    """Play held-out games with a run's policy (`target` is its folder, `checkpoint` "latest", "best" or an update), or
    with any model (`target` is a folder, a Hugging Face name or "embedded", `recipe` its settings). With `trials`, a
    pattern of names such as "*", it plays the game's own trials, `episodes` of each. The figures are in `summary`."""
    first, *layers = [None] if recipe is None else _files(recipe)
    with _without_command_line():
        words = [*map(str, layers), *words_of(overrides)]
        config, model = evaluated(str(target), words, None if first is None else str(first), str(checkpoint))
    return measure(config, model, trials, episodes)


def start(config: RunConfig) -> Run:
    """A new run."""
    from cluster.run import session
    from cluster.run.asked import check_online

    check_online(config)
    with RunFolder.create(config) as folder, continuing(folder), folder.telling_its_end(_resume(folder)):
        session.train(config, folder)
    return Run(folder.path)


def start_and_keep_going(config: RunConfig) -> int:
    """A new run, in a process of its own that is replaced when it is killed; the exit code."""
    from cluster.run.asked import check_online

    check_online(config)
    with RunFolder.create(config) as folder:
        path = folder.path
    code = keep_going(path)
    if code == ConfigError.exit_code:
        folder.remove_if_empty()
    return code


def go_on_and_keep_going(run: str | Path, overrides: Sequence[str]) -> int:
    """The same for a run after a stop."""
    config = _continued(run, overrides)
    with RunFolder.open(run) as folder:
        _check(folder, config)
    code = 0
    with suppress(ConfigError), _asked(folder, config):
        if (code := keep_going(folder.path)) == ConfigError.exit_code:
            raise ConfigError("its process has said why")
    return code


def go_on(run: str | Path, overrides: Sequence[str]) -> Run:
    """A run after a stop; `overrides` as on the command line. One that was stopped before its first checkpoint begins
    again."""
    config = _continued(run, overrides)
    with RunFolder.open(run) as folder, continuing(folder):
        newest, update = _check(folder, config)
        done = Run(folder.path)
        if newest is not None and config.updates == update == done.summary.get("updates"):
            print(f"{run} has ended: all {update} updates are done. Train on: parley resume {run} updates={2 * update}")
            return done
        from cluster.run import session

        with _asked(folder, config), folder.telling_its_end(_resume(folder)):
            if newest is None:
                print(f"{folder.path} has no checkpoint yet: it begins again", flush=True)
                begin_again(folder)
                session.train(config, folder)
            else:
                session.resume(config, folder)
    return Run(folder.path)


def _check(folder: RunFolder, config: RunConfig) -> tuple[Path | None, int]:
    """The checkpoint to go on from, and its update, which is not beyond what is asked for. Nothing is written yet."""
    from cluster.run.asked import check_online

    newest = checkpoints.latest(folder.checkpoints)
    if newest is None and checkpoints.all_checkpoints(folder.checkpoints):
        raise CheckpointError(f"{folder.path} holds no complete checkpoint to resume from")
    update = 0 if newest is None else checkpoints.CheckpointStore.update_of(newest)
    if config.updates < update:
        raise ConfigError(f"updates={config.updates}, but {folder.path} is already at update {update}")
    if newest is None:
        check_begins_again(folder)
    check_online(config)
    return newest, update


@contextmanager
def _asked(folder: RunFolder, config: RunConfig) -> Iterator[None]:
    """config.yaml holds what is asked now. Where that is refused, it says again what was asked before."""
    file, newest = folder.path / "config.yaml", checkpoints.latest(folder.checkpoints)
    before = file.read_bytes()
    folder.write_config(config)
    try:
        yield
    except ConfigError:
        if checkpoints.latest(folder.checkpoints) == newest:
            write_whole(file, before)
        raise


def _resume(folder: RunFolder) -> str:
    return f"parley resume {folder.path}"


def _continued(run: str | Path, overrides: Sequence[str]) -> RunConfig:
    for override in overrides:
        key = override.partition("=")[0]
        plain = key.removesuffix(".least").removesuffix(".most")
        if not any(fnmatchcase(plain, may_change) for may_change in RESUMABLE):
            raise ConfigError(
                f"resume cannot change {key!r}: the run would be another; what it may change: parley resume --help"
            )
    return read_config(run, overrides)


@contextmanager
def continuing(folder: RunFolder) -> Iterator[None]:
    """Tells how to go on with a run that was stopped with Ctrl-C, or by an error. What was lost from outside may be
    there again at once, so a run without a checkpoint, which begins again, is told of too."""
    try:
        yield
    except (RunError, RunFolderError) as error:
        if isinstance(error, LostError) or checkpoints.latest(folder.checkpoints) is not None:
            error.args = (f"{error}; after that is mended: parley resume {folder.path}",)
        raise
    except KeyboardInterrupt as stop:
        newest = checkpoints.latest(folder.checkpoints)
        if newest is None:
            raise KeyboardInterrupt("before the first checkpoint") from stop
        raise KeyboardInterrupt(f"{newest.name} is saved; go on with: parley resume {folder.path}") from stop


def evaluated(target: str, overrides: Sequence[str], recipe: str | None, checkpoint: str) -> tuple[RunConfig, str]:
    """The settings under which a run or a model is evaluated, and the model."""
    if is_run(target):
        return _evaluated_run(Path(target).expanduser(), overrides, recipe, checkpoint)
    if checkpoint != "latest":
        raise ConfigError(f"--checkpoint chooses among a run's checkpoints, but {target!r} is no run folder")
    config = load_recipe(recipe, ["name=evaluate", *overrides, *words_of({"model.path": target})])
    return config, config.model.path


def _evaluated_run(run: Path, overrides: Sequence[str], recipe: str | None, checkpoint: str) -> tuple[RunConfig, str]:
    """A run's own config, and the policy of the checkpoint asked for. The evaluation gets a folder of its own, beside
    the run's unless it is asked elsewhere, so it can look at a run that is still training."""
    if recipe:
        raise ConfigError("--recipe is for evaluating a model; a run is evaluated with its own config.yaml")
    fitting = re.sub(r"^[^A-Za-z0-9]+|[^A-Za-z0-9._-]", "-", existing(run).resolve().name).lstrip("-") or "run"
    beside = {"name": f"{fitting}-evaluation", "output": str(run.resolve().parent)}
    config = read_config(run, [*words_of(beside), *overrides])
    folder, update_of = run / "checkpoints", checkpoints.CheckpointStore.update_of
    every = checkpoints.all_checkpoints(folder)
    if checkpoint in ("latest", "best"):
        chosen = getattr(checkpoints, checkpoint)(folder)
    else:
        digits = checkpoint.removeprefix("update-")
        chosen = next((path for path in every if digits.isdigit() and update_of(path) == int(digits)), None)
    if chosen is None:
        there = ", ".join(path.name for path in every if checkpoints.damage_of(path) is None) or "none"
        raise ConfigError(f"--checkpoint: {run} holds no complete checkpoint {checkpoint!r}; it has: {there}")
    if damage := checkpoints.damage_of(chosen):
        raise CheckpointError(f"checkpoint {chosen} is damaged: {damage}")
    return config, str((chosen / "policy").resolve())


def measure(config: RunConfig, model: str, pattern: str | None = None, episodes: int | None = None) -> Run:
    """Held-out games with `model`, or the game's trials whose names match `pattern`, in a folder of their own."""
    if pattern is None:
        if episodes is not None:
            raise ConfigError("--episodes is for --trials; without it give evaluation.episodes=N")
        with RunFolder.create(config) as folder, folder.telling_its_end():
            from cluster.run import session

            folder.write_summary(session.evaluate(config, model, folder))
        return Run(folder.path)
    try:
        with busy("reading the trials"):
            from cluster.run.trials import chosen_trials

            trials = chosen_trials(config, pattern, episodes)
    except ValueError as error:
        raise ConfigError(str(error)) from error
    with RunFolder.create(config) as folder, folder.telling_its_end():
        from cluster.run import session

        folder.write_summary(session.evaluate_trials(config, model, folder, trials))
    return Run(folder.path)


def words_of(overrides: Mapping[str, Any]) -> list[str]:
    """Settings as the command line takes them: a JSON value is a YAML value."""
    try:
        return [f"{key}={json.dumps(value, default=str, ensure_ascii=False)}" for key, value in overrides.items()]
    except (TypeError, ValueError) as error:
        raise ConfigError(f"an override is no plain value: {error}") from error


def _dotted(overrides: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested dicts as dotted keys."""
    found = {}
    for key, value in overrides.items():
        found |= _dotted(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return found


@contextmanager
def _without_command_line() -> Iterator[None]:
    """Who calls from Python typed no command: the message begins with the setting."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError(str(error).removeprefix(f"{COMMAND_LINE}: ")) from error
