"""The two forms in which texts leave Parley, as Gymnasium spaces.

    text      Text in, Text out. Characters that the space does not hold become U+FFFD, and of
              an observation that is too long the newest end is shown.
    arrays    A Box of bytes and a Discrete number, for networks that know no text: the
              observation's UTF-8 bytes / 255, padded at the right with zeros, and an index into
              a phrasebook of utterances. The same number means the same utterance always.

A phrasebook that is not given is gathered from scripted games: every action that was listed
and every utterance that was said, the most frequent first. Their seeds are below zero, those
of no episode that is trained or evaluated on.
"""

from __future__ import annotations

import string
from collections import Counter
from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np

from envs.game import Game, hook
from envs.registry import make_player

REPLACEMENT = "\ufffd"
CHARACTERS = "".join(
    sorted({*string.printable, REPLACEMENT, *map(chr, range(0xA0, 0x180)), *map(chr, range(0x2010, 0x2040)), "\u20ac"})
)
LONGEST_OBSERVATION = 4096  # characters, or bytes
LONGEST_UTTERANCE = 512  # characters
PHRASES = 256  # in a gathered phrasebook, at most
GATHERED_GAMES = 20
GATHERED_SLOW_GAMES = 2  # of games that run code or ask a server


class TextForm:
    def __init__(self, observation_length: int = LONGEST_OBSERVATION, utterance_length: int = LONGEST_UTTERANCE):
        _length("observation_length", observation_length)
        _length("utterance_length", utterance_length)
        self.observations = gymnasium.spaces.Text(observation_length, min_length=0, charset=CHARACTERS)
        self.actions = gymnasium.spaces.Text(utterance_length, min_length=0, charset=CHARACTERS)

    def shown(self, text: str) -> str:
        known = self.observations.character_set
        newest = text[-self.observations.max_length :]
        return "".join(character if character in known else REPLACEMENT for character in newest)

    def said(self, action: Any) -> str:
        return str(action)

    def listed(self, actions: Sequence[str]) -> dict[str, Any]:
        return {"actions": tuple(actions)}


class ArrayForm:
    def __init__(self, utterances: Sequence[str], observation_length: int = 512):
        _length("observation_length", observation_length)
        if isinstance(utterances, str) or not utterances or not all(isinstance(each, str) for each in utterances):
            raise ValueError(f"utterances={utterances!r} must be a list of texts")
        self.phrases = tuple(dict.fromkeys(utterances))
        self.number = {phrase: number for number, phrase in enumerate(self.phrases)}
        self.observations = gymnasium.spaces.Box(0.0, 1.0, (observation_length,), np.float32)
        self.actions = gymnasium.spaces.Discrete(len(self.phrases))

    def shown(self, text: str) -> np.ndarray:
        length = self.observations.shape[0]
        values = np.zeros(length, np.float32)
        newest = text.encode("utf-8", "replace")[-length:]
        values[: len(newest)] = np.frombuffer(newest, np.uint8) / np.float32(255)
        return values

    def said(self, action: Any) -> str:
        return self.phrases[int(action)]

    def listed(self, actions: Sequence[str]) -> dict[str, Any]:
        """With listed actions, a mask over the phrasebook; where speech is free all of it may be said."""
        mask = np.zeros(len(self.phrases), np.int8)
        mask[[self.number[each] for each in actions if each in self.number]] = 1
        return {"actions": tuple(actions), "action_mask": mask if actions else np.ones_like(mask)}


Form = TextForm | ArrayForm


def make_form(
    form: str, name: str, game: Game, options: dict[str, Any], utterances: Sequence[str] | None, **lengths: int
) -> Form:
    """`name`: what the game was made by, which may be module:Class."""
    if form == "text":
        if utterances is not None:
            raise ValueError("utterances are for form='arrays'; with form='text' anything can be said")
        return TextForm(**lengths)
    if form == "arrays":
        return ArrayForm(phrasebook(name, game, options) if utterances is None else utterances, **lengths)
    raise ValueError(f"form={form!r} must be text or arrays")


def phrasebook(name: str, game: Game, options: dict[str, Any]) -> list[str]:
    """What is said in scripted games, by mediocre and random players in turns, or else by those that there are."""
    heard: Counter[str] = Counter()
    known = [player for player in ("mediocre", "random") if player in game.players()] or sorted(game.players())
    known = known or ["mediocre"]  # `make_player` says that there is none
    for number in range(GATHERED_SLOW_GAMES if hook(game, "slow") else GATHERED_GAMES):
        player = known[number % len(known)]
        players = {seat: make_player(name, player, options) for seat in game.seats}
        for place, player in enumerate(players.values()):
            player.reset(-1 - number * len(players) - place)
        game.reset(-1 - number)
        while game.seat is not None:
            listed = tuple(game.actions())
            said = players[game.seat].reply(game.observe(), listed)
            heard.update(sorted({*listed, said}))  # in an order that is the same in every process
            game.step(said)
    return sorted(phrase for phrase, _ in heard.most_common(PHRASES))


def _length(name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 10**7:
        raise ValueError(f"{name}={value!r} must be a whole number of at least 1")
