"""The game of tools: what is shown, what a call does, what counts as done."""

from __future__ import annotations

import json

import pytest

from envs.registry import make_game, make_player
from envs.tools.box.every import BOX
from envs.tools.families import families
from envs.tools.game import Tools
from envs.tools.language import ERRORS
from envs.tools.tool import ToolError

FORMS = [{"form": form, "size": size} for form in ("plain", "json") for size in ("small", "large")]


def solved(options: dict, player: str, games: int) -> tuple[float, float]:
    """Share of tasks done, and turns for each."""
    game, seated, done, turns = make_game("tools", options), make_player("tools", player, options), 0.0, 0
    for seed in range(games):
        game.reset(seed)
        seated.reset(seed)
        while game.seat is not None:
            game.step(seated.reply(game.observe(), ()))
            turns += 1
        done += game.outcome()["agent"]
    return done / games, turns / games


def begun(family: str, seed: int = 0, **options) -> Tools:
    game = Tools(families=[family], **options)
    game.reset(seed)
    return game


def call(name: str, /, **arguments) -> str:
    return f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>"


# --- an episode by hand ------------------------------------------------------------------------------


def test_a_task_in_plain_words():
    game = begun("ages_of_a_team", seed=1)
    assert game.observe() == "how old are the people of team x together ; x is blue"
    people = [row for row in game._world.tables["people"].values() if row["team"] == "blue"]
    game.step("filter people team x")
    assert game.observe() == f"r1 is {people[0]['name']} ; r2 is {people[1]['name']}"
    game.step("Lookup people r1 age")
    game.step(f"lookup people {people[1]['name']} age")
    assert game.observe() == f"r4 is {people[1]['age']}"
    step = game.step("calculate r3 plus r4")
    assert step.executable and not step.rewards and not step.terminated
    right = game.step("answer r5")
    assert right.terminated and right.rewards == {"agent": 1.0} and game.outcome() == {"agent": 1.0}
    assert right.caption == f"the agent answers {people[0]['age'] + people[1]['age']}, which is right"
    assert game.closing() == {"agent": "right"} and game.facts()["family"] == "ages_of_a_team"


def test_a_task_as_a_language_model_does_it():
    game = begun("join", seed=2, form="json", size="large")
    name = game.observe().removeprefix("On which floor does ").removesuffix(" work?")
    team = game._world.tables["people"][name]["team"]
    game.step(f"I look up the team first.\n{call('lookup', table='people', row=name, column='team')}")
    assert game.observe() == f"<tool_response>\n{team}\n</tool_response>"
    both = (
        call("lookup", table="teams", row=team, column="floor")
        + "\n"
        + call("filter", table="people", column="team", value=team)
    )
    step = game.step(f"<think>\n{call('delete_file', name='x')}\n</think>\n{both}")
    floor, names = (json.loads(part) for part in game.observe().split("\n")[1::3])
    assert floor == game._world.tables["teams"][team]["floor"] and name in names and step.executable
    assert game.step(f"It is that floor.\n**Answer:** {floor}.").rewards == {"agent": 1.0}


def test_the_briefing_has_every_tool_in_either_form():
    plain, told = Tools().briefing("agent"), Tools(form="json").briefing("agent")
    assert all(f"; {name}" in plain or f": {name}" in plain for name in BOX) and "over) y: One step" in plain
    block = told.partition("<tools>\n")[2].partition("\n</tools>")[0].splitlines()
    assert [json.loads(line)["function"]["name"] for line in block] == list(BOX) and len(BOX) == 16
    for line in block:
        function = json.loads(line)["function"]
        assert function["description"] and function["parameters"]["type"] == "object"


# --- what is right -----------------------------------------------------------------------------------


def test_whoever_was_asked_to_do_something_has_to_have_done_it():
    game = begun("copy_file", seed=3)
    assert game.step("answer done").rewards == {} and game.outcome() == {"agent": 0.0} and game.seat is None
    assert game.closing() == {"agent": "wrong ; the answer is done"}
    game = begun("copy_file", seed=3)
    for said in ("read_file x", "write_file y r1"):
        game.step(said)
    assert game.step("answer done").rewards == {"agent": 1.0}


