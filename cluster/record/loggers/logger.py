"""What every logger answers to. One of your own is a class with these methods: `loggers.to=[my_module:MyLogger]`.

Each is made and told in a thread of its own, in order. One that fails ends no run and holds none up: what it could not
take is said in the log, counted in `record/logger_failed/NAME`, and is in metrics.jsonl all the same.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from cluster.errors import ConfigError
from cluster.recipe.loggers import NAMES, LoggerSettings
from cluster.record.loggers.telling import END_SECONDS, Telling
from cluster.record.transcript import Row
from envs.kinds import see_current_folder


class Logged(NamedTuple):
    """The run, as its loggers know it."""

    name: str  # that of its folder
    folder: Path
    config: Mapping[str, Any]  # every setting by dotted key
    resume_at: int  # updates that are done already


class Logger(Protocol):
    def __init__(self, run: Logged, settings: LoggerSettings): ...

    def log(self, update: int, values: Mapping[str, float]) -> None:
        """Numbers of an update, under names such as learner/loss. An evaluation's may come by themselves."""

    def games(self, update: int, games: Sequence[Row]) -> None:
        """Some held-out games of an update, to read."""

    def end(self, summary: Mapping[str, Any]) -> None:
        """The run's result; nothing comes after it. Of a run that was stopped it is empty."""


class Reader(Logger, Protocol):
    """One that takes the report too."""

    def report(self, page: Path) -> None:
        """Of a run that has finished, before its end: one HTML file."""


class Loggers:
    """All of a run's."""

    def __init__(self, run: Logged, settings: LoggerSettings):
        kinds = {name: _class(name) for name in settings.to}
        self.readers = [name for name, kind in kinds.items() if hasattr(kind, "report")]
        self.of = {name: Telling(name, partial(kind, run, settings)) for name, kind in kinds.items()}

    def log(self, update: int, values: Mapping[str, float]) -> None:
        self._each(f"update {update}", lambda logger: logger.log(update, values))

    def games(self, update: int, games: Sequence[Row]) -> None:
        self._each(f"games of update {update}", lambda logger: logger.games(update, games))

    def report(self, page: Path) -> None:
        self._each("the report", lambda logger: logger.report(page), self.readers)

    def end(self, summary: Mapping[str, Any]) -> None:
        """Waits for what has not been taken yet, END_SECONDS at most."""
        self._each("the result", lambda logger: logger.end(summary))
        until = time.monotonic() + END_SECONDS
        for telling in self.of.values():
            telling.end()
        for telling in self.of.values():
            telling.wait(until)

    def metrics(self) -> dict[str, float]:
        return {f"record/logger_failed/{name}": float(len(each.lost)) for name, each in self.of.items() if each.lost}

    def _each(self, what: str, tell: Callable[[Any], None], names: Sequence[str] | None = None) -> None:
        for name in self.of if names is None else names:
            self.of[name].tell(what, tell)


def check(settings: LoggerSettings) -> None:
    """Before anything starts, and without what is heavy: classes of the user's own are imported."""
    for name in settings.to:
        if name not in NAMES:
            _class(name)
        elif importlib.util.find_spec(name) is None:
            raise _missing(name, name)


def result_of(summary: Mapping[str, Any]) -> dict[str, float]:
    """Its numbers, as a group of their own."""
    return {f"result/{key}": float(value) for key, value in summary.items() if isinstance(value, int | float)}


def _missing(name: str, package: str | None) -> ConfigError:
    return ConfigError(f"loggers.to={name} needs the package {package}: pip install -e '.[loggers]' in Parley's folder")


def _class(name: str) -> type[Logger]:
    module, _, kind = name.partition(":") if name not in NAMES else (f"cluster.record.loggers.{name}_", "", "Made")
    see_current_folder()
    try:
        found = getattr(importlib.import_module(module), kind)
    except ModuleNotFoundError as error:
        if name in NAMES:
            raise _missing(name, error.name) from error
        raise ConfigError(f"loggers.to={name}: there is no module {error.name}") from error
    except AttributeError as error:
        raise ConfigError(f"loggers.to={name}: {module} has no class {kind}") from error
    except Exception as error:  # of whoever wrote the module
        raise ConfigError(f"loggers.to={name}: {module} cannot be imported: {type(error).__name__}: {error}") from error
    if missing := [each for each in ("log", "games", "end") if not callable(getattr(found, each, None))]:
        raise ConfigError(f"loggers.to={name} is no logger: it has no {', '.join(missing)}")
    return found
