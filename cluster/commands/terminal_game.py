"""A game at the terminal: a person in one seat, or everybody watched.

The person sees what their seat sees and nothing else; what rivals say reaches them through the game, as it would
reach any player. What they type is said to the game, but for the words of `COMMANDS`, which cost no turn. An answer is
one line. A line ``` begins an answer of several lines, which is taken as it is, and another ``` ends it, as the input's
end does.

Nothing is told twice. A caption says what an utterance did, for those who watch; the seat itself learns that from its
next observation, so a person is shown only what that leaves out.

Before each turn of the person the game is saved and the other players are copied. `undo` goes on from there, as if
the turn had never been: on another game object, so that the episode is still there if it cannot be restored.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from enum import Enum
from typing import Any

from rich.columns import Columns
from rich.console import Console
from rich.markup import escape
from rich.panel import Panel

from envs.game import Game, Player, Step
from envs.well_formed import good_outcome, good_sight, good_step

COMMANDS = {
    "help": "this list",
    "rules": "what you were told before the first turn",
    "history": "what you have seen and said so far",
    "undo": "take back your last turn, and what the others did after it",
    "quit": "leave the game",
}
MOST_LISTED = 60  # actions that are shown with their numbers
QUIT = {"quit", "exit", "q"}
FENCE = "```"
HOW_TO_SAY = ":undo is a command, too; > undo says that word to the game"
SEVERAL_LINES = f"a line {FENCE} begins an answer of several lines, another {FENCE} ends it"


class Sign(Enum):
    """What a person did instead of saying something to the game."""

    LEFT = "the person left"
    UNDONE = "the game is back at an earlier turn"


@dataclass(slots=True)
class Moment:
    """How it stood when the person was about to speak."""

    saved: Any  # of the game; an exception where it cannot be saved
    players: dict[str, Player]
    turns: int
    lines: int  # of the history


class Terminal:
    """`another` makes a game with the same options, for `undo`."""

    def __init__(
        self,
        game: Game,
        console: Console,
        ask: Callable[[str], str] = input,
        another: Callable[[], Game] | None = None,
    ):
        self.game, self.console, self.ask, self.another = game, console, ask, another
        self.players: dict[str, Player] = {}
        self.person: str | None = None
        self.moments: list[Moment] = []
        self.history: list[str] = []  # with markup
        self.listed_before: set[str] = set()  # actions, whenever they were listed
        self.turns = 0

    def play(self, players: dict[str, Player], seed: int, person: str | None) -> dict[str, float] | None:
        """One episode; seats without a player are the person's. Returns the outcome, or None
        if the person left. With `person` None every turn is shown, whoever plays it."""
        self.players, self.person, self.turns = dict(players), person, 0
        self.moments, self.history = [], []
        with self._waiting("the game is being set up"):
            self.game.reset(seed)
            for number, (seat, player) in enumerate(players.items()):
                if hasattr(player, "briefing"):
                    player.briefing = self.game.briefing(seat)
                player.reset(seed * len(self.game.seats) + number)
        self._introduce()
        while (seat := self.game.seat) is not None:
            seen, listed = good_sight(self.game)
            self.listed_before.update(listed)
            said = self._said_by(seat, seen, listed)
            if said is Sign.LEFT:
                self.console.print("you left the game")
                return None
            if said is Sign.UNDONE:
                continue
            with self._waiting("the game goes on"):
                step = good_step(self.game, self.game.step(said))
            self.turns += 1
            if person is None or seat == person:
                self._consequences(seat, seen, listed, said, step)
        outcome = good_outcome(self.game)
        self._end(outcome)
        return outcome

    def _said_by(self, seat: str, seen: str, listed: tuple[str, ...]) -> str | Sign:
        if seat not in self.players:
            return self._listen(seat, seen, listed)
        with self._waiting(f"{seat} is thinking"):
            said = self.players[seat].reply(seen, listed)
        if self.person is None:
            self._show(seen)
            self.console.print(f"[bold]{escape(seat)}>[/bold] {escape(said)}", highlight=False)
        return said

    def _waiting(self, what: str) -> AbstractContextManager:
        """A sign of life on a terminal; elsewhere nobody looks."""
        return self.console.status(f"[dim]{escape(what)}[/dim]") if self.console.is_terminal else nullcontext()

    # --- what is shown

    def _introduce(self) -> None:
        game, person = self.game, self.person
        title = f"{game.name}, at most {game.horizon} turns" + (f", you are {person}" if person else "")
        self._rules(title)
        if person:
            self.console.print(
                f"[dim]type what you want to say; {SEVERAL_LINES}; 'help' tells what else you can type[/dim]"
            )

    def _rules(self, title: str) -> None:
        briefing = self.game.briefing(self.person or self.game.seats[0]).strip()
        self.console.print(Panel(escape(briefing) or "no rules are told", title=escape(title), title_align="left"))

    def _show(self, seen: str) -> None:
        self._write([f"  [cyan]{escape(line)}[/cyan]" for line in seen.splitlines() or [""]])

    def _write(self, lines: list[str]) -> None:
        self.history += lines
        for line in lines:
            self.console.print(line, highlight=False)

    def _consequences(self, seat: str, seen: str, listed: tuple[str, ...], said: str, step: Step) -> None:
        game = self.game
        again = game.seat == seat  # it speaks next, too
        following = game.observe() if again else game.closing().get(seat, "") if game.seat is None else ""
        remarks = []
        reward = step.rewards.get(seat, 0.0)
        if self.person is None or not step.executable:
            remarks += _new_in(step.caption, said, following)
        if not step.executable:
            known = said.strip().lower() in {each.lower() for each in self.listed_before}
            remarks.append("nothing happened: not possible now" if known else "not understood")
        elif listed and again and reward <= 0 and following == seen and tuple(game.actions()) == listed:
            remarks.append("you see the same as before")
        if reward:
            remarks.append(f"reward {reward:+g}")
        if remarks:
            self._write([f"  [dim]{escape('; '.join(remarks))}[/dim]"])

    def _end(self, outcome: dict[str, float]) -> None:
        game = self.game
        for seat, seen in game.closing().items():
            if self.person in (None, seat):
                self._show(seen)
        results = ", ".join(f"{seat} {value:g}" for seat, value in outcome.items())
        facts = "".join(f"\n{name.replace('_', ' ')}: {value}" for name, value in game.facts().items())
        text = f"over after {self.turns} turns; outcome {results}{facts}"
        self.console.print(Panel(escape(text), title="the end", title_align="left"))

    # --- what is typed

    def _listen(self, seat: str, seen: str, listed: tuple[str, ...]) -> str | Sign:
        self.moments.append(self._moment())
        self._show_turn(seen, listed)
        while True:
            try:
                typed = self.ask(f"{seat}> ").strip()
            except EOFError:
                return Sign.LEFT
            if not typed:
                self.console.print("  [dim]say something; 'help' tells what you can type[/dim]")
                continue
            word = typed.lower().removeprefix(":")
            if (word not in COMMANDS and word not in QUIT) or typed.lower() in listed:
                several = re.fullmatch(rf"{FENCE}\w*", typed)
                said = self._several_lines() if several else _meant(typed, listed)
                self.history.append(f"[bold]{escape(seat)}>[/bold] {escape(said)}")
                return said
            if word in QUIT:
                return Sign.LEFT
            if word == "undo" and self._undo():
                return Sign.UNDONE
            if word == "help":
                self._help(listed)
            elif word == "rules":
                self._rules(f"the rules for {seat}")
            elif word == "history":
                for line in self.history:
                    self.console.print(line, highlight=False)

    def _several_lines(self) -> str:
        lines: list[str] = []
        with suppress(EOFError):
            while (line := self.ask("... ")).strip() != FENCE:
                lines.append(line.rstrip("\r"))
        return "\n".join(lines)

    def _show_turn(self, seen: str, listed: tuple[str, ...]) -> None:
        self._show(_without_list(seen, listed))
        if listed:
            shown = listed[:MOST_LISTED]
            entries = [f"[dim]{number}[/dim] {escape(action)}" for number, action in enumerate(shown, 1)]
            self.console.print(Columns(entries, padding=(0, 3), column_first=True))
            if len(listed) > len(shown):
                self.console.print(f"[dim]and {len(listed) - len(shown)} more[/dim]")

    def _help(self, listed: tuple[str, ...]) -> None:
        rows = [f"  [bold]{name:<10}[/bold]{about}" for name, about in COMMANDS.items()]
        if listed:
            rows.insert(0, f"  [bold]{f'1 to {len(listed)}':<10}[/bold]the listed action with that number")
        self.console.print("What you type is said to the game, but for these, which cost no turn:", highlight=False)
        for row in [*rows, f"  {HOW_TO_SAY}"]:
            self.console.print(row, highlight=False)

    # --- undo

    def _moment(self) -> Moment:
        try:
            saved, players = self.game.save(), copy.deepcopy(self.players)
        except Exception as error:  # of a game or a player that somebody else wrote
            saved, players = error, {}
        return Moment(saved, players, self.turns, len(self.history))

    def _undo(self) -> bool:
        """Whether the game is back at the person's last turn; it says why not."""
        if len(self.moments) < 2:
            self.console.print("  [dim]you have not said anything that could be taken back[/dim]")
            return False
        before = self.moments[-2]
        try:
            if isinstance(before.saved, Exception):
                raise before.saved
            game = self.another() if self.another is not None else self.game
            with self._waiting("the turn is taken back"):
                game.restore(before.saved)
        except Exception as error:  # of a game that somebody else wrote
            reason = " ".join(str(error).split()) or type(error).__name__
            self.console.print(f"  this game cannot go back: {escape(reason)}", highlight=False)
            return False
        if game is not self.game and hasattr(self.game, "close"):
            self.game.close()
        self.game, self.players, self.turns = game, before.players, before.turns
        del self.moments[-2:], self.history[before.lines :]
        self.console.print("  [dim]your last turn is taken back[/dim]")
        return True


