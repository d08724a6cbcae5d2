"""What can go wrong with a world in a process of its own. A run counts each by its name, as `game_error:WorldHung`."""

from __future__ import annotations

from envs.outside import OutsideError


class WorldRefused(ValueError):
    """The world cannot be made with these options."""


class WorldCrashed(OutsideError):
    """Its process ended by itself."""


class WorldHung(OutsideError):
    """It did not answer in time, and was ended."""


class WorldTooLarge(OutsideError):
    """It took more memory than it may, and was ended."""


class WorldRaised(OutsideError):
    """A method of it raised an exception."""


class WorldSpokeNoJSON(OutsideError):
    """It answered with bytes, NaN, or something else that is neither text nor number nor made of these."""


class NoProcessFree(OutsideError):
    """All processes of this kind were taken for too long."""
