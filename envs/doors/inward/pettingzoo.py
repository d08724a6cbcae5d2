"""Turn-based games of PettingZoo: `pettingzoo` with `id=tictactoe_v3` and so on, all classic games; or
`id=module:function`, which makes a world of your own with PettingZoo's AEC interface.

    seats         the agents, as PettingZoo names them
    utterance     one of the listed actions: "cell 4", "e2e4", "raise"
    observation   the board or the cards in words, for the acting seat; in open games also what the others did
    rewards       PettingZoo's own, with the step that earns them
    outcome       the sum of rewards, put from `returns` = [worst, best] to [0, 1]; each classic game has its own

Actions that the mask of PettingZoo leaves out are not listed. They are not handed on, for PettingZoo would end the
game: they cost a turn and nothing else happens. Of a world that has no words here, actions are "action 0", "action 1"
and observations are numbers.
"""

from __future__ import annotations

import pkgutil
import random
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Annotated, Any

import numpy as np

from envs.doors.inward.imported import ImportedGame, library, paid_by, returns_of, settings_of, share_of, world
from envs.doors.inward.told import TooLarge, told
from envs.game import Step, Trial
from envs.kinds import see_current_folder
from envs.options import whole_number, words
from envs.text.listed import named, yes_or_no

LISTED = 30  # actions that an observation names, at most
LETTERS = "abcdefghjklmnopqrst"  # the columns of a go board
HANDS = ("rock", "paper", "scissors", "spock", "lizard")
SUITS = {"S": "spades", "H": "hearts", "D": "diamonds", "C": "clubs"}
RANKS = {"A": "ace", "K": "king", "Q": "queen", "J": "jack", "T": "10"}


@dataclass(frozen=True, slots=True)
class Words:
    """How one game is told. `action(world, number)` names an action of the seat that acts, `shown(world, seat,
    observation)` is what a seat sees. `open`: whether everybody may know what everybody does."""

    about: str
    action: Callable[[Any, int], str]
    shown: Callable[[Any, str, Any], str]
    returns: tuple[float, float] = (-1.0, 1.0)
    open: bool = True


