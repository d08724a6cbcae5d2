"""The live page in a real browser: it follows a run, and every view works by mouse and by keyboard."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from tests.support import chromium
from tests.support.watched import at_work, learned, made_run

pytestmark = pytest.mark.skipif(chromium.installed() is None, reason=chromium.INSTALL)

WAIT_SECONDS = 20.0


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = made_run(tmp_path_factory.mktemp("runs"), "live")
    learned(folder, 1, **{"failures/timeout": 2})
    at_work(folder, os.getpid(), 1, "collect")
    return folder


@pytest.fixture(scope="module")
def server(run):
    command = [sys.executable, "-m", "cluster", "watch", str(run), "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    address = process.stdout.readline().split(": ", 1)[1].split(" ")[0]
    yield address
    process.send_signal(signal.SIGINT)
    assert process.wait(WAIT_SECONDS) in (0, 130)


@pytest.fixture(scope="module")
def page(server):
    with chromium.Browser() as browser:
        page = browser.open(server)
        yield page
        assert page.complaints == [], "console errors, exceptions or violations of the page's own policy"
        assert all(asked.startswith(server) for asked in page.requests), "it asked somebody else"


def until(page, expression: str, seconds: float = WAIT_SECONDS):
    return page.until(expression, seconds)


def rows(page) -> int:
    return page.evaluate("document.querySelectorAll('tbody tr[data-key]').length")


def two_games_by_tokens(page) -> None:
    page.evaluate("document.querySelectorAll('tbody button')[0].click()")
    until(page, "document.querySelectorAll('#chosen-game .turn').length > 0")
    page.evaluate("document.getElementById('tokens').click(); document.getElementById('keep').click()")
    page.evaluate("document.querySelectorAll('tbody button')[3].click()")
    until(page, "document.querySelectorAll('#game .game').length === 2")


def test_a_new_update_appears_within_three_seconds(page, run):
    until(page, "document.querySelectorAll('tbody tr[data-key]').length === 4")
    until(page, "document.getElementById('state').textContent === 'running: update 2, wait for games'")
    learned(run, 2, **{"failures/timeout": 2})
    at_work(run, os.getpid(), 2, "learn")
    until(page, "document.querySelectorAll('tbody tr[data-key]').length === 8", seconds=3)
    until(page, "document.getElementById('state').textContent === 'running: update 3, learn'", seconds=3)
    until(page, "document.querySelector('.figures .value:not(.big)').textContent === '2'", seconds=3)


def test_games_are_filtered_and_a_wrong_condition_is_told(page):
    page.fill("#search", "thing like 5", "input")
    until(page, "document.getElementById('found').textContent.includes('of 1 games')")
    page.fill("#search", "", "input")
    page.fill("#where", "turn > 1", "change")
    assert "did you mean turns?" in until(
        page, "document.querySelector('#all-games [role=alert]:not([hidden])')?.textContent"
    )
    page.fill("#where", "turns > 1", "change")
    until(page, "document.querySelector('#all-games [role=alert]').hidden")
    assert rows(page) == page.evaluate("[...document.querySelectorAll('tbody tr[data-key]')].length") > 0
    page.fill("#where", "", "change")
    until(page, "document.querySelectorAll('tbody tr[data-key]').length === 8")


def test_a_game_is_opened_by_keyboard_shown_by_tokens_and_beside_another(page):
    page.evaluate("document.querySelector('tbody button').focus()")
    for kind in ("keyDown", "keyUp"):
        page.call("Input.dispatchKeyEvent", type=kind, key="Enter", code="Enter", windowsVirtualKeyCode=13, text="\r")
    until(page, "document.querySelectorAll('#chosen-game .turn').length > 0")
    assert page.evaluate("document.activeElement.id") == "chosen-game"
    page.evaluate("document.getElementById('tokens').click()")
    assert "advantage" in page.evaluate("document.querySelector('#chosen-game .tokens').textContent")
    page.evaluate("document.getElementById('keep').click()")
    page.evaluate("document.querySelectorAll('tbody button')[3].click()")
    until(page, "document.querySelectorAll('#game .game').length === 2")
    page.evaluate("document.getElementById('same-task').click()")
    assert "of 4 games" in until(
        page,
        "document.getElementById('found').textContent.includes('of 4') && document.getElementById('found').textContent",
    )
    page.fill("#where", "", "change")
    until(page, "document.querySelectorAll('tbody tr[data-key]').length === 8")


def test_what_a_policy_said_is_text(page):
    page.fill("#search", "onerror", "input")
    until(page, "document.querySelectorAll('tbody tr[data-key]').length === 2")
    page.evaluate("document.querySelector('tbody button').click()")
    said = until(
        page,
        "[...document.querySelectorAll('#chosen-game .said')].map((each) => each.textContent)"
        ".find((text) => text.includes('<img'))",
    )
    assert "<script>" in said and page.evaluate("document.title").startswith("live")
    assert page.evaluate("document.querySelectorAll('main img, main script').length") == 0
    page.fill("#search", "", "input")


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [1280, 390])
def test_nothing_is_wider_than_the_screen_and_every_section_is_there(page, width, dark):
    page.show(width=width, dark=dark)
    until(page, "document.querySelectorAll('tbody tr[data-key]').length === 8")
    titles = until(
        page,
        "document.querySelector('#intentions') && document.querySelector('#results svg')"
        " && [...document.querySelectorAll('h2')].map((each) => each.textContent)",
    )
    assert titles == [
        *("Learning", "Where the time goes", "Failures"),
        *("Intentions", "Results", "Inside the updates", "All games", "One game"),
    ]  # fmt: skip
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    fields = "[...document.querySelectorAll('input, select, button')]"
    assert page.evaluate(f"{fields}.filter((it) => !(it.textContent.trim() || it.labels?.length)).length") == 0
    two_games_by_tokens(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.faults(*(["color-contrast"] if dark else [])) == [], "colours are all that a theme changes"
