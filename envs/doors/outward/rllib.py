"""Every game as a multi-agent environment of RLlib; the one file of this floor that imports Ray.

    PPOConfig().environment(GameEnv, env_config={"game": "parrot", "options": {"seats": 2}})

Agents are the game's seats, less those that `players` gives to scripts. Games are turn-based:
only the seat that is to act has an observation. A reward that falls to a seat while others
act is paid with its next observation, and what is still owed when the game ends is paid then,
with the seat's closing observation. A seat that was never asked has no episode to end.

env_config: `game`, `options`, `players`, `form` ("arrays", which RLlib's own networks take, or
"text") with `utterances`, `observation_length` and `utterance_length`, `pay` ("steps" or
"outcome"), and `seed`, from which the seeds of episodes are drawn where `reset` is given none, among
those of games that are trained on. Each of RLlib's workers draws its own, and so does each environment
of one worker, in the order in which they are made.
"""

from __future__ import annotations

import random
from collections import defaultdict
from itertools import count
from typing import Any

from ray.rllib.env.multi_agent_env import MultiAgentEnv

from envs.doors.inward.forms import make_form
from envs.doors.inward.sitting import Sitting
from envs.text.tasks import HELD_OUT_SEEDS

KNOWN = (
    "game", "options", "players", "form", "pay", "seed", "utterances", "observation_length", "utterance_length",
)  # fmt: skip
MADE: defaultdict[tuple[Any, int], count] = defaultdict(count)  # environments of this process, by seed and worker


class GameEnv(MultiAgentEnv):
    def __init__(self, config: dict[str, Any]):
        super().__init__()
        unknown = [key for key in config if key not in KNOWN]
        if unknown:
            raise ValueError(f"env_config has no {unknown[0]!r}; it has: {', '.join(KNOWN)}")
        if "game" not in config:
            raise ValueError("env_config needs 'game', the name of a game")
        options = dict(config.get("options") or {})
        self.sitting = Sitting(config["game"], options, config.get("players"), config.get("pay", "steps"))
        lengths = {key: config[key] for key in ("observation_length", "utterance_length") if key in config}
        form = config.get("form", "arrays")
        self.form = make_form(form, config["game"], self.sitting.game, options, config.get("utterances"), **lengths)
        self.possible_agents = list(self.sitting.free)
        self.agents = list(self.sitting.free)
        self.observation_spaces = dict.fromkeys(self.possible_agents, self.form.observations)
        self.action_spaces = dict.fromkeys(self.possible_agents, self.form.actions)
        drawn_by = config.get("seed", 0), getattr(config, "worker_index", 0)
        self.did: dict[str, dict[str, Any]] = {}  # what each seat's last utterance did, until it is told
        self.seeds = random.Random(f"episodes {(*drawn_by, next(MADE[drawn_by]))}")

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[dict, dict]:
        sitting = self.sitting
        sitting.begin(self.seeds.randrange(HELD_OUT_SEEDS) if seed is None else seed)
        while sitting.seat is None:  # a game that its scripts ended before any agent could act
            sitting.begin(self.seeds.randrange(HELD_OUT_SEEDS))
        self.did.clear()
        return self._look()

    def step(self, action_dict: dict[str, Any]) -> tuple[dict, dict, dict, dict, dict]:
        sitting = self.sitting
        acting = sitting.seat
        if set(action_dict) != {acting}:
            raise ValueError(f"it is the turn of {acting!r}, but actions are given for {sorted(action_dict)}")
        step = sitting.say(self.form.said(action_dict[acting]))
        self.did[acting] = {"caption": step.caption, "executable": step.executable}
        terminated, truncated = sitting.ended
        over = terminated or truncated
        shown, infos = self._ending() if over else self._look()
        ends = (*shown, "__all__") if over else ("__all__",)
        return (
            shown,
            {seat: sitting.collect(seat) for seat in shown},
            dict.fromkeys(ends, terminated),
            dict.fromkeys(ends, truncated),
            infos,
        )

    def _look(self) -> tuple[dict, dict]:
        game, seat = self.sitting.game, self.sitting.seat
        shown = {seat: self.form.shown(game.observe())}
        return shown, {seat: {**self.did.pop(seat, {}), **self.form.listed(tuple(game.actions()))}}

    def _ending(self) -> tuple[dict, dict]:
        game = self.sitting.game
        closing, outcome = game.closing(), game.outcome()
        spoken = [seat for seat in self.possible_agents if seat in self.sitting.spoken]
        shown = {seat: self.form.shown(closing.get(seat, "")) for seat in spoken}
        return shown, {seat: {**self.did.pop(seat, {}), "outcome": outcome[seat]} for seat in spoken}
