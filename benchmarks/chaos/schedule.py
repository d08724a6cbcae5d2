"""Which faults, in which order: a pure function of the seed.

A fault is a process, what is done to it, and when. Each round has every process with every mode once, in an order that
puts the two commonest modes first, so that a few trials have met every process; setting, moment and delay are drawn.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence
from dataclasses import dataclass

SMALL = (
    "updates=6",
    "batch_episodes=32",
    "game.name=parrot",
    "model.path=embedded",
    "model.embedded.steps=0",
    "model.embedded.hidden=32",
    "rollout.cpus_per_worker=0.25",
    "rollout.max_utterance_tokens=8",
    "rollout.engine.max_context=128",
    "rollout.engine.max_sequences=32",
    "rollout.engine.cpu_cache_gib=0.25",
    "rollout.engine.start_seconds=120",
    "rollout.worker_silence_seconds=10",
    "rollout.batch_seconds=240",
    "reward.silence_seconds=10",
    "reward.batch_seconds=60",
    "learner.cpus_per_rank=0.25",
    "learner.learning_rate=3e-3",
    "learner.start_seconds=75",
    "learner.update_seconds=60",
    "learner.silence_seconds=10",
    "learner.sync.timeout_seconds=60",
    "learner.sync.silence_seconds=10",
    "evaluation.episodes=8",
    "evaluation.every=3",
    "checkpoint.every=2",
    "samples.updates=6",
    "samples.episodes=32",  # all that is trained on is named in the run's folder
)
PLAIN = "rollout.engine.kind=transformers"
SETUPS = {  # name -> settings over SMALL
    "exact": ("max_staleness=0", PLAIN),
    "ranks": ("max_staleness=0", PLAIN, "learner.ranks=2", "rollout.workers=2"),
    "ahead": ("max_staleness=1", PLAIN),
    "vllm": ("max_staleness=0", "rollout.engine.kind=vllm"),
    "split": (  # an engine of several processes; each holds a part of the words, and the parrot's are too few
        "max_staleness=0",
        "rollout.engine.tensor_parallel=2",
        "game.name=twenty_questions",
        "model.embedded.steps=100",  # or no game is won, and nothing is learned
        "rollout.engine.max_context=384",
    ),
}
CLUSTERED = ("max_staleness=0", PLAIN, "learner.cpus_per_rank=3", "rollout.cpus_per_worker=4")
CLUSTERS = {  # setups on several nodes: how many join the head, and the CPUs of each
    "node": (1, 8),  # all workers on it
    "nodes": (2, 4),
}
SETUPS |= dict.fromkeys(CLUSTERS, (*CLUSTERED, "rollout.workers={least: 1, most: 2}"))
EXACT = ("exact", "ranks", "vllm", "split", *CLUSTERS)  # the same bytes twice
UPDATES, BATCH = 6, 32

MODES = {  # process -> what may happen to it
    "worker": ("kill", "stop", "pause", "segv", "term"),
    "engine": ("kill", "stop", "pause", "segv", "term"),
    "learner": ("kill", "stop", "pause", "segv", "term"),
    "rewards": ("kill", "stop", "pause", "segv", "term"),
    "driver": ("kill", "stop", "pause", "segv", "term"),
    "raylet": ("kill", "stop", "pause", "segv", "term"),
    "gcs": ("kill", "stop", "pause", "segv", "term"),
    "disk": ("full",),
}
COMMAND = "command"  # the process that the user started, which is told to stop
STOPS = ("interrupt", "term")
NODE = "node"  # the machine on which a rollout worker is
LOSSES = ("kill", "cut", "both")  # its power fails, and another joins; its cable is pulled, and put back; in turn
LATER = ((COMMAND, STOPS), (NODE, LOSSES))  # drawn for themselves: they change no other trial of a seed
ROUND = sum(map(len, MODES.values())) + sum(len(modes) for _, modes in LATER)
FIRST = ("kill", "stop", "full", "pause", "segv", "term")
IMPORT = "import"  # the first seconds of a command
MOMENTS = ("start", "play", "reward", "learn", "sync", "save", "evaluate")
NEVER = "none"  # the process and the mode of a run that nobody disturbs
SHARES = {"exact": 5, "ranks": 2, "ahead": 2, "vllm": 1}  # how often a setting is drawn
EMPTY_ROUNDS = 100  # without one of those asked for: there is none
PAUSE_SECONDS = (2.0, 25.0)  # until a process that is frozen goes on, until a node or its cable is there again


@dataclass(frozen=True)
class Trial:
    setup: str
    process: str
    mode: str
    moment: str
    update: int  # the moment is that of this update or a later one
    delay: float  # seconds from the moment to the fault
    pause: float  # seconds for which it lasts; 0: for ever
    keep_going: bool
    settings: str  # digest of what the run was told

    @property
    def name(self) -> str:
        if self.process == NEVER:
            return f"{self.setup}, undisturbed"
        how = f"{self.mode} {self.pause:.0f} s" if self.pause else self.mode
        going = ", keep going" if self.keep_going else ""
        return f"{self.setup}, {self.process} {how} at {self.moment} {self.update} + {self.delay:.2f} s{going}"

    @property
    def exact(self) -> bool:
        return self.setup in EXACT


def settings(setup: str) -> list[str]:
    return [*SMALL, *SETUPS[setup]]


def undisturbed(setup: str, processor: str) -> Trial:
    """`processor`: its kind, for bytes are equal on one kind alone."""
    return Trial(setup, NEVER, NEVER, NEVER, 0, 0.0, 0.0, False, f"{digest(setup)} {processor}")


def digest(setup: str) -> str:
    return hashlib.sha256(" ".join(settings(setup)).encode()).hexdigest()[:12]


def schedule(seed: int, trials: int, only: Sequence[str] = ()) -> list[Trial]:
    """`only`: those whose name has one of these words in it. More trials begin with the same ones."""
    draw, found = random.Random(f"chaos/{seed}"), []
    later = [(random.Random(f"chaos/{seed}/{process}"), process, modes) for process, modes in LATER]
    rounds = 0
    while len(found) < trials:
        cells = [(process, mode) for process, modes in MODES.items() for mode in modes]
        draw.shuffle(cells)
        cells.sort(key=lambda cell: FIRST.index(cell[1]))
        made = [_fault(draw, *cell) for cell in cells] + [
            _fault(own, process, mode) for own, process, modes in later for mode in modes
        ]
        found += [each for each in made if not only or any(word in each.name for word in only)]
        rounds += 1
        if not found and rounds == EMPTY_ROUNDS:
            raise ValueError(f"no fault has any of {', '.join(only)} in its name")
    return found[:trials]


def _fault(draw: random.Random, process: str, mode: str) -> Trial:
    """Every number is drawn whether it is used or not, so that one trial's choice does not change the next one's."""
    setup = draw.choices(list(SHARES), list(SHARES.values()))[0]
    moment, update = draw.choice(MOMENTS), draw.randrange(UPDATES - 1)
    seconds, pause = draw.random(), draw.uniform(*PAUSE_SECONDS)
    keep_going = draw.random() < 0.5
    if process == "disk" and moment == "start":
        moment = "save"
    if process == COMMAND and draw.random() < 0.125:
        moment = IMPORT
    if process == "engine":
        setup = "split"
    if process == NODE:
        setup = draw.choice(list(CLUSTERS))
        moment = "play" if moment == "start" else moment
    if (process, mode) == ("driver", "stop"):
        keep_going = True  # who works alone cannot notice that it is frozen
    return Trial(
        setup,
        process,
        mode,
        moment,
        0 if moment in ("start", IMPORT) else update,
        round(6 * seconds if moment in ("start", IMPORT) else 0.05 * seconds, 3),
        round(pause, 1) if mode == "pause" or process == NODE else 0.0,
        keep_going,
        digest(setup),
    )
