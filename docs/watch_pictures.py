"""The pictures of `parley watch` in these pages, from its demo: `python -m docs.watch_pictures`."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from io import BytesIO
from pathlib import Path

from PIL import Image

from tests.support import chromium

IMAGES = Path(__file__).parent / "images"
QUALITY = 55  # of WebP: small files that stay readable
SECONDS = 60.0
READY = "document.querySelector('#results table') && document.querySelectorAll('tbody tr[data-key]').length"

# name -> width, dark, what it begins and ends with
PICTURES = {
    "watch_light": (1280, False, "body", "#lanes"),
    "watch_dark": (1280, True, "#all-games", "#game"),
}


def main() -> None:
    command = [sys.executable, "-m", "cluster", "watch", "--demo", "--port", "0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        address = server.stdout.readline().split(": ", 1)[1].split(" ")[0]
        with chromium.Browser() as browser:
            page = browser.open(address)
            for name, (width, dark, first, last) in PICTURES.items():
                page.show(width=width, dark=dark)
                until(page, READY)
                page.evaluate("document.querySelector('tbody button').click()")
                until(page, "document.querySelectorAll('#chosen-game .turn').length")
                page.resize(width, page.evaluate("document.documentElement.scrollHeight"))
                picture = Image.open(BytesIO(page.part(first, last, width))).convert("RGB")
                picture.save(IMAGES / f"{name}.webp", quality=QUALITY, method=6)
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(SECONDS)


def until(page: chromium.Page, expression: str) -> None:
    deadline = time.monotonic() + SECONDS
    while not page.evaluate(expression):
        if time.monotonic() > deadline:
            sys.exit(f"{expression} did not come true")
        time.sleep(0.1)


if __name__ == "__main__":
    main()
