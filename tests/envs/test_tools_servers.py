"""MCP servers that behave badly: none outlives Parley, and each fault is told in a line or to whom it concerns."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from envs.registry import make_game
from envs.text.chat import EndpointError
from envs.tools import hearing
from tests.support.ended import lives
from tests.support.worlds import needs

pytestmark = needs("mcp")
SERVER = [sys.executable, str(Path(__file__).parents[1] / "support" / "odd_mcp_server.py")]
TASKS = [{"question": "?", "answer": "5"}]
ECHO = '<tool_call>{"name": "echo", "arguments": %s}</tool_call>'


def odd(mode: str, offered: dict | None = None, **options):
    listed = ["", json.dumps(offered)] if offered else []
    return make_game("mcp", {"command": [*SERVER, mode, *listed], "tasks": TASKS, "seconds": 30, **options})


def until(true: Callable[[], bool], seconds: float = 20.0) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if true():
            return True
        time.sleep(0.05)
    return False


# --- how they end ------------------------------------------------------------------------------------

PLAYING = """\
import sys, threading, time
from envs.registry import make_game
from envs.text.chat import EndpointError
command, how = sys.argv[1:-1], sys.argv[-1]
seconds = 2 if how == "late" else 60
game = make_game("mcp", {"command": command, "tasks": [{"question": "?", "answer": "5"}], "seconds": seconds})
try:
    game.reset(0)
    call = '<tool_call>{"name": "echo", "arguments": {}}</tool_call>'
    threading.Thread(target=game.step, args=(call,), daemon=True).start()
except EndpointError as error:
    sys.exit(str(error))
