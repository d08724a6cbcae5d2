"""The client of chat completions against a real server over HTTP, well and ill."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from envs.coroutines import finish
from envs.settings import EndpointSettings
from envs.text.chat import ChatClient, EndpointError

QUESTION = [{"role": "user", "content": "hello"}]
ANSWER = json.dumps({"choices": [{"message": {"content": " hi\n"}}]}).encode()  # some servers leave blanks


class Answer(BaseHTTPRequestHandler):
    """At /slow/: a space every tenth of a second. At /gzip/: called compressed, and is not."""

    def log_message(self, *_):
        pass

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        drops = 100 if self.path.startswith("/slow/") else 2
        self.send_response(200)
        if self.path.startswith("/gzip/"):
            self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(drops + len(ANSWER)))
        self.end_headers()
        try:
            for _ in range(drops):
                self.wfile.write(b" ")
                time.sleep(0.1)
            self.wfile.write(ANSWER)
        except OSError:
            pass  # whoever asked has left


@pytest.fixture
def url():
    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def client(url: str, **options) -> ChatClient:
    return ChatClient("test", EndpointSettings(url=url, model="m", **{"timeout_seconds": 5.0, "retries": 0} | options))


@pytest.mark.parametrize(
    ("path", "why"), [("slow", "ReadTimeout: no whole answer in 0.5 s"), ("gzip", "DecodingError: ")]
)
def test_an_answer_that_never_ends_or_cannot_be_decoded_is_a_failure(url, path, why, monkeypatch):
    monkeypatch.setattr("envs.text.chat.RETRY_SECONDS", 0.01)
    ill, started = client(f"{url}/{path}", timeout_seconds=0.5, retries=1), time.monotonic()
    with pytest.raises(EndpointError, match=why):
        ill.complete(QUESTION)
    assert time.monotonic() - started < 5, "the server would go on for longer"
    counted = ill.counters
    assert (counted["requests"], counted["answers"], counted["failures"], counted["retries"]) == (1, 0, 1, 1)


def test_waiting_for_a_connection_is_not_part_of_the_time_limit(url):
    narrow = client(url, connections=1, timeout_seconds=0.8)

    async def all_at_once():
        return await asyncio.gather(*(narrow.ask(QUESTION) for _ in range(8)))

    assert finish(all_at_once()) == ["hi"] * 8, "each takes 0.2 s, one after the other"
    assert narrow.counters["requests"] == narrow.counters["answers"] == 8
