"""The README's pictures, from a real run: `python docs/pictures.py [key=value ...]`.

Runs the demo in a pseudo-terminal, then writes docs/images/terminal.svg (what the terminal
showed, the middle of the updates left out) and docs/images/curve.svg (the run's own curve).
"""

from __future__ import annotations

import os
import pty
import re
import shutil
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

HERE = Path(__file__).parent
KEPT_UPDATES = 4  # shown at the start and at the end


def record(command: list[str]) -> str:
    """What the command writes to a terminal; shown here at the same time."""
    seen = bytearray()

    def read(descriptor: int) -> bytes:
        data = os.read(descriptor, 4096)
        seen.extend(data)
        return data

    os.environ |= {"COLUMNS": "124", "LINES": "50", "TERM": "xterm-256color"}
    if pty.spawn(command, read) != 0:
        sys.exit(f"{' '.join(command)} failed")
    return seen.decode(errors="replace")


def settled_lines(raw: str) -> list[str]:
    """The lines that stay: the moving line rewrites itself and leaves nothing."""
    lines = [
        re.sub(r"\x1b\[(?!\d*(;\d+)*m)[0-9;?]*[A-Za-z]", "", part.rsplit("\r", 1)[-1]) for part in raw.split("\r\n")
    ]
    return [line for line in lines if not re.match(r"(\x1b\[[0-9;]*m)*[⠀-⣿]", line)]


def shortened(lines: list[str]) -> list[str]:
    updates = [
        number for number, line in enumerate(lines) if re.match(r"update +\d+/", re.sub(r"\x1b\[[0-9;]*m", "", line))
    ]
    left_out = updates[KEPT_UPDATES:-KEPT_UPDATES]
    if not left_out:
        return lines
    return [*lines[: left_out[0]], "...", *lines[left_out[-1] + 1 :]]


def main() -> None:
    command = ["parley", "train", "recipes/demo.yaml", *sys.argv[1:]]
    here = f"{Path.cwd()}/"  # where the project lies on this machine is of no interest
    lines = [line.replace(here, "") for line in shortened(settled_lines(record(command)))]
    while lines and not lines[-1].strip():
        lines.pop()
    console = Console(record=True, width=124, file=open(os.devnull, "w"), force_terminal=True)
    console.print(Text(f"$ {' '.join(command)}"))
    for line in lines:
        console.print(Text.from_ansi(line))
    (HERE / "images").mkdir(exist_ok=True)
    console.save_svg(str(HERE / "images" / "terminal.svg"), title="parley")
    run = re.search(r"run folder\s+(\S+)", Text.from_ansi("\n".join(lines)).plain).group(1)
    shutil.copy(Path(run) / "curve.svg", HERE / "images" / "curve.svg")


if __name__ == "__main__":
    main()
