"""What spans a run has.

update 7                      a trace each; from the end of update 6 on
  collect, shape, learn, ...  its stages; one that begins within another lies in it
episode twenty_questions      a trace each
  turn guesser                from the question to the moment at which the game had gone on
    chat policy               the request that the engine answered
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from cluster.episodes.evenly import evenly
from cluster.errors import ConfigError

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter
    from opentelemetry.trace import Span

    from cluster.episodes.columns import Kept
    from cluster.recipe.telemetry import TelemetrySettings
    from envs.episode import Turn

PACKAGES = "pip install -e '.[telemetry]' in Parley's folder"


class Spans:
    """Use as a context manager; without an endpoint it does nothing."""

    def __init__(self, settings: TelemetrySettings, run: str, game: str, exporter: SpanExporter | None = None):
        self.settings, self.sending = settings, None
        self.open: list[Span] = []  # the update, and its stages that have begun
        if settings.endpoint is not None:
            try:
                from cluster.record.telemetry.sending import Sending
            except ModuleNotFoundError as error:
                raise ConfigError(f"telemetry.endpoint needs the package {error.name}: {PACKAGES}") from error
            about = {"service.name": "parley", "parley.run": run, "parley.game": game}
            self.sending = Sending(settings.endpoint, about, exporter)

    def __enter__(self) -> Spans:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        self.end(error)
        if self.sending is not None:
            self.sending.close()

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        begun = self._begin(name) if self.open else False
        try:
            yield
        except BaseException as error:
            if begun:
                self._end(error)
            raise
        if begun:
            self._end()

    def update(self, number: int) -> None:
        """What follows belongs to this update."""
        self.end()
        self._begin(f"update {number}", {"parley.update": number})

    def end(self, error: BaseException | None = None) -> None:
        """Of the update that is open."""
        while self.open:
            self._end(error)

    def metrics(self) -> dict[str, float]:
        return {} if self.sending is None else self.sending.metrics()

    def games(self, games: Sequence[Kept]) -> None:
        """Some of an update's, evenly."""
        some = self.settings.episodes
        if self.sending is not None and some:
            for game in games if some == "all" else evenly(games, some):
                self._game(game)

    def _begin(self, name: str, about: dict[str, Any] | None = None) -> bool:
        if self.sending is None or not self.sending.takes(1):
            return False
        self.open.append(self.sending.start(name, time.time(), self.open[-1] if self.open else None, about or {}))
        return True

    def _end(self, error: BaseException | None = None) -> None:
        self.sending.end(self.open.pop(), time.time(), error and f"{type(error).__name__}: {error}")

    def _game(self, game: Kept) -> None:
        turns = [] if game.episode is None else game.episode.turns
        if not self.sending.takes(1 + len(turns) + sum(turn.tokens is not None for turn in turns)):
            return
        begin = game.ended - (0.0 if game.episode is None else game.episode.seconds)
        span = self.sending.start(f"episode {game.ticket.game}", begin, None, _about(game))
        seen: dict[str, int] = {}  # tokens of each seat before a turn
        for turn in turns:
            self._turn(turn, begin, span, seen)
        self.sending.end(span, game.ended, game.failure)

    def _turn(self, turn: Turn, begin: float, within: Span, seen: dict[str, int]) -> None:
        asked, answered, played = (begin + seconds for seconds in turn.times)
        about = {"parley.seat": turn.seat, "parley.player": turn.player, "parley.reward": float(turn.reward)}
        span = self.sending.start(f"turn {turn.seat}", asked, within, about | {"parley.executable": turn.executable})
        if turn.tokens is not None:
            prompt = seen.get(turn.seat, 0) + len(turn.tokens.observation_ids)
            said = len(turn.tokens.utterance_ids)
            seen[turn.seat] = prompt + said
            request = {
                "gen_ai.operation.name": "chat",
                "gen_ai.request.model": turn.player,
                "gen_ai.usage.input_tokens": prompt,
                "gen_ai.usage.output_tokens": said,
                "gen_ai.response.finish_reasons": (turn.tokens.finish,),
                "parley.weights": int(turn.tokens.versions.max()) if said else None,
            }
            self.sending.end(self.sending.start(f"chat {turn.player}", asked, span, request), answered)
        self.sending.end(span, played)


def _about(game: Kept) -> dict[str, Any]:
    ticket, episode = game.ticket, game.episode
    use = "failed" if game.failure else "held out" if game.held_out else "trained"
    outcome = {} if episode is None else {f"parley.outcome.{seat}": float(won) for seat, won in episode.outcome.items()}
    return outcome | {
        "parley.use": use,
        "parley.update": game.update,
        "parley.number": ticket.number,
        "parley.attempt": ticket.attempt,
        "parley.seed": ticket.seed,
        "parley.worker": game.worker,
        "parley.node": game.node,
    }
