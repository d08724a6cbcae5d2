"""What sharing cards asks of the settings, checked when they are read."""

from __future__ import annotations

from actors.settings import RolloutSettings
from learners.settings import LearnerSettings


def check_cards(rollout: RolloutSettings, learner: LearnerSettings) -> None:
    """ValueError where learner ranks and rollout workers cannot have the cards that they are given."""
    engine, transport = rollout.engine, learner.sync.transport
    parts = learner.gpus_per_rank, rollout.gpus_per_worker
    if engine.sleep and engine.kind == "vllm" and rollout.gpus_per_worker == 0:
        raise ValueError(
            "rollout.engine.sleep=true gives a card's memory back, and rollout.gpus_per_worker=0 leaves vLLM none; "
            "rollout.engine.kind=transformers sleeps without a card too"
        )
    if transport == "ipc" and rollout.share_cards is False:
        raise ValueError(
            "learner.sync.transport=ipc hands weights over inside a card, which rank and worker do not share with "
            "rollout.share_cards=false: learner.sync.transport=nccl"
        )
    if not rollout.share_cards:
        return
    if rollout.workers != learner.ranks:
        raise ValueError(
            f"rollout.share_cards=true puts worker i on the card of rank i: rollout.workers={rollout.workers} has to "
            f"equal learner.ranks={learner.ranks}"
        )
    if engine.tensor_parallel > 1:
        raise ValueError(
            "rollout.share_cards=true gives each worker one card: rollout.engine.tensor_parallel="
            f"{engine.tensor_parallel} goes with rollout.share_cards=false"
        )
    if transport == "nccl":
        raise ValueError(
            "learner.sync.transport=nccl refuses two processes on one card: rollout.share_cards=true goes with "
            "learner.sync.transport=ipc"
        )
    if None not in parts and (min(parts) <= 0 or sum(parts) > 1):
        raise ValueError(
            f"rollout.share_cards=true splits each card: learner.gpus_per_rank={parts[0]:g} and "
            f"rollout.gpus_per_worker={parts[1]:g} have to be above 0 and at most 1 together, e.g. 0.5 and 0.5"
        )
