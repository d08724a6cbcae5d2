"""Settings that had another name: an old recipe is told the new one."""

from __future__ import annotations

RENAMED = {
    "learner.critic": "learner.credit.critic",
    "learner.credit.tau": "learner.credit.critic.tau",
    "learner.credit.vtrace_step": "learner.credit.step",
    "learner.importance_cap": "learner.loss.importance_cap",
}


def renamed(key: str) -> str | None:
    """What to write in place of an unknown key that was known once."""
    new = RENAMED.get(key)
    return None if new is None else f"is called {new} now"
