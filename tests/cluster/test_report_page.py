"""The report in a real browser: what is seen, pointed at, filtered and read, in both themes and at two widths."""

from __future__ import annotations

import time
from xml.etree import ElementTree

import pytest

from cluster.report.page import write_report
from tests.cluster.test_report import data_of
from tests.support import chromium
from tests.support.report_runs import ARIA, HOSTILE, made_run

pytestmark = pytest.mark.skipif(chromium.installed() is None, reason=chromium.INSTALL)

EDGE = 26  # pixels between the map's points and its border
WIDTHS = (1280, 390)


@pytest.fixture(scope="module")
def reports(ray_cluster, tmp_path_factory):
    """One run with intentions; two seeds without and it, compared."""
    output = tmp_path_factory.mktemp("runs")
    aria = made_run(output, *ARIA)
    plain = [made_run(output, f"seed={seed}", f"name=plain-{seed}", updates=4) for seed in (0, 1)]
    return write_report([aria]), write_report([*plain, aria], output / "compared.html")


@pytest.fixture(scope="module")
def run(reports):
    return data_of(reports[0].read_text(encoding="utf-8"))["runs"][0]


@pytest.fixture(scope="module")
def page(reports):
    with chromium.Browser() as browser:
        yield browser.open(reports[0])


@pytest.fixture(autouse=True)
def fresh(page, reports):
    page.url = reports[0].as_uri()
    page.show()
    yield
    assert page.complaints == [], "console errors, exceptions or violations of the page's own policy"
    assert page.requests == [], "the page asked the network for something"


def text(page, selector: str) -> str:
    return page.evaluate(f"document.querySelector({selector!r}).textContent")


def choose(page, selector: str, value: str) -> None:
    page.evaluate(
        f"{{ const it = document.querySelector({selector!r}); it.value = {value!r};"
        " it.dispatchEvent(new Event('input')); it.dispatchEvent(new Event('change')); }"
    )


def centre(page, selector: str) -> tuple[float, float]:
    page.evaluate(f"document.querySelector({selector!r}).scrollIntoView({{block: 'center', behavior: 'instant'}})")
    page.settle()
    return tuple(
        page.evaluate(
            f"(() => {{ const b = document.querySelector({selector!r}).getBoundingClientRect();"
            " return [b.x + b.width / 2, b.y + b.height / 2]; })()"
        )
    )


def place(page, points: dict, i: int) -> tuple[float, float]:
    """Where a point of the map is on the screen."""
    centre(page, "#map")
    left, top, width, height = page.evaluate(
        "(() => { const b = document.getElementById('map').getBoundingClientRect();"
        " return [b.x, b.y, b.width, b.height]; })()"
    )
    return left + EDGE + points["x"][i] * (width - 2 * EDGE), top + EDGE + (1 - points["y"][i]) * (height - 2 * EDGE)


def apart(points: dict) -> int:
    """A point that no other one lies near."""

    def nearest(i: int) -> float:
        here = points["x"][i], points["y"][i]
        return min(
            (here[0] - x) ** 2 + (here[1] - y) ** 2
            for j, (x, y) in enumerate(zip(points["x"], points["y"], strict=True))
            if j != i
        )

    return max(range(len(points["x"])), key=nearest)


def shown(page) -> int:
    return int(text(page, "#shown").split()[0].replace(",", ""))


def test_the_sections_are_there_and_say_what_the_data_says(page, run):
    assert text(page, "h1") == "bargaining" and page.evaluate("document.title").endswith(" · Parley")
    titles = page.evaluate("[...document.querySelectorAll('h2')].map((each) => each.textContent)")
    assert titles == ["Learning", "Intentions", "Shared reward", "Results", "Games", "Inside the updates"]
    before, after = run["headline"]["before"], run["headline"]["after"]
    assert f"{100 * before['rate']:.1f} % → {100 * after['rate']:.1f} %" in text(page, ".figures")
    assert page.evaluate("document.querySelectorAll('#learning circle').length") == 3, "one for each evaluation"
    assert "staleness" in text(page, "#inside").lower()


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("which", [0, 1])
def test_nothing_is_wider_than_the_window(page, reports, which, width):
    page.url = reports[which].as_uri()
    page.show(width=width)
    wide = page.evaluate(
        "[document.documentElement.scrollWidth, ...[...document.querySelectorAll('main *, header *')]"
        ".filter((each) => !each.closest('nav') && each.getBoundingClientRect().right > innerWidth + 1)"
        ".map((each) => each.outerHTML.slice(0, 80))]"
    )
    assert wide == [width]
    drawn = page.evaluate("[...document.querySelectorAll('svg')].every((each) => each.clientWidth > 40)")
    assert drawn and page.evaluate("document.getElementById('run') === null") == (which == 0)
    assert page.faults() == []
    page.evaluate("document.getElementById('theme').click()")
    assert page.faults("color-contrast") == [], "colours are all that a theme changes"