print("called", flush=True)
sys.stdin.readline()
"""


@pytest.mark.parametrize("how", ["late", "end", "SIGTERM", "SIGKILL"])
def test_no_server_outlives_the_process_that_started_it(how, tmp_path):
    """One that ignores SIGTERM and reads nothing, with a process of its own that it does not know of any more."""
    told = tmp_path / "told"
    command = [*SERVER, "deaf" if how == "late" else "stuck", str(told)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    player = subprocess.Popen([sys.executable, "-c", PLAYING, *command, how], **pipes)
    try:
        assert until(told.exists, 60)
        server, child = map(int, told.read_text().split())
        assert lives(server) and lives(child)
        if how.startswith("SIG"):
            os.kill(player.pid, getattr(signal, how))
        _, said = player.communicate("\n", timeout=60)
        assert how != "late" or "no answer to begin within 2 s" in said and said.count("\n") == 1
        if how in ("late", "end"):
            assert not lives(server) and not lives(child), "the process waits for what it ends itself"
        assert until(lambda: not lives(server) and not lives(child), 10)
    finally:
        player.kill()
        player.wait()


def test_a_server_is_ended_with_its_guard(tmp_path):
    told = tmp_path / "told"
    made = make_game("mcp", {"command": [*SERVER, "deaf", str(told)], "tasks": TASKS, "seconds": 5})
    waits = Thread(target=lambda: pytest.raises(EndpointError, made.reset, 0))
    waits.start()
    assert until(told.exists)
    server, child = map(int, told.read_text().split())
    guard = int(Path(f"/proc/{server}/stat").read_text().rpartition(")")[2].split()[1])
    assert guard != os.getpid()
    os.kill(guard, signal.SIGTERM)
    assert until(lambda: not lives(server) and not lives(child))
    waits.join()


def test_a_server_has_the_environment_and_the_signals_that_it_would_have_by_itself(tmp_path, monkeypatch):
    for name in ("LANG", "LC_ALL", "LC_CTYPE"):
        monkeypatch.delenv(name, raising=False)
    seen = tmp_path / "seen"
    command = ["sh", "-c", 'grep SigIgn /proc/self/status > "$0"; env >> "$0"', str(seen)]
    made = make_game("mcp", {"command": command, "tasks": TASKS, "environment": {"PYTHONPATH": "x", "OWN": "=\n1"}})
    with pytest.raises(EndpointError, match="the server has gone .the connection is closed"):
        made.reset(0)
    signals, _, variables = seen.read_text().partition("\n")
    ignored = int(signals.split()[1], 16)
    assert not any(ignored >> (each - 1) & 1 for each in (signal.SIGTERM, signal.SIGPIPE, signal.SIGXFSZ))
    lines = variables.splitlines()
    assert "PYTHONPATH=x" in lines and "OWN==\n1" in variables and f"PATH={os.environ['PATH']}" in lines
    assert not any(line.startswith("LC_") for line in lines)


def test_a_command_that_cannot_be_started_is_named(tmp_path):
    script = tmp_path / "script"
    script.write_text("#!/no/such/program\n")
    script.chmod(0o755)
    for words in ([str(script)], [str(tmp_path)], ["no-such-command", "x"]):
        made = make_game("mcp", {"command": words, "tasks": TASKS})
        with pytest.raises(EndpointError, match=f"the server has gone .*: '{words[0]}'"):
            made.reset(0)


FAILING = """
import sys
print("reads its settings", file=sys.stderr)
sys.stderr.write("x" * 300_000)  # more than a pipe holds
print("\\nKeyError: 'TOKEN is not set'", file=sys.stderr, flush=True)
sys.exit(int(sys.argv[1]))
"""


def test_a_server_that_fails_is_named_with_the_last_line_that_it_told():
    def of(status):
        made = make_game("mcp", {"command": [sys.executable, "-c", FAILING, status], "tasks": TASKS})
        with pytest.raises(EndpointError, match="the server has gone") as told:
            made.reset(0)
        return str(told.value)

    assert of("3").endswith("the server has gone (OSError: KeyError: 'TOKEN is not set')")
    assert of("0").endswith("the server has gone (the connection is closed)"), "it did not fail"


def test_a_server_that_fails_in_a_call_is_named_with_the_last_line_that_it_told():
    made = odd("fails")
    made.reset(0)
    with pytest.raises(EndpointError, match="the server has gone .*RuntimeError: the database is away"):
        made.step(ECHO % "{}")


# --- what they say -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ('{"x": "\\ud800"}', "half a character"),
        ('{"\\udfff": 1}', "half a character"),
        ('{"x": 1e400}', "1e400 is too large a number"),
        ('{"x": [-1e999]}', "-1e999 is too large a number"),
        ('{"x": ' + "[" * 900 + "]" * 900 + "}", "lists and objects are in each other"),
        ('{"x": ' + '{"a": ' * 300 + "1" + "}" * 300 + "}", "lists and objects are in each other"),
    ],
)
def test_what_cannot_be_sent_is_not_executable_and_the_episode_goes_on(arguments, why):
    made = odd("echo")
    made.reset(0)
    step = made.step(ECHO % '{"x": 1}' + ECHO % arguments)
    assert not step.executable and why in step.caption and why in made.observe()
    assert made.step(ECHO % ('{"x": ' + "[" * 50 + "]" * 50 + "}")).executable
    made.close()


def test_an_error_of_a_server_is_a_tools_answer_whatever_its_code():
    made = odd("error")
    made.reset(0)
    for _ in range(2):
        step = made.step(ECHO % "{}")
        assert step.executable and made.observe() == "<tool_response>\nerror: my own error\n</tool_response>"
    made.close()


def test_what_a_server_prints_is_told_of_once_and_what_it_answers_in_a_line(caplog):
    hearing._told_of.clear()
    made = odd("garbage")
    for seed in range(2):
        made.reset(seed)
        with pytest.raises(EndpointError, match="tool 'echo': ValidationError") as caught:
            made.step(ECHO % "{}")
        assert "\n" not in str(caught.value)
    made.close()
    (told,) = (each for each in caplog.records if each.levelno >= logging.WARNING)
    assert "prints 'Starting the server ...' where only the protocol may be" in told.getMessage()
    assert told.exc_info is None and "\n" not in told.getMessage()


# --- the plain form ----------------------------------------------------------------------------------

TEXT = {"type": "object", "properties": {"x": {"type": "string"}}}


@pytest.mark.parametrize(
    ("tools", "said", "shown"),
    [
        ({"getWeather": TEXT}, "getWeather Bern", {"name": "getWeather", "x": "Bern"}),
        ({"getWeather": TEXT}, "GETWEATHER Bern", {"name": "getWeather", "x": "Bern"}),
        ({"Get": TEXT, "get": TEXT}, "Get it", {"name": "Get", "x": "it"}),
        ({"Get": TEXT, "get": TEXT}, "get it", {"name": "get", "x": "it"}),
        ({"Get": TEXT, "get": TEXT}, "GET it", "error there is no such tool"),
        ({"get": TEXT, "get all": TEXT}, "get all of it", {"name": "get all", "x": "of it"}),
        ({"get": {"type": "object", "properties": {"x": True}}}, "get it", {"name": "get", "x": "it"}),
        ({"get": {"type": "object", "properties": {"x": False, "y": True}}}, "get it", {"name": "get", "y": "it"}),
        ({"get": {"type": "object", "properties": None}}, "get", {"name": "get"}),
        ({"get": {"type": "object", "properties": None}}, "get it", "error there are too many words"),
        ({"get": {"type": "object", "properties": {"x": {"enum": None}}}}, "get it", {"name": "get", "x": "it"}),
    ],
)
def test_tools_of_all_names_and_schemas_can_be_called_in_the_plain_form(tools, said, shown):
    made = odd("echo", tools, form="plain")
    made.reset(0)
    assert "The tools are: " in made.briefing("agent")
    made.step(said)
    assert made.observe() == (shown if isinstance(shown, str) else f"r1 is {json.dumps(shown)}")
    made.close()


def test_a_tool_that_is_called_answer_is_refused_in_the_plain_form_alone():
    tools = {"Answer": TEXT, "get": TEXT}
    made = odd("echo", tools, form="plain")
    with pytest.raises(
        ValueError, match="game option form='plain': .* has a tool 'Answer', and that word ends"
    ) as caught:
        made.reset(0)
    assert "\n" not in str(caught.value)
    assert until(lambda: not made.game._sessions[0].lives), "nobody waits for it to be thrown away"
    for options in ({"form": "plain", "tools": ["get"]}, {"form": "json"}):
        made = odd("echo", tools, **options)
        made.reset(0)
        made.close()


# --- over HTTP ---------------------------------------------------------------------------------------


@pytest.fixture
def answering():
    """A server that answers each request as `wanted` says: status and body. Status 0: as it should."""

    class Answering(BaseHTTPRequestHandler):
        def do_POST(self):
            status, body = self.server.wanted
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if status == 0:
                status, body = 200, self.proper(asked)
            self.send_response(status)
            self.send_header("Content-Type", "application/json" if body else "text/event-stream")
            self.send_header("Mcp-Session-Id", "1")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def proper(self, asked: dict) -> bytes:
            about = {"capabilities": {"tools": {}}, "serverInfo": {"name": "odd", "version": "1"}}
            found = {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}
            if asked["method"] == "initialize":
                found = {"protocolVersion": asked["params"]["protocolVersion"], **about}
            elif asked["method"] == "server/discover":
                error = {"code": -32601, "message": "no"}
                return json.dumps({"jsonrpc": "2.0", "id": asked["id"], "error": error}).encode()
            return json.dumps({"jsonrpc": "2.0", "id": asked.get("id"), "result": found}).encode()

        def do_DELETE(self):
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answering)
    Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def over_http(server, **options):
    url = f"http://127.0.0.1:{server.server_address[1]}/mcp"
    return make_game("mcp", {"url": url, "tasks": TASKS, "seconds": 20, **options})


@pytest.mark.parametrize(
    ("status", "key", "line"),
    [
        (500, "", "it answered HTTP 500$"),
        (404, "", "it answered HTTP 404: Not Found$"),
        (401, "", "it answered HTTP 401: it wants a key .key_variable.$"),
        (401, "PARLEY_TEST_KEY", "it answered HTTP 401: the key is refused$"),
        (403, "PARLEY_TEST_KEY", "it answered HTTP 403: the key is refused$"),
        (200, "", r"MCPError: Failed to parse JSON response"),
    ],
)
def test_what_http_says_is_told_in_a_line(answering, status, key, line, monkeypatch, caplog):
    monkeypatch.setenv("PARLEY_TEST_KEY", "secret")
    answering.wanted = status, b'{"a": 1}'
    made = over_http(answering, key_variable=key)
    with pytest.raises(EndpointError, match=f"^MCP server at http://127.0.0.1:.*/mcp: .*{line}") as caught:
        made.reset(0)
    assert "\n" not in str(caught.value) and "secret" not in str(caught.value) and not caplog.records
    made.close()


def test_a_status_in_the_middle_of_an_episode(answering):
    answering.wanted = 0, b""
    made = over_http(answering)
    made.reset(0)
    answering.wanted = 500, b"oops"
    assert made.step(ECHO % "{}").executable
    assert made.observe() == "<tool_response>\nerror: HTTP 500\n</tool_response>"
    for status, body, why in (
        (401, b"", "it answered HTTP 401: it wants a key"),
        (404, b"{}", "it answered HTTP 404: Session terminated"),
        (200, b"", "the server has gone .*SSE stream ended without a response"),
    ):
        answering.wanted = status, body
        with pytest.raises(EndpointError, match=why):
            made.step(ECHO % "{}")
        assert made.game._sessions[0].over
        answering.wanted = 0, b""
        made.reset(0)
    made.close()
