"""Games that are played elsewhere: free text between a policy and whoever prompts it.

A conversation becomes an episode of two seats that take turns as they spoke:

    user: how many legs ...?  assistant: four.  user: and a bird?  assistant: two.
    turns of "user" (the data), turns of "assistant" (the policy), outcome of the assistant

So the label history of an answer holds what was asked, and answers share credit only where like
questions were asked. What the assistant said earlier, in the prompt, are turns like its last one.

Such a game has a name and no rules here: its gist is the plain text, it has no amounts.
"""

from __future__ import annotations

import json
import math
import re
import secrets
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Any

from envs.episode import Episode, Ticket, Turn
from envs.registry import GAMES, game_names
from reward_service.service.errors import bad_sample
from reward_service.settings import DialogueSettings
from reward_service.shaper import ShapedRewards

USER, ASSISTANT = "user", "assistant"
PLAYERS = ((ASSISTANT, "policy"), (USER, "data"))
SILENCE = "(says nothing)"  # a policy may end its turn at once, and that has its worth, too
REGISTERED = "reward_service.service.http.dialogue:DialogueGame"

Message = tuple[str, str]  # role, what was said


class DialogueGame:
    """All there is to know of such a game."""

    observations = "text"


def register(names: Iterable[str]) -> None:
    """Makes them known in this process, as nothing but free text."""
    for name in names:
        if name in game_names() and GAMES.get(name) != REGISTERED:
            raise ValueError(f"reward.http.games.{name}: Parley has a game of that name, with rules of its own")
        GAMES[name] = REGISTERED


def episode_of(game: str, run: str, number: int, messages: Sequence[Message], outcome: float) -> Episode:
    """System prompts say nothing about how it was played, and are left out."""
    turns, heard = [], ""
    for role, text in messages:
        if role == ASSISTANT:
            turns.append(Turn(ASSISTANT, "policy", heard, text.strip() or SILENCE))
            heard = ""
        elif role != "system" and text.strip():
            turns.append(Turn(USER, "data", "", text.strip()))
            heard = text.strip()
    return Episode(Ticket(run, game, number, 0, PLAYERS), turns, {ASSISTANT: outcome}, terminated=True)


def numbers(request_id: str, count: int) -> list[int]:
    """Ticket numbers for samples that have none: the same for the same request, else never twice."""
    name = request_id or secrets.token_hex(16)
    digests = (blake2b(f"{name}/{place}".encode(), digest_size=6).digest() for place in range(count))
    return [int.from_bytes(digest) for digest in digests]


def outcome_of(where: str, settings: DialogueSettings, label: Any, utterance: str) -> float:
    """`where` names the sample in the message, should the label be of no use."""
    if settings.judge == "given":
        return _given(where, label)
    if not isinstance(label, str | int | float) or not str(label).strip():
        raise bad_sample(where, f"its label should be the right answer, not {label!r}")
    right, said = _words(str(label)), _words(utterance)
    if settings.judge == "equals":
        return float(said == right)
    return float(f" {right} " in f" {said} ")


def _given(where: str, label: Any) -> float:
    if isinstance(label, str):
        try:
            label = json.loads(label)
        except ValueError:
            label = None if label.strip() else label
    if isinstance(label, dict):
        label = label.get("outcome")
    if isinstance(label, bool) or not isinstance(label, int | float) or not math.isfinite(label) or not 0 <= label <= 1:
        raise bad_sample(where, "its label should be the outcome, a number from 0 to 1")
    return float(label)


def _words(text: str) -> str:
    return " ".join(re.findall(r"\w+(?:[.,']\w+)*", text.casefold()))


def worth(values: ShapedRewards, turns: int) -> float:
    """One number for the latest `turns` turns of a seat: the mean of advantages, the sum of rewards."""
    latest = values.rewards[-turns:]
    return float(latest.mean() if values.kind == "advantage" else latest.sum())
