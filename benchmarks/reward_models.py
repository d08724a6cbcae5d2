"""Learned shapers: what a training costs, what a model knows about games it has not seen, and how fast it values.

    python -m benchmarks.reward_models            1,024 episodes of each game
    python -m benchmarks.reward_models --quick    256 episodes

Episodes are played by the games' own scripted players, bargaining and Twenty Questions. The kind
"embedding" is the default; "transformer" trains the embedded policy's architecture from random weights,
so it shows the cost of reading tokens and not what a pretrained model would know. Three tenths of the
episodes are held out. Seconds are CPU time of the one thread that this takes, so that a busy machine
changes them little; embeddings are made before and counted apart.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

from rich.table import Table

from benchmarks.report import Say, run_alone
from envs.episode import Episode, Ticket, Turn
from envs.registry import make_game, make_player
from envs.settings import GameSettings
from envs.text.embedding import embed
from learners.embedded.build import build_policy
from learners.settings import EmbeddedSettings
from reward_service.intentions.reading import read
from reward_service.intentions.settings import IntentionSettings
from reward_service.models.settings import REWARD_MODELS
from reward_service.shaper import Shaper
from reward_service.shapers.aria_rm import AriaRm, AriaRmShaper
from reward_service.shapers.spa import Spa, SpaShaper

EPISODES, VALUED = 1024, 256  # trained on and measured with; valued afterwards
GAMES: dict[str, tuple[dict[str, Any], dict[str, str], str]] = {  # options, who sits where, who learns
    "twenty_questions": ({}, {"guesser": "mediocre"}, "guesser"),
    "bargaining": ({"rounds": 6, "no_deal": 0}, {"alice": "mediocre", "bob": "conceding"}, "alice"),
}
LEARNERS = ("spa", "aria_rm")
KNOWN = ("held_out_mse", "held_out_mae", "held_out_within_tenth", "held_out_correlation", "held_out_explained")


def measure(quick: bool, say: Say) -> dict[str, Any]:
    count = EPISODES // 4 if quick else EPISODES
    found: dict[str, Any] = {"episodes": count, "trainings": [], "embedding": []}
    for game in GAMES:
        say(f"{game}: playing")
        episodes = [played(game, number) for number in range(count + VALUED)]
        found["embedding"].append({"game": game} | embedded(episodes))
        for kind in ("embedding", "transformer"):
            for shaper in LEARNERS:
                say(f"{game}: {shaper}, {kind}")
                with tempfile.TemporaryDirectory(prefix="parley-benchmark-") as folder:
                    made = made_shaper(shaper, kind, game, Path(folder))
                    row = {"game": game, "shaper": shaper, "kind": kind}
                    found["trainings"].append(row | training(made, episodes[:count], episodes[count:]))
    return found


def played(game: str, number: int) -> Episode:
    """By scripted players; the policy's seat is theirs too."""
    options, players, policy = GAMES[game]
    made = make_game(game, options)
    seated = {seat: make_player(game, player, options) for seat, player in players.items()}
    made.reset(number)
    for place, player in enumerate(seated.values()):
        player.reset(100 * number + place)
    turns = []
    while made.seat is not None:
        seat, observation = made.seat, made.observe()
        utterance = seated[seat].reply(observation, made.actions())
        step = made.step(utterance)
        turns.append(Turn(seat, "policy" if seat == policy else "scripted", observation, utterance, step.executable))
    who = tuple((seat, "policy" if seat == policy else f"scripted:{player}") for seat, player in players.items())
    return Episode(Ticket("benchmark", game, number, number, who), turns, made.outcome(), True)


def embedded(episodes: list[Episode]) -> dict[str, float]:
    """How long that takes. From then on all texts are in the cache."""
    texts = list(dict.fromkeys(gist.text for each in episodes for game in read(each) for gist in game.texts))
    embed(["the model is loaded before"])
    started = time.process_time()
    embed(texts)
    return {"distinct_texts": len(texts), "cpu_seconds": round(time.process_time() - started, 2)}


def made_shaper(shaper: str, kind: str, game: str, folder: Path) -> Shaper:
    model = REWARD_MODELS.make("embedding", held_out=0.3, seconds=3000)
    if kind == "transformer":
        path = build_policy(GameSettings(name=game, options=GAMES[game][0]), EmbeddedSettings(steps=0), cache=folder)
        model = REWARD_MODELS.make("transformer", held_out=0.3, seconds=3000, path=str(path), learning_rate=1e-3)
    if shaper == "spa":
        return SpaShaper(Spa(model=model, first=1))
    return AriaRmShaper(AriaRm(model=model, first=1, intentions=IntentionSettings(refit="inline")))


def training(shaper: Shaper, episodes: list[Episode], fresh: list[Episode]) -> dict[str, Any]:
    for first in range(0, len(episodes), 128):
        shaper.shape(episodes[first : first + 128])
    work = shaper.refit()
    if work is None:
        raise RuntimeError("no model is due, although as many episodes were shaped as it takes")
    for each in fresh:
        shaper.prepare(each)
    started = time.process_time()
    model = work()
    trained = time.process_time()
    shaper.publish(model)
    published = time.process_time()
    turns = sum(len(each.rewards) for each in shaper.shape(fresh))
    rate = turns / (time.process_time() - published)
    return {
        "examples": int(model.measured["examples"]),
        "cpu_seconds": round(trained - started, 2),
        "valued_per_cpu_second": round(rate),
    } | {name: round(model.measured[name], 3) for name in KNOWN}


def tables(found: dict[str, Any]) -> list[Table]:
    table = Table(
        *("game", "shaper", "kind", "examples", "CPU s", "valued/CPU s", "MSE", "MAE", "within .1", "r", "explained"),
        title=f"trained on 7 in 10 of {found['episodes']:,} episodes, measured on the others",
    )
    for row in found["trainings"]:
        table.add_row(*(f"{value:,}" if isinstance(value, int) else str(value) for value in row.values()))
    texts = Table("game", "distinct texts", "embedded in CPU s")
    for row in found["embedding"]:
        texts.add_row(*(str(value) for value in row.values()))
    return [table, texts]


if __name__ == "__main__":
    run_alone("reward_models", measure, tables)
