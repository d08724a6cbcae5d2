"""The packages themselves, without Parley: each makes the steps of a tape.

tape     what Parley's game asked of its world in one episode: (method, argument), the first one begins it
steps    the package's own environment, as its users call it, in this process
calls    only the calls of the package that what Parley shows cannot do without
process  `steps` in a process of its own, behind Python's own pipe: what a vector of environments does, for one
"""

from __future__ import annotations

import io
import json
import multiprocessing
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from typing import Any

from envs.registry import make_game

Tape = list[tuple[str, Any]]
Act = Callable[[str, Any], Any]  # one entry of a tape
PIPE_SECONDS = 120.0


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
def nethack(options: dict[str, Any]) -> Iterator[dict[str, Act]]:
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

    def actor(env: Any) -> Act:
        def act(method: str, argument: Any) -> Any:
            if method == "step":
                return env.step(number[argument])
            env.seed(argument, argument, reseed=False)
            return env.reset()

        return act

    yield {name: actor(env) for name, env in made.items()}
    for env in made.values():
        env.close()


@contextmanager
def scienceworld(options: dict[str, Any]) -> Iterator[dict[str, Act]]:
    from scienceworld import ScienceWorldEnv

    env = ScienceWorldEnv()
    variations: list[int] = []

    def begin(asked: dict[str, Any]) -> None:
        if not variations:
            env.load(asked["task"], 0)
            variations.extend(env.get_variations_train())
        env.load(asked["task"], variations[asked["seed"] % len(variations)], asked["simplifications"])

    def steps(method: str, argument: Any) -> Any:
        if method == "step":
            return env.step(argument)
        begin(argument)
        return env.reset()

    def calls(method: str, argument: Any) -> Any:
        if method == "begin":
            begin(argument)
            env.server.reset()
        command = "look around" if method == "begin" else argument
        return env.server.step(command), env.server.getScore(), env.server.getCompleted()

    yield {"steps": steps, "calls": calls}
    env.close()


@contextmanager
def textworld_express(options: dict[str, Any]) -> Iterator[dict[str, Act]]:
    from textworld_express import TextWorldExpressEnv

    env = TextWorldExpressEnv(envStepLimit=10**6)
    loaded: list[str] = []

    def begin(asked: dict[str, Any]) -> None:
        settings = ",".join(f"{name}={value}" for name, value in sorted(asked["settings"].items()))
        if loaded != [asked["game"], settings]:
            loaded[:] = [asked["game"], settings]
            env.load(*loaded)

    def steps(method: str, argument: Any) -> Any:
        if method == "step":
            return env.step(argument)
        begin(argument)
        return env.reset(seed=argument["seed"], gameFold=argument["split"])

    def calls(method: str, argument: Any) -> Any:
        if method == "step":
            return json.loads(env.server.stepJSON(argument))
        begin(argument)
        return json.loads(env.server.generateNewGameJSON(argument["seed"], argument["split"], False))

    yield {"steps": steps, "calls": calls}
    env.close()


@contextmanager
def babyai(options: dict[str, Any]) -> Iterator[dict[str, Act]]:
    env = make_game("babyai", options)._env

    def steps(method: str, argument: Any) -> Any:
        if method == "step":
            return env.step(argument)
        with redirect_stdout(io.StringIO()):  # it prints what it draws again
            return env.reset(seed=argument)

    yield {"steps": steps}


@contextmanager
def open_spiel(options: dict[str, Any]) -> Iterator[dict[str, Act]]:
    """What a player sees, and the names of what it may do, are asked for in each turn."""
    import pyspiel

    game = pyspiel.load_game(options["game"])
    text = "information_state_string" if game.get_type().provides_information_state_string else "observation_string"

    def steps(method: str, history: list[int]) -> None:
        state = game.new_initial_state()
        for action in history:
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


@contextmanager
def process(name: str, options: dict[str, Any]) -> Iterator[Act]:
    """The package's environment in a process of its own."""
    ours, theirs = multiprocessing.Pipe()
    child = multiprocessing.get_context("spawn").Process(target=served, args=(name, options, theirs), daemon=True)
    child.start()
    theirs.close()

    def act(method: str, argument: Any) -> Any:
        ours.send((method, argument))
        if not ours.poll(PIPE_SECONDS):
            raise TimeoutError(f"{name} in a process of its own did not answer within {PIPE_SECONDS:g} s")
        return ours.recv()

    try:
        yield act
    finally:
        ours.close()
        child.join(PIPE_SECONDS)


def served(name: str, options: dict[str, Any], wire: Any) -> None:
    with BARE[name](options) as bare, suppress(EOFError):
        while True:
            wire.send(bare["steps"](*wire.recv()))
