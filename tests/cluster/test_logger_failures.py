"""Loggers of a user that cannot start, fail or hang: the run goes on, holds for none, and says what was lost."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from cluster.commands.cli import main
from cluster.recipe.loggers import LoggerSettings
from cluster.record.loggers import telling
from cluster.record.loggers.logger import Logged, Loggers
from tests.cluster.test_loggers import DEMO, ran, recorded

RUN = Logged("demo-1", Path("nowhere"), {"seed": 1}, 0)


class Kind:
    """Takes everything."""

    told: list = []

    def __init__(self, run, settings):
        type(self).told = [(run.name, run.config["seed"])]

    def log(self, update, values):
        self.told.append(update)

    def games(self, update, games): ...

    def end(self, summary):
        self.told.append(dict(summary))


class Broken(Kind):
    """Can take nothing after its first update."""

    def log(self, update, values):
        if update > 1:
            raise ConnectionError("the service is away")


class Leaving(Kind):
    """Would end the process."""

    def log(self, update, values):
        raise SystemExit(3)


class Keyless(Kind):
    def __init__(self, run, settings):
        raise ValueError("no key")


class Late(Kind):
    """Its server is up at the second try."""

    tries = 0

    def __init__(self, run, settings):
        Late.tries += 1
        if Late.tries == 1:
            raise ConnectionError("not up yet")
        super().__init__(run, settings)


class Hanging(Kind):
    free = threading.Event()

    def log(self, update, values):
        self.free.wait(60)
        super().log(update, values)


def of(*kinds: type[Kind]) -> tuple[Loggers, list[str]]:
    names = [f"{__name__}:{kind.__name__}" for kind in kinds]
    return Loggers(RUN, LoggerSettings(to=names)), names


def ended(loggers: Loggers, name: str) -> float:
    loggers.end({"updates": 9})
    return loggers.metrics().get(f"record/logger_failed/{name}", 0.0)


class NoEnd:
    def log(self, update, values): ...

    def games(self, update, games): ...


@pytest.mark.parametrize(
    ("name", "says"),
    [
        (f"{__name__}:Nope", f"{__name__} has no class Nope"),
        (f"{__name__}:NoEnd", "is no logger: it has no end"),
        ("no_such_module:Kind", "there is no module no_such_module"),
    ],
)
def test_one_that_is_none_is_refused_before_anything_starts(capsys, name, says):
    assert main(["train", str(DEMO), f"loggers.to=[{name}]", "--dry-run"]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and f"loggers.to={name}" in error and says in error


def test_one_that_fails_is_said_once_in_a_start_and_counted(tmp_path):
    run = ran(tmp_path, f"{__name__}:Broken")
    assert len(recorded(run)["learner/loss"]) == 5
    said = (run / "parley.log").read_text()
    assert said.count("the service is away") == 2, "once in each start of the run"
    assert f"{__name__}:Broken has not taken 2 of 7 calls (update 2 to update 3)" in said
    loggers, (name,) = of(Broken)
    for update in (1, 2, 3):
        loggers.log(update, {})
    assert ended(loggers, name) == 2


def test_one_that_cannot_start_ends_nothing(tmp_path, caplog):
    run = ran(tmp_path, f"{__name__}:Keyless")
    assert len(recorded(run)["learner/loss"]) == 5
    assert "failed, the run goes on: its start: ValueError: no key" in (run / "parley.log").read_text()


def test_one_that_would_end_the_process_is_one_that_fails():
    loggers, (name,) = of(Leaving)
    for update in (1, 2):
        loggers.log(update, {})
    assert ended(loggers, name) == 2 and Leaving.told == [("demo-1", 1), {"updates": 9}]


def test_one_that_could_not_start_is_tried_again():
    loggers, (name,) = of(Late)
    loggers.log(1, {})
    assert ended(loggers, name) == 1 and Late.told == [("demo-1", 1), 1, {"updates": 9}]


@pytest.mark.timeout(30)
def test_one_that_hangs_holds_nobody_up_and_has_a_bounded_queue_and_a_bounded_end(monkeypatch, caplog):
    monkeypatch.setattr(telling.log, "propagate", True)
    monkeypatch.setattr("cluster.record.loggers.logger.END_SECONDS", 0.3)
    monkeypatch.setattr(telling, "MOST_WAITING", 5)
    loggers, (hanging, kind) = of(Hanging, Kind)
    begin = time.monotonic()
    for update in range(1, 10):
        loggers.log(update, {})
        time.sleep(0.02)  # so that the other one has taken it
    lost = ended(loggers, hanging)
    assert time.monotonic() - begin < 5
    assert lost == 10 and "update 7: 5 calls wait for it already" in caplog.text
    assert f"{hanging} has not taken 10 of 11 calls (update 1 to the result)" in caplog.text
    assert Kind.told == [("demo-1", 1), *range(1, 10), {"updates": 9}] and kind not in caplog.text
    Hanging.free.set()
    loggers.of[hanging].thread.join(10)
    assert Hanging.told == [("demo-1", 1), 1], "what was given up is not told late"
