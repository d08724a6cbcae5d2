"""By which rules a game of this room is played, and how it speaks: what games and their players read of the options.

rules: own         the game's own briefing; it speaks plain words or JSON, as `speech` says
rules: published   what the published versions tell, in our own words (envs/glee/published); it speaks JSON
prompts: FOLDER    the same with the texts that those projects ship
"""

from __future__ import annotations

from typing import Any

SHOWN = 20  # rounds: of a longer game published rules do not tell how long it is


def one_of(option: str, value: Any, choices: tuple) -> Any:
    if not any(type(value) is type(each) and value == each for each in choices):
        raise ValueError(f"game option {option}={value!r} must be one of {', '.join(map(repr, choices))}")
    return value


def is_published(rules: str = "own", prompts: str | None = None, **_options: Any) -> bool:
    return one_of("rules", rules, ("own", "published")) == "published" or prompts is not None


def is_plain(speech: str | None = None, **options: Any) -> bool:
    published = is_published(**options)
    if speech is None:
        return not published
    if one_of("speech", speech, ("plain", "json")) == "plain" and published:
        raise ValueError("game option speech='plain' is not for published rules, which ask for JSON: leave it out")
    return speech == "plain"
