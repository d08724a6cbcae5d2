"""The contract of a credit method: its settings, what it needs, its formula."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Annotated, Any, ClassVar

from pydantic import Field

from envs.kinds import Kinds
from envs.settings import Settings
from learners.credit.critics import CriticSettings, TokenCriticSettings
from learners.credit.overlong import Overlong
from learners.credit.turns import FIELDS, Credit, Turns


class CreditMethod(Settings, ABC):
    """A method of your own derives from it, or from one of those below, and defines `credit`."""

    needs: ClassVar[tuple[str, ...]] = ()  # optional fields of Turns that the formula cannot do without
    any_sampler: ClassVar[bool] = False  # whether its advantages are right whoever sampled the tokens

    gamma: float = Field(1.0, gt=0, le=1, description="discount between turns")
    whiten: bool = Field(False, description="give a batch's advantages mean 0 and standard deviation 1 over tokens")
    positive_only: bool = Field(
        False,
        description="count negative advantages as 0: only what did better than expected is learned (self-imitation)",
    )
    overlong: Overlong | None = Field(
        None, description="charge utterances near their limit ({limit: 64, buffer: 16}, say); null: none"
    )

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        if isinstance(cls.needs, str):
            raise TypeError(f"{cls.__name__}.needs has to be a tuple, such as ({cls.needs!r},)")
        if unknown := [name for name in cls.needs if name not in FIELDS]:
            raise TypeError(f"{cls.__name__}.needs names {unknown[0]!r}; there are: {', '.join(FIELDS)}")

    @abstractmethod
    def credit(self, turns: Turns, state: dict[str, float]) -> Credit:
        """`turns` has what `readings` names; `state` is what `Credit.state` was after the last update."""

    def check(self, episodes: int, group_size: int, choose_listed: bool) -> None:
        """Whether it can work in a run with so many episodes in a batch, that play one task in groups of `group_size`,
        and that choose from listed actions or speak freely; ValueError says what is missing."""
        if "group" in self.needs and group_size < 2:
            raise ValueError("needs group_size of at least 2")

    @property
    def readings(self) -> tuple[str, ...]:
        """What has to be read of the batch for it: optional fields of Turns."""
        readings = self.needs + (("logprobs", "reference") if self.penalty else ())
        sampled = "sampler_logprobs" in readings  # where a token was made by these weights, they are what these say
        return readings + (("logprobs",) if sampled and "logprobs" not in readings else ())

    @property
    def penalty(self) -> float:
        """Coefficient of the soft form, of methods that have one."""
        return getattr(self, "kl_penalty", 0.0)

    @property
    def remembers(self) -> str:
        """Of methods whose baseline is of all games before: the setting that has another one."""
        return ""

    @property
    def by_labels(self) -> bool:
        """Whether turns are in the same state, for `anchor`, where the labels before them are the same."""
        return getattr(self, "anchor", "observation") == "labels"

    @property
    def by_states(self) -> bool:
        """Whether it is where the policy's hidden states are near each other."""
        return getattr(self, "anchor", "observation") == "states"

    @property
    def tokens_of_opening(self) -> int:
        """Utterances are alike, for `opening`, if so many first tokens of them are."""
        return getattr(self, "opening_tokens", 8)

    @property
    def critic_settings(self) -> CriticSettings | None:
        """Of methods that learn from a critic."""
        return getattr(self, "critic", None)


class SoftCreditMethod(CreditMethod):
    """A method that has a soft form (learners/credit/soft.py)."""

    kl_penalty: float = Field(
        0.0, ge=0, description="beta of the soft form: every token pays beta * (log pi - log reference)"
    )


class ActorCritic(SoftCreditMethod):
    """A method that learns from a value of every token, or of every turn."""

    needs = ("values", "bootstrap")

    lambda_a: float = Field(0.95, ge=0, le=1, description="GAE's lambda between turns")
    critic: TokenCriticSettings = Field(default_factory=TokenCriticSettings)


CREDIT = Kinds("credit method", "method", "reinforce", "learners.credit", CreditMethod)
AnyCredit = Annotated[CreditMethod, CREDIT]
