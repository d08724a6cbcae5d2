"""Where a run's numbers go: metrics.jsonl, its loggers, and Ray's metrics endpoint.

metrics.jsonl has one object per update, appended and flushed; an evaluation's numbers are
part of the line of its update (the one before training has a line of its own, update 0). Where
its games are played beside training, the line waits for them; everybody else is told at once.
On resume the file is cut back to the checkpoint's update, so no update is in it twice.

In Ray (Prometheus, the dashboard) every name starts with parley_ and carries the tag `run`.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cluster.errors import RunFolderError
from cluster.recipe.fields import flat
from cluster.record.job_status import JobMessage
from cluster.record.loggers.logger import Logged, Loggers
from cluster.record.metric_list import exported
from cluster.record.run_folder import RunFolder, to_json, write_whole
from cluster.record.transcript import Row

if TYPE_CHECKING:
    from ray.util.metrics import Gauge

    from cluster.recipe.config import RunConfig
    from cluster.record.terminal import Show
    from learners.credit.method import CreditMethod

log = logging.getLogger("parley")

STAGE_SECONDS, FAILURES = "parley_stage_seconds", "parley_failures_total"  # each has a tag of its own
AGAIN_SECONDS = 5.0  # Ray forgets a gauge that was not set for two of its reports, which are 10 s apart
COMMON_FAILURES = ("timeout", "worker_died", "game_error", "player_error")  # a rate needs their series from the start


class Metrics:
    """Sink of one run. Use as a context manager."""

    def __init__(self, folder: RunFolder, config: RunConfig, show: Show | None = None, resume_at: int = 0):
        self.path, self.updates, self.show = folder.metrics, config.updates, show
        self.resumed_at = resume_at
        try:
            truncate_after(self.path, resume_at)
            self.file = self.path.open("a", encoding="utf-8")
            told = Logged(folder.name, folder.path, flat(config.model_dump(mode="json")), resume_at)
            self.loggers = Loggers(told, config.loggers)
        except OSError as error:
            raise RunFolderError(f"cannot write metrics in {folder.path}: {error.strerror}") from error
        self.summary: dict[str, Any] = {}
        self.in_ray = RayMetrics.if_running(folder.name)
        self.job = JobMessage()
        self.credit = config.learner.credit
        self.said_nothing_to_learn = False
        self.pending: dict[str, float] = {}  # of an evaluation whose update is not recorded yet
        self.waiting: dict[str, float] | None = None  # a line that waits for its evaluation

    def evaluated(self, update: int, values: Mapping[str, float], games: Sequence[Row] = ()) -> None:
        """`games`: some of those that were played."""
        if self.waiting is not None and self.waiting["update"] == update:
            self._publish(update, values)
            line, self.waiting = self.waiting, None
            self._append({**line, **values})
        elif update == 0:
            self._publish(update, values)
            self._append(self._line(update, values))
        elif update == self.resumed_at:  # which was not to be evaluated before
            self._publish(update, values)
            self._complete(update, values)
        else:
            self.pending = dict(values)
        self.job.say(f"update {update}/{self.updates}: win rate {values['evaluation/win_rate']:.3f} on held-out games")
        if games:
            self.loggers.games(update, games)
        if self.show is not None:
            self.show.evaluated(update, values)

    def _complete(self, update: int, values: Mapping[str, float]) -> None:
        """The last line, where somebody has not removed it."""
        self.file.close()
        lines = self.path.read_text(encoding="utf-8").splitlines(keepends=True)
        last = json.loads(lines.pop()) if lines else {}
        write_whole(self.path, "".join([*lines, to_json(self._line(update, values) | last | values, indent=None)]))
        self.file = self.path.open("a", encoding="utf-8")

    def not_evaluated(self) -> None:
        """What waits for it waits no longer."""
        line, self.waiting = self.waiting, None
        if line is not None:
            self._append(line)

    def updated(self, update: int, values: Mapping[str, float], waits: bool = False) -> None:
        """`waits`: its evaluation is still being played. One that still waits for its own, from before a resume that
        evaluates at other updates, waits no longer."""
        self.not_evaluated()
        values, self.pending = {**values, **self.pending, **self.loggers.metrics()}, {}
        self._publish(update, values)
        if waits:
            self.waiting = self._line(update, values)
        else:
            self._append(self._line(update, values))
        self.job.say(f"update {update}/{self.updates}: outcome {values.get('rollout/outcome', float('nan')):.3f}")
        for warning in self._warnings(update, values):
            log.warning("update %d: %s", update, warning)
            if self.show is not None:
                self.show.warning(f"update {update}: {warning}")
        if self.show is not None:
            self.show.updated(update, values)

    def _warnings(self, update: int, values: Mapping[str, float]) -> Iterator[str]:
        yield from _warnings(update, values, self.credit)
        if values.get("learner/nothing_to_learn") and not self.said_nothing_to_learn:
            self.said_nothing_to_learn = True
            yield (
                "nothing to learn from: all returns are equal, so the policy stays; said once, counted in "
                "learner/nothing_to_learn"
            )

    def waiting_line(self) -> dict[str, float] | None:
        """What a checkpoint has to hold, for it is not in the file."""
        return self.waiting

    def restore(self, waiting: dict[str, float] | None, failures: Mapping[str, float]) -> None:
        """Of a checkpoint. The line may have been written without its evaluation when the run stopped. `failures`:
        those that were counted until then."""
        if self.in_ray is not None:
            self.in_ray.failures_seen |= failures
        if waiting is None:
            return
        self.file.close()
        truncate_after(self.path, waiting["update"] - 1)
        self.file, self.waiting = self.path.open("a", encoding="utf-8"), waiting

    @staticmethod
    def _line(update: int, values: Mapping[str, float]) -> dict[str, float]:
        return {"update": update, "time": round(time.time(), 3), **{name: float(v) for name, v in values.items()}}

    def _append(self, line: Mapping[str, float]) -> None:
        try:
            self.file.write(to_json(line, indent=None))
            self.file.flush()
        except OSError as error:
            raise RunFolderError(f"cannot write {self.path}: {error.strerror}") from error

    def _publish(self, update: int, values: Mapping[str, float]) -> None:
        values = {name: float(value) for name, value in values.items()}
        self.loggers.log(update, values)
        if self.in_ray is not None:
            self.in_ray.record(values)

    def close(self) -> None:
        if self.waiting is not None:
            self._append(self.waiting)
        self.file.close()
        if self.in_ray is not None:
            self.in_ray.close()
        self.loggers.end(self.summary)

    def ended(self, summary: Mapping[str, Any]) -> None:
        """The run's result, for those that keep one."""
        self.summary = dict(summary)

    def __enter__(self) -> Metrics:
        return self

    def __exit__(self, *exception) -> None:
        self.close()


