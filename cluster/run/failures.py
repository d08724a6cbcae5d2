"""Errors of the floors below and of Ray, as the one line that the command line prints."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from cluster.errors import LostError, ParleyError, RunError

ADVICE = " Some common causes include"  # of Ray's account of a death: what follows is general

if TYPE_CHECKING:
    from ray.exceptions import RayError


@contextmanager
def named_failures() -> Iterator[None]:
    from ray.exceptions import RayError

    from actors.fleet.health import FleetExhausted
    from actors.fleet.places import FleetLost
    from learners.group import LearnerLost

    try:
        yield
    except ParleyError:
        raise
    except RayError as error:
        raise LostError(in_words(error)) from error
    except (FleetExhausted, FleetLost, LearnerLost) as error:
        raise LostError(f"{type(error).__name__}: {error}") from error
    except shutil.Error as error:  # of a copy: where to, where from and why, for each file
        _, into, why = error.args[0][0]
        raise RunError(f"{into} cannot be written: {why}") from error
    except (RuntimeError, ValueError, OSError) as error:
        raise RunError(f"{type(error).__name__}: {error}") from error


def in_words(error: RayError) -> str:
    """Which part failed and why, without the traceback and the advice that Ray adds."""
    from ray.exceptions import ActorDiedError, OutOfMemoryError, RayTaskError

    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if isinstance(error, OutOfMemoryError):
        return f"Ray killed a process for want of memory: {lines[0] if lines else ''}"
    if isinstance(error, ActorDiedError):
        said = dict(line.split(": ", 1) for line in lines if re.match(r"(class_name|pid|ip|name): ", line))
        name = said.get("class_name", "an actor").rpartition(".")[2]
        who = f"{name} (process {said.get('pid', '?')} on {said.get('ip', '?')})"
        return f"{who} died: {lines[-1].partition(ADVICE)[0] if lines else 'nobody says of what'}"
    if isinstance(error, RayTaskError):
        where = re.search(r"ray::([\w.]+)", str(error))
        what = " ".join(f"{type(error.cause).__name__}: {error.cause}".split())
        return f"{where[1]}: {what}" if where else what
    return f"{type(error).__name__}: {lines[0] if lines else ''}"
