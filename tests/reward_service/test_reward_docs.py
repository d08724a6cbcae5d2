"""The page where the reward service is tried out, in a real browser that is told to ask nobody else."""

from __future__ import annotations

import threading
import time

import httpx
import pytest
import uvicorn

from reward_service.service.http.app import make_app
from reward_service.settings import HttpSettings
from tests.support import chromium

KEY = "a-key-of-more-than-sixteen"


@pytest.fixture
def address():
    server = uvicorn.Server(uvicorn.Config(make_app([], HttpSettings(), KEY), port=0, log_level="error"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    deadline = time.monotonic() + 30
    while not server.started and time.monotonic() < deadline:
        time.sleep(0.02)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    thread.join(30)


def test_the_page_may_ask_nobody_but_the_service(address):
    page = httpx.get(f"{address}/docs", timeout=30)
    assert page.headers["content-security-policy"].startswith("default-src 'none'; connect-src 'self'")
    assert "http://" not in page.text and "https://" not in page.text


@pytest.mark.skipif(chromium.installed() is None, reason=chromium.INSTALL)
def test_every_endpoint_is_shown_with_its_fields_and_can_be_tried_with_the_key(address):
    with chromium.Browser() as browser:
        page = browser.open(f"{address}/docs")
        wait = "new Promise(done => { const look = () => %s ? done(1) : setTimeout(look, 20); look(); })"
        page.evaluate(wait % "document.querySelectorAll('section').length")
        shown = page.evaluate("[...document.querySelectorAll('h2')].map(each => each.textContent)")
        assert shown == ["POST /v1/rewards", "POST /v1/openrlhf", "POST /v1/verl", "GET /health", "GET /metrics"]
        example = "JSON.parse(document.querySelector('textarea').value).episodes[0]"
        assert page.evaluate(f"Object.keys({example}).includes('turns')")
        assert page.evaluate("document.body.textContent.includes('finished episodes, all of one game')")
        page.evaluate(f"document.getElementById('key').value = '{KEY}'")
        page.evaluate("[...document.querySelectorAll('section')].pop().querySelector('button').click()")
        answer = "[...document.querySelectorAll('section')].pop().querySelector('pre').textContent"
        page.evaluate(wait % f"{answer}.startsWith('200')")
        assert page.complaints == [] and {each.rpartition("/")[0] for each in page.requests} == {address}
