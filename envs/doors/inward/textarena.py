"""Games of TextArena: `textarena` with `id=TicTacToe-v0` and so on.

    seats     player_0, player_1, ... as TextArena numbers them
    observed  what is new to the acting player: the rules and its secrets in its first turn, later
              what the others said, what the game answered and the newest board, but not its
              own words again
    outcome   TextArena's reward at the end: from [-1, 1] to [0, 1]; of a single player, whose
              reward is a share of the task, the reward itself and 0 for less
    rewards   TextArena's own, with the last step

A move that TextArena refuses is not executable; the player is asked again or loses, as the
game has it. If a move makes the game itself raise, the episode is put back to where it was
and the move is refused.

TextArena's games draw from Python's and numpy's global generators. Each episode has states of
its own for both, which are in place only while TextArena runs, so episodes that take turns
in one process are as reproducible as one alone. Games of TextArena keep state across resets, so each
episode has an environment of its own, which is reset once.
"""

from __future__ import annotations

import copy
import inspect
import json
import platform
import random
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from importlib.util import find_spec, module_from_spec
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np

from envs.doors.inward.imported import ImportedGame, library, settings_of
from envs.game import Step, Trial
from envs.options import whole_number, words

MOST_PLAYERS = 16
CAPTION = 300  # characters
REFUSED = "The game could not take that move. Please make another one."
YOUR_TURN = "It is your turn."
FOR_TWO = ("TicTacToe-v0", "ConnectFour-v0", "KuhnPoker-v0", "PigDice-v0", "IteratedPrisonersDilemma-v0")
KEY = re.compile(r'\["(\w+)"\]')
WORD_LISTS = "words averaged_perceptron_tagger_eng"

_generators = threading.RLock()  # the global generators belong to one episode at a time