def _meant(typed: str, listed: tuple[str, ...]) -> str:
    """What is said to the game: the action of a number, where actions are listed."""
    if typed.startswith(">"):
        return typed[1:].strip()
    if typed.isascii() and typed.isdigit() and 1 <= int(typed) <= len(listed):
        return listed[int(typed) - 1]
    return typed


def _without_list(seen: str, listed: tuple[str, ...]) -> str:
    """What is seen without a line that only lists the actions, which stand numbered below it."""
    if len(listed) < 2:
        return seen
    longest = sum(map(len, listed)) + 3 * len(listed) + 20  # the actions, what stands between them, "you can:"
    lines = [line for line in seen.splitlines() if len(line) > longest or not all(each in line for each in listed)]
    return "\n".join(lines) or seen


def _new_in(caption: str, *elsewhere: str) -> list[str]:
    """The sentences of a caption that are not told elsewhere in the same words; of "who did what: how it went" the
    second half is enough."""
    told = " ".join(" ".join(elsewhere).lower().split())
    sentences = [sentence.strip() for sentence in re.split(r"(?<=[.!?])\s+|\n", caption)]
    halves = {each: {each, each.split(": ", 1)[-1]} for each in sentences if each}
    new = [each for each, parts in halves.items() if not any(_says(told, part) for part in parts)]
    return [" ".join(new)] if new else []


def _says(told: str, part: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(' '.join(part.lower().split()).rstrip('.:!?'))}(?!\w)", told) is not None
