"""Shops in the shape of WebShop's files, with what a test says of their products."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

LAMP: dict[str, Any] = {
    "asin": "B000000001",
    "name": "Lumo Desk Lamp",
    "category": "electronics",
    "query": "Desk Lamp ",
    "product_category": "Home \u203a Lighting \u203a Lamps",
    "full_description": "Light for late hours.",
    "small_description": ["Dims in three steps.", "Stands on wood."],
    "pricing": "$29.50",
    "images": ["lamp.jpg"],
    "customization_options": {"Color": [{"value": " Red/Blue ", "image": None}, {"value": "green"}], "Size": None},
}
TOLD = {"attributes": ["dimmable"], "instruction": "find me a lamp", "instruction_attributes": ["dimmable"]}
SAID = {"instruction": "a lamp that dims.", "instruction_attributes": ["dimmable"], "instruction_options": ["green"]}


def shop(folder: Path, *products: dict[str, Any], told: Any = None, said: Any = None, size: str = "") -> str:
    """Products are lamps but for what is said of them; the first one is told of."""
    items = [LAMP | each for each in products]
    first = items[0]["asin"] if items else ""
    write(folder / f"items_shuffle{size}.json", items)
    write(folder / f"items_ins_v2{size}.json", {first: TOLD} if told is None else told)
    write(folder / "items_human_ins.json", {first: [SAID]} if said is None else said)
    return str(folder)


def write(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content), encoding="utf-8")
