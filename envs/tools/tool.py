"""A tool: a name, what it does, what it takes as a JSON schema, and what is wrong with arguments that do not fit.

    add_days = tool(function)        schema and description come from the function's annotations and docstring
    add_days.fault({"days": "x"})    "days: Input should be a valid integer"; "" if the arguments fit

The first parameter of a function is the world that it works on. It returns a number, a text, a list of texts or
nothing, or raises a ToolError, which the agent is told.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, get_type_hints

from pydantic import BaseModel, ConfigDict, ValidationError, create_model

Result = int | str | list[str] | None


class ToolError(Exception):
    """The call fits the tool, but cannot be done: its text is the result."""


@dataclass(frozen=True, slots=True)
class Tool:
    name: str
    description: str
    parameters: dict[str, Any]  # JSON schema of an object
    fault: Callable[[dict[str, Any]], str]  # one line; empty if the arguments fit
    function: Callable[..., Result] | None = None

    @property
    def slots(self) -> dict[str, dict[str, Any]]:
        """What it takes: name -> schema. In a JSON schema, true is anything and false is nothing."""
        properties = self.parameters.get("properties")
        found = properties.items() if isinstance(properties, dict) else ()
        return {name: each if isinstance(each, dict) else {} for name, each in found if each is not False}

    @property
    def listed(self) -> dict[str, Any]:
        """As chat templates take it."""
        function = {"name": self.name, "description": self.description, "parameters": self.parameters}
        return {"type": "function", "function": function}


def tool(function: Callable[..., Result]) -> Tool:
    hints = get_type_hints(function, include_extras=True)
    fields = {
        name: (hints[name], ... if each.default is each.empty else each.default)
        for name, each in list(inspect.signature(function).parameters.items())[1:]
    }
    model = create_model(function.__name__, __config__=ConfigDict(strict=True, extra="forbid"), **fields)
    description = " ".join(inspect.getdoc(function).split())
    return Tool(function.__name__, description, schema_of(model), lambda got: fault(model, got), function)


def schema_of(model: type[BaseModel]) -> dict[str, Any]:
    """Without the titles, which say the names once more."""
    schema = model.model_json_schema()
    properties = {
        name: {key: value for key, value in each.items() if key != "title"}
        for name, each in schema.get("properties", {}).items()
    }
    return {"type": "object", "properties": properties, "required": schema.get("required", [])}


def fault(model: type[BaseModel], arguments: dict[str, Any]) -> str:
    try:
        model.model_validate(arguments)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        return f"{where}: {first['msg']}" if where else first["msg"]
    return ""
