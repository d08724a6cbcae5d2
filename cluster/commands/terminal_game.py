"""A game at the terminal: a person in one seat, or everybody watched.

The person sees what their seat sees and nothing else; what rivals say reaches them
through the game, as it would reach any player.
"""

from __future__ import annotations

from collections.abc import Callable

from rich.columns import Columns
from rich.console import Console
from rich.markup import escape
from rich.panel import Panel

from envs.game import Game, Player, Step

QUIT = {"quit", "exit", ":q"}


class Terminal:
    def __init__(self, game: Game, console: Console, ask: Callable[[str], str] = input):
        self.game, self.console, self.ask = game, console, ask

    def play(self, players: dict[str, Player], seed: int, person: str | None) -> dict[str, float] | None:
        """One episode; seats without a player are the person's. Returns the outcome, or None
        if the person left. With `person` None every turn is shown, whoever plays it."""
        game = self.game
        game.reset(seed)
        for number, (seat, player) in enumerate(players.items()):
            if hasattr(player, "briefing"):
                player.briefing = game.briefing(seat)
            player.reset(seed * len(game.seats) + number)
        self._introduce(person)
        turns = 0
        while (seat := game.seat) is not None:
            seen, listed = game.observe(), tuple(game.actions())
            if seat in players:
                said = players[seat].reply(seen, listed)
                if person is None:
                    self._show(seen)
                    self.console.print(f"[bold]{escape(seat)}>[/bold] {escape(said)}", highlight=False)
            else:
                said = self._listen(seat, seen, listed)
                if said is None:
                    self.console.print("you left the game")
                    return None
            step = game.step(said)
            turns += 1
            if person is None or seat == person:
                self._consequences(seat, step)
        self._end(person, turns)
        return game.outcome()

    def _introduce(self, person: str | None) -> None:
        game = self.game
        briefing = game.briefing(person or game.seats[0]).strip()
        title = f"{game.name}, at most {game.horizon} turns" + (f", you are {person}" if person else "")
        self.console.print(Panel(escape(briefing) or "no rules are told", title=title, title_align="left"))
        if person:
            self.console.print("[dim]answer in words, or with the number of a listed action; 'quit' to leave[/dim]")

    def _show(self, seen: str) -> None:
        for line in seen.splitlines() or [""]:
            self.console.print(f"  {escape(line)}", style="cyan", highlight=False)

    def _listen(self, seat: str, seen: str, listed: tuple[str, ...]) -> str | None:
        self._show(seen)
        if listed:
            entries = [f"[dim]{number}[/dim] {escape(action)}" for number, action in enumerate(listed, 1)]
            self.console.print(Columns(entries, padding=(0, 3), column_first=True))
        try:
            said = self.ask(f"{seat}> ").strip()
        except EOFError:
            return None
        if said.lower() in QUIT:
            return None
        if listed and said.isascii() and said.isdigit() and 1 <= int(said) <= len(listed):
            return listed[int(said) - 1]
        return said

    def _consequences(self, seat: str, step: Step) -> None:
        remarks = [step.caption] if step.caption else []
        if not step.executable:
            remarks.append("not understood")
        if reward := step.rewards.get(seat, 0.0):
            remarks.append(f"reward {reward:+g}")
        if remarks:
            self.console.print(f"  [dim]{escape('; '.join(remarks))}[/dim]", highlight=False)

    def _end(self, person: str | None, turns: int) -> None:
        game = self.game
        for seat, seen in game.closing().items():
            if person in (None, seat):
                self._show(seen)
        outcome = ", ".join(f"{seat} {value:g}" for seat, value in game.outcome().items())
        facts = "".join(f"\n{name.replace('_', ' ')}: {value}" for name, value in game.facts().items())
        text = f"over after {turns} turns; outcome {outcome}{facts}"
        self.console.print(Panel(escape(text), title="the end", title_align="left"))
