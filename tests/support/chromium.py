"""A real browser for the tests of pages: headless Chromium over its DevTools protocol.

    with Browser() as browser:
        page = browser.open(path, width=1280)
        page.evaluate("document.title")

Every page keeps what went wrong in it (`complaints`: console errors, uncaught exceptions,
refused policies) and every address it asked for beside its own (`requests`).
"""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from websockets.sync.client import ClientConnection, connect

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
AXE = "axe_core_python"  # the package that holds axe-core; `Page.faults` skips aloud where it is not
INSTALL = "no Chromium on this machine: apt-get install -y chromium"
SECONDS = 60.0  # for the browser to start, and for each answer


def installed() -> str | None:
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Browser:
    def __init__(self):
        self.profile = tempfile.TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True)
        self.process = subprocess.Popen(
            [
                installed(), "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                "--disable-background-networking", "--no-first-run", "--hide-scrollbars", "--force-color-profile=srgb",
                "--remote-debugging-port=0", f"--user-data-dir={self.profile.name}", "about:blank",
            ],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        self.port = self._port()
        self.connections = ExitStack()

    def _port(self) -> int:
        told, deadline = Path(self.profile.name) / "DevToolsActivePort", time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            if told.is_file() and told.read_text().count("\n"):
                return int(told.read_text().split()[0])
            assert self.process.poll() is None, "Chromium ended while it started"
            time.sleep(0.05)
        raise TimeoutError("Chromium did not start")

    def open(self, path: Path | str, **size: int) -> Page:
        """`path`: a file, or an address."""
        address = (Path(self.profile.name) / "DevToolsActivePort").read_text().split()[1]
        with connect(f"ws://127.0.0.1:{self.port}{address}") as whole:
            whole.send(json.dumps({"id": 1, "method": "Target.createTarget", "params": {"url": "about:blank"}}))
            target = json.loads(whole.recv(timeout=SECONDS))
            while target.get("id") != 1:
                target = json.loads(whole.recv(timeout=SECONDS))
        page = f"ws://127.0.0.1:{self.port}/devtools/page/{target['result']['targetId']}"
        url = path if isinstance(path, str) else path.as_uri()
        page = Page(self.connections.enter_context(connect(page, max_size=2**26)), url)
        page.show(**size)
        return page

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *exception) -> None:
        self.connections.close()
        self.process.terminate()
        self.process.wait(timeout=SECONDS)
        self.profile.cleanup()


