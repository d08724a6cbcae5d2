"""From a configuration to a running system, and safely down again.

    train / resume:  Ray -> policy -> fleet + learners -> TrainingLoop
    evaluate:        Ray -> policy -> fleet            -> held-out games

Everything started here is closed here, in reverse order, whatever happens: an exception,
Ctrl-C or a failed start leaves no actor behind and no half-written checkpoint. A Ray
cluster that was already there is used and left running; only one started here is shut down.
"""

from __future__ import annotations

import logging
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from rich.markup import escape

from cluster.errors import CheckpointError, RunError
from cluster.plan.lines import summary as plan_summary
from cluster.plan.machine import Machine, check_reachable, of_ray
from cluster.plan.of_run import plan_run
from cluster.recipe.config import RunConfig
from cluster.recipe.resumable import RESUMABLE
from cluster.record.checkpoints import CheckpointStore, all_checkpoints
from cluster.record.metrics import Metrics
from cluster.record.now import Now
from cluster.record.picture import draw_curve
from cluster.record.run_folder import RunFolder
from cluster.record.telemetry.spans import Spans
from cluster.record.terminal import Show
from cluster.run.asked import check_online, seats_and_players, with_policy
from cluster.run.failures import named_failures
from cluster.run.last_word import LastWord, last_word
from cluster.run.policy import check_model, lasting, model_to_measure, policy_folder, whole_frozen
from cluster.run.ray_watch import disconnecting, ray_watch
from cluster.run.shared_folder import check_seen
from cluster.run.signals import interruptible, own_sigterm
from envs.settings import GameSettings
from parley.names import ray_options

if TYPE_CHECKING:
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

    from actors.fleet.fleet import Fleet
    from cluster.episodes.recorder import Recorder
    from cluster.record.loggers.logger import Loggers
    from cluster.run.playing import Playing
    from learners.group import LearnerGroup

log = logging.getLogger("parley")
OF_RAY = {  # its settings, unless they are set
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_task_events_max_num_task_in_gcs": "2000",  # the GCS remembers 100,000 calls else
    "RAY_worker_niceness": "0",  # 15 else, and other work on the machine takes the CPUs from play and learning
}


def train(config: RunConfig, folder: RunFolder) -> dict:
    """A new run; returns what summary.json holds."""
    return _run(config, folder, checkpoint=None)


def resume(config: RunConfig, folder: RunFolder) -> dict:
    """Continue the run in `folder` from its newest whole checkpoint."""
    checkpoint = CheckpointStore(folder.checkpoints, config.checkpoint.keep).latest()
    if checkpoint is None:
        raise CheckpointError(f"{folder.path} holds no complete checkpoint to resume from")
    return _run(config, folder, checkpoint)


