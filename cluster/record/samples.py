"""samples.jsonl: some of the games that a run trained on, with what each turn was given.

One JSON object a game. Updates are sampled evenly over the run, at most `samples.updates` of
them, and of each `samples.episodes` games, evenly over the batch in ticket order: an order that
was fixed before they were played, so the sample favours neither winners nor short games. On
resume the file is cut back to the checkpoint's update, like metrics.jsonl.

A turn of the policy carries `credit`: what the reward service made of it. `kind` says what
that is: "advantage" is what its words were trained with, "reward" what the credit method made
advantages of. `space` is the version of the state that made it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import ray

from cluster.episodes.evenly import evenly
from cluster.errors import RunFolderError
from cluster.recipe.config import RunConfig
from cluster.record.metrics import truncate_after
from cluster.record.run_folder import to_json
from envs.episode import Episode, Turn
from reward_service.shaper import ShapedRewards

FETCH_SECONDS = 60.0  # for episodes that the object store holds

Shaped = dict[tuple[int, str], ShapedRewards]  # by ticket number and seat


class Samples:
    def __init__(self, path: Path, config: RunConfig):
        self.path, self.episodes = path, config.samples.episodes
        self.every = max(1, -(-config.updates // config.samples.updates))

    def keep(self, update: int, references: Sequence[ray.ObjectRef], rewards: Sequence[ShapedRewards]) -> None:
        """`references`: the episodes, in ticket order, of the batch that `update` learns from."""
        if update % self.every or not self.episodes:
            return
        chosen = list(evenly(references, self.episodes))
        shaped = {(each.number, each.seat): each for each in rewards}
        lines = [to_json(sample(update, each, shaped), indent=None) for each in ray.get(chosen, timeout=FETCH_SECONDS)]
        try:
            with open(self.path, "a", encoding="utf-8") as file:
                file.writelines(lines)
        except OSError as error:
            raise RunFolderError(f"cannot write {self.path}: {error.strerror}") from error

    def cut_back(self, update: int) -> None:
        truncate_after(self.path, update)


def sample(update: int, episode: Episode, shaped: Shaped) -> dict[str, Any]:
    ticket = episode.ticket
    mine = {seat: found for seat in episode.policy_seats() if (found := shaped.get((ticket.number, seat)))}
    credit = {seat: iter(found.rewards.tolist()) for seat, found in mine.items()}
    by = next(iter(mine.values()), None)
    return {
        "update": update,
        "number": ticket.number,
        "game": ticket.game,
        "seed": ticket.seed,
        "players": dict(ticket.players),
        "kind": by and by.kind,
        "space": by and by.version,
        "outcome": episode.outcome,
        "terminated": episode.terminated,
        "facts": episode.facts,
        "closing": episode.closing,
        "turns": [_turn(turn, credit.get(turn.seat)) for turn in episode.turns],
    }


def _turn(turn: Turn, credit: Iterator[float] | None) -> dict[str, Any]:
    row = {"seat": turn.seat, "heard": turn.observation, "said": turn.utterance}
    if not turn.executable:
        row["executable"] = False
    if turn.caption:
        row["caption"] = turn.caption
    if turn.reward:
        row["paid"] = turn.reward
    if turn.tokens is not None and len(turn.tokens.versions):
        row["weights"] = int(turn.tokens.versions.max())
    if credit is not None:
        row["credit"] = round(next(credit), 6)
    return row