class Page:
    def __init__(self, socket: ClientConnection, url: str):
        self.socket, self.url = socket, url
        self.calls, self.complaints, self.requests, self.loaded = 0, [], [], False
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self.calls += 1
        self.socket.send(json.dumps({"id": self.calls, "method": method, "params": parameters}))
        while True:
            told = self._next()
            if told.get("id") == self.calls:
                assert "error" not in told, f"{method}: {told['error']}"
                return told["result"]

    def _next(self) -> dict[str, Any]:
        told = json.loads(self.socket.recv(timeout=SECONDS))
        what, about = told.get("method"), told.get("params", {})
        if what == "Runtime.exceptionThrown":
            self.complaints.append(about["exceptionDetails"]["exception"].get("description", str(about)))
        elif what == "Runtime.consoleAPICalled" and about["type"] in ("error", "warning", "assert"):
            self.complaints.append(str(about["args"]))
        elif what == "Log.entryAdded":
            self.complaints.append(about["entry"]["text"])
        elif what == "Network.requestWillBeSent":
            if (url := about["request"]["url"]) != self.url and not url.startswith("data:"):
                self.requests.append(url)
        elif what == "Page.loadEventFired":
            self.loaded = True
        return told

    def show(self, width: int = 1280, height: int = 900, dark: bool = False, touch: bool = False) -> None:
        """Load the page anew at this size and in this theme."""
        self.resize(width, height, touch)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.loaded = False
        self.call("Page.navigate", url=self.url)
        deadline = time.monotonic() + SECONDS
        while not self.loaded:
            assert time.monotonic() < deadline, f"{self.url} did not load"
            self._next()
        self.settle()

    def resize(self, width: int, height: int, touch: bool = False) -> None:
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=touch)
        self.settle()

    def settle(self) -> None:
        """Until what is due now is drawn."""
        self.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))")

    def evaluate(self, expression: str) -> Any:
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def until(self, expression: str, seconds: float = SECONDS, every: float = 0.05) -> Any:
        """What the expression gives once that is true."""
        deadline = time.monotonic() + seconds
        while not (found := self.evaluate(expression)):
            assert time.monotonic() < deadline, f"{expression} stayed {found!r} for {seconds} s"
            time.sleep(every)
        return found

    def fill(self, selector: str, value: str, event: str) -> None:
        self.evaluate(
            f"{{ const it = document.querySelector({selector!r}); it.value = {json.dumps(value)};"
            f" it.dispatchEvent(new Event({event!r})); }}"
        )

    def move(self, x: float, y: float) -> None:
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        self.settle()

    def click(self, x: float, y: float) -> None:
        self.move(x, y)
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)
        self.settle()

    def press(self, key: str) -> None:
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key)
        self.settle()

    def faults(self, *rules: str) -> list[str]:
        """What axe-core finds that keeps somebody from using the page: serious and critical faults. `rules`: of these
        rules alone. Inside of drawings it does not look: they are hidden from readers of the page's words."""
        files = pytest.importorskip(AXE, reason=f"no axe-core on this machine: pip install {AXE.replace('_', '-')}")
        if not self.evaluate("Boolean(window.axe)"):
            self.evaluate(Path(files.__file__).with_name("axe.min.js").read_text(encoding="utf-8"))
        only = {"runOnly": list(rules)} if rules else {}
        found = self.evaluate(
            f"axe.run({{exclude: [['svg']]}}, {{...{json.dumps(only)}, resultTypes: ['violations']}})"
            ".then((all) => all.violations)"
        )
        return [
            f"{each['id']}: {each['help']}; {node['html'][:120]}"
            for each in found
            if each["impact"] in ("serious", "critical")
            for node in each["nodes"]
        ]

    def picture(self, whole: bool = True, **clip: float) -> bytes:
        """PNG of the whole page, or of what is seen of it."""
        options: dict[str, Any] = {"captureBeyondViewport": whole}
        if clip:
            options["clip"] = {"scale": 1, **clip}
        return base64.b64decode(self.call("Page.captureScreenshot", format="png", **options)["data"])

    def part(self, first: str, last: str, width: int) -> bytes:
        """PNG of what lies from the top of one element to the end of another."""
        top, bottom = self.evaluate(
            f"[document.querySelector({first!r}).getBoundingClientRect().top + scrollY,"
            f" document.querySelector({last!r}).getBoundingClientRect().bottom + scrollY + 20]"
        )
        return self.picture(x=0, y=top, width=width, height=bottom - top)


# name of a picture -> width, dark, what it begins and ends with
PICTURES = {
    "light": (1280, False, "body", "#intentions .two"),
    "dark": (1280, True, "#games", "#games"),
    "phone_light": (390, False, "body", "#learning"),
    "phone_dark": (390, True, "#intentions", "#ranks"),
}
COMPARED = {"compared": (1280, False, "body", "#compared")}


def main(report: str, folder: str) -> None:
    """Pictures of a report: `python -m tests.support.chromium PAGE FOLDER`; of one that compares runs its
    comparison."""
    from PIL import Image

    with Browser() as browser:
        page = browser.open(Path(report).resolve())
        several = page.evaluate("document.getElementById('compared') !== null")
        for name, (width, dark, first, last) in (COMPARED if several else PICTURES).items():
            page.show(width=width, dark=dark)
            page.show(width=width, dark=dark, height=page.evaluate("document.documentElement.scrollHeight"))
            picture = Image.open(BytesIO(page.part(first, last, width))).convert("RGB")
            picture.save(Path(folder, f"report_{name}.webp"), lossless=True, method=6)


if __name__ == "__main__":
    main(*sys.argv[1:])
