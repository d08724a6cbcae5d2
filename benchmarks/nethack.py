"""NetHack with ONI: does the intrinsic reward help? The same warm starts, tasks and episodes, with it and without.

    python -m benchmarks.nethack                 both arms, seed by seed; goes on where it was stopped
    python -m benchmarks.nethack --seeds 2       fewer seeds; those that are there count
    python -m benchmarks.nethack --tables        only what has been recorded
    python -m benchmarks.nethack --rate          does the annotator keep up? The mediocre player's episodes, no policy

none    recipes/worlds/nethack.yaml: what NetHack pays, 60 turns an episode, 100 points are worth 1
oni     the same with what recipes/shapers/oni.yaml adds: half a tenth for what the annotator finds helpful in what
        NetHack says, less each time that it is said again

FIXED BEFORE ANYTHING WAS RUN. Seeds 0 to 7, each with both arms, from two warm starts by turns. A run has 20 updates of
32 episodes (38,400 turns at most), all other settings are the recipe's; nothing is tuned. 128 held-out games are played
before and after, by sampling, and scored by what NetHack paid alone, so in points. THE QUESTION: the held-out score
after the last update, oni minus none, in pairs of equal seeds; the mean with its 95 % interval by Student's t. It helps
if the interval lies above 0, harms if below, and else cannot be told. Beside it, and no answer to the question: the
change since the warm start, the mean of all batches played, and the deepest level. The first start stopped at episodes
that the recipe's context cut off before their 60 turns; the context was enlarged, and no run had been recorded.

A run plays and learns in one process, on one thread (`benchmarks.lab`). Records: benchmarks/records/nethack.json.xz.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np

from benchmarks.lab.command import contest_parser
from benchmarks.lab.contest import estimate
from benchmarks.lab.pages import table
from benchmarks.lab.store import Store
from benchmarks.lab.trainee import FIRST_HELD_OUT, Trainee
from benchmarks.lab.trial import Game, Method, Record, Sizes, Trial, warm_start
from benchmarks.report import quiet
from benchmarks.strength import episode_of
from benchmarks.worlds.speed import cpu_seconds
from envs.episode import Episode
from envs.game import Trial as Line
from envs.registry import make_game, make_player
from envs.worlds.nethack.game import SEAT
from reward_service.desk import RewardDesk, name_of

RECORDS = Path(__file__).parent / "records" / "nethack.jsonl"
WARM_STARTS, RATE = 2, 6e-4  # the recipe's step size
SIZES = Sizes(updates=20, batch=32, held_out=128)
WORTH = 100  # points that are worth 1
NETHACK = Game("nethack", "../worlds/nethack", ("game.options.processes=4", f"game.options.best={WORTH}"))
NONE = Method("none")
ONI = Method(
    "oni",
    ("reward.shaper=oni", "reward.shaper.extrinsic=game", "reward.shaper.intrinsic_weight=0.05"),
)


def trials(seeds: int) -> list[list[Trial]]:
    """A pair for each seed."""
    return [
        [Trial(NETHACK, method, RATE, seed, seed % WARM_STARTS, SIZES) for method in (NONE, ONI)]
        for seed in range(seeds)
    ]


def run(trial: Trial) -> Record:
    config, record = trial.config, Record(asdict(trial))
    trainee = Trainee(config, warm_start(trial), staleness=config.max_staleness)
    record.untrained = played(trainee, trial)
    try:
        for _ in range(trial.sizes.updates):
            figures = trainee.update()
            record.steps.append(int(figures["turns"]))
            record.outcomes.append(figures["score"])
        after = played(trainee, trial)
    except FloatingPointError as error:  # such a policy earns nothing
        record.failure, after = str(error), dict.fromkeys(record.untrained, 0.0)
    record.final = after["points"]
    record.figures = after | {name: value for name, value in trainee.desk.shaper.metrics().items()}
    record.seconds = {stage: spent / trial.sizes.updates for stage, spent in trainee.clock.seconds.items()}
    return record


def played(trainee: Trainee, trial: Trial) -> dict[str, float]:
    """Held-out games: what NetHack paid, in points, and how deep they came."""
    episodes = trainee.play(trainee.tickets(trial.sizes.held_out, 0, held_out=True))
    return {"points": mean(points, episodes), "depth": mean(lambda each: float(each.facts["depth"]), episodes)}


def points(episode: Episode) -> float:
    """Also of an episode that was cut off before the game was over."""
    return WORTH * sum(turn.reward for turn in episode.turns)


def mean(of: Callable[[Episode], float], episodes: Sequence[Episode]) -> float:
    return float(np.mean([of(each) for each in episodes]))


def told(record: Record) -> str:
    return f"{record.untrained['points']:.2f} -> {record.final:.2f} points"


def page(store: Store, seeds: int) -> str:
    rows, gained = [], []
    for seed, pair in enumerate(trials(seeds)):
        found = [store.get(trial) for trial in pair]
        if None in found:
            continue
        without, with_oni = found
        gained.append(with_oni.final - without.final)
        cells = (f"{each.untrained['points']:.2f} -> {each.final:.2f}" for each in found)
        depths = " / ".join(f"{each.figures['depth']:.2f}" for each in found)
        learned = " / ".join(f"{100 * each.mean:.2f}" for each in found)
        rows.append([seed, *cells, f"{gained[-1]:+.2f}", learned, depths])
    head = ["seed", "none", "oni", "oni - none", "while learning, none / oni", "deepest level, none / oni"]
    return f"{table(head, rows)}\n\n{answer(gained)}"


def answer(gained: Sequence[float]) -> str:
    """To the question of the first lines."""
    if len(gained) < 2:
        return f"oni - none: {len(gained)} pairs were run; two are needed for an interval"
    found = estimate(gained)
    low, high = found.mean - found.half, found.mean + found.half
    verdict = "it helps" if low > 0 else "it harms" if high < 0 else "cannot be told"
    return f"oni - none: {found.mean:+.2f} ({low:+.2f} to {high:+.2f}) points, {found.count} pairs: {verdict}"


def rate(batches: int) -> str:
    """Episodes of the mediocre player on their whole way through the reward service, CPU seconds of each part."""
    trial = trials(1)[0][1]
    config, size = trial.config, trial.sizes.batch
    options = config.game.options
    game, player = make_game("nethack", options), make_player("nethack", "mediocre", options)
    desk, rows, before = RewardDesk(config.reward.shaper.make(config.game), steady=True), [], 0.0
    for batch in range(batches):
        began = cpu_seconds()
        seeds = range(FIRST_HELD_OUT + batch * size, FIRST_HELD_OUT + (batch + 1) * size)
        episodes = [episode_of("nethack", game, {SEAT: player}, Line("none"), "mediocre", seed) for seed in seeds]
        between = cpu_seconds()
        for episode in episodes:
            desk.receive(episode)
        desk.shape(batch, [name_of(episode) for episode in episodes])
        desk.state()  # which waits for the annotator
        spent = cpu_seconds() - between
        turns, found = sum(len(episode.turns) for episode in episodes), desk.shaper.metrics()
        labelled, waiting = found["oni/labelled"], found["oni/queued"] + found["oni/pending"]
        rows.append([batch + 1, turns, f"{turns / (between - began):,.0f}", int(labelled - before), int(waiting)])
        rows[-1] += [f"{(labelled - before) / spent:,.0f}", f"{turns / spent:,.0f}"]
        before = labelled
    head = ["batch", "turns", "played / CPU s", "new captions", "still waiting", "annotated / CPU s", "turns / CPU s"]
    return table(head, rows)


def main() -> None:
    parser = contest_parser("nethack", __doc__)
    parser.add_argument("--rate", type=int, nargs="?", const=8, metavar="BATCHES", help="measure the annotator alone")
    asked = parser.parse_args()
    quiet()
    if asked.rate:
        print(rate(asked.rate))
        return
    store = Store(RECORDS, run, told)
    if not asked.tables:
        wanted = [trial for pair in trials(asked.seeds) for trial in pair]
        store.complete(wanted, asked.processes, lambda text: print(text, flush=True))
    print(page(store, asked.seeds))


if __name__ == "__main__":
    main()
