"""What the agent reads: the rules, the question, and what its calls returned.

    plain    what is x times y ; x is 17 ; y is 23
             r1 is 391
    json     the tools in <tools></tools> after the rules, each result in <tool_response></tool_response>

The json form is what the chat templates of Qwen and Hermes make of tools and of messages of the role `tool`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from envs.tools.families import FIELD, Task, filled
from envs.tools.tool import Tool
from envs.worlds.package import text_of

LONGEST_RESULT = 4000  # characters
DONE = "done"
# What a chat template puts after a system message, given tools: byte for byte.
TOOLS = """\
# Tools

You may call one or more functions to assist with the user query.

You are provided with function signatures within <tools></tools> XML tags:
<tools>
{tools}
</tools>

For each function call, return a json object with function name and arguments within <tool_call></tool_call> XML tags:
<tool_call>
{{"name": <function-name>, "arguments": <args-json-object>}}
</tool_call>"""
ASKING = ("what", "which", "how", "on")


def briefing(tools: Iterable[Tool], form: str, turns: int) -> str:
    if form == "json":
        rules = (
            "You are given a task and tools. Use the tools for it, step by step, and change nothing that you are not "
            "asked to change. When you have the answer, end with a line `Answer: ...` that holds the answer and "
            f"nothing else; where you are asked to do something, that is `Answer: {DONE}`. You have {turns} turns, "
            "each of which is one or more calls or the answer."
        )
        listed = "\n".join(json.dumps(each.listed, ensure_ascii=False) for each in tools)
        return f"{rules}\n\n{TOOLS.format(tools=listed)}"
    return (
        "You are given a task and tools. Each turn you call one tool: say its name and then what it takes, such as "
        "`calculate x times y`. A letter of the task and the name of an earlier result, such as r1, stand for what "
        f"they are. To answer say `answer r1`; where you are asked to do something, `answer {DONE}`. You have {turns} "
        f"turns. The tools are: {'; '.join(map(usage, tools))}."
    )


def usage(tool: Tool) -> str:
    """calculate x operation (plus, minus, times, over) y: One step of arithmetic."""
    parts = [tool.name]
    for name, slot in tool.slots.items():
        choices = f" ({', '.join(map(str, slot['enum']))})" if isinstance(slot.get("enum"), list) else ""
        parts.append(f"{name}{choices}")
    return f"{' '.join(parts)}: {tool.description.removesuffix('.')}"


def question(task: Task, form: str) -> str:
    if form == "json":
        text = filled(task.family.question, task.values)
        mark = "?" if text.partition(" ")[0] in ASKING else "."
        return f"{text[0].upper()}{text[1:]}{mark}"
    asked = FIELD.sub(
        lambda found: found[1] if len(found[1]) == 1 else str(task.values[found[1]]), task.family.question
    )
    return " ; ".join([asked, *(f"{name} is {value}" for name, value in task.given.items())])


def shown(results: Sequence[Any], form: str, names: Sequence[str] = ()) -> str:
    """`results`: of calls, each a number, a text, a list of texts or nothing. `names`: of their values, for the plain
    form."""
    if form == "json":
        return "\n".join(response(result) for result in results)
    values = [value for result in results for value in (result if isinstance(result, list) else [result])]
    if values == [None]:
        return DONE
    return " ; ".join(f"{name} is {value}" for name, value in zip(names, values, strict=True)) or "nothing"


def response(result: Any) -> str:
    """A result as a chat template shows a message of the role `tool`. What it holds cannot end it."""
    text = DONE if result is None else result if isinstance(result, str) else json.dumps(result)
    return f"<tool_response>\n{harmless(text)}\n</tool_response>"


def harmless(text: str) -> str:
    text = text_of(text, LONGEST_RESULT)
    return text.replace("<tool_response>", "(tool_response)").replace("</tool_response>", "(/tool_response)")
