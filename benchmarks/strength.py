"""Strength: what each scripted player makes of each of a game's trials, without any model.

    python -m benchmarks.strength                     every game
    python -m benchmarks.strength bargaining -n 480   one game, so many episodes of each trial

The player sits where a trial leaves a seat to the policy, in the same held-out games, so
these are the lines that a trained policy's own evaluation is read against.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from rich.table import Table

from benchmarks.report import FOLDER, machine, stamp, write
from cluster.record.terminal import page, trials_table
from cluster.run.evaluate import Evaluation, measure
from envs.episode import Episode, Ticket, Turn
from envs.game import Trial, hook, money_of
from envs.registry import GAMES, game_class, make_game, make_player, trials_of

FIRST_SEED = 1_000_000  # of held-out games
SLOW_EPISODES = 10  # of each trial, where a turn runs code


def episode_of(name: str, game, players: dict, trial: Trial, player: str, seed: int) -> Episode:
    """One game; the seats that the trial leaves open count as the policy's."""
    game.reset(seed)
    for number, seated in enumerate(players.values()):
        seated.reset(seed * len(players) + number)
    who = {seat: trial.players.get(seat, "policy") for seat in game.seats}
    turns, latest = [], {}
    while (seat := game.seat) is not None:
        seen, listed = game.observe(), tuple(game.actions())
        said = players[seat].reply(seen, listed)
        step = game.step(said)
        latest[seat] = Turn(seat, who[seat], seen, said, step.executable, caption=step.caption)
        turns.append(latest[seat])
        for paid, reward in step.rewards.items():
            if paid in latest:
                latest[paid].reward += reward
    ticket = Ticket(player, name, seed, seed, tuple(who.items()))
    return Episode(ticket, turns, game.outcome(), step.terminated, facts=game.facts(), money=money_of(game))


def strength_of(name: str, trial: Trial, player: str, episodes: int) -> Evaluation:
    game = make_game(name, trial.options)
    who = {seat: trial.players.get(seat, player).removeprefix("scripted:") for seat in game.seats}
    players = {seat: make_player(name, seated, trial.options) for seat, seated in who.items()}
    played = [episode_of(name, game, players, trial, player, FIRST_SEED + i) for i in range(episodes)]
    return measure(played, 0, 1.0)


def strengths(name: str, episodes: int | None) -> Iterator[tuple[str, Evaluation]]:
    slow = hook(make_game(name), "slow")
    for trial in trials_of(name):
        count = episodes or (SLOW_EPISODES if slow else trial.episodes)
        for player in sorted(game_class(name).players()):
            yield f"{trial.name}: {player}", strength_of(name, trial, player, count)


def table_of(name: str, figures: dict[str, dict]) -> Table:
    return trials_table({"game": name, "model": "scripted players", "gamma": 1.0, "trials": figures})


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.strength", description=__doc__.splitlines()[0])
    parser.add_argument("games", nargs="*", metavar="GAME", help="which; default: all")
    parser.add_argument("-n", "--episodes", type=int, help="of each trial, instead of the game's own number")
    parser.add_argument("--output", type=Path, default=FOLDER / f"{stamp()}-strength.json", help="where the JSON goes")
    asked = parser.parse_args()
    out, found, started = page(), {}, time.monotonic()
    for name in asked.games or sorted(GAMES):
        found[name] = {line: asdict(figures) for line, figures in strengths(name, asked.episodes)}
        out.print(table_of(name, found[name]))
    seconds = round(time.monotonic() - started, 1)
    write(asked.output, {"machine": machine(), "strength": found, "seconds": seconds})
    out.print(f"{seconds:.0f} s; {asked.output}")


if __name__ == "__main__":
    main()
