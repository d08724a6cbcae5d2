"""Makes the embedded policy, once: a folder that transformers and vLLM load like any other model.

The folder's name is a hash of everything it is made from: the settings, the game with its
options and language, the code and data of both, and the library versions. It is built
beside its place and renamed into it, so a folder that exists is complete. The same hash
gives the same bytes.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import os
import shutil
import socket
import tempfile
import time
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

from envs.registry import game_class, make_game
from envs.settings import GameSettings
from learners.model.folder import make_readable
from learners.settings import EmbeddedSettings

BUILDING, DAY_SECONDS = ".building-", 86_400.0
LIBRARIES = ("torch", "transformers", "tokenizers", "safetensors")
CLONED_WITH = ("attention.py", "by_hand.py", "logits.py", "shared_attention.py")


def cache_folder() -> Path:
    """$PARLEY_CACHE, or ~/.cache/parley."""
    return Path(os.environ.get("PARLEY_CACHE") or Path.home() / ".cache" / "parley")


def build_policy(game: GameSettings, embedded: EmbeddedSettings, cache: Path | None = None, progress=None) -> Path:
    """The policy's folder, built if it is not there yet. `progress(steps done, steps in
    all, loss)` is called every 50 cloning steps, and not at all when it is there."""
    key = policy_key(game, embedded)
    parent = Path(cache) if cache is not None else cache_folder()
    _sweep(parent)
    folder = parent / f"embedded-{game.name}-{key}"
    if folder.is_dir():
        return folder
    parent.mkdir(parents=True, exist_ok=True)
    building = Path(tempfile.mkdtemp(prefix=f"{BUILDING}{os.getpid()}-{socket.gethostname()}-", dir=parent))
    try:
        _build(building, game, embedded, progress)
        building.chmod(0o755)
        try:
            building.rename(folder)
        except OSError:
            if not folder.is_dir():  # else another process was faster, with the same bytes
                raise
    finally:
        shutil.rmtree(building, ignore_errors=True)
    return folder


def _sweep(cache: Path) -> None:
    """What killed processes have left: those of this machine, and after a day those of others."""
    here = f"-{socket.gethostname()}-"
    for left in cache.glob(f"{BUILDING}*"):
        process, separator, of = left.name.removeprefix(BUILDING).partition("-")
        with suppress(FileNotFoundError):  # another process sweeps, or has done with it
            old = time.time() - left.stat().st_mtime > DAY_SECONDS
            if old or (f"{separator}{of}".startswith(here) and not Path("/proc", process).exists()):
                shutil.rmtree(left, ignore_errors=True)


def policy_key(game: GameSettings, embedded: EmbeddedSettings) -> str:
    """16 hex digits of the hash of all that the policy is made from."""
    made = make_game(game.name, game.options)
    parts = {
        "game": {"name": game.name, "options": game.options},
        "embedded": embedded.model_dump(),
        "language": sorted(set(made.language())),
        "files": {
            str(number): hashlib.sha256(path.read_bytes()).hexdigest() for number, path in enumerate(_sources(game))
        },
        "libraries": {name: version(name) for name in LIBRARIES},
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()[:16]


def _sources(game: GameSettings) -> list[Path]:
    """Code and data that the policy depends on: this package and what it works with, the layout of tokens,
    the game's own package, what its classes inherit from, and files named in its options."""
    here, layout = Path(__file__).parent, Path(inspect.getfile(make_game)).parent / "text" / "dialogue.py"
    made_by = game_class(game.name)
    code = Path(inspect.getfile(made_by))
    in_own_package = made_by.__module__.count(".") >= 2  # envs.twenty_questions.game, but not envs.parrot
    beside = code.parent.rglob("*") if in_own_package else [code]
    packages = {made_by.__module__.partition(".")[0], "envs"}
    bases = {base for each in (made_by, *made_by.players().values()) for base in each.__mro__}
    inherited = [Path(inspect.getfile(base)) for base in bases if base.__module__.partition(".")[0] in packages]
    values = [each for value in game.options.values() for each in (value if isinstance(value, list) else [value])]
    named = [Path(value).expanduser() for value in values if isinstance(value, str)]
    files = [
        *here.glob("*.py"),
        *(here.parent / "model" / each for each in CLONED_WITH),
        layout,
        *beside,
        *inherited,
        *named,
    ]
    return [path for path in sorted(set(files)) if path.is_file() and path.suffix != ".pyc"]


def _build(folder: Path, game: GameSettings, embedded: EmbeddedSettings, progress) -> None:
    import torch

    from learners.embedded.cloning import clone
    from learners.embedded.model import LONGEST, make_model
    from learners.embedded.tokenizer import make_tokenizer

    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # sums in one order: the same bytes on any number of cores
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(embedded.seed)
            tokenizer = make_tokenizer(make_game(game.name, game.options).language(), LONGEST)
            model = make_model(embedded, tokenizer)
            clone(model, tokenizer, game, embedded, progress)
    finally:
        torch.set_num_threads(threads)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    make_readable(folder)