class RayMetrics:
    """The same numbers as Prometheus metrics of the Ray cluster. Gauges are there until `close`, or as long as the
    process."""

    def __init__(self, run: str):
        from ray.util.metrics import Counter, Gauge

        def tagged(kind, name: str, what: str, *tags: str):
            metric = kind(name, description=what, tag_keys=("run", *tags))
            metric.set_default_tags({"run": run})
            return metric

        self.stages = tagged(Gauge, STAGE_SECONDS, "seconds of the newest update by stage", "stage")
        self.failures = tagged(Counter, FAILURES, "failed episodes by reason", "reason")
        self.values = tagged(Gauge, "parley_value", "every other recorded number, by name", "name")
        self.updated_at = tagged(Gauge, "parley_updated_at", "Unix time of the newest numbers, or of the start")
        self.held: dict[tuple[Gauge, tuple[tuple[str, str], ...]], float] = {}  # gauges and their tags
        self.lock, self.closed = threading.Lock(), threading.Event()
        self._set(self.updated_at, time.time())
        threading.Thread(target=self._set_again, name="gauges in Ray", daemon=True).start()
        for reason in COMMON_FAILURES:
            self.failures._record(0.0, {"reason": reason})  # `inc` takes no 0
        self.failures_seen: dict[str, float] = {}
        self.stages_seen: set[str] = set()
        self.sums = {name: metrics for name, metrics in exported().items() if name not in (STAGE_SECONDS, FAILURES)}
        self.shown = {
            name: tagged(Counter if _counts(name) else Gauge, name, " And: ".join(each.meaning for each in metrics))
            for name, metrics in self.sums.items()
        }

    @classmethod
    def if_running(cls, run: str) -> RayMetrics | None:
        import ray

        return cls(run) if ray.is_initialized() else None

    def record(self, values: Mapping[str, float]) -> None:
        self._set(self.updated_at, time.time())
        for name, metrics in self.sums.items():
            if not all(metric.name in values for metric in metrics):
                continue
            value = sum(values[metric.name] for metric in metrics)
            if not _counts(name):
                self._set(self.shown[name], value)
            elif value > 0:
                self.shown[name].inc(value)
        if "seconds/update" in values:  # a stage that it had not took none of it
            values = dict.fromkeys(self.stages_seen, 0.0) | dict(values)
            self.stages_seen |= {name for name in values if name.startswith("seconds/")}
        for name, value in values.items():
            section, _, rest = name.partition("/")
            if section == "seconds":
                self._set(self.stages, value, stage=rest)
            elif section == "failures":  # a running total; the counter wants what is new
                new = value - self.failures_seen.get(rest, 0.0)
                self.failures_seen[rest] = value
                if new > 0:
                    self.failures.inc(new, tags={"reason": rest})
            else:
                self._set(self.values, value, name=name)

    def close(self) -> None:
        self.closed.set()

    def _set(self, gauge: Gauge, value: float, **tags: str) -> None:
        with self.lock:
            self.held[gauge, tuple(tags.items())] = value
            gauge.set(value, tags)

    def _set_again(self) -> None:
        while not self.closed.wait(AGAIN_SECONDS):
            with self.lock:
                for (gauge, tags), value in self.held.items():
                    gauge.set(value, dict(tags))


def _counts(name: str) -> bool:
    """Whether Prometheus adds up what this one is given."""
    return name.endswith("_total")


def _warnings(update: int, values: Mapping[str, float], credit: CreditMethod) -> Iterator[str]:
    if values.get("learner/logprob_gap_warned"):
        gap = values["learner/logprob_gap_mean"]
        yield f"trainer and engines differ by {gap:.2g} in log-prob on tokens of the same weights (logprob_gap_warn)"
    if values.get("learner/applied") == 0:
        yield f"no finite gradient, the weights stay ({values['learner/bad_updates']:.0f} such updates)"
    if update == 1 and values.get("rollout/cut_off") == 1 and credit.gamma == 1 and credit.critic_settings is not None:
        yield (
            "every game was cut off, none ended: without a discount their values grow without bound "
            "(learner.credit.gamma=1)"
        )


def truncate_after(path, update: int) -> None:
    """Drop the lines of later updates, and a last line that a kill cut in half."""
    if not path.exists():
        return
    kept = []
    for line in path.read_text(encoding="utf-8").splitlines(keepends=True):
        try:
            whole = line.endswith("\n") and json.loads(line)["update"] <= update
        except (ValueError, KeyError, TypeError):
            log.warning("dropped a damaged line of %s", path)
            continue
        if whole:
            kept.append(line)
    write_whole(path, "".join(kept))