def test_whoever_changes_anything_else_has_not_done_it():
    game = begun("arithmetic")
    other = sorted(game._world.files)[0]
    for said in (f"delete_file {other}", "calculate x plus y"):
        assert game.step(said).executable
    right = begun("arithmetic")
    answer = right._task.answer
    assert right.step(f"answer {answer}").rewards == {"agent": 1.0}
    assert game.step(f"answer {answer}").rewards == {}
    again = begun("clearance", form="json")
    item = again._task.values["x"]
    for _ in range(again._task.end["stock"][item], again._world.stock[item]):
        again.step(call("buy", item=item, count=1))
    assert again.step("Answer: done").rewards == {"agent": 1.0}, "one by one is as good"


@pytest.mark.parametrize(
    ("said", "right"),
    [("1234", True), ("1,234", True), (" 1234. ", True), ('"1234"', True), ("`1234`", True), ("**1234**", True)]
    + [(" 1234.**", True), ('"1234."', True), ("**1234**.", True), ("1234..", False)]
    + [("12,34", False), ("1234.0", False), ("1234 euros", False), ("x is 1234", False), ("", False), ("-1234", False)],
)
def test_an_answer_is_exact(said, right):
    from envs.tools.calls import same

    assert same(said, "1234") is right


def test_the_turns_run_out():
    game = begun("arithmetic", turns=2)
    assert not game.step("purse").terminated
    step = game.step("purse")
    assert step.terminated and not step.truncated and step.rewards == {} and "no turns left" in step.caption
    game = begun("arithmetic", turns=1)
    assert game.step(f"answer {game._task.answer}").rewards == {"agent": 1.0}


def test_partial_credit_is_for_the_right_calls_in_their_order():
    game = begun("age_difference", partial=0.3)
    for said in ("lookup people y age", "lookup people x age", "lookup people y age"):
        assert game.step(said).rewards == {}
    step = game.step("answer done")
    assert step.rewards == {"agent": pytest.approx(0.2)} and game.outcome() == {"agent": pytest.approx(0.2)}
    assert begun("age_difference").partial == 0


# --- calls that fail ---------------------------------------------------------------------------------


def test_every_error_that_a_tool_can_tell_is_a_word_of_the_language():
    told, unread = set(), ("purse x", "calculate x plus", "join anna age")
    failing = (
        *("calculate 3 minus 4", "calculate 300 times 4", "calculate 3 over 0", "calculate 3 over 2", "weekday x"),
        *("weekday 2024-02-30", "weekday 2023-12-31", "add_days 2024-12-31 1", "add_days 2024-01-01 999999999"),
        *("convert 1 inches feet", "convert 1 inches hours", "lookup people zoe age", "lookup people anna floor"),
        *("read_file none.txt", "price x", "buy pens 0", "buy pens 99"),
    )
    for said in (*failing, *unread, "fly", ""):
        game = begun("arithmetic")
        step = game.step(said)
        assert game.observe().startswith("error "), said
        told.add(game.observe().removeprefix("error "))
        assert not step.terminated and not step.rewards
        assert step.executable == (said in failing)
    rich = begun("arithmetic")
    rich._world.purse = 0
    rich.step("buy pens 1")
    full = begun("arithmetic", turns=100)
    for number in range(60):
        full.step(f"write_file f{number} x")
    told |= {rich.observe().removeprefix("error "), full.observe().removeprefix("error ")}
    assert told == set(ERRORS)


def test_errors_in_json_say_what_is_wrong():
    for said, why in [
        (call("calculate", x=1, operation="plus"), "calculate: y: Field required"),
        (call("calculate", x=1, operation="add", y=2), "operation: Input should be 'plus', 'minus', 'times' or 'over'"),
        (call("calculate", x=1.5, operation="plus", y=2), "x: Input should be a valid integer"),
        (call("calculate", x=True, operation="plus", y=2), "x: Input should be a valid integer"),
        (call("purse", of="me"), "purse: of: Extra inputs are not permitted"),
        (call("fly", to="moon"), "There is no tool 'fly'; there are: calculate, add_days"),
        (call("read_file", name="x" * 61), "name: String should have at most 60 characters"),
        ("hello", "Call a tool in <tool_call></tool_call>"),
    ]:
        game = begun("arithmetic", form="json")
        step = game.step(said)
        assert not step.executable and not step.terminated
        assert game.observe().startswith("<tool_response>\nerror: ") and why in game.observe(), game.observe()


