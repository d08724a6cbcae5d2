"""By which rules a game of this room is played, and how it speaks: what games and their players read of the options."""

from __future__ import annotations

from typing import Annotated, Any

from envs.options import one_of
from envs.text.prompts import is_published

Speech = Annotated[
    str | None,
    "how the game speaks; both are read. plain: lower case, whole percents, few words; json: dollars and cents; "
    "null: plain, and json where rules are published",
]
Rules = Annotated[str, "own, or published: seats are told what GLEE and ARIA tell, in JSON and in words of our own"]
Prompts = Annotated[str | None, "a folder with the texts of those projects, which are told instead of our own"]

SHOWN = 20  # rounds: of a longer game published rules do not tell how long it is


def is_plain(speech: str | None = None, **options: Any) -> bool:
    published = is_published(options.get("rules", "own"), options.get("prompts"))
    if speech is None:
        return not published
    if one_of("speech", speech, ("plain", "json")) == "plain" and published:
        raise ValueError("game option speech='plain' is not for published rules, which ask for JSON: leave it out")
    return speech == "plain"