class TextArenaGame(ImportedGame):
    name = "textarena"
    longest: ClassVar[int] = 4000

    def __init__(
        self,
        id: Annotated[str, "as TextArena names the game"] = "TicTacToe-v0",
        players: Annotated[int | None, "how many seats there are; null: as few as the game takes"] = None,
        turns: Annotated[int, "of all seats, until it is truncated"] = 200,
        settings: Annotated[dict | None, "of the game, as textarena.make takes them"] = None,
    ):
        super().__init__(turns)
        self.id, self.settings = words("id", id), settings_of("settings", settings)
        self._players = None if players is None else whole_number("players", players, 1, MOST_PLAYERS)
        self._textarena = library("textarena", self.name)
        with _quiet_generators():
            count = self._players or _least_players(id, json.dumps(self.settings, sort_keys=True, default=str))
            self._pristine = _opened(id, self.settings, count)  # is never reset
        self.seats = tuple(f"player_{number}" for number in range(count))

    def _begin(self, seed: int) -> None:
        self._start(seed)
        self._over, self._rewards, self._refused = False, {}, False
        self._broken: set[int] = set()  # numbers of the turns whose utterances made the game raise

    def _start(self, seed: int) -> None:
        number = random.Random(f"textarena {seed}").getrandbits(32)
        self._dice = random.Random(number).getstate(), np.random.RandomState(number).get_state()
        with self._own_generators():
            self._environment = _copied(self._pristine) or _environment(self.id, self.settings)
            self._environment.reset(num_players=len(self.seats), seed=number)
            self._look()
        self._watch()

    def _watch(self) -> None:
        """Every state of TextArena's refuses moves through one method; whether it did is not kept anywhere.
        Once nobody is left it would look for the next player for ever."""
        state = self._environment.state
        refuse = state.set_invalid_move

        def noted(*arguments: Any, **named: Any) -> Any:
            self._refused = True
            eliminated = refuse(*arguments, **named)
            if len({*getattr(state, "elimination_order", ())}) == len(self.seats):
                state.set_draw("All players are eliminated.")
            return eliminated

        state.set_invalid_move = noted

    def _look(self) -> None:
        """Take what is new to the acting player, once; `observe` shows it as often as it is asked."""
        self._player, messages = self._environment.get_observation()
        self._shown = self._shown_to(self._player, messages) or YOUR_TURN

    def _shown_to(self, player: int, messages: Any) -> str:
        kinds = self._textarena.ObservationType
        names = self._environment.state.role_mapping
        newest = max((place for place, message in enumerate(messages) if message[2] == kinds.GAME_BOARD), default=-1)
        heard = [
            (who, text)
            for place, (who, text, kind) in enumerate(messages)
            if (who, kind) != (player, kinds.PLAYER_ACTION) and (kind != kinds.GAME_BOARD or place == newest)
        ]
        return "\n".join(
            f"[{'GAME' if who == self._textarena.GAME_ID else names.get(who, f'Player {who}')}] {text.strip()}"
            for who, text in heard
        )

    def _acting(self) -> str | None:
        return None if self._over else self.seats[self._player]

    def _say(self, utterance: str) -> Step:
        player, self._refused = self._player, False
        try:
            with self._own_generators():
                done, _ = self._environment.step(utterance)
                caption = self._caption(player)
                if not done:
                    self._look()
        except Exception:  # whatever a game raises for a strange move; its state may be half changed
            self._put_back()
            return Step(executable=False, caption=f"player_{player} says something that breaks the game; it is refused")
        if done:
            self._over = True
            self._rewards = {who: float(won) for who, won in (self._environment.close()[0] or {}).items()}
        return Step(
            rewards={f"player_{who}": won for who, won in self._rewards.items()} if done else {},
            executable=not self._refused,
            terminated=done,
            caption=caption,
        )

    def _put_back(self) -> None:
        """Play the episode again up to now, without what broke it."""
        self._broken.add(len(self._said))
        self._start(self._seed)
        with self._own_generators():
            for number, utterance in enumerate(self._said):
                if number not in self._broken:
                    self._environment.step(utterance)
                    self._look()
        self._shown = REFUSED

    def _caption(self, player: int) -> str:
        """What the acting player learns about its own move."""
        kinds = self._textarena.ObservationType
        messages = [
            text.strip()
            for _, text, kind in self._environment.state.observations[player]
            if kind in (kinds.GAME_ACTION_DESCRIPTION, kinds.GAME_ADMIN, kinds.GAME_MESSAGE) and text.strip()
        ]
        done = "makes a move that is refused" if self._refused else "makes a move"
        return f"player_{player} {done}: {' '.join(messages)}"[:CAPTION] if messages else f"player_{player} {done}"

    @contextmanager
    def _own_generators(self) -> Iterator[None]:
        with _quiet_generators():
            random.setstate(self._dice[0])
            np.random.set_state(self._dice[1])
            try:
                yield
            finally:
                self._dice = random.getstate(), np.random.get_state()

    def briefing(self, seat: str) -> str:
        return (
            f"You are {seat.replace('_', ' ').title()} in a game of {self.id.partition('-')[0]}. The rules are told in "
            "your first turn. Make your moves in exactly the form that the rules ask for, usually in square brackets."
        )

    def observe(self) -> str:
        return self._shown

    def outcome(self) -> dict[str, float]:
        if self._seed is None or not self._over:
            return dict.fromkeys(self.seats, 0.0)
        alone = len(self.seats) == 1
        rewards = [self._rewards.get(number, 0.0) for number in range(len(self.seats))]
        shares = [reward if alone else (reward + 1) / 2 for reward in rewards]
        return {seat: min(1.0, max(0.0, share)) for seat, share in zip(self.seats, shares, strict=True)}

    def closing(self) -> dict[str, str]:
        if self._seed is None or self.seat is not None:
            return {}
        waiting = self._environment.state.observations
        shown = {seat: self._shown_to(number, waiting.get(number, ())) for number, seat in enumerate(self.seats)}
        return {seat: text for seat, text in shown.items() if text}

    def facts(self) -> dict[str, str]:
        if self._seed is None or not self._over:
            return {}
        best = max(self._rewards.values(), default=0.0)
        ahead = [f"player_{who}" for who, won in sorted(self._rewards.items()) if won == best]
        return {"winner": "nobody" if len(ahead) != 1 or best <= 0 else ahead[0]}

    def _texts(self) -> Iterator[str]:
        yield from (*self.seats, "nobody", YOUR_TURN, REFUSED)
        yield from super()._texts()

    @classmethod
    def trials(cls) -> list[Trial]:
        """Games whose moves its scripted players can read off the rules, against random ones."""
        alone = [Trial(id, {"id": id}) for id in ("Blackjack-v0", "GuessTheNumber-v0")]
        rival = {"player_1": "scripted:random"}
        return [*(Trial(id, {"id": id}, rival) for id in FOR_TWO), *alone]

    def _options(self) -> dict[str, Any]:
        return {"id": self.id, "players": self._players, "turns": self.horizon, "settings": self.settings}


