"""Games that are played elsewhere: free text between a policy and whoever prompts it.

A conversation becomes an episode of two seats that take turns as they spoke:

    user: how many legs ...?  assistant: four.  user: and a bird?  assistant: two.
    turns of "user" (the data), turns of "assistant" (the policy), outcome of the assistant

So the label history of an answer holds what was asked, and answers share credit only where like
questions were asked. What the assistant said earlier, in the prompt, are turns like its last one.

Such a game has a name and no rules here: its gist is the plain text, it has no amounts.

A sample of an evaluation is judged and counts nowhere: its one value is its outcome, and no shaper sees it. A data
set says which those are, by the name of its part (`split`), the one thing that frameworks hand on.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np

from envs.episode import Episode, Ticket, Turn
from envs.registry import GAMES, is_game
from envs.text.thinking import spoken
from reward_service.service.errors import bad_sample
from reward_service.service.http.words import words_of
from reward_service.settings import DialogueSettings
from reward_service.shaper import ShapedRewards

USER, ASSISTANT = "user", "assistant"
PLAYERS = ((ASSISTANT, "policy"), (USER, "data"))
SILENCE = "(says nothing)"  # a policy may end its turn at once, and that has its worth, too
REGISTERED = "reward_service.service.http.dialogue:DialogueGame"

LABEL = {"outcome", "answer", "split"}  # what a label may hold that is an object
TRAINED, EVALUATED = {"train", "training"}, {"test", "testing", "val", "valid", "validation", "dev", "eval"}

Message = tuple[str, str]  # role, what was said


class Sample(NamedTuple):
    episode: Episode
    turns: int = 1  # the latest of the policy, that are the response
    counts: bool = True  # False: of an evaluation

    @property
    def outcome(self) -> float:
        return self.episode.outcome[ASSISTANT]

    def as_played(self) -> ShapedRewards:
        """What an evaluation is told: the outcome, at the last turn."""
        rewards = np.zeros(len(self.episode.turns_of(ASSISTANT)), np.float32)
        rewards[-1] = self.outcome
        return ShapedRewards(self.episode.ticket.number, ASSISTANT, rewards, version=0)


class DialogueGame:
    """All there is to know of such a game."""

    observations = "text"


def register(names: Iterable[str]) -> None:
    """Makes them known in this process, as nothing but free text."""
    for name in names:
        if is_game(name) and GAMES.get(name) != REGISTERED:
            raise ValueError(f"reward.http.games.{name}: Parley has a game of that name, with rules of its own")
        GAMES[name] = REGISTERED


def episode_of(game: str, run: str, number: int, messages: Sequence[Message], outcome: float, longest: int) -> Episode:
    """System prompts say nothing about how it was played, and are left out. A text of more than `longest` characters
    is read up to there, without what a model thought before it spoke."""
    turns, heard = [], ""
    for role, text in messages:
        said = text.strip()
        if len(said) > longest:
            said = spoken(said)[:longest].strip()
        if role == ASSISTANT:
            turns.append(Turn(ASSISTANT, "policy", heard, said or SILENCE))
            heard = ""
        elif role != "system" and said:
            turns.append(Turn(USER, "data", "", said))
            heard = said
    return Episode(Ticket(run, game, number, 0, PLAYERS), turns, {ASSISTANT: outcome}, terminated=True)


def numbers(request_id: str, count: int) -> list[int]:
    """Ticket numbers for samples that have none: the same for the same request, else never twice."""
    name = request_id or secrets.token_hex(16)
    digests = (blake2b(f"{name}/{place}".encode(), digest_size=6).digest() for place in range(count))
    return [int.from_bytes(digest) for digest in digests]


def counts(where: str, split: Any) -> bool:
    """Whether samples of this part of a data set are learned from. Without a name they are."""
    name = str(split or "train").strip().casefold()
    if name in TRAINED or name in EVALUATED:
        return name in TRAINED
    raise bad_sample(where, f"should be one of {', '.join(sorted(TRAINED | EVALUATED))}, not {split!r}")


def marked(where: str, label: Any) -> tuple[Any, Any]:
    """What a label says of the sample, and of which part of the data set it is: {"answer": "Paris", "split": "test"}
    or {"outcome": 0.5, "split": "test"}, an object or its JSON."""
    found = label
    if isinstance(label, str) and label.lstrip().startswith("{"):
        try:
            found = json.loads(label)
        except (ValueError, RecursionError):
            return label, None
        if not found.keys() & LABEL:
            return label, None
    if not isinstance(found, dict):
        return label, None
    if unknown := sorted(map(str, found.keys() - LABEL)):
        raise bad_sample(where, f"its label may have {', '.join(sorted(LABEL))}, not {', '.join(unknown)}")
    return found.get("outcome", found.get("answer")), found.get("split")


def outcome_of(where: str, settings: DialogueSettings, label: Any, utterance: str) -> float:
    """Judges what is said, not what was thought. `where` names the sample in the message, should the label be of no
    use."""
    if settings.judge == "given":
        return _given(where, label)
    if not isinstance(label, str | int | float) or not str(label).strip():
        raise bad_sample(where, f"its label should be the right answer, not {label!r}")
    right, said = words_of(str(label)), words_of(spoken(utterance))
    if not right:
        raise bad_sample(where, f"its label should be the right answer, not punctuation alone: {label!r}")
    if settings.judge == "equals":
        return float(said == right)
    return float(f" {right} " in f" {said} ")


def _given(where: str, label: Any) -> float:
    if isinstance(label, str):
        try:
            label = json.loads(label)
        except (ValueError, RecursionError):
            label = None if label.strip() else label
    if isinstance(label, bool) or not isinstance(label, int | float) or not 0 <= label <= 1:
        raise bad_sample(where, "its label should be the outcome, a number from 0 to 1")
    return float(label)


def worth(values: ShapedRewards, turns: int) -> float:
    """One number for the latest `turns` turns of a seat: the mean of advantages, the sum of rewards."""
    latest = values.rewards[-turns:]
    return float(latest.mean() if values.kind == "advantage" else latest.sum())
