"""A part of a run that comes in several kinds, of which a recipe chooses one: a credit method, a loss, a reward shaper.

    credit: poad                              a kind by its name, with its defaults
    credit: {method: poad, lambda_w: 0.95}    with settings of its own
    credit: my_module:MyCredit                a class of the user's own

Each kind is one class in one file, which holds its settings: a setting that the chosen kind does not
have cannot be written. The file is loaded when the kind is chosen, so that reading a recipe loads no other.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import cached_property
from importlib import import_module
from inspect import isabstract
from os import getcwd
from pkgutil import iter_modules
from typing import Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler, ValidationError
from pydantic_core import InitErrorDetails, core_schema

from envs.settings import Settings


class Kinds:
    """The kinds of one part. A pydantic field of them is annotated `Annotated[Base, KINDS]`."""

    def __init__(self, part: str, tag: str, default: str, room: str, base: type[Settings]):
        """`room`: the package that has a file for each kind, of the kind's name. `base`: what all kinds derive from."""
        self.part, self.tag, self.default, self.room, self.base = part, tag, default, room, base

    @cached_property
    def names(self) -> list[str]:
        """Of the kinds that come with Parley."""
        files = [module.name for module in iter_modules(import_module(self.room).__path__)]
        return sorted(name for name in files if self._in_module(f"{self.room}.{name}") is not None)

    def find(self, name: Any) -> type[Settings]:
        """The kind of that name, or the class at `module:Class`; ValueError says what is wrong."""
        if not isinstance(name, str):
            raise ValueError(f"should be the name of a {self.part}, not {name!r}")
        if ":" in name:
            return self._of_the_user(name)
        try:
            found = self._in_module(f"{self.room}.{name}") if name.isidentifier() else None
        except ModuleNotFoundError as error:
            if error.name != f"{self.room}.{name}":
                raise
            found = None
        if found is None:
            listed = ", ".join(map(repr, self.names))
            raise ValueError(f"{name!r} is not one of {listed}; a {self.part} of your own is named module:Class")
        return found

    def make(self, name: str, **settings: Any) -> Any:
        return self.find(name)(**settings)

    def name_of(self, kind: Settings | type[Settings]) -> str:
        """What a recipe calls it."""
        kind = kind if isinstance(kind, type) else type(kind)
        inside, _, name = kind.__module__.rpartition(".")
        return name if inside == self.room else f"{kind.__module__}:{kind.__qualname__}"

    def read(self, given: Any) -> Settings:
        """What a recipe says of the part -> the kind, with its settings."""
        if isinstance(given, self.base):
            return given
        if isinstance(given, str):
            given = {self.tag: given}
        if not isinstance(given, Mapping):
            raise ValueError(f"should be the name of a {self.part} or a mapping of keys to values, not {given!r}")
        name = given.get(self.tag, self.default)
        try:
            kind = self.find(name)
        except ValueError as error:
            fault = InitErrorDetails(type="value_error", loc=(self.tag,), input=name, ctx={"error": error})
            raise ValidationError.from_exception_data(self.part, [fault]) from error
        return kind.model_validate({key: value for key, value in given.items() if key != self.tag})

    def dump(self, kind: Settings, info: Any) -> dict[str, Any]:
        found = kind.model_dump(mode=info.mode, exclude_defaults=info.exclude_defaults)
        return {self.tag: self.name_of(kind)} | found

    def _in_module(self, module: str) -> type[Settings] | None:
        own = [
            each
            for each in vars(import_module(module)).values()
            if isinstance(each, type)
            and issubclass(each, self.base)
            and each.__module__ == module
            and not isabstract(each)
        ]
        return own[-1] if own else None

    def _of_the_user(self, name: str) -> type[Settings]:
        found = class_at(name)
        if not issubclass(found, self.base):
            raise ValueError(f"{name!r} is no {self.part}: it has to derive from {self.base.__name__}")
        if missing := getattr(found, "__abstractmethods__", ()):
            raise ValueError(f"{name!r} is no {self.part} yet: it has to define {', '.join(sorted(missing))}")
        return found

    # what pydantic asks of an annotation

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        written = core_schema.plain_serializer_function_ser_schema(self.dump, info_arg=True)
        return core_schema.no_info_plain_validator_function(self.read, serialization=written)

    def __get_pydantic_json_schema__(self, _: core_schema.CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        own = {"type": "string", "pattern": "^[A-Za-z_][\\w.]*:[A-Za-z_]\\w*$"}  # a class of the user's
        choices: list[dict[str, Any]] = [{"enum": self.names}, own]
        for name in self.names:
            schema = handler.resolve_ref_schema(handler(self.find(name).__pydantic_core_schema__))
            properties = {self.tag: {"const": name}} | schema.get("properties", {})
            choices.append({**schema, "properties": properties, "required": []})  # a layer may leave the name to others
        tagged = {"type": "object", "properties": {self.tag: own}, "required": [self.tag]}
        return {"anyOf": [*choices, tagged]}


def see_current_folder() -> None:
    """For what is imported by name. It comes last: a folder of the user's hides nothing."""
    if getcwd() not in sys.path:
        sys.path.append(getcwd())


def class_at(name: str) -> type:
    """The class at `module:Class`, of the user's own, in the current folder or wherever Python finds it."""
    module, _, attribute = name.partition(":")
    see_current_folder()
    try:
        found = getattr(import_module(module), attribute)
    except Exception as error:  # of whoever wrote the module
        missing = isinstance(error, ModuleNotFoundError) and error.name == module.partition(".")[0]
        where = "; start Parley in the folder that holds it, or name that in PYTHONPATH" if missing else ""
        raise ValueError(f"{name!r} cannot be imported: {type(error).__name__}: {error}{where}") from error
    if not isinstance(found, type):
        raise ValueError(f"{name!r} is no class")
    return found
