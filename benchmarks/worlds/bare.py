"""The packages themselves, without Parley: each makes the steps of a tape, in this process.

tape     what Parley's game asked of its world in one episode: (method, argument), the first one begins it
steps    the package's own environment, as its users call it
calls    only the calls of the package that what Parley shows cannot do without
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from typing import Any

from envs.registry import make_game

Tape = list[tuple[str, Any]]
Play = Callable[[Tape], None]


def recorded(name: str, game: Any, tape: Tape) -> None:
    """From now on what the game asks of its world is written on the tape."""
    if name == "nethack":
        call = game.call

        async def called(method: str, argument: Any) -> Any:
            tape.append((method, argument))
            return await call(method, argument)

        game.call = called
    elif name in ("scienceworld", "textworld_express"):
        play = game._play

        async def played(command: str | None = None) -> Any:
            tape.append(("begin", dict(game._asked)) if command is None else ("step", command))
            return await play(command)

        game._play = played
    elif name == "babyai":
        reset, step = game._env.reset, game._env.step
        game._env.reset = lambda seed: tape.append(("reset", seed)) or reset(seed=seed)
        game._env.step = lambda action: tape.append(("step", action)) or step(action)


def tape_of_moves(game: Any) -> Tape:
    """Of a game of OpenSpiel that is over: what players and chance did."""
    return [("history", list(game._position.state.history()))]


@contextmanager
def nethack(options: dict[str, Any]) -> Iterator[dict[str, Play]]:
    from nle.env import tasks

    from envs.worlds.nethack.inside import SEEN
    from envs.worlds.nethack.keys import every_key

    keys = every_key()
    number = {key: place for place, key in enumerate(keys)}
    settings = {
        "actions": tuple(keys),
        "character": "mon-hum-neu-mal",
        "max_episode_steps": 10**9,
        "fix_moon_phase": True,
    }
    made = {
        "steps": tasks.NetHackScore(**settings),
        "calls": tasks.NetHackScore(**settings, observation_keys=SEEN),
    }

    def player(env: Any) -> Play:
        def play(tape: Tape) -> None:
            for method, argument in tape:
                if method == "reset":
                    env.seed(argument, argument, reseed=False)
                    env.reset()
                else:
                    env.step(number[argument])

        return play

    yield {name: player(env) for name, env in made.items()}
    for env in made.values():
        env.close()


@contextmanager
def scienceworld(options: dict[str, Any]) -> Iterator[dict[str, Play]]:
    from scienceworld import ScienceWorldEnv

    env = ScienceWorldEnv()
    variations: list[int] = []

    def begin(asked: dict[str, Any]) -> None:
        if not variations:
            env.load(asked["task"], 0)
            variations.extend(env.get_variations_train())
        env.load(asked["task"], variations[asked["seed"] % len(variations)], asked["simplifications"])

    def steps(tape: Tape) -> None:
        begin(tape[0][1])
        env.reset()
        for _, command in tape[1:]:
            env.step(command)

    def calls(tape: Tape) -> None:
        begin(tape[0][1])
        env.server.reset()
        for command in ("look around", *(command for _, command in tape[1:])):
            env.server.step(command), env.server.getScore(), env.server.getCompleted()

    yield {"steps": steps, "calls": calls}
    env.close()


@contextmanager
def textworld_express(options: dict[str, Any]) -> Iterator[dict[str, Play]]:
    from textworld_express import TextWorldExpressEnv

    env = TextWorldExpressEnv(envStepLimit=10**6)
    loaded: list[str] = []

    def begin(asked: dict[str, Any]) -> None:
        settings = ",".join(f"{name}={value}" for name, value in sorted(asked["settings"].items()))
        if loaded != [asked["game"], settings]:
            loaded[:] = [asked["game"], settings]
            env.load(*loaded)

    def steps(tape: Tape) -> None:
        asked = tape[0][1]
        begin(asked)
        env.reset(seed=asked["seed"], gameFold=asked["split"])
        for _, command in tape[1:]:
            env.step(command)

    def calls(tape: Tape) -> None:
        asked = tape[0][1]
        begin(asked)
        json.loads(env.server.generateNewGameJSON(asked["seed"], asked["split"], False))
        for _, command in tape[1:]:
            json.loads(env.server.stepJSON(command))

    yield {"steps": steps, "calls": calls}
    env.close()


@contextmanager
def babyai(options: dict[str, Any]) -> Iterator[dict[str, Play]]:
    env = make_game("babyai", options)._env

    def steps(tape: Tape) -> None:
        with redirect_stdout(io.StringIO()):  # it prints what it draws again
            for method, argument in tape:
                env.reset(seed=argument) if method == "reset" else env.step(argument)

    yield {"steps": steps}


@contextmanager
def open_spiel(options: dict[str, Any]) -> Iterator[dict[str, Play]]:
    """What a player sees, and the names of what it may do, are asked for in each turn."""
    import pyspiel

    game = pyspiel.load_game(options["game"])
    text = "information_state_string" if game.get_type().provides_information_state_string else "observation_string"

    def steps(tape: Tape) -> None:
        state = game.new_initial_state()
        for action in tape[0][1]:
            if state.is_chance_node():
                state.chance_outcomes()
            else:
                getattr(state, text)()
                [state.action_to_string(each) for each in state.legal_actions()]
            state.apply_action(action)
        state.returns()

    yield {"steps": steps}


BARE = {
    "babyai": babyai,
    "nethack": nethack,
    "open_spiel": open_spiel,
    "scienceworld": scienceworld,
    "textworld_express": textworld_express,
}