class PettingZooGame(ImportedGame):
    name = "pettingzoo"
    seats: tuple[str, ...] = ()

    def __init__(
        self,
        id: Annotated[
            str, "of a classic game, or module:function, which makes a world with PettingZoo's AEC interface"
        ] = "tictactoe_v3",
        settings: Annotated[dict | None, "of the game, as its function takes them"] = None,
        returns: Annotated[
            list[float] | None,
            "the worst and the best sum of rewards: outcomes 0 and 1; null: the game's own, else -1 and 1",
        ] = None,
        turns: Annotated[int, "of all seats, until it is truncated"] = 200,
        slow: Annotated[bool, "a step may take long: it works in a thread, and other games go on"] = False,
    ):
        super().__init__(turns)
        self.id, self.settings, self.slow = words("id", id), settings_of("settings", settings), yes_or_no("slow", slow)
        library("pettingzoo", self.name)
        self._world = self._made()
        self.seats = tuple(self._world.possible_agents)
        self._words = WORDS.get(self._base(), PLAIN)
        self.returns = self._words.returns if returns is None else returns_of(returns)
        if self._base() == "rps" and returns is None:
            rounds = float(whole_number("settings.max_cycles", self.settings.get("max_cycles", 15), 1, 10**6))
            self.returns = -rounds, rounds
        self._last: dict[str, str] = {}
        self._board(self._world.agent_selection, self._world.observe(self._world.agent_selection))

    def _base(self) -> str:
        return self.id if ":" in self.id else self.id.rpartition("_v")[0]

    def _called(self) -> str:
        return self.id if ":" in self.id else self._base().replace("_", " ")

    def _made(self) -> Any:
        maker = self._maker()
        try:
            made = maker(**self.settings)
            made.reset(seed=0)
            spaces = {type(made.action_space(agent)).__name__ for agent in made.possible_agents}
        except (Exception, SystemExit) as error:  # of whoever wrote the world
            reason = " ".join(f"{type(error).__name__}: {error}".split())[:200]
            raise ValueError(f"game option id={self.id!r} cannot be made: {reason}") from None
        if spaces != {"Discrete"}:
            raise ValueError(f"game option id={self.id!r}: its actions are {', '.join(sorted(spaces))}, not Discrete")
        return made

    def _maker(self) -> Callable[..., Any]:
        module, _, function = str(self.id).partition(":")
        try:
            if function:
                see_current_folder()
                return getattr(import_module(module), function)
            classic = import_module("pettingzoo.classic")
            known = sorted(each.name for each in pkgutil.iter_modules(classic.__path__) if "_v" in each.name)
            if self.id not in known:
                raise ValueError(
                    f"game option id={self.id!r} is no classic game of PettingZoo; it has: {', '.join(known)}"
                )
            return library(f"pettingzoo.classic.{self.id}", self.name).env
        except (AttributeError, ImportError) as error:
            raise ValueError(f"game option id={self.id!r} cannot be imported: {error}") from None

    def _begin(self, seed: int) -> None:
        self._over, self._return = False, dict.fromkeys(self.seats, 0.0)
        self._did: list[tuple[str, str]] = []
        self._last = {}
        with world(f"{self.id}: reset"):
            self._world.reset(seed=random.Random(f"pettingzoo {seed}").getrandbits(31))
            self._look()

    def _look(self) -> None:
        """What the acting seat sees and may do, once; `observe` shows it as often as it is asked."""
        self._agent = self._world.agent_selection
        seen = self._world.observe(self._agent)
        self._listed = self._possible(seen)
        lines = [f"{who}: {said}" for who, said in self._news(self._agent)]
        lines.append(self._board(self._agent, seen))
        if 0 < len(self._listed) <= LISTED:
            lines.append(f"You can: {'; '.join(self._listed)}")
        self._shown = "\n".join(lines)

    def _possible(self, seen: Any) -> dict[str, int]:
        mask = seen.get("action_mask") if isinstance(seen, dict) else None
        if mask is None:
            mask = self._world.infos.get(self._agent, {}).get("action_mask")
        numbers = range(self._world.action_space(self._agent).n) if mask is None else np.flatnonzero(mask)
        raw = self._world.unwrapped
        return {self._words.action(raw, int(number)).lower(): int(number) for number in numbers}

    def _news(self, seat: str) -> list[tuple[str, str]]:
        """What the others did since this seat last spoke, where that is open."""
        if not self._words.open:
            return []
        mine = max((place for place, (who, _) in enumerate(self._did) if who == seat), default=-1)
        return self._did[mine + 1 :]

    def _board(self, seat: str, seen: Any) -> str:
        try:
            return self._words.shown(self._world.unwrapped, seat, seen)
        except TooLarge as error:
            raise ValueError(f"game option id={self.id!r}: its observation cannot be told: {error}; wrap it") from None

    def _acting(self) -> str | None:
        return None if self._over else self._agent

    def _say(self, utterance: str) -> Step:
        agent, said = self._agent, " ".join(utterance.lower().split())
        if said not in self._listed:
            said = named(utterance, tuple(self._listed))
        if said is None:
            return Step(executable=False, caption=f"{agent} says something that is no move now")
        with world(f"{self.id}: step"):
            self._world.step(self._listed[said])
            raw = self._world
            rewards = {seat: paid_by(self.id, raw.rewards.get(seat, 0.0)) for seat in self.seats}
            ends = [(bool(raw.terminations[seat]), bool(raw.truncations[seat])) for seat in raw.agents]
            self._did.append((agent, said))
            self._over = not ends or all(map(any, ends))
            if self._over:
                self._last = {seat: self._board(seat, raw.observe(seat)) for seat in self.seats if seat in raw.agents}
            else:
                while any((raw.terminations[raw.agent_selection], raw.truncations[raw.agent_selection])):
                    raw.step(None)  # a seat that is out goes, and the others play on
                self._look()
        for seat, reward in rewards.items():
            self._return[seat] += reward
        return Step(
            rewards={seat: reward for seat, reward in rewards.items() if reward},
            terminated=self._over and not any(cut for _, cut in ends),
            truncated=self._over and any(cut for _, cut in ends),
            caption=f"{agent} plays {said}",
        )

    def briefing(self, seat: str) -> str:
        return (
            f"You are {seat} in a game of {self._called()}. {self._words.about} "
            "Each time, say one of the possible moves and nothing else."
        )

    def observe(self) -> str:
        return self._shown

    def actions(self) -> tuple[str, ...]:
        return tuple(self._listed)

    def outcome(self) -> dict[str, float]:
        over = self._seed is not None and self.seat is None
        return {seat: share_of(self._return[seat], self.returns) if over else 0.0 for seat in self.seats}

    def closing(self) -> dict[str, str]:
        if self._seed is None or self.seat is not None:
            return {}
        return {
            seat: "\n".join([*(f"{who}: {said}" for who, said in self._news(seat)), board])
            for seat, board in self._last.items()
        }

    def _options(self) -> dict[str, Any]:
        given = {"id": self.id, "settings": self.settings, "returns": list(self.returns)}
        return {**given, "turns": self.horizon, "slow": self.slow}

    @classmethod
    def trials(cls) -> list[Trial]:
        ids = ("tictactoe_v3", "connect_four_v3", "leduc_holdem_v4", "texas_holdem_v4")
        rival = {"tictactoe_v3": "player_2"}
        return [Trial(id, {"id": id}, {rival.get(id, "player_1"): "scripted:random"}) for id in ids]


# --- the classic games ----------------------------------------------------------------------------


def _plain(_: Any, seat: str, seen: Any) -> str:
    if isinstance(seen, dict):
        rest = {key: value for key, value in seen.items() if key != "action_mask"}
        seen = rest["observation"] if set(rest) == {"observation"} else rest
    return told(seen)