def _run(config: RunConfig, folder: RunFolder, checkpoint: Path | None) -> dict:
    check_online(config)
    players = with_policy(seats_and_players(config), "trained")
    with ExitStack() as stack:
        asked = stack.enter_context(interruptible())
        show = stack.enter_context(Show(config, folder))  # first: the imports take seconds
        Now(folder.now).starting(_update_of(checkpoint))
        from actors.transport.digest import digest
        from cluster.run.lasting_learners import LastingLearners
        from cluster.run.ledger import Ledger
        from cluster.run.loop import TrainingLoop
        from cluster.run.placement import shared_cards
        from cluster.run.probe_texts import ProbeTexts
        from cluster.run.sync import WeightSync
        from envs.memory import return_large_pieces
        from learners.group import LearnerGroup
        from reward_service.remote import RewardService

        if "working_dir_files" in str(folder.path):  # Ray's copy of a submitted job's working directory
            show.line(f"warning: {folder.path} goes when the job's node does; give output=/a/shared/folder")
        if checkpoint is not None:
            show.line(_from_where(folder, checkpoint))
        word = stack.enter_context(last_word(f"go on with: parley resume {folder.path}", asked, folder.path))
        machine = stack.enter_context(ray_cluster(show, word))
        plan = plan_run(config, machine, may_change=None if checkpoint is None else set(RESUMABLE))
        config = plan.config
        folder.write_engine(config.rollout.engine.kind)
        show.line(escape("; ".join([plan_summary(plan), *plan.notes])))
        with named_failures():
            model = policy_folder(config, folder, show)
            check_seen(model, folder)
            check_model(model, config, trained=True)
            whole_frozen(config, folder, show)
        return_large_pieces()  # of episodes that come and go
        metrics = stack.enter_context(Metrics(folder, config, show, resume_at=_update_of(checkpoint)))
        spans = stack.enter_context(Spans(config.telemetry, folder.path.name, config.game.name))
        checkpoints = CheckpointStore(folder.checkpoints, config.checkpoint.keep)
        stack.callback(checkpoints.tidy)  # after the learners have ended
        show.stage("starting learners and rollout workers")
        with named_failures():
            places = stack.enter_context(shared_cards(config))
        learners = LearnerGroup(
            config.learner,
            str(model),
            config.rollout.temperature,
            seed=config.seed,
            name=folder.path.name,
            ranks_per_worker=config.rollout.engine.tensor_parallel,
            trust_remote_code=config.model.trust_remote_code,
            digest=digest,
            places=places,
        )
        stack.callback(learners.close)
        games = {config.game.name: config.game}
        transport = config.learner.sync.transport
        fleet = start_fleet(config, str(model), transport, folder.path.name, stack, games, learners, places)
        rewards = RewardService(config.reward, config.game, folder.path.name, steady=config.max_staleness == 0)
        stack.callback(rewards.close)
        ledger = Ledger(
            folder.path.name,
            config.game.name,
            players,
            seed=config.seed,
            batch=config.batch_episodes,
            max_staleness=config.max_staleness,
            max_attempts=config.rollout.max_attempts,
            group=config.group_size,
        )
        rest = fleet.sleep if config.rollout.engine.sleep else None
        texts, lasting = ProbeTexts(config, str(model)), LastingLearners(learners, config.learner.max_restarts, rest)
        sync = WeightSync(
            fleet,
            lasting,
            config.learner.sync,
            sequences=texts.sequences,
            half=plan.dtype != "float32",
        )
        recorder = stack.enter_context(_recorder(config, folder))
        stack.callback(show.now, "closing learners and workers")
        recorder.on_kept = spans.games
        parts = rewards, sync, metrics, checkpoints, texts, recorder, spans
        loop = TrainingLoop(config, folder, fleet, lasting, ledger, *parts)
        loop.playing.on_poll, loop.now.tell = show.playing, show.doing
        with named_failures():
            if checkpoint is not None:
                loop.restore(checkpoint)
            loop.run()
        summary = summarise(config, folder, loop)
        folder.write_summary(summary)
        metrics.ended(summary)
        draw_curve(folder.metrics, summary, folder.path / "curve.svg")
        _report(folder, metrics.loggers, show)
        show.finished(summary)
    return summary


def _report(folder: RunFolder, loggers: Loggers, show: Show) -> None:
    """For loggers that take it. It is no part of the run: one that cannot be made fails none."""
    if not loggers.readers:
        return
    from cluster.report.page import write_report

    show.stage(f"making the report for {' and '.join(loggers.readers)}")
    try:
        page = write_report([folder.path], say=show.now)
    except Exception as error:
        log.exception("the report could not be made")
        show.warning(f"the report could not be made: {error}; later: parley report {folder.path}")
        return
    loggers.report(page)


def _recorder(config: RunConfig, folder: RunFolder) -> Recorder:
    from cluster.episodes.recorder import Recorder
    from cluster.run.securing import fetch

    return Recorder(folder.games, config.record, fetch)