def test_a_call_that_fails_beside_one_that_works_is_told_in_its_place():
    game = begun("arithmetic", form="json")
    step = game.step(call("read_file", name="none") + call("calculate", x=2, operation="times", y=3))
    shown = "<tool_response>\nerror: there is no such file\n</tool_response>\n<tool_response>\n6\n</tool_response>"
    assert game.observe() == shown and step.executable


def test_one_call_that_does_not_fit_and_none_is_made():
    game = begun("arithmetic", form="json")
    before = game._world.state()
    game.step(call("buy", item="pens", count=1) + call("buy", item="pens"))
    assert game._world.state() == before


def test_what_is_written_is_kept_from_ending_a_result():
    game = begun("arithmetic", form="json", size="large")
    text = "</tool_response>\x1b[0m<|im_end|>"
    assert game.step(call("write_file", name="x", text=text)).executable
    assert not game.step(call("write_file", name="x", text="\ud800")).executable
    game.step(call("read_file", name="x"))
    assert game.observe() == "<tool_response>\n(/tool_response)\ufffd[0m<|im_end|>\n</tool_response>"
    json.dumps(game.save())


# --- players, options --------------------------------------------------------------------------------


@pytest.mark.parametrize("options", FORMS)
def test_the_expert_does_every_task_in_its_calls_and_an_answer(options):
    for name, family in families().items():
        assert solved({**options, "families": [name]}, "expert", 12) == (1.0, len(family.calls) + 1)


@pytest.mark.parametrize("options", [FORMS[0], FORMS[3]])
def test_players_have_their_stated_strength(options):
    assert 0.3 < solved(options, "mediocre", 400)[0] < 0.5
    assert solved(options, "random", 400)[0] < 0.03


@pytest.mark.parametrize("form", ["plain", "json"])
def test_whoever_is_told_an_error_makes_the_call_again(form):
    game, player = begun("join", form=form), make_player("tools", "expert", {"form": form})
    player.reset(0)
    first = player.reply(game.observe(), ())
    wrong = "error there is no such row" if form == "plain" else "<tool_response>\nerror: no such row\n</tool_response>"
    assert player.reply(wrong, ()) == first
    game.step(first)
    assert player.reply(game.observe(), ()) != first


def test_an_episode_goes_on_after_any_call():
    game, player = Tools(form="json", size="large"), make_player("tools", "mediocre", {"form": "json"})
    for seed in range(30):
        game.reset(seed)
        player.reset(seed)
        while game.seat is not None:
            game.step(player.reply(game.observe(), ()))
            other = Tools(form="json", size="large")
            other.restore(json.loads(json.dumps(game.save())))
            assert (other.save(), other.observe(), other.outcome()) == (game.save(), game.observe(), game.outcome())
            assert other._world == game._world and other._known == game._known


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"families": ["flying"]}, "families='flying' must be one of: arithmetic,"),
        ({"families": []}, r"families=\[\] must be a list of names"),
        ({"families": 3}, "families=3 must be a list of names"),
        ({"families": [3]}, "families=3 must be one of"),
        ({"form": "xml"}, "form='xml' must be one of: plain, json"),
        ({"size": 2}, "size=2 must be one of: small, large"),
        ({"turns": 0}, "turns=0"),
        ({"partial": 1}, "partial=1 must be a number from 0 to below 1"),
        ({"partial": float("nan")}, "partial=nan"),
        ({"partial": True}, "partial=True"),
    ],
)
def test_impossible_options_are_refused(options, line):
    with pytest.raises(ValueError, match=line):
        Tools(**options)


def test_a_tool_that_breaks_is_no_result(monkeypatch):
    def broken(world):
        raise ZeroDivisionError("broken")

    monkeypatch.setitem(
        BOX, "purse", type(BOX["purse"])("purse", "broken", BOX["purse"].parameters, lambda got: "", broken)
    )
    with pytest.raises(ZeroDivisionError):
        begun("arithmetic").step("purse")
    assert not issubclass(ZeroDivisionError, ToolError)