def test_pointing_at_an_utterance_tells_what_it_is(page, run):
    points = run["intentions"]["map"]["points"]
    i = apart(points)
    assert page.evaluate("document.getElementById('tip').hidden")
    page.move(*place(page, points, i))
    told = text(page, "#tip")
    assert points["text"][i] in told and f"said {points['count'][i]:,} times" in told
    assert f"intention {points['intention'][i]}, by " in told
    page.move(5, 5)
    assert page.evaluate("document.getElementById('tip').hidden")


def test_a_search_hides_what_does_not_hold_the_words(page, run):
    points = run["intentions"]["map"]["points"]
    assert shown(page) == len(points["text"])
    choose(page, "#search", "REJECT")
    kept = [i for i, each in enumerate(points["text"]) if "reject" in each.lower()]
    assert 0 < shown(page) == len(kept) < len(points["text"])
    hidden = apart(points) if apart(points) not in kept else next(i for i in range(len(points["x"])) if i not in kept)
    page.move(*place(page, points, hidden))
    assert points["text"][hidden] not in text(page, "#tip")
    choose(page, "#search", "no such words")
    assert shown(page) == 0


def test_a_seat_shows_its_own_utterances(page, run):
    points = run["intentions"]["map"]["points"]
    for seat in (0, 1):
        choose(page, "#seat", str(seat))
        assert shown(page) == sum(seat in each for each in points["players"])


def test_an_intention_is_chosen_in_the_list_on_the_map_and_by_key(page, run):
    points, ranked = run["intentions"]["map"]["points"], run["intentions"]["map"]["intentions"]
    assert page.evaluate("[...document.querySelectorAll('.rank')].map((each) => +each.dataset.id)") == [
        each["id"] for each in ranked
    ]
    page.click(*centre(page, f".rank[data-id='{ranked[1]['id']}']"))
    assert shown(page) == points["intention"].count(ranked[1]["id"])
    assert page.evaluate("document.querySelector('.rank[aria-pressed=true]').dataset.id") == str(ranked[1]["id"])
    page.click(*centre(page, "#clear"))
    assert shown(page) == len(points["text"])
    i = apart(points)
    page.click(*place(page, points, i))
    assert shown(page) == points["intention"].count(points["intention"][i])
    page.evaluate("document.getElementById('map').focus()")
    page.press("Escape")
    assert shown(page) == len(points["text"])
    page.press("ArrowRight")
    assert points["text"][0] in text(page, "#tip"), "the most frequent one first"
    page.press("Enter")
    assert shown(page) == points["intention"].count(points["intention"][0])


def test_games_are_filtered_by_outcome_seat_updates_and_intention(page, run):
    games = run["games"]["games"]

    def count() -> int:
        words = text(page, "#which").split()
        return int(words[3]) if words[0] == "game" else 0

    assert count() == len(games) == 48
    choose(page, "#game-outcome", "won")
    assert count() == sum(all(value == 1 for value in game["outcome"].values()) for game in games)
    choose(page, "#game-seat", "alice")
    won = [game for game in games if game["outcome"]["alice"] == 1]
    assert 0 < count() == len(won) < len(games)
    assert "bob" not in page.evaluate("[...document.querySelectorAll('.who')].map((each) => each.textContent)")
    choose(page, "#game-span", "0")
    early = [game for game in won if game["update"] < 1 + 6 / 4]
    assert count() == len(early)
    for selector in ("#game-outcome", "#game-seat", "#game-span"):
        choose(page, selector, "")
    best = run["intentions"]["map"]["intentions"][0]["id"]
    page.click(*centre(page, f".rank[data-id='{best}']"))
    choose(page, "#meant", "1")
    meant = [game for game in games if any(turn.get("intention") == best for turn in game["turns"])]
    assert 0 < count() == len(meant) < len(games)


