"""What a run tells the person at the terminal: plain lines, and on a terminal one moving
line below them that says what is happening now."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from cluster.record import manner
from cluster.record.metric_list import STAGES

if TYPE_CHECKING:
    from cluster.recipe.config import RunConfig
    from cluster.record.progress import Progress
    from cluster.record.run_folder import RunFolder

WIDTH = 160  # of tables, where there is no terminal
BARS = "▁▂▃▄▅▆▇█"
SHOWN_SECONDS = 0.05  # a stage that took less is left out of an update's line,
SHOWN_SHARE = 0.005  # and one with a smaller share out of the run's
DOING = {
    "shape": "waiting for the rewards",
    "learn": "learning",
    "samples": "keeping samples",
    "sync": "sending weights to the engines",
    "record": "recording",
    "checkpoint": "saving the checkpoint",
}
OF_THE_NEXT = ("shape", "learn", "samples")  # update
QUIET_SECONDS = 20.0  # without a terminal, a sign of life at most this often


class Show:
    """Use as a context manager; nothing is shown outside of it."""

    def __init__(self, config: RunConfig, folder: RunFolder, console: Console | None = None):
        self.config, self.folder = config, folder
        self.console, self.quiet = console or manner.console(), manner.is_said("quiet")
        self.moving = self.console.status("starting") if self.console.is_terminal and not self.quiet else None
        self.outcomes: list[float] = []
        self.what = ""
        self.last_sign = time.monotonic()

    def __enter__(self) -> Show:
        self.line(f"[bold]parley[/bold] {escape(self.config.game.name)}, model {escape(self.config.model.path)}")
        self.line(f"run folder {escape(str(self.folder.path))}")
        if self.moving is not None:
            self.moving.start()
        return self

    def __exit__(self, *exception) -> None:
        if self.moving is not None:
            self.moving.stop()

    def line(self, text: str, matters: bool = False) -> None:
        if matters or not self.quiet:
            self.console.print(text)
        self.last_sign = time.monotonic()

    def warning(self, text: str) -> None:
        self.line(f"[yellow]warning:[/yellow] {escape(text)}", matters=True)

    def now(self, text: str) -> None:
        """The moving line; without a terminal, a line now and then."""
        if self.moving is not None:
            self.moving.update(escape(text))
        elif time.monotonic() - self.last_sign > QUIET_SECONDS:
            self.line(escape(f"  ... {text}"))

    def stage(self, text: str) -> None:
        self.what = text
        self.line(escape(text))
        self.now(text)

    def doing(self, stage: str | None, update: int) -> None:
        """A stage of the training loop has begun, after `update`; while games are played `playing` says more."""
        if stage in DOING:
            self.now(f"update {update + (stage in OF_THE_NEXT)}/{self.config.updates}: {DOING[stage]}")

    def progress(self, done: int, total: int, loss: float | None = None) -> None:
        self.now(f"{self.what}: {done}/{total}{'' if loss is None else f', loss {loss:.3f}'}")

    def playing(self, at: Progress) -> None:
        games = f"games {at.played}/{at.games}"
        doing = f"held-out {games}" if at.batch is None else f"update {at.batch + 1}/{self.config.updates}, {games}"
        curve = f"  {sparkline(self.outcomes)}" if self.outcomes else ""
        self.now(f"{doing}{at.failed}{curve}")

    def updated(self, update: int, values: Mapping[str, float]) -> None:
        self.outcomes.append(values.get("rollout/outcome", 0.0))
        seconds = {stage.name: values.get(stage.name, 0.0) for stage in STAGES}
        spent = [f"{name.partition('/')[2]} {each:.1f}" for name, each in seconds.items() if each >= SHOWN_SECONDS]
        self.line(
            f"update {update:>{len(str(self.config.updates))}}/{self.config.updates}"
            f"  outcome [bold]{self.outcomes[-1]:.3f}[/bold]"
            f"  {values.get('rollout/episodes_per_second', 0):.0f} games/s"
            f"  {values.get('rollout/tokens_per_second', 0):.0f} tokens/s"
            f"  gap {values.get('sync/parity_gap', 0):.0e}  [dim]{' '.join([*spent, 's'] if spent else [])}[/dim]"
        )

    def evaluated(self, update: int, values: Mapping[str, float]) -> None:
        rate = percent(values["evaluation/win_rate"], [values["evaluation/win_low"], values["evaluation/win_high"]])
        games = f"{values['evaluation/episodes']:.0f} held-out games"
        self.line(f"{games} after update {update}: win rate [bold]{rate}[/bold]")

    def finished(self, summary: Mapping) -> None:
        """The end of a training run. The same figures are in summary.json."""
        before = "not measured"
        if summary["win_rate_before"] is not None:
            before = percent(summary["win_rate_before"], summary["win_rate_before_interval"])
        after = percent(summary["win_rate_after"], summary["win_rate_after_interval"])
        run = escape(display_path(self.folder.path))
        self.line("")
        heading = f"[bold]{escape(summary['game'])}: win rate on {summary['held_out_games']} held-out games[/bold]"
        self.line(heading, matters=True)
        self.line(f"  before  {before}", matters=True)
        shown = f"[bold green]{after}[/bold green]" if _higher(summary) else after
        self.line(f"  after   {shown}", matters=True)
        if self.outcomes:
            self.line(f"  outcome by update  {sparkline(self.outcomes)}")
        self.line(f"time  {shares_of_time(summary['seconds'])}")
        self.line(f"tokens  {where_tokens_went(summary['tokens'])}")
        self.line(f"run folder  {run}  (summary.json, transcripts/, checkpoints/)", matters=True)
        self.line("next")
        self.line(f"  parley resume {run} updates={2 * max(1, summary['updates'])}    train on")
        self.line(f"  parley evaluate {run} evaluation.episodes=1000    measure more finely")
        self.line(f"  tensorboard --logdir {run}/tensorboard    see every curve")


def evaluation_lines(result: Mapping, folder: Path) -> list[str]:
    rate = percent(result["win_rate"], [result["win_low"], result["win_high"]])
    return [
        f"win rate {rate} on {result['episodes']:.0f} held-out games",
        f"outcome {result['outcome']:.3f}, {result['turns']:.1f} turns a game",
        f"transcripts and summary in {display_path(folder)}",
    ]


def page() -> Console:
    """Standard output for tables: as wide as the terminal, and wide enough anywhere else."""
    return Console(highlight=False, width=None if sys.stdout.isatty() else WIDTH)


def trials_table(result: Mapping) -> Table:
    """One line for each trial of a game's own evaluation."""
    table = Table(title=f"{result['game']}: {result['model']}", title_justify="left", box=box.SIMPLE_HEAD)
    trials, gamma = result["trials"], result["gamma"]
    pays = any(figures["money"] is not None for figures in trials.values())
    columns = ["episodes", "win %", "95 % interval", "outcome", "return" if gamma == 1 else f"return, gamma {gamma:g}"]
    table.add_column("trial", no_wrap=True)
    for name in [*columns, "turns", *(["money"] if pays else [])]:
        table.add_column(name, justify="right")
    for name, each in trials.items():
        money = [] if not pays else ["" if each["money"] is None else f"{each['money']:,.2f}"]
        table.add_row(
            name,
            f"{each['episodes']}",
            f"{100 * each['win_rate']:.1f}",
            f"{100 * each['win_low']:.1f} - {100 * each['win_high']:.1f}",
            f"{each['outcome']:.3f}",
            f"{each['discounted_return']:.4f}",
            f"{each['turns']:.1f}",
            *money,
        )
    return table


