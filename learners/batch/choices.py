"""Choices among listed actions, in one forward pass with the game they were made in.

    P(a) = softmax over the listed a of (sum of the log-probs of a's tokens) / divisor of a

A choice is one decision: it is trained at the first token of what was chosen, with the log-prob
of P instead of the token's own. Every listed action is fed as a branch behind the sequence of
its game, with positions as if it stood where the chosen one does, and sees what its seat had
seen by then and itself:

    place     0 1 2 3 4 5 6 | 7 8 | 9      a sequence of 7, whose tokens 3 and 4 were chosen
    position  0 1 2 3 4 5 6 | 3 4 | 3      two actions of 3 and 2 tokens, whose last ones are not fed
    sees      all before    | 0-2 and its own before

So a game costs its own tokens and those of the actions it listed, however long it was when it
listed them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from envs.episode import Choice, SeatSequence


@dataclass(slots=True)
class Listed:
    """The listed actions of a pack's choices, choice after choice, action after action."""

    until: np.ndarray  # int64 [tokens of the pack]: places before this one are seen, and
    begin: np.ndarray  # int64 [tokens of the pack]: places from this one on, up to the token's own
    keep: np.ndarray  # int64 [tokens of all actions]: the position whose logits predict it
    targets: np.ndarray  # int64 [tokens of all actions]
    action: np.ndarray  # int64 [tokens of all actions]
    divisors: np.ndarray  # float32 [actions]
    choice: np.ndarray  # int64 [actions]
    chosen: np.ndarray  # int64 [choices]: the action
    decision: np.ndarray  # int64 [choices]: which of the pack's predicted tokens it stands at


def branch_tokens(sequence: SeatSequence) -> int:
    """How many tokens are fed behind a sequence."""
    return sum(len(choice.ids) - len(choice.tokens) for choice in sequence.choices.values())


@dataclass(slots=True)
class Branches:
    """What is fed behind one sequence of `size` tokens, int64 [fed], and what is read there,
    int64 [read]; places are counted in the sequence."""

    ids: np.ndarray
    positions: np.ndarray
    until: np.ndarray
    begin: np.ndarray
    keep: np.ndarray
    targets: np.ndarray


def branches(choices: dict[int, Choice], size: int) -> Branches:
    parts, end = [np.empty((4, 0), np.int64)], size
    reads = [np.empty((2, 0), np.int64)]
    for place, choice in sorted(choices.items()):
        tokens = choice.tokens.astype(np.int64)
        within = np.arange(len(choice.ids)) - np.repeat(np.cumsum(tokens) - tokens, tokens)
        begin = end + np.repeat(np.cumsum(tokens - 1) - (tokens - 1), tokens)
        fed = within < np.repeat(tokens, tokens) - 1
        rows = choice.ids, place + within, np.full(len(within), place), begin
        parts.append(np.array([row[fed] for row in rows], np.int64))
        reads.append(np.array([np.where(within == 0, place, begin + within) - 1, choice.ids], np.int64))
        end += int((tokens - 1).sum())
    return Branches(*np.concatenate(parts, axis=1), *np.concatenate(reads, axis=1))


def listed_behind(
    sequences: Sequence[np.ndarray], choices: Sequence[dict[int, Choice]]
) -> tuple[list[Branches], Listed]:
    """For each sequence what is fed behind it, and all of it as the pack of them all knows it,
    but for `decision`, which says at which place of the pack each choice stands."""
    found = [branches(made, len(ids)) for ids, made in zip(sequences, choices, strict=True)]
    sizes = np.array([len(ids) + len(behind.ids) for ids, behind in zip(sequences, found, strict=True)])
    starts = np.cumsum(sizes) - sizes
    until, begin = [], []
    for ids, behind in zip(sequences, found, strict=True):
        own = np.zeros(len(ids), np.int64)
        until += [own, behind.until]
        begin += [own, behind.begin]
    made = [choice for each in choices for _, choice in sorted(each.items())]
    count = np.array([len(choice.tokens) for choice in made], np.int64)
    tokens = np.concatenate([choice.tokens for choice in made]).astype(np.int64)
    places = [start + place for start, each in zip(starts, choices, strict=True) for place in sorted(each)]
    return found, Listed(
        until=np.concatenate(until),
        begin=np.concatenate(begin),
        keep=np.concatenate([start + behind.keep for start, behind in zip(starts, found, strict=True)]),
        targets=np.concatenate([behind.targets for behind in found]),
        action=np.repeat(np.arange(len(tokens)), tokens),
        divisors=np.concatenate([choice.divisors for choice in made]).astype(np.float32),
        choice=np.repeat(np.arange(len(made)), count),
        chosen=np.cumsum(count) - count + [choice.chosen for choice in made],
        decision=np.array(places, np.int64),
    )
