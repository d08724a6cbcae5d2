"""Settings that had another name: an old recipe is told the new one."""

from __future__ import annotations

SPACE, AGGREGATE = "reward.shaper.intentions.space", "reward.shaper.intentions.aggregate"
RENAMED = {
    "learner.critic": "learner.credit.critic",
    "learner.credit.tau": "learner.credit.critic.tau",
    "learner.credit.vtrace_step": "learner.credit.step",
    "reward.aria_rm": "reward.shaper",
    "reward.intentions": "reward.shaper.intentions",
    "reward.oni": "reward.shaper",
    "reward.regressed": "reward.shaper",
    "reward.spa": "reward.shaper",
    "reward.shaper.model.embedding": "reward.shaper.model",
    "reward.shaper.model.transformer": "reward.shaper.model",
    "learner.loss.correct_fresh": "learner.loss.correct_on_policy",
    "learner.importance_cap": "learner.loss.importance_cap",
    **{f"{SPACE}.{key}": f"{SPACE}.granularity.{key}" for key in ("k", "epsilon", "patience")},
    **{f"{AGGREGATE}.{key}": f"{AGGREGATE}.pooling.{key}" for key in ("histories", "smallest", "coarser", "strength")},
}


def renamed(key: str) -> str | None:
    """What to write in place of an unknown key that was known once."""
    new = RENAMED.get(key)
    return None if new is None else f"is called {new} now"
