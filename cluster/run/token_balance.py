"""Where every sampled token went, as the ledger says it of tickets.

    sampled = trained + evaluated + waiting + playing + sum(dropped.values())

Counted on two sides, by the fleet (`actors.fleet.tokens`) as tokens come, and here by what was done with them;
`check` compares the two. After a restart those that were waiting or playing at the checkpoint are dropped as
`restart`; what was sampled between it and the restart is not counted, as in the ledger.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from actors.fleet.fleet import Finished
from actors.fleet.tokens import FleetTokens


class TokenBalance:
    def __init__(self, fleet: FleetTokens):
        self.fleet = fleet
        self.before = 0  # sampled before this process
        self.trained = self.evaluated = 0
        self.thrown_away: Counter[str] = Counter()  # beside what was lost with workers

    def drop(self, result: Finished, reason: str) -> None:
        if result.tokens:
            self.thrown_away[reason] += result.tokens

    def train_on(self, results: Iterable[Finished]) -> None:
        self.trained += sum(result.tokens for result in results)

    def evaluate(self, results: Iterable[Finished]) -> None:
        self.evaluated += sum(result.tokens for result in results)

    @property
    def sampled(self) -> int:
        return self.before + self.fleet.sampled

    @property
    def dropped(self) -> Counter[str]:
        return self.thrown_away + self.fleet.lost

    def metrics(self, waiting: Iterable[Finished]) -> dict[str, float]:
        """`waiting`: episodes that are finished and not used yet."""
        dropped, finished = self.dropped, self.trained + sum(self.dropped.values())
        flat = {
            "tokens/sampled": self.sampled,
            "tokens/trained": self.trained,
            "tokens/evaluated": self.evaluated,
            "tokens/waiting": sum(result.tokens for result in waiting),
            "tokens/playing": self.fleet.playing,
            "tokens/dropped": sum(dropped.values()),
            "tokens/trained_share": self.trained / finished if finished else 1.0,
        }
        return flat | {f"tokens/dropped/{reason}": tokens for reason, tokens in dropped.items()}

    def check(self, waiting: Iterable[Finished]) -> None:
        """The equation in the module's docstring; called once an update."""
        found = self.metrics(waiting)
        parts = {name: found[f"tokens/{name}"] for name in ("trained", "evaluated", "waiting", "playing", "dropped")}
        if sum(parts.values()) != self.sampled:
            shown = " + ".join(f"{name} {tokens}" for name, tokens in parts.items())
            raise RuntimeError(f"tokens do not balance: sampled {self.sampled}, but {shown} = {sum(parts.values())}")

    def state(self, waiting: Iterable[Finished]) -> dict:
        return {
            "sampled": self.sampled,
            "trained": self.trained,
            "evaluated": self.evaluated,
            "dropped": dict(self.dropped),
            "open": sum(result.tokens for result in waiting) + self.fleet.playing,
        }

    def restore(self, state: dict | None) -> None:
        """None: of a checkpoint that tells nothing of tokens."""
        if state is not None:
            self.before, self.trained, self.evaluated = (state[each] for each in ("sampled", "trained", "evaluated"))
            self.thrown_away = Counter(state["dropped"])
            if state["open"]:
                self.thrown_away["restart"] += state["open"]
