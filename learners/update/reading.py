"""What the model is asked before an update changes it.

    the policy    log-probs at the start of the update, also of the best token; the critic's states, and credit's own
    in hindsight  its log-probs, had it been told how each game ends
    the base      log-probs of the reference; the critic's states, if they are to be its

Log-probs that credit does not ask for are the steps' own business, unless they come with the critic's states or
the model drops out what a step's own pass would miss.

Each is one forward pass over the batch without a gradient, made only if something reads it:
each rank reads its own share, and all ranks exchange what they read, so that each of them
can compute the credit of the whole batch and train any share of it. Critics of whole turns
read the ends of utterances in the same pass, and all ranks get the states that they read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from learners.batch.packing import Pack, by_trajectory, pack_in_hindsight, pack_to_read
from learners.batch.trajectories import Trajectory
from learners.critic.tokens import States, head_inputs, turn_states
from learners.critic.transitions import UtteranceBatch, utterance_batch
from learners.critic.turns import AnyCritic, TurnCritics
from learners.model.load import pack_logprobs, pack_logprobs_and_best, places_of
from learners.model.reference import Reference, reads_reference
from learners.model.router_replay import RouterReplay, replaying
from learners.settings import LearnerSettings

Share = dict[int, dict[str, np.ndarray]]  # trajectory -> what was read of it
Looks = tuple[Callable[[States, list[Trajectory]], list[dict[str, np.ndarray]]], ...]


class BatchReader:
    def __init__(
        self,
        engine: Any,
        settings: LearnerSettings,
        temperature: float,
        device: torch.device,
        critic: AnyCritic | None,
        reference: Reference | None,
        replay: RouterReplay | None = None,
        shared: bool = False,
    ):
        self.engine, self.settings, self.temperature, self.device = engine, settings, temperature, device
        self.critic, self.reference, self.replay, self.shared = critic, reference, replay, shared
        wanted = settings.credit.readings
        self.values_of = None if critic is None else settings.credit.critic_settings.states
        # what is made of the last hidden states of a pass
        self.at_base: Looks = (critic.of_games,) if self.values_of == "base" else ()
        self.at_policy: Looks = (critic.of_games,) if self.values_of == "policy" else ()
        self.at_policy += (turn_states,) if "states" in wanted else ()
        wants_best = "best_logprobs" in wanted
        # else the steps find the log-probs of the start, and the first one those of its share by itself
        self.wants_old_logprobs = (
            wants_best or "logprobs" in wanted or (settings.minibatches > 1 and bool(self.at_policy))
        )
        self.wants_hindsight = "hindsight" in wanted
        self.wants_reference = reads_reference(settings)
        self.of_policy = ("logprobs",) if self.wants_old_logprobs else ()
        self.of_policy += ("best_logprobs",) if wants_best else ()
        self.by_turn = isinstance(critic, TurnCritics)
        self.most = min(settings.tokens_per_micro_batch, places_of(engine))  # tokens of a sequence

    def read(
        self, trajectories: list[Trajectory], mine: list[list[int]], apart: list[list[int]]
    ) -> tuple[dict[str, np.ndarray], list[States] | UtteranceBatch]:
        """Of the whole batch, by the names that credit knows them by; and what the critic learns
        from: its states of this rank's share, or of the whole batch's turns. `apart`: this rank's share of games in
        hindsight, which begin with their ends."""
        share: Share = {index: {} for indices in (*mine, *apart) for index in indices}
        states: list[States] = []
        self.engine.eval()
        with torch.no_grad():
            if self.of_policy or self.at_policy:
                asked = self.engine, self.replay, trajectories, mine, share
                states = self._ask(*asked, self.of_policy, self.at_policy)
            if self.wants_hindsight:  # no engine played these sequences, so there are no experts to replay
                self._ask(self.engine, None, trajectories, apart, share, ("hindsight",), ())
            if self.wants_reference or self.at_base:
                names = ("reference",) if self.wants_reference else ()
                with self.reference.model() as model:
                    found = self._ask(model, None, trajectories, mine, share, names, self.at_base)
                states = found if self.at_base else states
        whole = self._gathered(share)
        if not self.by_turn:
            return whole, states
        read = (whole.pop(name) for name in ("observed", "said", "closing"))
        batch = utterance_batch(trajectories, *read, self.settings.credit.gamma, self.settings.credit.overlong)
        turns = sum(len(trajectory.rewards) for trajectory in trajectories)
        return whole | self.critic.read(batch, turns), batch

    def _ask(
        self,
        model: Any,
        replay: RouterReplay | None,
        trajectories: list[Trajectory],
        mine: list[list[int]],
        share: Share,
        names: tuple[str, ...],
        looks: Looks,
    ) -> list[States]:
        """One forward pass over this rank's share. Puts the log-probs there, and those of the best tokens if there
        is a second name, and what each of `looks` makes of the states. The answer is what the critic learns from."""
        states = []
        for indices in mine:
            chosen = [trajectories[i] for i in indices or [0]]  # an empty one keeps the ranks in lockstep
            with head_inputs(getattr(model, "module", model)) as caught:
                pack = self._pack(chosen, names, looks)
                with replaying(replay, pack):
                    asked = model, pack, self.temperature, self.device
                    found = pack_logprobs_and_best(*asked) if len(names) == 2 else (pack_logprobs(*asked),)
            count = sum(int(trajectories[i].turn_tokens.sum()) for i in indices)
            if looks:
                hidden = States(caught[0][0], tokens=count)
                if self.critic is not None and not self.by_turn:  # they wait for the steps, and the card has no room
                    states.append(States(hidden.hidden.cpu(), count))
            if not indices:
                continue
            for name, logprobs in zip(names, found, strict=False):
                read = by_trajectory(logprobs.double().cpu().numpy()[:count], chosen)
                for index, own in zip(indices, read, strict=True):
                    share[index][name] = own
            for look in looks:
                for index, own in zip(indices, look(hidden, chosen), strict=True):
                    share[index] |= own
        return states

    def _pack(self, chosen: list[Trajectory], names: tuple[str, ...], looks: Looks) -> Pack:
        if names == ("hindsight",):
            return pack_in_hindsight(chosen, self.most)
        return pack_to_read(chosen, self.most, bool(looks) and self.by_turn, self.shared)

    def _gathered(self, share: Share) -> dict[str, np.ndarray]:
        passes = self.of_policy, self.at_policy, self.at_base, self.wants_hindsight, self.wants_reference
        if not any(passes):
            return {}
        shares: list[Share] = [{}] * self.settings.ranks
        dist.all_gather_object(shares, share)
        found: Share = {}
        for number, read in (item for each in shares for item in each.items()):
            found[number] = found.get(number, {}) | read
        whole = [read for _, read in sorted(found.items())]
        return {name: np.concatenate([read[name] for read in whole]) for name in whole[0]}
