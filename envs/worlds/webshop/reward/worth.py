"""What a purchase is worth, from 0 to 1, by the published rules.

reward = type * (attributes that match + options that match + price fits) / (attributes + options wanted + 1)

attributes   a wanted one matches if it is about the same as one of the product's (`matching.alike` above 85), or
             stands in its title, its bullet points or its description
options      a wanted one matches if it is about the same as one that was chosen, both as one colour if they
             hold any; options of a synthetic goal are compared together with their names
price        fits if it is at most the bound
type         by the share of the nouns of the wanted product's name that the bought one's name has, too (.2 if it has
             none): 0 if the share is 0, .1 below a tenth; else 1 if it is more than a fifth, if both are of the same
             query, or if their categories have two names in common; else .5
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from envs.worlds.webshop.products import Product
from envs.worlds.webshop.reward.matching import colour, matches
from envs.worlds.webshop.reward.nouns import Nouns


@dataclass(frozen=True, slots=True)
class Goal:
    asin: str
    query: str
    name: str
    product_category: str
    instruction: str  # with the bound of the price
    attributes: tuple[str, ...]
    options: tuple[str, ...]
    price_upper: float
    named_options: bool = False  # they hold the names of the options, too


@dataclass(frozen=True, slots=True)
class Worth:
    attributes: int  # that match
    options: int
    price: bool
    type: float
    reward: float


def worth(product: Product, options: Mapping[str, str], goal: Goal, nouns: Nouns) -> Worth:
    attributes = sum(has_attribute(product, each) for each in goal.attributes)
    chosen = [colour(each) for each in options.values()]
    wanted = goal.options if goal.named_options else map(colour, goal.options)
    met = sum(any(matches(each, option) for each in chosen) for option in wanted)
    fits = product.price <= goal.price_upper
    kind = type_of(product, goal, nouns)
    share = (attributes + met + fits) / (len(goal.attributes) + len(goal.options) + 1)
    return Worth(attributes, met, fits, kind, kind * share)


def has_attribute(product: Product, wanted: str) -> bool:
    if any(matches(each, wanted) for each in product.attributes):
        return True
    return any(wanted in text.lower() for text in (product.title, " ".join(product.bullets), product.description))


def type_of(product: Product, goal: Goal, nouns: Nouns) -> float:
    bought, wanted = nouns(product.title), nouns(goal.name)
    share = len(set(bought) & set(wanted)) / len(wanted) if wanted else 0.2
    if share < 0.1:
        return 0.1 if share else 0.0
    alike = product.query == goal.query or len(_names(product.product_category) & _names(goal.product_category)) >= 2
    return 1.0 if alike or share > 0.2 else 0.5


def _names(category: str) -> set[str]:
    return {each.strip() for each in category.split("\u203a")}
