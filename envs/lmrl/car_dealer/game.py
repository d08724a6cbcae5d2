"""Car Dealer as in LMRL-Gym: a seller and a buyer talk about a car until the buyer takes it or leaves.

The buyer wants a brand, a type of car, one to four features, and has a budget: the published lists, by seed. The two
speak in turns, the seller first, `lines` in all (published: 50). Each may say a price; whoever accepts buys or sells at
the price that the other said last. Leaving, and lines that run out, are no sale.

The published buyer is a language model that was trained on conversations of three kinds of buyers. Here it is a seat: a
scripted player, any model, or an endpoint. The kind is drawn by seed, or by `character`, and the buyer is told it:

    discount     buys only at a discount: 5 % or more under the list price, and within its budget
    features     buys only once the seller has named every feature that it wants, then up to 10 % over its budget
    impatient    buys within its budget; talk of features and discounts puts it off

The list price is ours: 80, 100 or 125 % of the budget. The car has every feature. So are the rule by which the scripted
buyer bids (envs/lmrl/car_dealer/players.py) and the outcomes: a seller's is the price over the mean of budget and list
price, 1 at most, and a buyer's the share of the budget that it keeps; both are 0 without a sale. `reward: published`
pays the seller that ratio uncut, and without a sale (list price - budget) / list price; `reward: revenue` pays the
price in thousands of dollars. None is discounted. With `speech: plain` prices are told in percent of the list price, in
`dollars` as they are; both are understood.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Annotated, Any

from envs.game import OVER, Game, Player, Step, Trial
from envs.glee.messages import harmless
from envs.glee.money import dollars, percent
from envs.lmrl.car_dealer.players import PLAYERS, words_players_say
from envs.lmrl.car_dealer.speech import FEATURES, Said, understood
from envs.options import one_of, whole_number

SELLER, BUYER = "seller", "buyer"
RIVAL = {SELLER: BUYER, BUYER: SELLER}
CHARACTERS = ("discount", "features", "impatient")
BUDGETS = (10_000, 30_000, 50_000, 70_000, 90_000)  # dollars
LISTED = (80, 100, 125)  # percent of the budget
BRANDS = (
    *("volkswagen", "lexus", "ford", "mazda", "hyundai", "toyota", "mercedes-benz", "bmw", "audi", "subaru", "honda"),
    *("porsche", "tesla"),
)
TYPES = ("luxury car", "sedan", "convertible", "truck", "electric car", "suv")
MANNERS = (
    *("abusive", "angry", "insulting", "polite", "respectful", "rude", "sarcastic", "talkative", "toxic"),
    "uncommunicative",
)
WANTS = {
    "discount": "you buy only at a discount of 5 % or more .",
    "features": "you buy only a car of which you hear that it has all that .",
    "impatient": "you do not want to hear of features and discounts .",
}
UNCLEAR = "that is not understood ."
DEAREST = 10  # list prices


class CarDealer(Game):
    seats = (SELLER, BUYER)

    def __init__(
        self,
        character: Annotated[
            str | None, "of the buyer: discount, features or impatient; null: the seed of the episode chooses"
        ] = None,
        lines: Annotated[int, "of both seats together, 2 to 200"] = 20,
        speech: Annotated[str, "plain: prices in percent of the list price; dollars: as they are"] = "plain",
        reward: Annotated[
            str, "outcome; published: the ratio of prices uncut; revenue: the price in thousands of dollars"
        ] = "outcome",
    ):
        if character is not None:
            one_of("character", character, CHARACTERS)
        self.character = character
        self.horizon = whole_number("lines", lines, 2, 200)
        self.plain = one_of("speech", speech, ("plain", "dollars")) == "plain"
        self.pays = one_of("reward", reward, ("outcome", "published", "revenue"))
        self._seed: int | None = None

    def reset(self, seed: int) -> None:
        draws = random.Random(f"buyer {seed}")
        self.kind = draws.choice(CHARACTERS)
        self.kind = self.character or self.kind
        self.brand, self.type, self.manner = draws.choice(BRANDS), draws.choice(TYPES), draws.choice(MANNERS)
        self.features = draws.sample(FEATURES, draws.randint(1, 4))
        self.budget = draws.choice(BUDGETS) * 100  # cents
        self.listed = self.budget * draws.choice(LISTED) // 100
        self._seed, self._line, self._ending, self._sold = seed, 0, "", None
        self._asked: dict[str, int | None] = dict.fromkeys(self.seats)  # the price that each said last
        self._news = {SELLER: self._car(), BUYER: f"{self._car()} {self._private()}"}

    def _car(self) -> str:
        return f"the car : {self.brand} {self.type} . the list price is {dollars(self.listed)} ."

    def _private(self) -> str:
        return (
            f"you want : {' , '.join(self.features)} . your budget is {self._amount(self.budget)} . {WANTS[self.kind]}"
        )

    def _amount(self, cents: int) -> str:
        return percent(cents, self.listed) if self.plain else dollars(cents)

    @property
    def seat(self) -> str | None:
        if self._seed is None or self._ending or self._line >= self.horizon:
            return None
        return self.seats[self._line % 2]

    def briefing(self, seat: str) -> str:
        form = (
            "Say what you like in plain words, with one price if you like, in dollars or in percent of the list price, "
            'or {"message": "...", "price": ...}. {"decision": "accept"} or "i accept" takes the price that the other '
            f'named last, and "i leave" ends the talk without a sale. There are {self.horizon} lines in all, in turns.'
        )
        if seat == SELLER:
            return (
                "You sell cars. A buyer wants a certain car, with certain features, and has a budget that you do not "
                f"know. The car has every feature: {', '.join(FEATURES)}. Sell it as dear as you can. {form}"
            )
        return (
            "You are about to buy a car from a dealer. Your first observation says what you want and how you decide: "
            "keep to it. You would rather not pay more than your budget, but may be convinced. Your manner is "
            f"{self._manner()}. {form}"
        )

    def _manner(self) -> str:
        return self.manner if self._seed is not None else MANNERS[3]

    def observe(self) -> str:
        return self._news[self.seat]

    # what is said

    def step(self, utterance: str) -> Step:
        seat = self.seat
        if seat is None:
            raise RuntimeError(OVER)
        said = understood(utterance, self.listed)
        if said.price is not None and not 0 < said.price <= DEAREST * self.listed:
            said = Said()
        if said.act == "accept" and self._asked[RIVAL[seat]] is None:
            said = Said()  # nothing to accept
        self._line += 1
        heard = self._heard(seat, said)
        self._news[seat] = "" if said.act else UNCLEAR
        self._news[RIVAL[seat]] = f"{self._news[RIVAL[seat]]} {heard}".lstrip()
        if said.act == "accept":
            self._sold, self._ending = self._asked[RIVAL[seat]], "sold"
        elif said.act == "leave":
            self._ending = "left"
        elif said.price is not None:
            self._asked[seat] = said.price
        if not self._ending and self._line >= self.horizon:
            self._ending = "no time"
        step = Step(executable=bool(said.act), terminated=bool(self._ending), caption=heard)
        if self._ending:
            step.rewards = self._paid()
        return step

    def _heard(self, seat: str, said: Said) -> str:
        does = {"accept": "accepts", "leave": "leaves", "reject": "says no"}.get(said.act)
        if not said.act:
            return f"the {seat} says nothing clear ."
        parts = [f"the {seat} {does} ."] if does else []
        if said.message:
            parts.append(f'the {seat} says : "{harmless(said.message)}"')
        if said.price is not None:
            parts.append(f"the {seat} names {self._amount(said.price)} .")
        return " ".join(parts)

    # what came of it

    @property
    def _over(self) -> bool:
        return self._seed is not None and bool(self._ending)

    def _ratio(self) -> float:
        return 2 * self._sold / (self.budget + self.listed)

    def _paid(self) -> dict[str, float]:
        if self.pays == "outcome":
            return self.outcome()
        if self.pays == "revenue":
            return {SELLER: (self._sold or 0) / 100_000}
        return {SELLER: (self.listed - self.budget) / self.listed if self._sold is None else self._ratio()}

    def outcome(self) -> dict[str, float]:
        if self._seed is None or self._sold is None:
            return dict.fromkeys(self.seats, 0.0)
        return {SELLER: min(1.0, self._ratio()), BUYER: max(0.0, 1 - self._sold / self.budget)}

    def money(self, seat: str) -> float | None:
        """The seller's, in dollars."""
        return (self._sold or 0) / 100 if self._over and seat == SELLER else None

    def closing(self) -> dict[str, str]:
        return {seat: told for seat, told in self._news.items() if told} if self._over else {}

    def facts(self) -> dict[str, str]:
        if not self._over:
            return {}
        price = "none" if self._sold is None else f"{self._sold / 100:.2f}"
        wanted = {"budget": f"{self.budget / 100:.2f}", "features": ", ".join(self.features)}
        return {"character": self.kind, **wanted, "ending": self._ending, "price": price}

    def save(self) -> dict[str, Any]:
        if self._seed is None:
            return {}
        state = {"line": self._line, "ending": self._ending, "sold": self._sold}
        return {"seed": self._seed, **state, "asked": dict(self._asked), "news": dict(self._news)}

    def restore(self, saved: dict[str, Any]) -> None:
        self._seed = None
        if saved:
            self.reset(saved["seed"])
            self._line, self._ending, self._sold = saved["line"], saved["ending"], saved["sold"]
            self._asked, self._news = dict(saved["asked"]), dict(saved["news"])

    @classmethod
    def players(cls) -> dict[str, type[Player]]:
        return PLAYERS

    @classmethod
    def trials(cls) -> list[Trial]:
        """Selling to each kind of buyer, by the rule."""
        rule = {BUYER: "scripted:expert"}
        return [Trial("selling", {}, rule), *(Trial(f"to {each}", {"character": each}, rule) for each in CHARACTERS)]

    def language(self) -> Iterable[str]:
        """Of plain speech, without free messages."""
        yield from (UNCLEAR, *WANTS.values(), *FEATURES, *BRANDS, *TYPES, " , ")
        yield "the car : the list price is . you want : your budget is a little over far %"
        yield 'the seller buyer says : " accepts leaves says no names says nothing clear .'
        yield from (dollars(budget * share) for budget in BUDGETS for share in LISTED)
        yield from (str(number) for number in range(201))
        yield from words_players_say()
