"""The files that WebShop publishes, read piece by piece: its products alone are more than memory holds at once.

    items_shuffle.json      a list of products; items_shuffle_1000.json: the first thousand
    items_ins_v2.json       by product: attributes, and an instruction made of them; items_ins_v2_1000.json, too
    items_human_ins.json    by product: instructions that people wrote

Parley ships none of them. Whatever is missing or damaged is one line that says what to download, from where, and which
setting names the folder.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

TINY = "tiny"
FROM = "https://drive.google.com/uc?id="
PLACES = {  # as WebShop's own setup.sh names them
    "items_shuffle.json": "1A2whVgOO0euk5O13n2iYDM0bQRkkRduB",
    "items_shuffle_1000.json": "1EgHdxQ_YxqIQlvvq5iKlCrkEKR6-j0Ib",
    "items_ins_v2.json": "1s2j6NgHljiZzQNL3veZaAiyW_qDEgBNi",
    "items_ins_v2_1000.json": "1IduG0xl544V_A_jv3tHXC0kyFi7PnyBu",
    "items_human_ins.json": "14Kb5SPBk_jfdLZ_CDBNitW98QLDlKR5O",
}
CHUNK = 1 << 20  # characters read at once
LONGEST = 1 << 26  # characters of one product
_DECODER = json.JSONDecoder()


class ShopData(ValueError):
    """The data of the shop are not there, or not as they were published."""


class Files(NamedTuple):
    products: Path
    attributes: Path
    human: Path


def files_in(data: str) -> Files:
    """Of all products where both of their files are there, else of the first thousand."""
    folder = Path(__file__).parent / TINY if data == TINY else Path(data).expanduser()
    for size in ("", "_1000"):
        files = Files(
            *(folder / f"{name}.json" for name in (f"items_shuffle{size}", f"items_ins_v2{size}", "items_human_ins"))
        )
        if files.products.is_file():
            break
    else:
        files = Files(
            *(folder / f"{name}.json" for name in ("items_shuffle_1000", "items_ins_v2_1000", "items_human_ins"))
        )
    return files


def present(file: Path) -> Path:
    if not file.is_file():
        raise ShopData(f"{file} is not there: download it from {_place(file)} and name its folder in game.options.data")
    return file


def damaged(file: Path, what: str) -> ShopData:
    return ShopData(f"{file} is damaged, {what}: download it again from {_place(file)} (its folder: game.options.data)")


def _place(file: Path) -> str:
    return FROM + PLACES[file.name] if file.name in PLACES else "where it came from"


def digest_of(*files: Path) -> str:
    found = sha256()
    for file in files:
        found.update(f"{file.name} {present(file).stat().st_size} ".encode())
        with file.open("rb") as opened:
            while part := opened.read(CHUNK):
                found.update(part)
    return found.hexdigest()


def listed(file: Path) -> Iterator[dict[str, Any]]:
    """The elements of a list, one after the other."""
    for number, (_, element) in enumerate(_pieces(file, "[", "]")):
        if not isinstance(element, dict):
            raise damaged(file, f"its element {number} is no product")
        yield element


def by_product(file: Path) -> Iterator[tuple[str, Any]]:
    return _pieces(file, "{", "}")


def _pieces(file: Path, opening: str, closing: str) -> Iterator[tuple[str, Any]]:
    """Keys and values of an object; elements of a list have empty keys."""
    with present(file).open(encoding="utf-8") as opened:
        text = _Text(file, opened)
        text.take(opening)
        if text.next() == closing:
            return
        while True:
            key = ""
            if closing == "}":
                key = text.value()
                text.take(":")
                if not isinstance(key, str):
                    raise damaged(file, f"its key {key!r} is no text")
            yield key, text.value()
            if text.next() == closing:
                return
            text.take(",")


class _Text:
    """What of a file is in memory, and where reading stands."""

    def __init__(self, file: Path, opened: Any):
        self.file, self.opened = file, opened
        self.held, self.at, self.before = "", 0, 0

    def next(self) -> str:
        """The next character that is no space; "" at the end."""
        while True:
            while self.at < len(self.held):
                if not self.held[self.at].isspace():
                    return self.held[self.at]
                self.at += 1
            if not self._more():
                return ""

    def take(self, sign: str) -> None:
        if self.next() != sign:
            raise damaged(self.file, f"no {sign} at character {self.before + self.at}")
        self.at += 1

    def value(self) -> Any:
        self.next()
        while True:
            try:
                found, end = _DECODER.raw_decode(self.held, self.at)
            except ValueError:
                found, end = None, len(self.held)
            if end < len(self.held):  # a number that ends with what is held may go on
                self.at = end
                return found
            if len(self.held) - self.at > LONGEST or not self._more():
                raise damaged(self.file, f"at character {self.before + self.at}")

    def _more(self) -> bool:
        try:
            read = self.opened.read(max(CHUNK, len(self.held) - self.at))  # twice as much each time
        except UnicodeDecodeError as error:
            raise damaged(self.file, f"no UTF-8 after character {self.before + self.at}") from error
        self.before += self.at
        self.held, self.at = self.held[self.at :] + read, 0
        return bool(read)
