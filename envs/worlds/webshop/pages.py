"""The pages of the shop, as text and as what can be clicked.

    search        the shop's name, the instruction, Search
    results       10 of at most 50 products, each with number, title and price; Next > is there on every page, also on
                  the last one, and < Prev on all but the first
    item          options with their values, title, price, rating (none is published), Buy Now, and the way to the pages
                  of its details
    details       description, features (the bullet points), reviews (none are published), or attributes

Every page but the first begins with the instruction and Back to Search. In the view "text" its parts stand in a row
with [SEP] between them; in the view "rich" each has a line, what can be clicked is marked, and so is what was clicked.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from envs.worlds.webshop.products import Product

WINDOW = 10  # products on a page
VIEWS = ("text", "rich")
SEARCH, BACK, NEXT, PREVIOUS, BUY = "Search", "Back to Search", "Next >", "< Prev", "Buy Now"
OPTION = "option "  # and its name: the kind of its values
DETAILS = ("Description", "Features", "Reviews", "Attributes")


class Part(NamedTuple):
    text: str
    kind: str = ""  # "button", "link" to a product, or OPTION and the name of the option that it is a value of


Page = list[Part]


def search_page(instruction: str) -> Page:
    return [Part("WebShop"), Part("Instruction:"), Part(instruction), Part(SEARCH, "button")]


def results_page(instruction: str, found: Sequence[Product], page: int, total: int) -> Page:
    """`found`: of this page."""
    ways = [PREVIOUS, NEXT] if page > 1 else [NEXT]
    items = [part for each in found for part in (Part(each.asin, "link"), Part(each.title), Part(each.tag))]
    return [
        *_head(instruction),
        Part(f"Page {page} (Total results: {total})"),
        *(Part(way, "button") for way in ways),
        *items,
    ]


def item_page(instruction: str, product: Product, attributes: bool) -> Page:
    """`attributes`: whether there is a way to them."""
    options = [
        part
        for name, values in product.options.items()
        for part in (Part(name), *(Part(value, f"{OPTION}{name}") for value in values))
    ]
    told = [Part(product.title), Part(f"Price: {product.tag}"), Part("Rating: N.A.")]
    ways = [*DETAILS[: 4 if attributes else 3], BUY]
    return [*_head(instruction), Part(PREVIOUS, "button"), *options, *told, *(Part(way, "button") for way in ways)]


def details_page(instruction: str, product: Product, which: str) -> Page:
    told = {
        "Description": [product.description],
        "Features": product.bullets,
        "Reviews": [],
        "Attributes": [*product.attributes, product.category, product.query, product.product_category],
    }[which]
    return [*_head(instruction), Part(PREVIOUS, "button"), *map(Part, told)]


def _head(instruction: str) -> Page:
    return [Part("Instruction:"), Part(instruction), Part(BACK, "button")]


def clickable(page: Page) -> tuple[str, ...]:
    """What can be clicked, without capitals: buttons and links first. The search button alone does nothing."""
    ways = [part.text.lower() for part in page if part.kind in ("button", "link") and part.text != SEARCH]
    return tuple(dict.fromkeys([*ways, *(part.text for part in page if part.kind.startswith(OPTION))]))


def option_of(page: Page, value: str) -> str | None:
    """The option that has this value: the last one, if several have it."""
    having = [part.kind for part in page if part.text == value and part.kind.startswith(OPTION)]
    return having[-1].removeprefix(OPTION) if having else None


def shown(page: Page, view: str, chosen: Mapping[str, str], opened: Collection[str]) -> str:
    """`chosen`: values by option; `opened`: numbers of products."""
    if view == "text":
        return " [SEP] ".join(part.text.strip() for part in page)
    first: list[str] = []
    lines = []
    for part in page:
        option = part.kind.startswith(OPTION)
        clicked = part.text in (chosen.values() if option else opened) and part.kind not in ("", "button")
        mark = "clicked button" if clicked else "button"
        if option and clicked:
            first.insert(0, f"You have clicked {part.text}.")
        lines.append(f"[{mark}] {part.text.strip()} [{mark}_]" if part.kind else part.text.strip())
    return "\n".join([*first, *lines])