def shares_of_time(seconds: Mapping[str, float]) -> str:
    """The stages that took most, in a line: collect 61 %, learn 30 %, checkpoint 9 % of 12.5 s."""
    whole = sum(seconds.values())
    most = sorted(seconds.items(), key=lambda each: -each[1])
    shown = [f"{name} {spent / whole:.0%}".replace("%", " %") for name, spent in most if spent >= SHOWN_SHARE * whole]
    return f"{', '.join(shown)} of {whole:.1f} s" if whole else "none"


def where_tokens_went(tokens: Mapping[str, float]) -> str:
    """12,300 sampled: trained 87 %, evaluated 12 %, dropped 1 %."""
    sampled = tokens["tokens/sampled"]
    parts = ("trained", "evaluated", "waiting", "playing", "dropped")
    shown = [f"{name} {100 * tokens[f'tokens/{name}'] / sampled:.0f} %" for name in parts if tokens[f"tokens/{name}"]]
    return f"{sampled:,.0f} sampled: {', '.join(shown)}" if sampled else "none"


def percent(rate: float, interval) -> str:
    low, high = interval
    return f"{100 * rate:.1f} %  (95 % interval {100 * low:.1f} - {100 * high:.1f})"


def sparkline(values: list[float], width: int = 48) -> str:
    """A curve in one line of text, from the lowest value to the highest; means of neighbours
    where there are more than `width`."""
    if len(values) > width:
        edges = [len(values) * i // width for i in range(width + 1)]
        values = [sum(values[a:b]) / (b - a) for a, b in pairwise(edges)]
    low, high = min(values), max(values)
    if high == low:
        return BARS[0] * len(values)
    return "".join(BARS[min(len(BARS) - 1, int((value - low) / (high - low) * len(BARS)))] for value in values)


def display_path(path) -> str:
    """Relative to where the user stands, if it is below."""
    here = path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)


def _higher(summary: Mapping) -> bool:
    before = summary["win_rate_before"]
    return before is not None and summary["win_rate_after_interval"][0] > before
