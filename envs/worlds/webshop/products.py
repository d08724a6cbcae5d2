"""The products of a shop, on disk as the pages and the reward need them, and read one by one.

    write_products(folder, files, most)      once; the texts that are searched come out one after the other
    Products(folder)[number]                 -> Product

A product is what WebShop makes of its files: of several with one number (asin) the first counts, and none with the
number "nan" or one of more than ten characters; prices are what follows a $, two of them a range, none $100; names of
options are without capitals, a / in their values is " | "; attributes are DUMMY_ATTR where none are known. The
searched text is title, description, first bullet point and options. The price of a range is drawn when the published
shop starts, from no fixed seed; here the product's number is the seed.
"""

from __future__ import annotations

import json
import math
import random
import re
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any

import numpy as np

from envs.worlds.package import text_of
from envs.worlds.webshop.files import Files, by_product, damaged, listed

NO_PRICE = 100.0
READ = 2000  # products that are kept in memory
_NO_NUMBER = re.compile(r"[^\d.]")


@dataclass(frozen=True, slots=True)
class Product:
    asin: str
    title: str
    category: str
    query: str
    product_category: str
    description: str
    bullets: list[str]
    tag: str  # its price, as it is told
    price: float
    options: dict[str, list[str]]
    attributes: list[str]
    instruction: str = ""
    instruction_attributes: list[str] = field(default_factory=list)

    @property
    def searched(self) -> str:
        options = ", and ".join(f"{name}: {', '.join(values)}" for name, values in self.options.items())
        return " ".join([self.title, self.description, self.bullets[0], options]).lower()

    @property
    def choices(self) -> int:
        """Goals that a synthetic instruction is made into: one for each choice of all options."""
        return min(1 << 40, math.prod(map(len, self.options.values()))) if self.instruction else 0


def write_products(folder: Path, files: Files, most: int | None) -> Iterator[str]:
    known = dict(_attributes(files.attributes))
    offsets, names, choices = array("Q", [0]), [], array("Q")
    with (folder / "products.jsonl").open("wb") as written:
        for product in _products(files, known, most):
            kept = {name: getattr(product, name) for name in Product.__slots__}
            line = json.dumps(kept, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
            written.write(line)
            offsets.append(offsets[-1] + len(line))
            names.append(product.asin)
            choices.append(product.choices)
            yield product.searched
    if not names:
        raise damaged(files.products, "it has no product")
    np.save(folder / "offsets.npy", np.array(offsets, dtype=np.int64))
    np.save(folder / "names.npy", np.array([name.encode("utf-8", "replace") for name in names]))
    np.save(folder / "choices.npy", np.array(choices, dtype=np.int64))


def _attributes(file: Path) -> Iterator[tuple[str, bytes]]:
    """By product, packed: there may be a million."""
    for asin, told in by_product(file):
        if not isinstance(told, dict):
            raise damaged(file, f"what it tells of {asin!r} is no object")
        kept = {key: told[key] for key in ("attributes", "instruction", "instruction_attributes") if told.get(key)}
        yield asin, json.dumps(kept).encode()


def _products(files: Files, known: dict[str, bytes], most: int | None) -> Iterator[Product]:
    met: set[str] = set()
    for number, item in enumerate(listed(files.products)):
        if number == most:
            return
        try:
            asin = str(item["asin"])
            if asin == "nan" or len(asin) > 10 or asin in met:
                continue
            met.add(asin)
            yield _product(asin, item, json.loads(known.get(asin, b"{}")))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise damaged(files.products, f"product {number} has no usable {error}") from error


def _product(asin: str, item: dict[str, Any], told: dict[str, Any]) -> Product:
    prices = [float(_NO_NUMBER.sub("", each)) for each in (item.get("pricing") or "").split("$")[1:]][:2]
    bullets = item["small_description"]
    bullets = [text_of(each or "") for each in (bullets if isinstance(bullets, list) else [bullets])]
    options = {
        text_of(name).lower(): [text_of(each["value"]).strip().replace("/", " | ").lower() for each in values]
        for name, values in (item["customization_options"] or {}).items()
        if values is not None
    }
    return Product(
        asin=asin,
        title=text_of(item["name"]),
        category=text_of(item["category"]),
        query=text_of(item["query"]).lower().strip(),
        product_category=text_of(item["product_category"]),
        description=text_of(item["full_description"] or ""),
        bullets=bullets or [""],
        tag=" to ".join(f"${price}" for price in prices or [NO_PRICE]),
        price=random.Random(f"webshop {asin}").uniform(*prices) if len(prices) == 2 else (prices or [NO_PRICE])[0],
        options=options,
        attributes=list(map(text_of, told.get("attributes") or ["DUMMY_ATTR"])),
        instruction=text_of(told.get("instruction") or ""),
        instruction_attributes=list(map(text_of, told.get("instruction_attributes") or [])),
    )


class Products:
    def __init__(self, folder: Path):
        self.names, self.offsets, self.choices = (
            np.load(folder / f"{name}.npy", mmap_mode="r") for name in ("names", "offsets", "choices")
        )
        with (folder / "products.jsonl").open("rb") as opened:
            self._lines = mmap(opened.fileno(), 0, access=ACCESS_READ)
        self._by_name = np.argsort(self.names)
        self._sorted = self.names[self._by_name]
        self._read = lru_cache(maxsize=READ)(self._product)

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, number: int) -> Product:
        return self._read(number)

    def _product(self, number: int) -> Product:
        return Product(**json.loads(self._lines[int(self.offsets[number]) : int(self.offsets[number + 1])]))

    def number_of(self, asin: str) -> int | None:
        name = asin.encode("utf-8", "replace")
        at = int(np.searchsorted(self._sorted, name))
        return int(self._by_name[at]) if at < len(self) and self._sorted[at] == name else None
