"""Held-out games: the same seeds each time, by the rollout workers, with intervals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean

from actors.fleet.finished import Finished
from cluster.recipe.config import RunConfig
from cluster.record.run_folder import TRANSCRIPTS
from cluster.record.statistics import mean_interval, wilson_interval
from cluster.record.transcript import Row, row_of
from cluster.run.playing import Games, Playing
from envs.episode import HELD_OUT_NUMBERS, Episode, Ticket


@dataclass(slots=True)
class Evaluation:
    """`win_rate` is the share of policy seats whose outcome is 1; `outcome` is the mean. Seats of one game are no
    independent trials, so their intervals are those of so many games;
    `discounted_return` of a seat is the sum of gamma^t times the reward of its turn t."""

    version: int
    episodes: int
    win_rate: float
    win_low: float
    win_high: float
    outcome: float
    outcome_low: float
    outcome_high: float
    turns: float
    discounted_return: float
    money: float | None = None  # what a policy seat earned, in games that pay

    def metrics(self) -> dict[str, float]:
        values = asdict(self)
        return {f"evaluation/{name}": v for name, v in values.items() if name != "version" and v is not None}


def measure(episodes: Sequence[Episode], version: int, gamma: float) -> Evaluation:
    seats = [(episode, seat) for episode in episodes for seat in episode.policy_seats()]
    outcomes = [episode.outcome[seat] for episode, seat in seats]
    wins = sum(outcome >= 1.0 for outcome in outcomes)
    games = [episode for episode in episodes if episode.policy_seats()]
    win_low, win_high = wilson_interval(wins * len(games) / len(outcomes), len(games))
    outcome_low, outcome_high = mean_interval(
        [fmean(episode.outcome[seat] for seat in episode.policy_seats()) for episode in games]
    )
    earned = [episode.money.get(seat) for episode, seat in seats]
    return Evaluation(
        version=version,
        episodes=len(episodes),
        win_rate=wins / len(outcomes),
        win_low=win_low,
        win_high=win_high,
        outcome=fmean(outcomes),
        outcome_low=outcome_low,
        outcome_high=outcome_high,
        turns=fmean(len(episode.turns) for episode in episodes),
        discounted_return=fmean(discounted_return(episode, seat, gamma) for episode, seat in seats),
        money=fmean(earned) if None not in earned else None,
    )


def newest_of(episodes: Sequence[Episode]) -> int:
    """The newest version of the weights that any token is of."""
    turns = (turn for episode in episodes for turn in episode.turns if turn.tokens is not None)
    return max((int(turn.tokens.versions.max()) for turn in turns if len(turn.tokens.versions)), default=0)


def discounted_return(episode: Episode, seat: str, gamma: float) -> float:
    return sum(gamma**t * turn.reward for t, turn in enumerate(episode.turns_of(seat)))


def held_out(
    config: RunConfig, run: str, game: str, players: tuple[tuple[str, str], ...], episodes: int, first: int = 0
) -> list[Ticket]:
    """Tickets of `episodes` held-out games with consecutive seeds. `first` counts the held-out games of
    this run that were played under other names before: what is sampled depends on the number."""
    return [
        Ticket(run, game, HELD_OUT_NUMBERS + first + i, config.evaluation.seed + i, players) for i in range(episodes)
    ]


def play_held_out(
    playing: Playing,
    config: RunConfig,
    run: str,
    game: str,
    players: tuple[tuple[str, str], ...],
    episodes: int,
    first: int = 0,
) -> list[Episode]:
    return playing.play(held_out(config, run, game, players, episodes, first), config.evaluation.temperature)


def beside_training(config: RunConfig) -> bool:
    """Whether training goes on while held-out games are played. With max_staleness 0 the bytes of a run depend on what
    an engine computes together; engines that sleep cannot play meanwhile."""
    asked = config.evaluation.beside
    return bool(config.max_staleness and not config.rollout.engine.sleep) if asked is None else asked


class HeldOut:
    """A run's evaluations, of which one at most is being played."""

    def __init__(
        self,
        playing: Playing,
        config: RunConfig,
        run: str,
        players: tuple[tuple[str, str], ...],
        keep_transcripts: Callable[[int, list[Episode]], None],
        keep: Callable[[list[Finished], list[Episode]], None],
    ):
        self.playing, self.config, self.run, self.players = playing, config, run, players
        self.keep_transcripts, self.keep = keep_transcripts, keep
        self.done: list[Evaluation] = []
        self.rows: list[Row] = []  # some games of the newest
        self.begun: tuple[int, Games] | None = None  # of the weights of this version

    def begin(self, version: int) -> None:
        if self.begun is not None:
            raise RuntimeError(f"the evaluation of version {self.begun[0]} has not ended")
        tickets = held_out(self.config, self.run, self.config.game.name, self.players, self.config.evaluation.episodes)
        self.begun = version, self.playing.begin(tickets, self.config.evaluation.temperature)

    def end(self, weights: int) -> Evaluation | None:
        """Wait for what was begun. `weights`: the version that the learners hold by now. None where no worker was left
        that held the older ones, so that newer ones have played."""
        if self.begun is None:
            raise RuntimeError("no evaluation was begun")
        version, games = self.begun
        episodes = self.playing.end(games, older=weights > version)
        self.begun = None
        if newest_of(episodes) > version:
            return None
        self.keep_transcripts(version, episodes)
        self.rows = [row_of(episode) for episode in episodes[:TRANSCRIPTS]]
        self.keep(games.results(), episodes)
        self.done.append(measure(episodes, version, self.config.learner.credit.gamma))
        return self.done[-1]

    @property
    def newest(self) -> Evaluation | None:
        return self.done[-1] if self.done else None

    def state(self) -> list[dict]:
        """One that is being played is not in it: it is played again."""
        return [asdict(evaluation) for evaluation in self.done]

    def restore(self, state: list[dict]) -> None:
        self.done, self.begun = [Evaluation(**evaluation) for evaluation in state], None
