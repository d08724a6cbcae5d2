"""Reading what was said: calls, answers, and everything that is neither."""

from __future__ import annotations

import json

import pytest

from envs.tools.box.every import BOX
from envs.tools.calls import LONGEST, MOST_CALLS, Answer, Call, Unread, read_json, read_plain, say_json
from tests.support.fuzz import utterances

ADD = Call("calculate", {"x": 2, "operation": "plus", "y": 3})


def block(inside: str) -> str:
    return f"<tool_call>{inside}</tool_call>"


@pytest.mark.parametrize(
    "said",
    [
        say_json(ADD),
        f"First I add.\n{say_json(ADD)}",
        f"{say_json(ADD)}\nAnswer: 5",
        block('{"arguments": {"y": 3, "x": 2, "operation": "plus"}, "name": "calculate", "id": 7}'),
    ],
)
def test_calls_are_read_wherever_they_stand(said):
    assert read_json(said, BOX) == [ADD]


def test_several_calls_are_read_in_their_order():
    purse = Call("purse", {})
    assert read_json(say_json(purse) + say_json(ADD) + block('{"name": "purse"}'), BOX) == [purse, ADD, purse]
    assert read_json(say_json(purse) * MOST_CALLS, BOX) == [purse] * MOST_CALLS
    assert read_json(say_json(purse) * (MOST_CALLS + 1), BOX) == Unread(f"At most {MOST_CALLS} calls at once.")


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("", "Call a tool"),
        ("5", "Call a tool"),
        ("Answer: 5\nbecause 2 + 3", "Call a tool"),
        (say_json(ADD)[:-12], "does not end with </tool_call>"),
        (block("calculate 2 plus 3"), "That is no JSON"),
        (block('{"name": "calculate", "arguments": {"x": NaN}}'), "NaN is no number"),
        (block('{"name": "calculate", "arguments": {"x": -Infinity}}'), "Infinity is no number"),
        (block('{"name": "calculate", "arguments": {"x": ' + "9" * 5000 + "}}"), "That is no JSON"),
        (block("[" * 9000), "That is no JSON"),
        (block('{"name": "calculate", "arguments": {"x": 1e400}}'), "1e400 is too large a number"),
        (block('{"name": "calculate", "arguments": {"x": "\\ud800"}}'), "half a character"),
        (block('{"name": "purse", "x": ' + "[" * 900 + "]" * 900 + "}"), "in each other"),
        (block('["calculate"]'), 'an object with a "name"'),
        (block('{"name": 3}'), 'an object with a "name"'),
        (block('{"name": "calculate", "arguments": "x"}'), "the arguments have to be an object"),
        (block('{"name": "calculate", "arguments": [2, "plus", 3]}'), "the arguments have to be an object"),
        (block('{"name": "Calculate"}'), "There is no tool 'Calculate'"),
        ("x" * (LONGEST + 1), "too long"),
    ],
)
def test_what_cannot_be_read_says_why_in_a_line(said, why):
    found = read_json(said, BOX)
    assert isinstance(found, Unread) and why in found.why and "\n" not in found.why and len(found.why) < 400


@pytest.mark.parametrize("said", ["Answer: 5", "answer : 5", "So it is five.\n\nANSWER: 5", "**Answer:** 5"])
def test_an_answer_is_the_last_line(said):
    assert isinstance(read_json(said, BOX), Answer) and read_json(said, BOX).text.strip(" *") == "5"


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ("calculate x plus r1", [Call("calculate", {"x": 7, "operation": "plus", "y": 30})]),
        ("CALCULATE X plus 3", [Call("calculate", {"x": 7, "operation": "plus", "y": 3})]),
        ("calculate  7\nplus 3", [Call("calculate", {"x": 7, "operation": "plus", "y": 3})]),
        ("read_file x", [Call("read_file", {"name": "7"})]),
        ("write_file a.txt two words r1", [Call("write_file", {"name": "a.txt", "text": "two words 30"})]),
        ("purse", [Call("purse", {})]),
        ("answer r1", Answer("30")),
        ("answer r1 days", Answer("30 days")),
        ("answer", Unread("there is no such tool")),
        ("calculate x plus y", Unread("the tool does not take that")),
        ("calculate x + r1", Unread("the tool does not take that")),
        ("calculate x plus", Unread("the tool does not take that")),
        ("calculate x plus r1 r1", Unread("there are too many words")),
        ("purse now", Unread("there are too many words")),
        ("calculate 1.5 plus 2", Unread("the tool does not take that")),
        ("calculate 1_0 plus 2", Unread("the tool does not take that")),
        ("calculate \u0661 plus 2", Unread("the tool does not take that")),
        ("calculate " + "9" * 5000 + " plus 2", Unread("the tool does not take that")),
        (say_json(ADD), Unread("there is no such tool")),
    ],
)
def test_plain_words_are_read_in_the_schemas_order(said, found):
    assert read_plain(said, BOX, {"x": 7, "r1": 30}) == found


def test_no_text_breaks_the_reading():
    texts = utterances(11)
    for _ in range(3000):
        said = next(texts)
        assert isinstance(read_json(said, BOX), Unread | Answer)
        assert isinstance(read_json(block(said), BOX), Unread)
        assert isinstance(read_plain(said, BOX, {"x": said}), Unread)
        inside = read_json(block(json.dumps({"name": "write_file", "arguments": {"name": "x", "text": said}})), BOX)
        assert isinstance(inside, list | Unread)
