"""What every logger answers to. One of your own is a class with these methods: `loggers.to=[my_module:MyLogger]`.

A logger that fails ends no run: what it could not take is said once, counted in `record/logger_failed/NAME`, and is in
metrics.jsonl all the same.
"""

from __future__ import annotations

import importlib
import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from cluster.errors import ConfigError
from cluster.recipe.loggers import NAMES, LoggerSettings
from cluster.record.transcript import Row

log = logging.getLogger("parley")


class Logged(NamedTuple):
    """The run, as its loggers know it."""

    name: str  # also its id, by which a resumed run is the same one
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
        self.failed: dict[str, int] = {}
        self.of: dict[str, Logger] = {}
        for name in settings.to:
            self.of[name] = _class(name)(run, settings)

    def log(self, update: int, values: Mapping[str, float]) -> None:
        self._each(lambda logger: logger.log(update, values))

    def games(self, update: int, games: Sequence[Row]) -> None:
        self._each(lambda logger: logger.games(update, games))

    @property
    def readers(self) -> list[str]:
        return [name for name, logger in self.of.items() if hasattr(logger, "report")]

    def report(self, page: Path) -> None:
        self._each(lambda logger: logger.report(page), self.readers)

    def end(self, summary: Mapping[str, Any]) -> None:
        self._each(lambda logger: logger.end(summary))

    def metrics(self) -> dict[str, float]:
        return {f"record/logger_failed/{name}": float(count) for name, count in self.failed.items()}

    def _each(self, tell: Callable[[Any], None], names: Sequence[str] | None = None) -> None:
        for name in self.of if names is None else names:
            try:
                tell(self.of[name])
            except Exception as error:
                if name not in self.failed:
                    log.warning("the logger %s failed, the run goes on: %s: %s", name, type(error).__name__, error)
                self.failed[name] = self.failed.get(name, 0) + 1


def result_of(summary: Mapping[str, Any]) -> dict[str, float]:
    """Its numbers, as a group of their own."""
    return {f"result/{key}": float(value) for key, value in summary.items() if isinstance(value, int | float)}


def _class(name: str) -> type[Logger]:
    module, _, kind = name.partition(":") if name not in NAMES else (f"cluster.record.loggers.{name}_", "", "Made")
    try:
        found = getattr(importlib.import_module(module), kind)
    except ModuleNotFoundError as error:
        if name in NAMES:
            raise ConfigError(
                f"loggers.to={name} needs the package {error.name}: pip install '.[loggers]' in Parley's folder"
            ) from error
        raise ConfigError(f"loggers.to={name}: there is no module {error.name}") from error
    except AttributeError as error:
        raise ConfigError(f"loggers.to={name}: {module} has no class {kind}") from error
    return found
