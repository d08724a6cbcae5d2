"""Calls of tools, as they are said and read, in one of two forms.

    json     <tool_call>
             {"name": "calculate", "arguments": {"x": 17, "operation": "times", "y": 23}}
             </tool_call>
             as Hermes, Qwen and others say it: any number of calls, with words before them; or words that end in a
             line `Answer: 391`
    plain    calculate x times y
             answer r1
             one call in words, with the arguments in the schema's order. A word that names something told before stands
             for it: x and y of the question, r1 for the first result.

Reading never raises: what cannot be read is an `Unread`, which says why in a line.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from envs.tools.tool import Tool

LONGEST = 20_000  # characters of an utterance
MOST_CALLS = 8  # in one utterance
DEEPEST = 64  # of lists and objects in each other: more than that, not every JSON library takes
BLOCK = re.compile(r"<tool_call>(.*?)(</tool_call>|$)", re.DOTALL)
ANSWER = re.compile(r"^\W*answer\W*:(.*)", re.IGNORECASE)
INTEGER = re.compile(r"-?[0-9]{1,18}")
MARKS = "\"'`* "  # that may stand around an answer
WORD = "answer"  # begins an answer in the plain form

NOTHING = "Call a tool in <tool_call></tool_call>, or end with a line `Answer: ...`."


@dataclass(frozen=True, slots=True)
class Call:
    name: str
    arguments: dict[str, Any]

    def __str__(self) -> str:
        return f"{self.name}({', '.join(f'{name}={value!r}' for name, value in self.arguments.items())})"


@dataclass(frozen=True, slots=True)
class Answer:
    text: str


@dataclass(frozen=True, slots=True)
class Unread:
    why: str


Read = list[Call] | Answer | Unread
Known = Mapping[str, Any]  # what a word of the plain form stands for


def read_json(utterance: str, tools: Mapping[str, Tool]) -> Read:
    if len(utterance) > LONGEST:
        return Unread("That is too long.")
    blocks = BLOCK.findall(utterance)
    if not blocks:
        said = [found[1] for line in utterance.strip().splitlines()[-1:] if (found := ANSWER.match(line))]
        return Answer(said[0]) if said else Unread(NOTHING)
    if len(blocks) > MOST_CALLS:
        return Unread(f"At most {MOST_CALLS} calls at once.")
    found = [_call(inside, ended, tools) for inside, ended in blocks]
    return next((each for each in found if isinstance(each, Unread)), found)


def _call(inside: str, ended: str, tools: Mapping[str, Tool]) -> Call | Unread:
    if not ended:
        return Unread("A <tool_call> does not end with </tool_call>.")
    try:
        said = _loaded(inside)
    except (ValueError, RecursionError) as error:
        return Unread(f"That is no JSON: {' '.join(str(error).split())[:100]}")
    if not isinstance(said, dict) or not isinstance(said.get("name"), str):
        return Unread('A call is an object with a "name" and "arguments".')
    name, arguments = said["name"], said.get("arguments", {})
    if name not in tools:
        return Unread(f"There is no tool {name[:50]!r}; there are: {', '.join(tools)}")
    if not isinstance(arguments, dict):
        return Unread(f"{name}: the arguments have to be an object.")
    return checked(Call(name, arguments), tools)


def _loaded(text: str) -> Any:
    """ValueError or RecursionError for what is no JSON, or cannot be sent as JSON."""
    found = json.loads(text, parse_constant=_no_number, parse_float=_finite)
    try:
        json.dumps(found, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise ValueError("a text has half a character") from None
    layer, depth = [found], 0
    while layer := [each for outer in layer if isinstance(outer, dict | list) for each in _inside(outer)]:
        depth += 1
        if depth > DEEPEST:
            raise ValueError(f"more than {DEEPEST} lists and objects are in each other")
    return found


def _inside(outer: dict | list) -> list[Any]:
    return list(outer.values()) if isinstance(outer, dict) else outer


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is no number")


def _finite(digits: str) -> float:
    if math.isinf(found := float(digits)):
        raise ValueError(f"{digits[:20]} is too large a number")
    return found


def checked(call: Call, tools: Mapping[str, Tool]) -> Call | Unread:
    fault = tools[call.name].fault(call.arguments)
    return Unread(f"{call.name}: {fault}") if fault else call


def say_json(call: Call) -> str:
    return f"<tool_call>\n{json.dumps({'name': call.name, 'arguments': call.arguments})}\n</tool_call>"


def read_plain(utterance: str, tools: Mapping[str, Tool], known: Known) -> Read:
    """What is wrong is said in few words, which a small policy can know."""
    words = utterance[:LONGEST].split()
    name, said = _named(words, tools)
    if not name and words and words[0].lower() == WORD and len(words) > 1:
        return Answer(" ".join(str(known.get(word.lower(), word)) for word in words[1:]))
    if not name:
        return Unread("there is no such tool")
    slots = tools[name].slots
    if slots and len(said) > len(slots) and list(slots.values())[-1].get("type") == "string":
        place = len(slots) - 1
        said = [*said[:place], " ".join(str(known.get(word.lower(), word)) for word in said[place:])]
    if len(said) > len(slots):
        return Unread("there are too many words")
    arguments = {
        each: _typed(known.get(word.lower(), word), slot)
        for word, (each, slot) in zip(said, slots.items(), strict=False)
    }
    call = checked(Call(name, arguments), tools)
    return Unread("the tool does not take that") if isinstance(call, Unread) else [call]


def _named(words: Sequence[str], tools: Mapping[str, Tool]) -> tuple[str, Sequence[str]]:
    """The tool that is named first, and the words after it. With its own capitals, or with others where that can mean
    one tool only. A server may have put spaces in a name: the longest that fits counts."""
    if words and words[0] in tools and not any(" " in name for name in tools):
        return words[0], words[1:]
    for spelled in (str, str.lower):
        fitting: dict[int, list[str]] = {}
        for name in tools:
            if (own := name.split()) and [*map(spelled, words[: len(own)])] == [*map(spelled, own)]:
                fitting.setdefault(len(own), []).append(name)
        if fitting and len(found := fitting[max(fitting)]) == 1:
            return found[0], words[max(fitting) :]
    return "", words


def _typed(value: Any, slot: Mapping[str, Any]) -> Any:
    """A word as the schema wants it, as far as it can be."""
    wanted = slot.get("type")
    if wanted == "string" or not isinstance(value, str):
        return str(value) if wanted == "string" else value
    if wanted == "integer" and INTEGER.fullmatch(value):
        return int(value)
    if wanted in ("number", "boolean", "array", "object"):
        try:
            return _loaded(value)
        except (ValueError, RecursionError):
            return value
    return value


def same(one: str, other: str) -> bool:
    """Of two answers: but for upper case, space, quotation marks, commas in a number and one final period."""
    return plain_answer(one) == plain_answer(other)


def plain_answer(text: str) -> str:
    text = " ".join(text.split()).casefold().strip(MARKS).removesuffix(".").strip(MARKS)
    return text.replace(",", "") if re.fullmatch(r"-?\d{1,3}(,\d{3})+(\.\d+)?", text) else text


def names_of(tools: Sequence[Tool]) -> dict[str, Tool]:
    return {each.name: each for each in tools}