def _noughts(raw: Any, seat: str, seen: Any) -> str:
    marks = ["XO"[player - 1] if player else str(cell) for cell, player in enumerate(raw.board.squares)]
    mine = "XO"[raw.possible_agents.index(seat)]
    return "\n".join([f"You are {mine}.", *(" ".join(marks[row::3]) for row in range(3))])


def _discs(raw: Any, seat: str, seen: Any) -> str:
    mine, theirs = seen["observation"][:, :, 0], seen["observation"][:, :, 1]
    rows = [
        " ".join("x" if x else "o" if o else "." for x, o in zip(*row, strict=True))
        for row in zip(mine, theirs, strict=True)
    ]
    return "\n".join(["You are x, the other is o.", *rows, "1 2 3 4 5 6 7"])


def _chess(raw: Any, seat: str, seen: Any) -> str:
    board = raw.board
    side = "white, capital letters" if seat == raw.possible_agents[0] else "black, small letters"
    check = "\nCheck." if board.is_check() else ""
    return f"You are {side}; white is below.\n{board}{check}"


def _chess_move(raw: Any, number: int) -> str:
    from pettingzoo.classic.chess import chess_utils

    return chess_utils.action_to_move(raw.board, number, raw.possible_agents.index(raw.agent_selection)).uci()


def _stones(raw: Any, seat: str, seen: Any) -> str:
    """From the board, which both see: black is 1, white is -1."""
    board = raw._go.board
    size = len(board)
    rows = [f"{size - row:>2} {' '.join('.xo'[int(point)] for point in board[row])}" for row in range(size)]
    return "\n".join([f"You are {seat}. Black is x, white is o.", *rows, f"   {' '.join(LETTERS[:size])}"])


def _stone(raw: Any, number: int) -> str:
    size = raw.observation_space(raw.possible_agents[0])["observation"].shape[0]
    return "pass" if number == size * size else f"{LETTERS[number % size]}{size - number // size}"


def _hand(raw: Any, seat: str, seen: Any) -> str:
    place = raw.possible_agents.index(seat)
    state = raw.env.game.get_state(place)
    held, table = state["hand"], state.get("public_cards", state.get("public_card")) or []
    held, table = ([each] if isinstance(each, str) else each for each in (held, table))
    chips = [str(int(each)) for each in state["all_chips"]]
    lines = [
        f"You hold: {', '.join(map(_card, held))}.",
        f"On the table: {', '.join(map(_card, table)) or 'nothing'}.",
        f"You have put in {int(state['my_chips'])} chips; all players: {', '.join(chips)}.",
    ]
    if "stakes" in state:
        lines.append(f"The pot is {int(state['pot'])}. Left to you: {int(state['stakes'][place])} chips.")
    return "\n".join(lines)


def _card(code: str) -> str:
    """RLCard's "HQ" is the queen of hearts."""
    return f"{RANKS.get(code[1:], code[1:])} of {SUITS.get(code[0], code[0])}"


def _bet(raw: Any, number: int) -> str:
    named = raw.env.actions
    return str(named[number]) if isinstance(named, list) else named(number).name.replace("_", " ")


def _last_hand(raw: Any, seat: str, seen: Any) -> str:
    last = int(seen)
    actions = raw.action_space(seat).n
    return "Nobody has shown anything yet." if last >= actions else f"The other one showed {_show(raw, last)}."


def _show(raw: Any, number: int) -> str:
    return HANDS[number] if raw.action_space(raw.possible_agents[0]).n <= len(HANDS) else f"action {number}"


def _fireworks(raw: Any, seat: str, seen: Any) -> str:
    return raw.hanabi_env.game_state.observation_string(raw.possible_agents.index(seat)).strip()


def _hint(raw: Any, number: int) -> str:
    state = raw.hanabi_env.game_state
    return state.action_to_string(state.current_player(), number).strip("()")


POKER = "Bet on your cards; the best hand at the end wins the chips, unless the others fold."
PLAIN = Words("", lambda raw, number: f"action {number}", _plain, open=False)
WORDS = {
    "chess": Words("Moves are written from square to square, like e2e4, or e7e8q.", _chess_move, _chess),
    "connect_four": Words(
        "Drop discs into the seven columns; four in a row win.", lambda raw, number: f"column {number + 1}", _discs
    ),
    "go": Words("Surround more than the other. Say a point, like d4, or pass.", _stone, _stones),
    "hanabi": Words("Build fireworks together; you see all cards but your own.", _hint, _fireworks, (0.0, 25.0)),
    "leduc_holdem": Words(POKER, _bet, _hand, (-7.0, 7.0)),
    "rps": Words("Both choose before either is told.", _show, _last_hand, open=False),
    "texas_holdem": Words(POKER, _bet, _hand, (-25.0, 25.0)),
    "texas_holdem_no_limit": Words(POKER, _bet, _hand, (-100.0, 100.0)),
    "tictactoe": Words("Three in a row win.", lambda raw, number: f"cell {number}", _noughts),
}
