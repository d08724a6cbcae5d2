"""The training loop.

    ledger --tickets--> fleet --episodes--> rewards --------> learners --weights--> fleet
       ^                                                            |
       +------------------------ consumed --------------------------+

With max_staleness 0 the workers rest while the learners update; with 1 they already play
the next batch. A deeper pipeline only admits more tickets: nothing here changes. Where a card
cannot hold both (`rollout.engine.sleep`), what is in play rests too, and goes on after the sync:

    sleep -> update -> sync (wakes the weights, transfers, wakes the cache) -> play

Where cards are shared no engine starts while the learners are at work: it would take what they need.

Who waits for what, and what unblocks it. First the stages of the loop, in the order of an update; `seconds/STAGE` in
the metrics says how long each took:

    stage       waits for                    unblocked by                time limit: what then
    collect     the episodes of the batch    its last episode            rollout.batch_seconds: the run stops
    shape       the rewards of the batch     the reward service          reward.batch_seconds: the run stops
    learn       the update of the learners   their last rank             learner.update_seconds: they start anew
    samples     a few of the episodes, and   the object store, the       60 s, learner.sync.timeout_seconds: the run
                the credit of all            learners                    stops
    sync        weights in every engine      the last engine             learner.sync.timeout_seconds: the run stops
    evaluate    the held-out games of the    the last of them            rollout.batch_seconds: the run stops
                weights before; they are
                played meanwhile (beside)
    record      metrics of workers, rewards  their answers               10 s: the worker is lost; 120 s: the run stops
    checkpoint  the learners' state on disk  their last rank             learner.update_seconds: the run stops
                and all games before it      the recorder's thread       600 s: the run stops

Then those who work while the loop waits; in `collect`, `learn` and `evaluate` it files what they finish:

    a ticket    room (max_staleness)         a batch that is consumed    none: it is not played yet
    an episode  tokens, other players        the engine, game, endpoint  rollout.episode_seconds: it is played again
    a worker    the end of a sync            the loop                    learner.sync.timeout_seconds: the run stops
    a new one   its engine, then weights     its start, then a sync      rollout.engine.start_seconds: it is replaced
    the fleet   each worker's sign of life   its answer                  rollout.worker_silence_seconds: it is replaced
    learners    each rank's sign of life     its answer                  learner.silence_seconds: all start anew
    rewards     a refit (max_staleness 0)    the end of the refit        reward.refit_seconds: the old state goes on

A second belongs to one stage only. Those from one line of metrics.jsonl to the next are added up in `seconds/update`;
the checkpoint of an update comes after its line, and its seconds are on the next one.

A restart continues from the last checkpoint: optimiser, counters, seeds and ledger come
back; episodes that were in flight are played again from their tickets.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from pathlib import Path

import numpy as np
from ray import ObjectRef

from actors.fleet.fleet import Finished, Fleet
from cluster.episodes.recorder import Recorder
from cluster.recipe.config import RunConfig
from cluster.record.checkpoints import CheckpointStore
from cluster.record.metrics import Metrics
from cluster.record.now import Now
from cluster.record.run_folder import RunFolder
from cluster.record.samples import Samples
from cluster.record.stages import StageClock
from cluster.record.telemetry.spans import Spans
from cluster.run.collecting import Collector, without_spread
from cluster.run.evaluate import HeldOut, beside_training
from cluster.run.lasting_learners import LastingLearners
from cluster.run.ledger import Ledger
from cluster.run.playing import Playing
from cluster.run.probe_texts import ProbeTexts
from cluster.run.shared_folder import check_shared, check_written
from cluster.run.sync import SyncReport, WeightSync
from envs.memory import Spare
from reward_service.remote import RewardService
from reward_service.service.storage import read_state, write_state
from reward_service.shaper import ShapedRewards

log = logging.getLogger("parley")

LISTEN_SECONDS = 0.02  # between two looks at the learners


class TrainingLoop:
    def __init__(
        self,
        config: RunConfig,
        folder: RunFolder,
        fleet: Fleet,
        learners: LastingLearners,
        ledger: Ledger,
        rewards: RewardService,
        sync: WeightSync,
        metrics: Metrics,
        checkpoints: CheckpointStore,
        texts: ProbeTexts,
        recorder: Recorder,
        spans: Spans,
    ):
        self.config, self.folder, self.fleet, self.learners = config, folder, fleet, learners
        self.ledger, self.rewards, self.sync = ledger, rewards, sync
        self.metrics, self.checkpoints, self.texts = metrics, checkpoints, texts
        self.recorder, self.spans = recorder, spans
        self.playing = Playing(fleet, config.rollout, self.welcome)
        self.playing.on_unused = lambda game: recorder.unused(game, held_out=game.ticket.held_out)
        self.tokens = self.playing.tokens
        self.collector = Collector(self.playing, ledger, config.updates, rewards.receive, config.group_redraws)
        self.update = 0  # also the version of the weights
        keep = folder.write_transcripts, recorder.held_out
        self.held_out = HeldOut(self.playing, config, ledger.run, ledger.players, *keep)
        self.beside = beside_training(config)
        self.clock, self.now, self.spare = StageClock(), Now(folder.now), Spare()
        self.samples = Samples(folder.samples, config)

    def run(self) -> None:
        check_shared(self.folder.path, self.learners)
        with self.stage("sync"):
            self.sync.publish(self.update)
        newest = self.held_out.newest
        last = self.update == self.config.updates
        if newest is None or (newest.version < self.update and (last or self.due(self.config.evaluation.every))):
            self.evaluate()  # the one of a restart was being played when the run stopped
        if last or self.update == 0:
            self.recorder.end(self.update)
        self.clock.lap()
        while self.update < self.config.updates:
            self.spans.update(self.update + 1)
            with self.stage("collect"):
                results = self.collector.batch()
            episodes = [result.ref for result in results]
            with self.stage("shape"):
                names = [(result.ticket.number, result.ticket.attempt) for result in results]
                rewards = self.rewards.shape(self.ledger.next_batch, names, episodes)
            with self.stage("learn"), ExitStack() as alone:
                if self.config.rollout.engine.sleep:
                    self.end_evaluation()
                alone.enter_context(self.learners_at_work())
                learned = self.learn(episodes, rewards)
                with self.stage("samples"):
                    self.samples.keep(self.update + 1, episodes, rewards)
                    self.recorder.trained(results, rewards, self.credit())
                self.update += 1
                self.texts.heard(episodes)
                if self.held_out.begun is not None:  # whoever plays it may need to be started
                    alone.close()
                    self.end_evaluation()
                    alone.enter_context(self.learners_at_work())
                with self.stage("sync"):
                    synced = self.sync.publish(self.update)
            self.ledger.consume()
            self.ledger.check()
            self.tokens.train_on(results)
            self.tokens.check(self.ledger.waiting.values())
            last = self.update == self.config.updates
            if last or self.due(self.config.evaluation.every):
                self.evaluate()
            with self.stage("record"):
                self.record(results, learned, synced)
            if last:
                self.end_evaluation()
            self.recorder.end(self.update)
            if last or self.due(self.config.checkpoint.every):
                with self.stage("checkpoint"):
                    self.save()
        if self.held_out.begun is not None:  # it goes on from its last update
            self.end_evaluation()
            self.recorder.end(self.update)
        self.clock.lap()
        self.spans.end()
        self.now.ended()

    def learn(self, episodes: list[ObjectRef], rewards: Sequence[ShapedRewards]) -> dict[str, float]:
        if self.config.rollout.engine.sleep:
            self.fleet.sleep()
        return self.learners.update(episodes, rewards, meanwhile=self.listen)

    def credit(self) -> dict[tuple[int, str], np.ndarray]:
        """What the last update was learned with, where somebody keeps it."""
        return self.learners.advantages() if self.recorder.active else {}

    def learners_at_work(self) -> AbstractContextManager:
        """On shared cards no engine starts beside them."""
        rollout = self.config.rollout
        return self.fleet.no_starts() if rollout.share_cards or rollout.engine.sleep else nullcontext()

    def listen(self) -> None:
        self.playing.listen(LISTEN_SECONDS)

    def welcome(self) -> None:
        """A worker that replaces a lost one gets the current weights before it plays."""
        with self.stage("sync"), self.learners_at_work():
            self.sync.publish(self.update)

    def due(self, every: int) -> bool:
        return every > 0 and self.update % every == 0

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        with self.clock.stage(name), self.now.stage(name, self.update), self.spans.stage(name):
            yield

    def evaluate(self) -> None:
        """Held-out games with these weights. Those beside training end before the next sync."""
        with self.stage("evaluate"):
            self.held_out.begin(self.update)
        if not self.beside:
            self.end_evaluation()

    def end_evaluation(self) -> None:
        if self.held_out.begun is None:
            return
        version, _ = self.held_out.begun
        with self.stage("evaluate"):
            evaluation = self.held_out.end(self.update)
            if evaluation is None:
                log.warning("version %d is not evaluated: no worker was left that held its weights", version)
                return self.metrics.not_evaluated()
            self.metrics.evaluated(evaluation.version, evaluation.metrics(), self.held_out.rows)
            self.checkpoints.rate(evaluation.version, evaluation.win_rate)

    def record(self, results: list[Finished], learned: dict[str, float], synced: SyncReport) -> None:
        summaries = [result.summary for result in results]
        tokens = sum(summary.tokens for summary in summaries)
        oldest_versions = [each.oldest_version for each in summaries if each.tokens] or [self.update - 1]
        services = self.fleet.metrics() | self.rewards.metrics()  # they answer when they can
        services |= self.recorder.metrics() | self.spans.metrics()
        services |= self.learners.metrics() | self.ledger.metrics() | self.tokens.metrics(self.ledger.waiting.values())
        seconds = self.clock.lap()
        self.metrics.updated(
            self.update,
            {
                "rollout/outcome": sum(summary.outcome for summary in summaries) / len(summaries),
                "rollout/turns": sum(summary.turns for summary in summaries) / len(summaries),
                "rollout/cut_off": sum(summary.cut_off for summary in summaries) / len(summaries),
                "rollout/staleness": max(self.update - 1 - oldest for oldest in oldest_versions),
                "rollout/episodes": len(summaries),
                "rollout/groups_without_spread": without_spread(results, self.config.group_size),
                "rollout/tokens": tokens,
                "rollout/episodes_per_second": len(summaries) / seconds["update"],
                "rollout/tokens_per_second": tokens / seconds["update"],
            }
            | {f"seconds/{name}": spent for name, spent in seconds.items()}
            | {f"failures/{reason}": n for reason, n in self.playing.failures.items()}
            | {f"learner/{name}": value for name, value in learned.items()}
            | synced.metrics()
            | services,
            waits=self.held_out.begun is not None,
        )
        self.spare.look(time.monotonic())

    def save(self) -> None:
        def write(folder: Path) -> None:
            self.learners.save(folder / "learner")
            self.learners.export(folder / "policy")
            write_state(folder / "rewards", self.rewards.state())
            (folder / "state.json").write_text(json.dumps(self.state(), indent=1))
            check_written(folder)
            check_shared(folder, self.learners)  # ranks that started anew may be on other nodes

        self.recorder.settle()
        newest = self.held_out.newest
        measured = {"win_rate": newest.win_rate} if newest is not None and newest.version == self.update else {}
        self.learners.saved(self.checkpoints.save(self.update, write, measured) / "learner")
        if self.learners.rested:  # ranks were lost meanwhile
            with self.stage("sync"):
                self.sync.publish(self.update)

    def state(self) -> dict:
        return {
            "update": self.update,
            "ledger": self.ledger.state(),
            "tokens": self.tokens.state(self.ledger.waiting.values()),
            "evaluations": self.held_out.state(),
            "failures": dict(self.playing.failures),
            "seconds": dict(self.clock.total),
            "waiting_line": self.metrics.waiting_line(),
        }

    def restore(self, folder: Path) -> None:
        state = json.loads((folder / "state.json").read_text())
        check_shared(self.folder.path, self.learners)
        self.learners.load(folder / "learner")
        self.update = state["update"]
        self.samples.cut_back(self.update)
        self.recorder.cut_back(self.update, [each["version"] for each in state["evaluations"]])
        self.ledger.restore(state["ledger"])
        self.tokens.restore(state.get("tokens"))
        self.rewards.restore(read_state(folder / "rewards"))
        self.held_out.restore(state["evaluations"])
        self.playing.failures.update(state.get("failures", {}))
        self.clock.total.update(state.get("seconds", {}))
        self.metrics.restore(state.get("waiting_line"), self.playing.failures)