@contextmanager
def _quiet_generators() -> Iterator[None]:
    """Whatever happens inside, everybody else's global generators go on as if nothing had."""
    with _generators:
        theirs = random.getstate(), np.random.get_state()
        try:
            yield
        finally:
            random.setstate(theirs[0])
            np.random.set_state(theirs[1])


class _NotForSoMany(ValueError):
    def __init__(self, id: str, count: int, reason: str):
        super().__init__(f"game option players={count}: {id} is not for so many{reason}")
        self.reason = reason


def _opened(id: str, settings: dict[str, Any], count: int) -> Any:
    """An environment that so many can play in, or one line on why there is none."""
    random.seed(0)  # some draw when they are made
    try:
        environment = _environment(id, settings)
        begun = _copied(environment) or _environment(id, settings)
    except LookupError as error:
        if "nltk" not in str(error).lower():
            raise
        raise ValueError(f"game option id={id!r} needs word lists: python -m nltk.downloader {WORD_LISTS}") from None
    except SyntaxError as error:
        where = f"{Path(error.filename or id).parent.name}/{Path(error.filename or id).name}, line {error.lineno}"
        raise ValueError(
            f"game option id={id!r} needs Python 3.12 or newer; this is {platform.python_version()}, which cannot read "
            f"TextArena's {where}: set Parley up with PYTHON=python3.12, or choose another game"
        ) from None
    except (ValueError, OSError, ImportError, TypeError) as error:
        reason = " ".join(str(error).split())[:200]
        raise ValueError(f"game option id={id!r} cannot be made: {type(error).__name__}: {reason}") from None
    try:
        begun.reset(num_players=count, seed=0)
        fits, reason = begun.state.num_players == count, ""
    except AssertionError:
        fits, reason = False, ""
    except Exception as error:  # of settings, or of a number of players, that a game does not check
        fits, reason = False, f": {' '.join(f'{type(error).__name__}: {error}'.split())[:200]}"
    if not fits:
        raise _NotForSoMany(id, count, reason)
    return environment


def _copied(environment: Any) -> Any | None:
    """To make one anew may ask the network; one that holds a connection cannot be copied."""
    try:
        return copy.deepcopy(environment)
    except Exception:  # whatever its parts raise
        return None


def _environment(id: str, settings: dict[str, Any]) -> Any:
    """TextArena's environment with its wrappers for actions but not those for observations,
    which repeat the whole history each turn."""
    import textarena

    known = textarena.envs.registration.ENV_REGISTRY
    if id not in known:
        plain = sorted(name for name in known if not name.endswith(("-raw", "-train")))
        some = ", ".join(plain[:: len(plain) // 8])
        raise ValueError(f"it is none of TextArena's {len(plain)}, such as {some}")
    bare = id if id.endswith("-raw") else f"{id.removesuffix('-train')}-raw"
    entry = known[id].entry_point
    if isinstance(entry, str):
        _import(entry.partition(":")[0])
    environment = textarena.make(bare if bare in known else id, **settings)
    for wrapper in known[id].default_wrappers or ():
        if inspect.isclass(wrapper) and issubclass(wrapper, textarena.ActionWrapper):
            environment = wrapper(environment)
    return environment


def _import(name: str) -> None:
    """Some of TextArena's files use an f-string's own quotes within it, which Python reads since 3.12:
    f"{board["size"]}". An older one is given the same file with such keys in the other quotes."""
    found = None if name in sys.modules else find_spec(name)
    if found is None or not found.origin:
        return
    try:
        compile(source := Path(found.origin).read_text(encoding="utf-8"), found.origin, "exec")
    except SyntaxError:
        code = compile(KEY.sub(r"['\1']", source), found.origin, "exec")
        sys.modules[name] = module_from_spec(found)
        exec(code, vars(sys.modules[name]))


@lru_cache(maxsize=64)
def _least_players(id: str, settings: str) -> int:
    """TextArena's games do not say how many may play; the least number they take is the default."""
    reason = ""
    for count in range(1, MOST_PLAYERS + 1):
        try:
            _opened(id, json.loads(settings), count)
        except _NotForSoMany as error:
            reason = error.reason or reason
        else:
            return count
    raise ValueError(f"game option id={id!r} takes no number of players from 1 to {MOST_PLAYERS}{reason}")
