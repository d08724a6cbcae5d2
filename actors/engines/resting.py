"""What an engine refuses while its weights or its cache are not there."""

from __future__ import annotations

from actors.engines.contract import Engine


def refuse_while_resting(engine: Engine) -> None:
    """For whatever computes with the weights and the cache."""
    why = engine.unusable or (engine.updating and "a weight update is under way") or (engine.asleep and "it is asleep")
    if why:
        raise RuntimeError(f"the engine computes nothing now: {why}")


def refuse_without_weights(engine: Engine) -> None:
    if "weights" in engine.asleep:
        raise RuntimeError("the engine's weights are asleep: they have to be woken before they can be updated")
