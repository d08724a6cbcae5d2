"""The top-level names of Parley's packages, beside folders of a user's project that have the same names.

A project may have folders of its own called `envs` or `actors`. Python then finds one of the two, whichever comes
first on `sys.path`: in a script of the project that is the project's folder. So

    share()       is what `import parley` does in the user's own program. Each such name becomes one package with the
                  modules of both, the project's first. Where both have a module of one name, one of the two would be
                  hidden: `check` refuses that in one line, before anything of Parley is used.
    put_first()   is called in Parley's own processes: the command line, Ray's workers, and the processes that
                  these start. Parley's modules come first there, and the project's stay importable behind them,
                  unless there is a module that both have: then there are Parley's only.

Both change nothing where no folder has such a name. A folder without `__init__.py` comes behind every installed
package of its name, whatever the order of the path: a program imports from it after `import parley`.

This module imports nothing of Parley.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from typing import Any

PACKAGES = ("cluster", "learners", "actors", "reward_service", "envs")
ROOT = Path(__file__).resolve().parents[1]  # the folder that holds them


class SharedPackages:
    """An import finder: a package whose modules lie in several folders, ours and those of its name on `sys.path` as it
    is when the package is imported. At most one `__init__` of them has anything in it, and that is the package's."""

    def __init__(self, ours_first: bool):
        self.ours_first = ours_first

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name not in PACKAGES or not (folders := self.folders(name)):
            return None
        filled = [each for each in folders if "__init__" in _modules(each)]
        init = (filled or [ROOT / name])[0] / "__init__.py"
        return spec_from_file_location(name, init, submodule_search_locations=[str(each) for each in folders])

    def folders(self, name: str) -> list[Path]:
        """In the order in which modules are looked for; none if there is only ours."""
        if not self.ours_first:
            theirs = _others(name, _before_ours())
            return [*theirs, ROOT / name] if theirs else []
        _move_to_the_end()  # Ray extends the path of its workers after they have started
        theirs = [each for each in _others(name, sys.path) if not _modules(ROOT / name) & _modules(each)]
        return [ROOT / name, *theirs] if theirs else []


_finder: SharedPackages | None = None  # in this process


def share() -> None:
    _install(SharedPackages(ours_first=False))


def put_first() -> None:
    _install(SharedPackages(ours_first=True))


def check() -> None:
    """In a process that shares the names, refuse two modules of one name."""
    for name in PACKAGES if _finder is not None and not _finder.ours_first else ():
        for folder in _others(name, _before_ours()):
            if both := _modules(ROOT / name) & _modules(folder):
                raise ImportError(
                    f"Parley cannot be used beside {folder}: both have a module {name}.{min(both)}, and one would hide "
                    "the other; rename yours, or use the command line (parley train ...), which does not need it"
                )


def ray_options() -> dict[str, Any]:
    """Further arguments of `ray.init`. Ray puts the current folder first on the `sys.path` of its workers; where that
    would hide Parley's packages, each worker begins with `put_first`."""
    needed = any(_others(name, [*sys.path, os.curdir]) for name in PACKAGES)
    return {"runtime_env": {"worker_process_setup_hook": f"{__name__}.put_first"}} if needed else {}


def _install(finder: SharedPackages) -> None:
    global _finder
    if _finder is not None:
        sys.meta_path.remove(_finder)
    _finder = finder
    sys.meta_path.insert(0, finder)
    for name in sys.modules.keys() & set(PACKAGES):  # imported before: it gets the other folders too
        path = sys.modules[name].__path__
        path.extend(str(each) for each in finder.folders(name) if str(each) not in path)


def _move_to_the_end() -> None:
    """The entries of `sys.path` that have a folder of such a name: processes that this one starts are given the path,
    but not the finder."""
    last = [entry for entry in sys.path if any(_others(name, [entry]) for name in PACKAGES)]
    entries = [entry for entry in sys.path if entry not in last]
    if last and sys.path[-len(last) :] != last:
        sys.path[:] = [*entries, *([] if ROOT in map(_resolved, entries) else [str(ROOT)]), *last]


def _others(name: str, entries: Iterable[str]) -> list[Path]:
    """Folders of Python modules that are called `name` and are not Parley's, in the order of the path. Another checkout
    of Parley is none of them."""
    found = [_resolved(entry) for entry in entries]
    theirs = [each / name for each in found if each != ROOT and not (each / "parley" / "names.py").is_file()]
    return list(dict.fromkeys(each for each in theirs if _modules(each)))


def _before_ours() -> list[str]:
    """What comes after our folder on `sys.path` is hidden by it anyway."""
    resolved = [_resolved(entry) for entry in sys.path]
    return sys.path[: resolved.index(ROOT)] if ROOT in resolved else list(sys.path)


def _modules(folder: Path) -> set[str]:
    """The modules and packages in a folder; its own `__init__` counts if there is anything in it."""
    if not folder.is_dir():
        return set()
    files = {each.stem for each in folder.glob("*.py") if each.stem != "__init__" or each.read_bytes().strip()}
    return files | {each.parent.name for each in folder.glob("*/__init__.py")}


def _resolved(entry: str) -> Path:
    return Path(entry or os.curdir).resolve()
