"""What is to be bought: the goals of a shop in the published order, and their splits.

    human        each instruction that somebody wrote and that has attributes, by product
    synthetic    each product's instruction with each choice of all its options

Goals stand in the order of the products, and are then shuffled by Python's generator with the seed 233, as published:
the first 500 are the test split, 1000 more the dev split, the rest is for training. Where there are fewer than 4000,
test and dev are a quarter each at most. A bound on the price follows the instruction: of the four multiples of ten
above the price and below 1000, two are drawn, and the greater one is the bound; where fewer than two are left there is
none. The published shop draws them from no fixed seed, so its bounds differ from start to start; here product and
place are the seed.
"""

from __future__ import annotations

import random
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from envs.worlds.package import text_of
from envs.worlds.webshop.files import by_product, damaged
from envs.worlds.webshop.products import Product, Products
from envs.worlds.webshop.reward.matching import COLOURS
from envs.worlds.webshop.reward.worth import Goal

KINDS = ("human", "synthetic")
SPLITS = ("train", "dev", "test", "all")
SEED = 233
BOUNDS = [10.0 * each for each in range(1, 100)]
NO_BOUND = 1_000_000.0
MOST = 200_000_000  # goals that are shuffled in memory, at 4 bytes each


class Goals:
    def __init__(self, kind: str, products: Products, human: Path):
        self.products = products
        self.said = dict(_said(human, products)) if kind == "human" else {}
        counts = np.zeros(len(products), dtype=np.int64) if kind == "human" else products.choices
        for number, said in self.said.items():
            counts[number] = len(said)
        self.ends = np.cumsum(counts)
        if self.ends[-1] > MOST:
            raise ValueError(f"game option goals={kind!r}: more than {MOST} goals; use fewer products=, the first ones")
        self.order = array("I", range(int(self.ends[-1])))
        random.Random(SEED).shuffle(self.order)
        self._told: dict[str, int] = {}
        if not self.order:
            raise ValueError(f"game option goals={kind!r}: none of the {len(products)} products has such a goal")

    def told(self, instruction: str) -> Goal:
        """The goal that this is the instruction of; the first call reads all goals."""
        if not self._told:
            self._told.update((self[place].instruction, place) for place in range(len(self)))
        return self[self._told[instruction]]

    def of(self, split: str) -> range:
        test = min(500, len(self.order) // 4)
        dev = test + min(1000, len(self.order) // 4)
        borders = {"test": (0, test), "dev": (test, dev), "train": (dev, len(self.order)), "all": (0, len(self.order))}
        return range(*borders[split])

    def __len__(self) -> int:
        return len(self.order)

    def __getitem__(self, place: int) -> Goal:
        flat = self.order[place]
        number = int(np.searchsorted(self.ends, flat, side="right"))
        product = self.products[number]
        part = flat - (int(self.ends[number - 1]) if number else 0)
        return _human(product, part, self.said[number][part]) if number in self.said else _synthetic(product, part)


def _said(file: Path, products: Products) -> Iterator[tuple[int, list[dict[str, Any]]]]:
    for asin, instructions in by_product(file):
        number = products.number_of(asin)
        try:
            said = [
                {
                    "instruction": text_of(each["instruction"]),
                    "attributes": tuple(map(text_of, each["instruction_attributes"])),
                    **_options(each["instruction_options"]),
                }
                for each in instructions
                if len(each["instruction_attributes"])
            ]
        except (KeyError, TypeError) as error:
            raise damaged(file, f"an instruction for {asin!r} has no usable {error}") from error
        if number is not None and said:
            yield number, said


def _options(told: Any) -> dict[str, Any]:
    """Values; or values by the options' names, which are compared together with them where they are no colour."""
    if not isinstance(told, dict):
        return {"options": tuple(map(text_of, told)), "named_options": False}
    pairs = ((text_of(name), text_of(value)) for name, value in told.items())
    return {
        "options": tuple(value if value in COLOURS else f"{name} {value}" for name, value in pairs),
        "named_options": True,
    }


def _human(product: Product, part: int, said: dict[str, Any]) -> Goal:
    bound, told = bound_of(product.price, f"{product.asin} {part}")
    return _goal(product, bound, **said | {"instruction": said["instruction"].strip(".") + told})


def _synthetic(product: Product, part: int) -> Goal:
    """Options are in the order of their names; the last one changes first. Attributes are the instruction's."""
    chosen: dict[str, str] = {}
    for name in sorted(product.options, reverse=True):
        part, place = divmod(part, len(product.options[name]))
        chosen[name] = product.options[name][place]
    bound, told = bound_of(product.price, product.asin)
    named = {name: chosen[name] for name in sorted(chosen)}
    options = " with " + ", and ".join(f"{name}: {value}" for name, value in named.items()) if named else ""
    attributes = tuple(product.instruction_attributes)
    instruction = f"{product.instruction}{options}{told}"
    return _goal(product, bound, instruction=instruction, attributes=attributes, **_options(named))


def _goal(product: Product, bound: float, **asked: Any) -> Goal:
    return Goal(
        asin=product.asin,
        query=product.query,
        name=product.title,
        product_category=product.product_category,
        price_upper=bound,
        **asked,
    )


def bound_of(price: float, seed: str) -> tuple[float, str]:
    above = [each for each in BOUNDS if each > price][:4]
    if len(above) < 2:
        return NO_BOUND, ""
    bound = max(random.Random(f"webshop bound {seed}").sample(above, 2))
    return bound, f", and price lower than {bound:.2f} dollars"
