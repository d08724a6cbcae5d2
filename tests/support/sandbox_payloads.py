"""Bodies of `build_model`, the sandboxes they are run in and what is left of those, for tests."""

from __future__ import annotations

import contextlib
import os
import textwrap
import time

import psutil
import pytest

from envs.data_science import scoring
from envs.data_science.sandbox import isolation
from envs.data_science.sandbox.pool import Fit, Limits, pool
from envs.data_science.tables import table_of

TABLE = table_of("iris", "")
WALLS = [walls for walls in isolation.WALLS if not isolation.missing(walls)]
GOOD_BODY = "from sklearn.linear_model import LogisticRegression; return LogisticRegression().fit(x, y)"
GOOD = f"def build_model(x, y): {GOOD_BODY}"
WRITE_RESULTS = "import os\nfor fd in range(3, 1024):\n  try: os.write(fd, {text}); break\n  except OSError: pass\n"


# A test module imports the fixtures it needs, each under its own name (`as`): ruff then takes them for used.


@pytest.fixture(name="walls", params=WALLS)
def each_of_the_walls(request) -> str:
    return request.param


@pytest.fixture(autouse=True)
def nothing_remembered():
    scoring.forget()


@pytest.fixture(scope="module", autouse=True)
def closed_in_the_end():
    yield
    pool.close()


def code(body: str) -> str:
    return "def build_model(x, y):\n" + textwrap.indent(textwrap.dedent(body).strip(), "    ")


def fit(body: str) -> Fit:
    return Fit(code(body), TABLE.x, TABLE.y, 0, Limits(WALLS[0], 30, 2048))


def heard(body: str, walls: str) -> str:
    """The `text` that a body leaves, out of a real fit: it is told as if it were a model."""
    with pool.sandbox(walls) as sandbox:
        told = f"{textwrap.dedent(body).strip()}\n{WRITE_RESULTS.format(text='text.encode()')}os._exit(0)"
        asked = Fit(code(told), TABLE.x, TABLE.y, 0, Limits(walls, 30, 2048))
        return sandbox.run(asked, time.monotonic() + 60)[1].decode()


def error_of(body: str, walls: str, seconds: int = 90, megabytes: int = 2048) -> str:
    result = scoring.evaluate(code(body), TABLE, 0, Limits(walls, seconds, megabytes))
    assert result.auc is None, "the code must not have succeeded"
    return result.error


def in_session(session: int) -> list[int]:
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(ProcessLookupError, psutil.Error):
            if os.getsid(process.pid) == session and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process.pid)
    return found


def gone(session: int, seconds: float = 10.0) -> bool:
    end = time.monotonic() + seconds
    while in_session(session) and time.monotonic() < end:
        time.sleep(0.02)
    return not in_session(session)
