"""The run that `parley watch --demo` shows: a real one, packed small, and unpacked for as long as somebody looks.

run folder --packed--> demo.tar.xz, in the package --unpacked--> a folder in the temporary directory
"""

from __future__ import annotations

import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from io import BytesIO
from pathlib import Path

import pyarrow.parquet as pq

from cluster.episodes.columns import SCHEMA
from cluster.episodes.reader import Episodes
from cluster.record.checkpoints import all_checkpoints
from cluster.record.run import object_of
from cluster.record.run_folder import to_json

FILES = ("config.yaml", "metrics.jsonl", "samples.jsonl", "summary.json")
OF_THE_MACHINE = ("host", "system", "commit", "command")  # of versions.json: nobody else's business


@contextmanager
def unpacked() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="parley-demo-") as folder:
        with tarfile.open(fileobj=BytesIO((files("cluster.watch") / "demo.tar.xz").read_bytes())) as packed:
            packed.extraction_filter = getattr(tarfile, "data_filter", None)  # the first Pythons of 3.11 have none
            packed.extractall(folder)
        (run,) = Path(folder).iterdir()
        yield run


def pack(run: Path, target: Path) -> int:
    """What the viewer shows of a finished run, its games as one part of the store; the bytes of the file."""
    games = Episodes(run / "episodes").table(SCHEMA.names)
    updates = games["update"].to_pylist()
    with tempfile.TemporaryDirectory() as made, tarfile.open(target, "w:xz", preset=9) as packed:
        part = Path(made, f"part-{min(updates):09d}-{max(updates):09d}.parquet")
        pq.write_table(games, part, compression="none")  # what is around it compresses better
        told = {name: value for name, value in object_of(run / "versions.json").items() if name not in OF_THE_MACHINE}
        versions = Path(made, "versions.json")
        versions.write_text(to_json(told))
        tokenizer = all_checkpoints(run / "checkpoints")[-1] / "policy" / "tokenizer.json"
        files = [
            *((run / name, name) for name in FILES),
            (versions, versions.name),
            (tokenizer, "policy/tokenizer.json"),
            (part, f"episodes/{part.name}"),
        ]
        for path, name in files:
            packed.add(path, f"{run.name}/{name}", filter=_anonymous)
    return target.stat().st_size


def _anonymous(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    entry.mtime = 0
    return entry
