"""Very many games on the live page, in a real Chromium: seconds to open it, and to filter them."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from cluster.watch.demo import unpacked
from tests.support import chromium

WAIT_SECONDS, EVERY_SECONDS = 300.0, 0.01
ROWS = "document.querySelectorAll('tbody tr[data-key]').length"
TOLD = "(document.getElementById('found')?.textContent ?? '')"


def watched(games: Path, asked: str, words: str) -> dict[str, float | str]:
    """The store `games` in the place of that of the demo's run. `asked`: a condition; `words`: seen or said."""
    if chromium.installed() is None:
        return {"missing": chromium.INSTALL}
    with unpacked() as run:
        shutil.rmtree(run / "episodes")
        (run / "episodes").symlink_to(games.absolute())
        command = [sys.executable, "-m", "cluster", "watch", str(run), "--port", "0"]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            address = server.stdout.readline().split(": ", 1)[1].split(" ")[0]
            with chromium.Browser() as browser:
                began = time.perf_counter()
                page = browser.open(address)
                page.until(f"{TOLD}.endsWith('games') && {ROWS}", WAIT_SECONDS, EVERY_SECONDS)
                found = {"open": time.perf_counter() - began}
                for name, selector, event, value in (
                    ("filter", "#where", "change", asked),
                    ("clear", "#where", "change", ""),
                    ("words", "#search", "input", words),
                ):
                    before, began = page.evaluate(TOLD), time.perf_counter()
                    page.fill(selector, value, event)
                    page.until(f"{TOLD} !== {json.dumps(before)}", WAIT_SECONDS, EVERY_SECONDS)
                    found[name] = time.perf_counter() - began
                    found[f"{name}_found"] = page.evaluate(TOLD)
                return found
        finally:
            server.send_signal(signal.SIGINT)
            server.wait(WAIT_SECONDS)