def test_the_shade_of_words_has_the_sign_and_size_of_their_credit(page, run):
    games, scale = run["games"]["games"], run["games"]["scale"]
    at = int(text(page, "#which").split()[1]) - 1
    shades = page.evaluate(
        "[...document.querySelectorAll('.turn.mine .said span')].map((each) => getComputedStyle(each).backgroundColor)"
    )
    credits = [turn["credit"] for turn in games[at]["turns"] if "credit" in turn]
    assert len(shades) == len(credits) > 1
    for shade, credit in zip(shades, credits, strict=True):
        *colour, alpha = [float(part) for part in [*shade[shade.index("(") + 1 : -1].split(","), "1"]][:4]
        assert alpha == pytest.approx(0.5 * min(1, abs(credit) / scale), abs=0.01)
        if alpha > 0.01:
            assert colour == ([205, 110, 20] if credit < 0 else [50, 125, 195])


def test_hostile_words_are_words(page, run):
    (i,) = [i for i, game in enumerate(run["games"]["games"]) if game["turns"][0]["said"] == HOSTILE]
    while int(text(page, "#which").split()[1]) != i + 1:
        page.evaluate(f"document.getElementById({'back' if i < 40 else 'forth'!r}).click()")
    said = page.evaluate("[...document.querySelectorAll('.said span')].map((each) => each.textContent)")
    assert said[0] == HOSTILE
    assert page.evaluate("document.images.length") == 0


def test_figures_are_taken_away_as_pictures_and_numbers_along_what_is_chosen(page, run):
    choose(page, "#along", "games")
    assert "games learned from" in text(page, "#learning svg")
    page.evaluate("URL.createObjectURL = (blob) => { (window.kept ??= []).push(blob); return ''; }")
    page.evaluate("HTMLAnchorElement.prototype.click = function () { (window.names ??= []).push(this.download); }")
    page.evaluate("document.querySelectorAll('#learning .save button').forEach((each) => each.click())")
    deadline = time.monotonic() + 20
    while page.evaluate("kept.length") < 3:
        assert time.monotonic() < deadline, "no picture was made"
    assert page.evaluate("names.map((name) => name.split('.')[1]).sort().join()") == "csv,png,svg"
    svg, csv = page.evaluate("Promise.all(kept.filter((each) => each.type !== 'image/png').map((each) => each.text()))")
    assert ElementTree.fromstring(svg).tag.endswith("svg") and "var(" not in svg and "win rate, held-out" in svg
    rows = [line.rsplit(",", 4) for line in csv.splitlines()]
    held = [(float(games), float(rate)) for name, games, rate, *_ in rows if "held-out" in name]
    assert held == [(24.0 * each["update"], each["rate"]) for each in run["curves"]["evaluations"]]
    page.show(width=390)
    assert page.evaluate("document.querySelector('nav div').dataset.more") == "right", "there are more links than seen"


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("dark", [False, True])
def test_text_has_contrast_in_both_themes_and_the_button_changes_them(page, dark):
    page.show(dark=dark)
    for theme in (dark, not dark):
        name = "getComputedStyle(document.documentElement).getPropertyValue"
        shade = {
            each: page.evaluate(f"{name}('--{each}').trim()") for each in ("paper", "card", "ink", "soft", "accent")
        }
        assert (luminance(shade["paper"]) < 0.2) == theme
        tints = [page.evaluate(f"{name}('--tint-{side}').split(',').map(Number)") for side in ("low", "high")]
        card = [int(shade["card"][at : at + 2], 16) for at in (1, 3, 5)]
        full = ["#" + "".join(f"{round((a + b) / 2):02x}" for a, b in zip(card, tint, strict=True)) for tint in tints]
        pairs = [(ink, back) for ink in ("ink", "soft", "accent") for back in ("paper", "card")]
        for ink, back in [(shade[a], shade[b]) for a, b in pairs] + [(shade["ink"], tint) for tint in full]:
            light, shadow = sorted((luminance(ink), luminance(back)), reverse=True)
            assert (light + 0.05) / (shadow + 0.05) >= 4.5, f"{ink} on {back}"
        page.evaluate("document.getElementById('theme').click()")


def test_several_runs_are_compared_and_one_is_chosen(page, reports):
    page.url = reports[1].as_uri()
    page.show()
    found = "document.querySelectorAll('#compared .card > table tbody tr')"
    rows = page.evaluate(f"[...{found}].map((each) => each.textContent)")
    assert len(rows) == 2 and "shaper=outcome, updates=4 · 2 seeds" in rows[0] and "shaper=aria, updates=6" in rows[1]
    assert "A run with reward.shaper=aria adds a map" in text(page, "#intentions")
    choose(page, "#run", "2")
    assert page.evaluate("document.getElementById('map') !== null"), "the run with intentions"
    assert page.evaluate("document.getElementById('run').value") == "2"
