"""Failures that a user can act on. Each message is one line that names what is wrong.

The command line prints the message and exits with `exit_code`; anything that is not a
ParleyError is a bug and shows its traceback. PARLEY_DEBUG=1 shows the traceback of these too.
"""

from __future__ import annotations

LONGEST = 400  # characters of a message
TAIL = 100  # of which so many are its end, which says how to go on


def shortened(message: str) -> str:
    """For a terminal: of a long one, because somebody else's words are in it, the beginning and the end."""
    return message if len(message) <= LONGEST else f"{message[: LONGEST - TAIL - 5]} ... {message[-TAIL:]}"


class ParleyError(Exception):
    """Base of every failure that is reported in one line."""

    exit_code = 1

    def __init__(self, message: str):
        super().__init__(" ".join(message.split()))


class ConfigError(ParleyError):
    """The recipe or an override asks for something impossible. Found before anything starts."""

    exit_code = 2


class RunFolderError(ParleyError):
    """A run folder is missing, damaged, in use, or cannot be written."""


class NoRunFolder(RunFolderError):
    """The command names a folder that is no run."""

    exit_code = 2


class CheckpointError(ParleyError):
    """A checkpoint cannot be written, or none that is whole can be read."""


class RunError(ParleyError):
    """The run cannot go on."""


class LostError(RunError):
    """Something that the run needs is gone: a machine, a process. Another try may find it again."""

    exit_code = 75  # as in sysexits.h: a temporary failure


class SyncError(RunError):
    """New weights did not reach the engines."""


class ParityError(SyncError):
    """An engine does not hold the trained weights, or computes something else with them."""
