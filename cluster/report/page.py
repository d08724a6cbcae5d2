"""The page: one HTML file that holds its own style, script and data, and asks nobody for anything.

    runs -> data (JSON) -> page.html with style.css, *.js and the data inside

Whatever a policy said reaches the page as JSON and then as text nodes, never as markup. The page's
own policy (Content-Security-Policy) lets no script run but ours, known by its hash, and nothing be
loaded or sent, so a mistake in the first would still be harmless.
"""

from __future__ import annotations

import base64
import hashlib
import html
import time
from collections.abc import Callable, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from cluster.errors import ConfigError, RunFolderError
from cluster.record.run_folder import installed, to_json, write_whole
from cluster.report.comparing import compared
from cluster.report.games import MOST_BYTES, games
from cluster.report.intentions import MOST_POINTS
from cluster.report.reading import Run, read_run
from cluster.report.told import figures, meaning

SCRIPTS = (  # in this order
    *("elements", "save", "axis", "chart", "learning", "comparing", "map", "intentions", "results", "games", "main"),
)


def write_report(folders: Sequence[str | Path], output: Path | None = None, say=print) -> Path:
    """The page about these runs; by default report.html in the first one's folder."""
    runs = [read_run(folder) for folder in folders]
    if twice := [run.name for run in runs if sum(run.path == other.path for other in runs) > 1]:
        raise ConfigError(f"run {twice[0]} is named twice: as a seed of its own it would make the interval too small")
    target = output or runs[0].path / "report.html"
    if not target.parent.is_dir():
        raise RunFolderError(f"cannot write {target}: there is no folder {target.parent}")
    write_whole(target, page({"runs": [_told(run, len(runs), say) for run in runs]} | _together(runs)))
    return target


def _together(runs: Sequence[Run]) -> dict[str, Any]:
    played = ", ".join(sorted({run.config.game.name for run in runs}))
    return {
        "title": runs[0].name if len(runs) == 1 else f"{len(runs)} runs of {played}",
        "compared": compared(runs) if len(runs) > 1 else None,
        "made": time.strftime("%Y-%m-%d %H:%M"),
        "version": installed("parley"),
    }


def _told(run: Run, beside: int, say: Callable[[str], None]) -> dict[str, Any]:
    meant, labels = meaning(run, MOST_POINTS // beside, say)
    stored, words = _stored(run)
    gamma, room = run.config.learner.credit.gamma, MOST_BYTES // beside
    return {**figures(run), "intentions": meant, **stored, "games": games(run.samples, gamma, labels, room, words)}


def _stored(run: Run) -> tuple[dict[str, Any], dict[tuple[int, int], Any]]:
    """What the kept games say, and the words of those that were sampled."""
    try:
        from cluster.report.held_out import held_out
        from cluster.report.results import Results
        from cluster.report.words import words_of
    except ModuleNotFoundError as error:
        way = f"Kept games are read with {error.name}: pip install -e '.[cpu]' in Parley's folder."
        return {"results": {"missing": way}, "held_out": []}, {}
    folder = run.path / "episodes"
    words = words_of(run.path, [(each["update"], each["number"]) for each in run.samples])
    return {"results": Results(folder).told(), "held_out": held_out(folder)}, words


def page(data: dict[str, Any]) -> str:
    return assembled(data["title"], data, SCRIPTS)


def assembled(
    title: str,
    data: dict[str, Any],
    scripts: Sequence[str],
    more_scripts: Sequence[str] = (),
    more_style: str = "",
    connect: str = "'none'",
) -> str:
    """One HTML file. `connect`: whom its scripts may ask."""
    assets = files("cluster.report") / "assets"
    style = (assets / "style.css").read_text(encoding="utf-8") + more_style
    script = "\n".join([(assets / f"{name}.js").read_text(encoding="utf-8") for name in scripts] + [*more_scripts])
    script = f'"use strict";\n(() => {{\n{script}\n}})();\n'
    parts = {
        "title": html.escape(title),
        "policy": f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; img-src data:; "
        f"connect-src {connect}; base-uri 'none'; form-action 'none'",
        "style": style,
        "script": script,
        "data": _inert(to_json(data, indent=None)),
    }
    blank = (assets / "page.html").read_text(encoding="utf-8").split("{{")
    return blank[0] + "".join(parts[name] + rest for name, _, rest in (part.partition("}}") for part in blank[1:]))


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _inert(text: str) -> str:
    """The same JSON without a character that could end or open an element."""
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text