def evaluate(config: RunConfig, model: str, folder: RunFolder) -> dict:
    """Held-out games with a trained run's policy or any model folder."""
    players = with_policy(seats_and_players(config), "measured")
    games = {config.game.name: config.game}
    with _evaluating(config, model, folder, games) as playing, _recorder(config, folder) as recorder:
        from cluster.run.evaluate import HeldOut

        playing.on_unused = lambda game: recorder.unused(game, held_out=True)
        keep = folder.write_transcripts, recorder.held_out
        held_out = HeldOut(playing, config, folder.path.name, players, *keep)
        held_out.begin(0)
        result = held_out.end(0)
    return {"model": model} | {key.removeprefix("evaluation/"): value for key, value in result.metrics().items()}


def evaluate_trials(config: RunConfig, model: str, folder: RunFolder, trials: dict) -> dict:
    """The game's own trials, as `cluster.run.trials.chosen_trials` gives them."""
    from cluster.run.trials import episode_line, play_trials, trial_figures

    gamma = config.learner.credit.gamma

    def keep(trial: str, episodes: list) -> None:
        folder.append_episodes([episode_line(trial, episode, gamma) for episode in episodes])
        folder.write_transcripts(trial, episodes)

    games = {name: settings for name, (settings, _) in trials.items()}
    with _evaluating(config, model, folder, games) as playing:
        found = play_trials(playing, config, folder.path.name, trials, keep)
    return {"model": model, "game": config.game.name, "gamma": gamma, "trials": trial_figures(found)}


@contextmanager
def _evaluating(config: RunConfig, model: str, folder: RunFolder, games: dict[str, GameSettings]) -> Iterator[Playing]:
    """Workers that play `games` with the weights in the model's folder, and nothing else."""
    with ExitStack() as stack:
        asked = stack.enter_context(interruptible())
        show = stack.enter_context(Show(config, folder))
        word = stack.enter_context(last_word("evaluate again", asked, folder.path))
        model = stack.enter_context(lasting(model, folder))
        machine = stack.enter_context(ray_cluster(show, word))
        with named_failures():
            path = model_to_measure(config, model, folder, show)
            check_seen(path, folder)
            check_model(path, config)
            whole_frozen(config, folder, show)
        playing = start_playing(config, str(path), folder.path.name, stack, games, machine, show)
        stack.callback(show.now, "closing workers")
        with named_failures():
            yield playing


def start_playing(
    config: RunConfig,
    model: str,
    run: str,
    stack: ExitStack,
    games: dict[str, GameSettings],
    machine: Machine,
    show: Show,
) -> Playing:
    """Start workers that play with the weights in the model's folder."""
    from cluster.run.playing import Playing

    config = plan_run(config, machine, "play", model).config
    show.stage("starting rollout workers")
    playing = Playing(start_fleet(config, model, None, run, stack, games), config.rollout)
    playing.on_poll = show.playing
    return playing


def start_fleet(
    config: RunConfig,
    model: str,
    transport: str | None,
    run: str,
    stack: ExitStack,
    games: dict[str, GameSettings],
    learners: LearnerGroup | None = None,
    places: list[PlacementGroupSchedulingStrategy] | None = None,
) -> Fleet:
    """Start the workers of a planned config, and the learners while their engines load. On shared cards no engine
    starts before the learners are up: it measures what is left of its card, and takes its part of that. On others the
    learners are placed first, close together, unless an engine needs several cards of one node."""
    from actors.fleet.fleet import Fleet
    from actors.worker_parts import WorkerSpec

    spec = WorkerSpec(
        run=run,
        model_path=model,
        games=games,
        rollout=config.rollout,
        transport=transport,
        lora_rank=config.learner.lora.rank,
        seed=config.seed,
        trust_remote_code=config.model.trust_remote_code,
        record_experts=learners is not None and config.learner.router_replay,
    )
    fleet = Fleet(config.rollout, spec, places)
    stack.callback(fleet.close)
    with named_failures():
        if learners is not None and places is not None:
            fleet.prepare()
            learners.start()
        elif learners is not None and config.rollout.engine.tensor_parallel == 1:
            learners.place()
        fleet.launch()
        if learners is not None and places is None:
            learners.start()
        fleet.start()
    return fleet


