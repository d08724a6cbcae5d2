"""A plan for people: who computes where, in what, and what that takes of each card."""

from __future__ import annotations

from dataclasses import fields

from cluster.plan.decide import Plan
from cluster.plan.machine import GIB
from cluster.plan.memory import Need


def summary(plan: Plan) -> str:
    """One line."""
    config = plan.config
    if not any((config.learner.gpus_per_rank, config.rollout.gpus_per_worker)):
        played = "" if plan.side == "learn" else f", played by {config.rollout.engine.kind}"
        return f"{plan.machine}: everything on the CPU in {plan.dtype}{played}"
    sleeping = ", the engine sleeps while the learner works" if config.rollout.engine.sleep else ""
    how = "share cards" if config.rollout.share_cards else "have cards of their own"
    who = {"both": f"learner and engine {how}", "play": "engines play", "learn": "learners learn"}[plan.side]
    return f"{plan.machine}: {who}, {plan.dtype}{sleeping}"


def lines(plan: Plan) -> list[str]:
    """The whole plan: a word on each side, then the memory."""
    config = plan.config
    learner, rollout, engine = config.learner, config.rollout, config.rollout.engine
    rows = [("machine", str(plan.machine))]
    if plan.side != "play":
        zero = f"ZeRO-{learner.zero}" if learner.zero else "no ZeRO"
        adapter = f"LoRA rank {learner.lora.rank}" if learner.lora.rank else "all weights"
        where = _where(learner.gpus_per_rank, learner.cpus_per_rank)
        where += f" ({_count(learner.threads, 'thread')})" if (learner.threads or 1) > 1 else ""
        rows.append(
            (
                "learner",
                f"{_count(learner.ranks, 'rank')} on {where}, {learner.dtype}, {learner.attention}, {zero}, {adapter}",
            )
        )
    if plan.side != "learn":
        sleep = ", sleeps while the learner works" if engine.sleep else ""
        where = _where(rollout.gpus_per_worker, rollout.cpus_per_worker)
        rows.append(("engine", f"{rollout.workers_in_words} on {where}, {engine.dtype}, {engine.kind}{sleep}"))
    if plan.side == "both":
        rows.append(("weights go by", plan.transport))
    if seats := _seats(plan):
        rows.append(("cards", seats))
    rows += [("note", note) for note in plan.notes]
    return [f"{name:<14} {text}" for name, text in rows] + [""] * bool(plan.memory) + _memory(plan)


def _where(gpus: float | None, cpus: float) -> str:
    if not gpus:
        return f"{cpus:g} CPU"
    return f"{gpus:g} GPU{f' and {cpus:g} CPU' if cpus else ''}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _seats(plan: Plan) -> str:
    """`0: rank 0 + worker 0   1: rank 1 + worker 1`, cards counted through all nodes."""
    first, before = [], 0
    for node in plan.machine.nodes:
        first.append(before)
        before += len(node.cards)
    on: dict[int, list[str]] = {}
    for seat in plan.seats:
        for card in seat.cards:
            on.setdefault(first[seat.node] + card, []).append(
                seat.who.removeprefix("learner ").removeprefix("rollout ")
            )
    return "   ".join(f"{card}: {' + '.join(who)}" for card, who in sorted(on.items()))


def _memory(plan: Plan) -> list[str]:
    """GiB by part; a column only where somebody needs it."""
    fit = plan.memory
    if fit is None:
        return []
    needs = [(who, need) for who, need in (("a rank", fit.learner), ("a worker", fit.engine)) if need is not None]
    columns = [field.name for field in fields(Need) if any(getattr(need, field.name) > 0 for _, need in needs)]
    on_card = bool(plan.config.learner.gpus_per_rank or plan.config.rollout.gpus_per_worker)
    place = "card" if on_card else "node"
    table = [["GiB", *columns, "together"]]
    table += [[who, *(_gib(getattr(need, name)) for name in columns), _gib(need.total)] for who, need in needs]
    limit = f" of {fit.limit / GIB:.1f} that may be filled" if fit.limit else ""
    table.append([f"fullest {place}", *[""] * len(columns), _gib(fit.peak)])
    widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
    printed = [
        "  ".join(
            cell.ljust(width) if not index else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in table
    ]
    return [*printed[:-1], printed[-1] + limit]


def _gib(size: float) -> str:
    if not size:
        return "-"
    return f"{size / GIB:.2f}" if size < 10 * GIB else f"{size / GIB:.1f}"
