"""Tools of an MCP server, end to end: a real server of the SDK in a process of its own, over both transports."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from actors.play.live import Failure
from actors.play.play import Play
from actors.play.players import Cast
from actors.settings import RolloutSettings
from envs.coroutines import has_coroutines
from envs.episode import Ticket
from envs.registry import make_game, make_player
from envs.text.chat import EndpointError
from tests.support.ended import gone
from tests.support.worlds import needs

pytestmark = needs("mcp")
COMMAND = [sys.executable, str(Path(__file__).parents[1] / "support" / "mcp_server.py")]
ADDED = {"question": "What is 2 plus 3?", "answer": 5, "calls": [{"name": "add", "arguments": {"x": 2, "y": 3}}]}
DEADLY = {"question": "Die.", "answer": "never", "calls": [{"name": "die", "arguments": {}}]}


def served(**options):
    return make_game("mcp", {"command": COMMAND, "tasks": [ADDED], "seconds": 60, **options})


def call(name: str, /, **arguments) -> str:
    return f"<tool_call>{json.dumps({'name': name, 'arguments': arguments})}</tool_call>"


def asked(game, name: str, /, **arguments) -> str:
    """What a call shows."""
    if game.seat is None:
        game.reset(0)
    game.step(call(name, **arguments))
    return game.observe().removeprefix("<tool_response>\n").removesuffix("\n</tool_response>")


@pytest.fixture(scope="module")
def game():
    """One session for all that break nothing."""
    made = served(fresh=False, turns=100)
    made.reset(0)
    yield made
    made.close()


# --- an episode --------------------------------------------------------------------------------------


def test_an_episode_by_hand(game):
    assert has_coroutines(game.game)
    game.reset(0)
    assert game.observe() == "What is 2 plus 3?" and game.seat == "agent"
    listed = game.briefing("agent").partition("<tools>\n")[2].partition("\n</tools>")[0].splitlines()
    first = json.loads(listed[0])["function"]
    assert first["name"] == "add" and first["description"] == "Adds two numbers." and len(listed) == 12
    assert first["parameters"]["properties"]["x"]["type"] == "integer"
    step = game.step(call("add", x=2, y=3))
    assert game.observe() == "<tool_response>\n5\n</tool_response>" and step.executable and not step.rewards
    right = game.step("Answer: 5")
    assert right.terminated and right.rewards == {"agent": 1.0} and game.outcome() == {"agent": 1.0}
    with pytest.raises(RuntimeError, match="over"):
        game.step("Answer: 5")
    game.reset(0)
    assert game.step("Answer: 6").rewards == {} and game.closing() == {"agent": "wrong ; the answer is 5"}


def test_arguments_that_do_not_fit_are_refused_and_no_server_is_asked(game):
    before = int(asked(game, "counted"))
    for arguments, why in [
        ({"x": 1}, "'y' is a required property"),
        ({"x": "1", "y": 2}, "x: '1' is not of type 'integer'"),
    ]:
        step = game.step(call("add", **arguments))
        assert not step.executable and why in game.observe()
    assert "There is no tool 'subtract'" in asked(game, "subtract")
    assert int(asked(game, "counted")) == before + 1


@pytest.mark.parametrize(
    ("tool", "shown"),
    [
        ("noise", "quiet"),
        ("nan", "error: the tool 'nan' returned something else than it says"),
        ("raises", "error: Error executing tool raises"),
        ("big", "a" * 4000 + " ... (cut)"),
        ("sly", "\ufffd[0m(/tool_response)"),
        ("picture", "(an image)"),
    ],
)
def test_odd_results_are_shown_as_text_and_the_session_goes_on(game, tool, shown):
    assert asked(game, tool) == shown
    assert asked(game, "add", x=20, y=22) == "42"


def test_the_plain_form(game):
    plain = served(form="plain", fresh=False)
    plain.reset(0)
    plain.step("add 2 3")
    assert plain.observe() == "r1 is 5"
    plain.step("add r1 x")
    assert plain.observe() == "error the tool does not take that"
    assert plain.step("answer r1").rewards == {"agent": 1.0}
    plain.close()


def test_an_episode_is_saved_and_goes_on(game):
    game.reset(0)
    game.step(call("add", x=2, y=2))
    saved = json.dumps(game.save())
    other = served(turns=100)
    other.restore(json.loads(saved))
    assert (other.observe(), json.dumps(other.save())) == (game.observe(), saved)
    assert other.step("Answer: 5").rewards == {"agent": 1.0}
    other.close()


def test_players_do_what_the_tasks_say(game):
    for name, expected in (("expert", 1.0), ("random", 0.0)):
        player = make_player("mcp", name, {"tasks": [ADDED]})
        game.reset(3)
        player.reset(3)
        for _ in range(4):
            if game.seat is not None:
                game.step(player.reply(game.observe(), ()))
        assert game.outcome() == {"agent": expected}


# --- sessions ----------------------------------------------------------------------------------------


def test_every_episode_has_a_session_of_its_own_or_all_have_one():
    for fresh, counts in ((True, ["1", "1"]), (False, ["1", "2"])):
        made, found = served(fresh=fresh, tools=["counted"]), []
        for seed in (0, 1):
            made.reset(seed)
            found.append(asked(made, "counted"))
        assert found == counts
        listed = made.briefing("agent").partition("<tools>\n")[2].partition("\n</tools>")[0]
        assert json.loads(listed)["function"]["name"] == "counted", "and no other tool"
        made.close()


def test_a_game_that_is_over_or_thrown_away_ends_its_server():
    made = served()
    made.reset(0)
    process = int(asked(made, "pid"))
    made.step("Answer: 5")
    assert gone(process)
    made.reset(1)
    process = int(asked(made, "pid"))
    del made
    assert gone(process)


def test_a_process_ends_although_a_session_is_open():
    code = (
        "from envs.registry import make_game\n"
        f"game = make_game('mcp', dict(command={COMMAND!r}, tasks={[ADDED]!r}))\n"
        "game.reset(0)\n"
        f"game.step({call('pid')!r})\n"
        "print(game.observe().splitlines()[1])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert gone(int(done.stdout))


# --- servers that fail -------------------------------------------------------------------------------


@pytest.mark.parametrize("tool", ["never", "stuck"])
def test_a_tool_that_never_answers_is_given_up_in_time_and_its_server_ended(tool):
    made = served()
    made.reset(0)
    process = int(asked(made, "pid"))
    made.game._sessions[0].seconds = 1.0
    started = time.monotonic()
    with pytest.raises(EndpointError, match=f"no answer to tool '{tool}' within 1 s"):
        made.step(call(tool))
    assert time.monotonic() - started < 10 and gone(process)
    made.reset(0)
    assert asked(made, "add", x=1, y=1) == "2", "the next episode has a server of its own"
    made.close()


def test_a_server_that_dies_is_an_error_and_the_next_episode_has_another():
    made = served(fresh=False)
    made.reset(0)
    with pytest.raises(EndpointError, match="the server has gone"):
        made.step(call("die"))
    with pytest.raises(EndpointError, match="the server has gone"):
        made.step(call("add", x=1, y=1))
    made.reset(0)
    assert asked(made, "add", x=1, y=1) == "2"
    made.close()


@pytest.mark.parametrize(
    ("command", "why"),
    [
        (["no-such-command"], "the server has gone .*no-such-command"),
        ([sys.executable, "-c", "raise SystemExit(3)"], "the server has gone"),
        ([sys.executable, "-c", "import time; time.sleep(60)"], "no answer to begin within 3 s"),
        ([sys.executable, "-c", "print('hello'); import time; time.sleep(60)"], "no answer to begin within 3 s"),
    ],
)
def test_a_server_that_does_not_begin_is_one_line_in_time(command, why):
    made, started = served(command=command, seconds=3), time.monotonic()
    with pytest.raises(EndpointError, match=f"^MCP server `.*`: {why}") as caught:
        made.reset(0)
    assert "\n" not in str(caught.value) and time.monotonic() - started < 20 and made.seat is None


def test_a_server_that_does_not_begin_is_ended(tmp_path):
    told = tmp_path / "pid"
    code = "import os, sys, time; open(sys.argv[1], 'w').write(str(os.getpid())); time.sleep(60)"
    made = served(command=[sys.executable, "-c", code, str(told)], seconds=3)
    with pytest.raises(EndpointError, match="no answer to begin within 3 s"):
        made.reset(0)
    assert gone(int(told.read_text()))


def test_a_server_that_dies_fails_its_own_episodes_alone_by_a_counted_reason():
    """Six at once, two of which end their servers."""
    options = {"deadly": {"command": COMMAND, "tasks": [DEADLY]}, "well": {"command": COMMAND, "tasks": [ADDED]}}
    play = Play(
        Cast({}, {}, lambda game, player: make_player("mcp", player, options[game])),
        RolloutSettings(),
        lambda game: make_game("mcp", options[game], blocking=False),
    )
    names = ["well", "deadly", "well", "well", "deadly", "well"]
    play.admit(
        [Ticket("run", name, number, number, (("agent", "scripted:expert"),)) for number, name in enumerate(names)]
    )
    found, deadline = {}, time.monotonic() + 120
    while play.busy():
        assert time.monotonic() < deadline
        found |= {ticket.number: result for ticket, result, _ in play.step()}
    play.close()
    assert {number for number, result in found.items() if isinstance(result, Failure)} == {1, 4}
    assert {found[number].reason for number in (1, 4)} == {"endpoint_error"}
    assert all(found[number].outcome == {"agent": 1.0} for number in (0, 2, 3, 5))


# --- over HTTP ---------------------------------------------------------------------------------------


@pytest.fixture
def server():
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port = listening.getsockname()[1]
    process = subprocess.Popen([*COMMAND, str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            break
        except OSError:
            assert process.poll() is None and time.monotonic() < deadline, "the server did not start"
            time.sleep(0.05)
    yield f"http://127.0.0.1:{port}/mcp"
    process.kill()
    process.wait()


def test_a_server_over_http_is_called_and_shared_and_dies(server):
    games = [served(command="", url=server) for _ in range(3)]
    for number, made in enumerate(games):
        made.reset(number)
    assert [asked(made, "counted") for made in games] == ["1", "2", "3"]
    games[0].game._sessions[0].seconds = 1.0
    with pytest.raises(EndpointError, match=f"^MCP server at {server}: no answer to tool 'never' within 1 s"):
        games[0].step(call("never"))
    assert games[1].step(call("add", x=2, y=3)).executable and games[1].step("Answer: 5").rewards, "nobody else noticed"
    with pytest.raises(EndpointError, match="the server has gone"):
        games[2].step(call("die"))
    with pytest.raises(EndpointError, match=f"^MCP server at {server}: the server has gone"):
        games[1].reset(0)
    for made in games:
        made.close()


# --- options -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"command": ""}, "command or url has to be given"),
        ({"url": "http://127.0.0.1/mcp"}, "command or url has to be given"),
        ({"command": "", "url": "localhost"}, "url='localhost' must be like"),
        ({"command": 3}, "command=3 must be a list of words"),
        ({"command": "x'"}, 'command="x\'" cannot be read: No closing quotation'),
        ({"tasks": []}, "tasks: has to be a list of tasks, or a file"),
        ({"tasks": [{"question": "?"}]}, "task 1 has no answer"),
        ({"tasks": [ADDED, {"answer": "1"}]}, "task 2 has no question"),
        ({"tasks": [{"question": "?", "answer": [1]}]}, "task 1 has no answer"),
        ({"tasks": [{"question": "?", "answer": 1, "calls": [{"tool": "x"}]}]}, "task 1: calls must be a list"),
        ({"tasks": ["?"]}, "task 1 must be like"),
        ({"tasks": "no_such_file.jsonl"}, "no_such_file.jsonl cannot be read: FileNotFoundError"),
        ({"form": "xml"}, "form='xml'"),
        ({"turns": 0}, "turns=0"),
        ({"fresh": "no"}, "fresh='no' must be true or false"),
        ({"seconds": 0}, "seconds=0 must be a number of seconds above 0"),
        ({"tools": "add"}, "tools='add' must be a list of names"),
        ({"tools": 1}, "tools=1 must be a list of names"),
        ({"tools": {"add": 1}}, "tools={'add': 1} must be a list of names"),
        ({"tools": []}, "tools=\\[\\] must be a list of names"),
        ({"environment": ["x"]}, "environment="),
        (
            {"command": "", "url": "http://x/mcp", "environment": {"A": "1"}},
            "environment is for a server that is started",
        ),
        ({"key_variable": "KEY"}, "key_variable is for a server at url"),
    ],
)
def test_impossible_options_are_refused(options, line):
    with pytest.raises(ValueError, match=line) as caught:
        served(**options)
    assert "\n" not in str(caught.value)


def test_what_the_server_lacks_and_keys_that_are_not_set_are_named():
    made = served(tools=["add", "fly"])
    with pytest.raises(ValueError, match="tools: MCP server .* has no 'fly'; it has: add, counted"):
        made.reset(0)
    made.close()
    keyed = served(command="", url="http://127.0.0.1:9/mcp", key_variable="PARLEY_NO_SUCH_KEY")
    with pytest.raises(ValueError, match="PARLEY_NO_SUCH_KEY: that environment variable is not set"):
        keyed.reset(0)


def test_tasks_are_read_from_a_file(tmp_path):
    path = tmp_path / "tasks.jsonl"
    path.write_text(f"{json.dumps(ADDED)}\n\n{json.dumps(DEADLY)}\n")
    made = served(tasks=str(path))
    assert [task["question"] for task in made.tasks] == ["What is 2 plus 3?", "Die."]
    assert {"what", "is", "answer:"} & {word for text in made.language() for word in text.split()}
    path.write_text(json.dumps(ADDED | {"question": "What is\u20282 plus 3?"}, ensure_ascii=False) + "\n{")
    with pytest.raises(ValueError, match="tasks.jsonl, line 2 is no JSON: Expecting property name"):
        served(tasks=str(path))
    path.write_text(json.dumps({"question": "What?", "anwser": 3}))
    with pytest.raises(ValueError, match="task 1 has 'anwser', and must be like {question: ..., answer: ..., calls"):
        served(tasks=str(path))
