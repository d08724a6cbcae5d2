"""A shop: its products, their index and its goals, opened once in a process and shared by all of its games.

    shop_of(data, products, goals) -> Shop

The index is made once and then read where it lies, so a shop of any size opens in the time that it takes to read its
files for their digest, and takes little memory:

    $PARLEY_CACHE/webshop/DIGEST, or else ~/.cache/parley/webshop/DIGEST

DIGEST is of the files' content, of how many products are used, and of this code's format. While one process makes an
index the others wait for it.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from fcntl import LOCK_EX, LOCK_NB, flock
from functools import lru_cache
from pathlib import Path

from envs.cache import cache_folder
from envs.worlds.webshop.files import Files, ShopData, digest_of, files_in, present
from envs.worlds.webshop.goals import Goals
from envs.worlds.webshop.products import Products, write_products
from envs.worlds.webshop.search.index import Index, write_index

FORMAT = 1
PATIENCE = 3600.0  # seconds in which another process has made an index


class Shop:
    def __init__(self, folder: Path, goals: str, human: Path):
        self.products = Products(folder)
        self.index = Index(folder, self.products.names)
        self.goals = Goals(goals, self.products, human)


def shop_of(data: str, products: int | None, goals: str) -> Shop:
    files = files_in(data)
    for file in files if goals == "human" else files[:2]:
        present(file)
    return _shop(files, products, goals)


@lru_cache(maxsize=4)
def _shop(files: Files, products: int | None, goals: str) -> Shop:
    return Shop(_made(files, products), goals, files.human)


def _made(files: Files, most: int | None) -> Path:
    room = cache_folder() / "webshop"
    folder = room / f"{digest_of(*files[:2])[:32]}-{most or 'all'}-{FORMAT}"
    if folder.is_dir():
        return folder
    try:
        room.mkdir(parents=True, exist_ok=True)
        with _alone(room / f"{folder.name}.lock"):
            if not folder.is_dir():
                _make(folder, files, most)
    except OSError as error:
        raise ShopData(
            f"the index of {files.products} cannot be kept in {room} ({error}): name another PARLEY_CACHE"
        ) from error
    return folder


def _make(folder: Path, files: Files, most: int | None) -> None:
    unfinished = Path(tempfile.mkdtemp(dir=folder.parent, prefix="unfinished-"))
    try:
        write_index(unfinished, _told(files.products, write_products(unfinished, files, most)))
        os.replace(unfinished, folder)  # a folder that is there is whole
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _told(file: Path, texts: Iterator[str], every: int = 20_000) -> Iterator[str]:
    for number, text in enumerate(texts):
        if number and number % every == 0:
            print(f"webshop: {number} products of {file} are in the index", file=sys.stderr, flush=True)
        yield text


@contextmanager
def _alone(lock: Path) -> Iterator[None]:
    """The lock of a process that died is free."""
    until = time.monotonic() + PATIENCE
    with lock.open("w") as held:
        while True:
            try:
                flock(held, LOCK_EX | LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > until:
                    raise ShopData(f"another process has not finished {lock.stem} in {PATIENCE:.0f} s") from None
                time.sleep(0.2)
        yield
