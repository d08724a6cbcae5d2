"""Step sizes: a rise over the warm-up, then constant or a fall to 0 by the end.

Functions of the number of updates that were applied, and of nothing else: a restart goes on
where it was, and all steps of an update have one size.
"""

from __future__ import annotations

import math

from learners.settings import LearnerSettings


def learning_rate(settings: LearnerSettings, updates: int) -> float:
    """Of the update that follows `updates` applied ones. The rise begins where the policy does."""
    critic = settings.credit.critic_settings
    begin = critic.warmup_updates if critic is not None else 0
    full = begin + settings.warmup_updates
    rising = min(1.0, max(0, updates - begin + 1) / (full - begin + 1))
    if settings.schedule == "constant":
        return settings.learning_rate * rising
    return settings.learning_rate * rising * left(settings.schedule, updates - full, settings.end(settings) - full)


def critic_learning_rate(settings: LearnerSettings, updates: int) -> float:
    critic = settings.credit.critic_settings
    if critic.schedule == "constant":
        return critic.learning_rate
    return critic.learning_rate * left(critic.schedule, updates, settings.end(critic))


def left(schedule: str, done: int, whole: int) -> float:
    """Share of the step size after `done` of `whole` updates: 1 before the first, 0 after the last."""
    progress = min(max(done / whole, 0.0), 1.0) if whole > 0 else 1.0
    return 1.0 - progress if schedule == "linear" else (1.0 + math.cos(math.pi * progress)) / 2