@contextmanager
def ray_cluster(show: Show, word: LastWord) -> Iterator[Machine]:
    """Join the cluster that RAY_ADDRESS or a job names, else start one on this machine. Yields what it has. Where Ray
    is frozen the process ends with `word`."""
    import ray

    # Engines and DeepSpeed find the compiler tools of the environment that runs this.
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    for name, value in OF_RAY.items():
        os.environ.setdefault(name, value)
    started_here, options = not ray.is_initialized(), ray_options()
    if started_here:
        address = os.environ.get("RAY_ADDRESS")
        show.now(f"joining Ray at {address}" if address else "starting Ray")
        if address:
            check_reachable(address)
        elif not tempfile.gettempdir().isascii():
            raise RunError(f"Ray cannot use the folder {tempfile.gettempdir()} (TMPDIR): its path must be plain ASCII")
        try:
            with own_sigterm():
                joined = ray.init(address=address or "local", log_to_driver=False, logging_level="ERROR", **options)
        except Exception as error:  # Ray raises the bare class too
            raise RunError(
                f"cannot start or reach Ray at {address or 'this machine'}: {type(error).__name__}: {error}"
            ) from error
        if joined.dashboard_url:
            show.line(f"Ray dashboard http://{joined.dashboard_url}")
    elif options and not ray.get_runtime_context().runtime_env.get("worker_process_setup_hook"):
        raise RunError(
            "Ray was started before, and its workers would import this project's folders in place of Parley's packages "
            f"of the same names; let Parley start Ray, or call ray.init(runtime_env={options['runtime_env']})"
        )
    logs = Path(ray._private.worker._global_node.get_session_dir_path()) if started_here and not address else None
    try:
        with ray_watch(word, started_here):
            yield of_ray()
    except BaseException:
        logs = None  # whoever looks for the reason wants them
        raise
    finally:
        if started_here:
            with disconnecting(word):
                ray.shutdown()
        if logs is not None:  # or each run leaves a folder behind
            shutil.rmtree(logs, ignore_errors=True)


def _from_where(folder: RunFolder, checkpoint: Path) -> str:
    every = all_checkpoints(folder.checkpoints)
    newer = " and ".join(each.name for each in every[every.index(checkpoint) + 1 :])
    return f"going on from {checkpoint.name}" + (f", for {newer} cannot be read" if newer else "")


def _update_of(checkpoint: Path | None) -> int:
    return 0 if checkpoint is None else CheckpointStore.update_of(checkpoint)


def summarise(config: RunConfig, folder: RunFolder, loop) -> dict:
    evaluations = loop.held_out.done
    after = evaluations[-1]
    first = evaluations[0].version == 0  # else no worker was left that held the weights before training
    before = evaluations[0] if first else None
    return {
        "run": folder.path.name,
        "game": config.game.name,
        "engine": config.rollout.engine.kind,
        "updates": loop.update,
        "episodes_trained": loop.ledger.counts.consumed,
        "held_out_games": after.episodes,
        "win_rate_before": before and before.win_rate,
        "win_rate_before_interval": before and [before.win_low, before.win_high],
        "win_rate_after": after.win_rate,
        "win_rate_after_interval": [after.win_low, after.win_high],
        "outcome_before": before and before.outcome,
        "outcome_after": after.outcome,
        "ledger": loop.ledger.metrics(),
        "tokens": loop.tokens.metrics(loop.ledger.waiting.values()),
        "failures": dict(loop.playing.failures),
        "seconds": loop.clock.by_stage(),
        "evaluations": [evaluation.metrics() | {"version": evaluation.version} for evaluation in evaluations],
    }
