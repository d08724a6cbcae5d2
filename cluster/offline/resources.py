"""Ray, rollout workers and learners, each started when it is first needed and closed when the next one is.

Playing and training take turns, so they share the same CPUs and GPUs. Workers stay for as long as the same
policy plays: held-out games and the next collection are played by one fleet.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from cluster.errors import ConfigError
from cluster.offline.terminal import Terminal
from cluster.plan.machine import Machine
from cluster.plan.of_run import plan_run
from cluster.recipe.config import RunConfig
from cluster.record.run_folder import RunFolder
from cluster.run.failures import named_failures
from cluster.run.last_word import last_word
from cluster.run.policy import check_model, check_offline, model_to_measure, play_whole, whole_frozen
from cluster.run.session import ray_cluster, start_playing

if TYPE_CHECKING:
    from cluster.run.lasting_learners import LastingLearners
    from cluster.run.playing import Playing


class Resources:
    """Use as a context manager. `folder` is that of the whole run."""

    def __init__(self, config: RunConfig, folder: RunFolder, terminal: Terminal):
        self.config, self.folder, self.terminal = config, folder, terminal
        self.ray, self.running = ExitStack(), ExitStack()
        self.machine: Machine | None = None  # of the cluster, once there is one
        self.player: tuple[str, Playing] | None = None  # whose weights play, and through whom
        self._beginning: str | None = None

    def __enter__(self) -> Resources:
        return self

    def __exit__(self, *exception) -> None:
        try:
            self.clear()
        finally:
            self.ray.close()

    def clear(self) -> None:
        """Whoever plays or trains leaves."""
        self.player = None
        self.running.close()
        self.running = ExitStack()

    def _cluster(self) -> None:
        if self.machine is None:
            word = self.ray.enter_context(
                last_word(f"go on with: parley offline run {self.folder.path}", folder=self.folder.path)
            )
            self.machine = self.ray.enter_context(ray_cluster(self.terminal, word))

    def beginning(self) -> str:
        """The policy that everything starts from, as a whole model that engines and learners load."""
        if self._beginning is None:
            config = self.config.model_copy(deep=True)
            if config.model.path != "embedded" and not Path(config.model.path).is_dir():
                self._cluster()  # every node fetches it
            with named_failures():
                self._beginning = str(model_to_measure(config, config.model.path, self.folder, self.terminal))
        return self._beginning

    def playing(self, policy: str) -> Playing:
        """Workers that play with the weights in this folder."""
        if self.player is not None and self.player[0] == policy:
            return self.player[1]
        self.clear()
        self._cluster()
        config = self.config.model_copy(deep=True)
        play_whole(config)
        with named_failures():
            check_model(policy, config)
            whole_frozen(config, self.folder, self.terminal)
        games, name = {config.game.name: config.game}, f"{self.folder.name}-{Path(policy).parent.name}"
        playing = start_playing(config, policy, name, self.running, games, self.machine, self.terminal)
        self.player = policy, playing
        return playing

    @contextmanager
    def learners(self, policy: str, updates: int) -> Iterator[LastingLearners]:
        """Learners that start from the weights in this folder and make so many updates."""
        self.clear()
        self._cluster()
        from cluster.run.lasting_learners import LastingLearners
        from learners.group import LearnerGroup

        config = plan_run(self.config, self.machine, "learn", policy).config
        check_offline(policy, config)
        self.terminal.stage("starting learners")
        if why := config.learner.no_step_within(updates):
            raise ConfigError(f"learner: these games make {updates} updates, which {why}")
        config.learner.end_with(updates)
        group = LearnerGroup(
            config.learner,
            policy,
            config.rollout.temperature,
            seed=config.seed,
            name=self.folder.name,
            trust_remote_code=config.model.trust_remote_code,
        )
        self.running.callback(group.close)
        with named_failures():
            group.start()
            yield LastingLearners(group, config.learner.max_restarts)
        self.clear()
