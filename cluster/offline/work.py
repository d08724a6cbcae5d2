"""The work folder, as paths: which file is which, in one iteration and before it.

FOLDER/config.yaml              everything the run was told
FOLDER/iteration-0/             the policy that everything starts from: its held-out games
FOLDER/iteration-N/             one turn of collect, cluster, aggregate, train
  MODEL_GAME_msgs.jsonl         collected games
  utterances.jsonl              distinct utterances and how often each was said
  embeddings.npy, coded/        a row each utterance; the games as codes of utterances
  space/, labels.npz            the tree of intentions, and its labels at every k
  split_scores.json             SplitScore(k), and the k that is used
  MODEL_GAME_with_selected_labels.jsonl
  training.json                 {observation, action, reward}
  tokens/                       the same as token ids
  policy/, training_log.jsonl   what was learned
  evaluation.json               held-out games with it
  manifest.json                 what was done, with what
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from cluster.offline.files import GameFileReader, Sides
from cluster.offline.manifest import Manifest
from cluster.offline.resources import Resources
from cluster.offline.terminal import Terminal
from cluster.recipe.config import RunConfig
from cluster.record.run_folder import RunFolder
from cluster.run.asked import seats_and_players
from envs.game import Game
from envs.registry import make_game

FILES = {
    "utterances": "utterances.jsonl",
    "embeddings": "embeddings.npy",
    "coded": "coded",
    "space": "space",
    "labels": "labels.npz",
    "scores": "split_scores.json",
    "training": "training.json",
    "tokens": "tokens",
    "policy": "policy",
    "log": "training_log.jsonl",
    "evaluation": "evaluation.json",
}


@dataclass(frozen=True, slots=True)
class LookedAt:
    """The folder, of one who only looks: a run may be at work there."""

    path: Path


class Work:
    """One iteration of a run; number 0 is the beginning, which only plays held-out games."""

    def __init__(
        self,
        config: RunConfig,
        folder: RunFolder | LookedAt,
        number: int,
        resources: Resources,
        terminal: Terminal,
    ):
        self.config, self.folder, self.number = config, folder, number
        self.resources, self.terminal = resources, terminal
        self.path = folder.path / f"iteration-{number}"
        self.manifest = Manifest(self.path)

    @property
    def input(self) -> Path | None:
        """The file of games that the first iteration starts from, instead of collecting."""
        given = self.config.offline.input
        return Path(given) if given and self.number == 1 else None

    def file(self, name: str) -> Path:
        if name == "msgs":
            return self.input or self.path / f"{self.stem}_msgs.jsonl"
        if name == "labelled":
            return self.path / f"{self.stem}_with_selected_labels.jsonl"
        if name == "beginning":  # what this iteration plays with, and trains on from
            return self.folder.path / f"iteration-{self.number - 1}" / FILES["policy"]
        return self.path / FILES[name]

    @property
    def stem(self) -> str:
        return f"{Path(self.config.model.path).name}_{self.config.game.name}"

    def beginning(self) -> str:
        """The policy before this iteration; the one that is measured in iteration 0."""
        return self.resources.beginning() if self.number <= 1 else str(self.file("beginning"))

    def scratch(self, stage: str) -> Path:
        """Where a stage puts its files until all of them are whole."""
        return self.path / ".unfinished" / stage

    @cached_property
    def game(self) -> Game:
        return make_game(self.config.game.name, self.config.game.options)

    @property
    def players(self) -> tuple[tuple[str, str], ...]:
        return seats_and_players(self.config)

    @property
    def trained(self) -> list[int]:
        """Places of the seats that the policy has."""
        return [place for place, (_, player) in enumerate(self.players) if player == "policy"]

    def reader(self, path: Path, scale: str) -> GameFileReader:
        game = self.game
        game.reset(0)
        lone = len(game.seats) == 1
        briefing, opening = (game.briefing(game.seats[0]).strip(), game.observe()) if lone else ("", "")
        return GameFileReader(path, Sides(game.name, game.seats, briefing, opening), scale)
