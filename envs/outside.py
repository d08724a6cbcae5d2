"""Failures of what is outside of Parley: a server, a world of another library. Importing this imports nothing."""

from __future__ import annotations


class OutsideError(RuntimeError):
    """One line that names who failed and what can be done. In a game it costs the episode, and no other."""
