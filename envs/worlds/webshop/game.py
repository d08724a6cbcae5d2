"""WebShop (Yao et al., 2022): find and buy what an instruction asks for, in a shop of up to 1.2 million products.

The files of WebShop are downloaded by its own setup.sh: items_shuffle.json and items_ins_v2.json, or those of its first
thousand products (_1000), and items_human_ins.json for human goals. Their index is made once (PARLEY_CACHE).

search[words] works on every page and click[button] on those that have the button, each as it is published; anything
else costs the turn. Listed searches are by the wanted query, alone or with one of the wanted attributes, or by the
instruction. Choosing another value of an option replaces the first one. Back to Search, Next > and < Prev
forget what was chosen; < Prev on a page of details does not. Buying ends the episode, which is worth, as its outcome:

    type * (attributes + options that match + whether the price fits) / (attributes + options wanted + 1)

Papers report mean score and success in % on the 500 test goals of people, among all products: rule 45.6 and 9.6,
imitation 59.9 and 29.1, with RL 62.4 and 28.7, expert people 82.1 and 59.6. In the tiny shop rule has 60 and 0.

Goals come by the episode's seed: its remainder by their number. Not as published: bounds and prices within a range are
fixed by seeds; <r>, <a>, <c> and <q>, by which a search shows products by chance or by hidden facts, are words like
any other; search is our own BM25 with Lucene's formula and analyser; synthetic goals are not drawn by weights; the
default tagger goes by lists of words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Any

from envs.doors.inward.imported import ImportedGame
from envs.game import Player, Step, Trial
from envs.options import Menu, one_of, whole_number, words
from envs.text.listed import gist, menu_of, named, yes_or_no
from envs.worlds.webshop.files import TINY
from envs.worlds.webshop.goals import KINDS, SPLITS
from envs.worlds.webshop.pages import (
    BACK,
    BUY,
    DETAILS,
    NEXT,
    PREVIOUS,
    VIEWS,
    WINDOW,
    clickable,
    details_page,
    item_page,
    option_of,
    results_page,
    search_page,
    shown,
)  # fmt: skip
from envs.worlds.webshop.players import Mediocre, Oracle, Random, Reader, Rule
from envs.worlds.webshop.products import Product
from envs.worlds.webshop.reward.nouns import WORDS, nouns_by
from envs.worlds.webshop.reward.worth import Worth, worth
from envs.worlds.webshop.shop import shop_of

SEAT = "shopper"
THANKS = "Thank you for shopping with us! [SEP] Your score (min 0.0, max 1.0):"
_SEARCH = re.compile(r"\W{0,3}(?:(?:i will|i'll|let me|let us|next) )?search ?\[(.+)\]\W{0,3}", re.IGNORECASE)


class WebShop(ImportedGame):
    name = "webshop"
    seats = (SEAT,)

    def __init__(
        self,
        data: Annotated[
            str, "a folder with WebShop's files, or tiny: 40 products of Parley's own, in files of the same shape"
        ] = TINY,
        goals: Annotated[
            str, "human: instructions that people wrote; synthetic: made of attributes and options"
        ] = "human",
        split: Annotated[
            str, "train, dev, test (the first 500 goals in the published order, shuffled by seed 233), or all"
        ] = "train",
        products: Annotated[int | None, "use only so many, the first ones of the file; null: all"] = None,
        turns: Annotated[int, "until it is truncated"] = 15,
        view: Annotated[
            str, "text: the parts of a page with [SEP] between them; rich: a line each, with what can be clicked"
        ] = "text",
        searches: Annotated[
            str, "free: any words; listed: those of the published RL baselines, by the query that is wanted"
        ] = "free",
        attributes: Annotated[bool, "products have a page of their attributes, too"] = False,
        menu: Menu = False,
        pay: Annotated[str, "score: the reward; success: 1 for a reward of 1, else 0"] = "score",
        tagger: Annotated[
            str, "what finds the nouns for the reward: words, or the published en_core_web_lg of spaCy"
        ] = WORDS,
    ):
        super().__init__(turns)
        if not isinstance(data, str) or not data:
            raise ValueError(f"game option data={data!r} must be a folder with WebShop's files, or {TINY!r}")
        self.split, self.view = one_of("split", split, SPLITS), one_of("view", view, VIEWS)
        self.searches = one_of("searches", searches, ("free", "listed"))
        self.pay = one_of("pay", pay, ("score", "success"))
        self.attributes, self.menu = yes_or_no("attributes", attributes), yes_or_no("menu", menu)
        if products is not None:
            whole_number("products", products, 1, 10_000_000)
        self._nouns = nouns_by(words("tagger", tagger))
        self._shop = shop_of(data, products, one_of("goals", goals, KINDS))
        self._goals = self._shop.goals.of(split)
        if not self._goals:
            raise ValueError(
                f"game option split={split!r}: there are only {len(self._shop.goals)} goals; take split=all"
            )
        self.open_vocabulary = data != TINY
        self._begin(0)

    def _begin(self, seed: int) -> None:
        self._goal = self._shop.goals[self._goals[seed % len(self._goals)]]
        self._worth: Worth | None = None
        self._hits: list[int] = []  # products that were found
        self._number, self._which = 1, ""  # of the page of results; of details
        self._product: Product | None = None
        self._chosen: dict[str, str] = {}
        self._opened: set[str] = set()
        self._page = search_page(self._goal.instruction)

    def _acting(self) -> str | None:
        return SEAT if self._worth is None else None

    def _say(self, utterance: str) -> Step:
        if (name := self._clicked(utterance)) is not None:
            return self._click(name)
        if words := searched(utterance):
            return self._search(words)
        return Step(executable=False, caption="The shopper says what is neither a search nor a button of the page.")

    def _clicked(self, utterance: str) -> str | None:
        action = named(utterance, [f"click[{each}]" for each in clickable(self._page)])
        return action and action[len("click[") : -1]

    def _search(self, words: str) -> Step:
        self._hits = self._shop.index.found(words)
        self._results(1)
        return Step(caption=f"The shopper searches for {words}, and {len(self._hits)} products are found.")

    def _results(self, number: int) -> None:
        self._number, self._product, self._chosen, self._which = number, None, {}, ""
        here = self._hits[(number - 1) * WINDOW : number * WINDOW]
        found = [self._shop.products[each] for each in here]
        self._page = results_page(self._goal.instruction, found, number, len(self._hits))

    def _click(self, name: str) -> Step:
        if name == BACK.lower():
            self._product, self._chosen, self._which, self._hits, self._opened = None, {}, "", [], set()
            self._page = search_page(self._goal.instruction)
            return Step(caption="The shopper goes back to the search.")
        if self._product is None:
            return self._click_in_results(name)
        return self._click_at_product(name, self._product)

    def _click_in_results(self, name: str) -> Step:
        if name in (NEXT.lower(), PREVIOUS.lower()):
            self._results(self._number + (1 if name == NEXT.lower() else -1))
            return Step(caption=f"The shopper looks at page {self._number} of the results.")
        here = self._hits[(self._number - 1) * WINDOW : self._number * WINDOW]
        self._product = next(each for each in map(self._shop.products.__getitem__, here) if each.asin.lower() == name)
        self._opened.add(self._product.asin)
        self._show_item(self._product)
        return Step(caption=f"The shopper looks at {self._product.title}."[:400])

    def _click_at_product(self, name: str, product: Product) -> Step:
        if name == BUY.lower() and not self._which:
            return self._buy(product)
        if name == PREVIOUS.lower():
            if self._which:
                self._show_item(product)
                return Step(caption="The shopper goes back to the product.")
            self._results(self._number)
            return Step(caption="The shopper goes back to the results.")
        which = next((each for each in DETAILS if each.lower() == name), "")
        if which and not self._which:
            self._which, self._page = which, details_page(self._goal.instruction, product, which)
            return Step(caption=f"The shopper reads the {name} of the product.")
        option = option_of(self._page, name)
        self._chosen[option] = name
        return Step(caption=f"The shopper chooses {name} as {option}."[:400])

    def _show_item(self, product: Product) -> None:
        self._which, self._page = "", item_page(self._goal.instruction, product, self.attributes)

    def _buy(self, product: Product) -> Step:
        self._worth = found = worth(product, self._chosen, self._goal, self._nouns)
        paid = self._paid()
        return Step(
            rewards={SEAT: paid} if paid else {},
            terminated=True,
            caption=f"The shopper buys {product.title[:200]}. {self._verdict(found)}.",
        )

    def _verdict(self, found: Worth) -> str:
        attributes = f"{found.attributes} of {len(self._goal.attributes)} attributes"
        options = f"{found.options} of {len(self._goal.options)} options"
        return f"{attributes} and {options} match, and the price {'fits' if found.price else 'is too high'}"

    def _paid(self) -> float:
        if self._worth is None:
            return 0.0
        return self._worth.reward if self.pay == "score" else float(self._worth.reward >= 1)

    def briefing(self, seat: str) -> str:
        return (
            "You are in a web shop and buy what the instruction asks for. Each time, say exactly one action and "
            "nothing else: search[words] finds products; click[button] clicks a button, the number of a product or a "
            "value of an option on the page, such as click[next >] or click[buy now]. Choose the options before you "
            f"buy: that ends it. You have {self.horizon} turns."
        )

    def observe(self) -> str:
        text = shown(self._page, self.view, self._chosen, self._opened)
        return f"{text}\n{menu_of(self.actions())}" if self.menu and self.actions() else text

    def actions(self) -> tuple[str, ...]:
        """None where any words can be searched."""
        if self.seat is None:
            return ()
        if clicks := clickable(self._page):
            return tuple(f"click[{each}]" for each in clicks)
        if self.searches == "free":
            return ()
        query, goal = self._goal.query, self._goal
        texts = [query, *(f"{each} {query}" for each in goal.attributes), goal.instruction.lower()]
        return tuple(f"search[{each}]" for each in dict.fromkeys(texts))

    def _over(self) -> bool:
        return self._seed is not None and self.seat is None

    def outcome(self) -> dict[str, float]:
        return {SEAT: self._paid() if self._over() else 0.0}

    def closing(self) -> dict[str, str]:
        return {SEAT: f"{THANKS} {self._worth.reward:.3f}"} if self._over() and self._worth else {}

    def facts(self) -> dict[str, str]:
        if not self._over():
            return {}
        goal, found = self._goal, self._worth
        wanted = f"{goal.asin}, {goal.name}; {', '.join(goal.attributes)}; {', '.join(goal.options) or 'no options'}"
        return {"wanted": wanted, "type": f"{found.type:g}" if found else "nothing bought"}

    def _texts(self) -> Iterator[str]:
        yield from super()._texts()
        yield from (self.briefing(SEAT), "You can:")
        if not self.open_vocabulary:
            yield from self._all_texts()

    def _all_texts(self) -> Iterator[str]:
        """Every page of a small shop, and the words that its goals are told and searched with."""
        for place in self._shop.goals.of("all"):
            text = self._shop.goals[place].instruction
            yield text
            for word in text.lower().replace(",", " ").replace(".", " ").split():
                yield f"search[{word} search[{word}] {word} {word}]"
        for number in range(len(self._shop.products)):
            product = self._shop.products[number]
            pages = [item_page("", product, True), *(details_page("", product, which) for which in DETAILS)]
            pages.append(results_page("", [product], 2, len(self._shop.products)))
            for page in pages:
                yield shown(page, self.view, {}, ())
                clicks = [f"click[{each}]" for each in clickable(page)]
                yield from (*clicks, menu_of(clicks) if self.menu else "")
        for total in range(51):
            yield f"Page {total} (Total results: {total}) [clicked button] You have clicked"

    def _options(self) -> dict[str, Any]:
        return {"searches": self.searches}

    @classmethod
    def players(cls) -> dict[str, type[Player]]:
        return {"oracle": Oracle, "reader": Reader, "rule": Rule, "mediocre": Mediocre, "random": Random}

    @classmethod
    def trials(cls) -> list[Trial]:
        """The papers' two figures, on the 500 goals of the test split."""
        return [
            Trial("score, test", {"split": "test"}, episodes=500),
            Trial("success, test", {"split": "test", "pay": "success"}, episodes=500),
        ]


def searched(utterance: str) -> str:
    """The words that are to be searched for; "" where none, or more than one search, is said."""
    said = gist(utterance)
    found = {match[1].strip().lower() for line in said.split("\n") if (match := _SEARCH.fullmatch(line.strip()))}
    return found.pop() if len(found) == 1 else ""
