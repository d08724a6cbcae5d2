"""Settings by dotted key: which there are, and what was probably meant by one that there is not."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import yaml
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefinedType, to_jsonable_python

from cluster.recipe.config import RunConfig
from envs.kinds import Kinds


def dotted_fields(
    model: type[BaseModel] = RunConfig, prefix: str = "", every_kind: bool = False
) -> Iterator[tuple[str, str, str]]:
    """(dotted key, default as YAML, meaning) of every setting. Of a part that comes in several kinds, those of the
    default one; with `every_kind` those of each, and a key comes again where two have it."""
    for name, field in model.model_fields.items():
        key, kinds = f"{prefix}{name}", kinds_of(field)
        if kinds is not None:
            meaning = f"{field.description}: {', '.join(kinds.names)}, or a class of your own as module:Class"
            yield f"{key}.{kinds.tag}", kinds.default, meaning
            for kind in kinds.names if every_kind else [kinds.default]:
                yield from dotted_fields(kinds.find(kind), f"{key}.", every_kind)
        elif is_section(field.annotation):
            yield from dotted_fields(field.annotation, f"{key}.", every_kind)
        else:
            yield key, _default(field), _meaning(field)


def parts_of_kinds(model: type[BaseModel] = RunConfig, prefix: str = "") -> dict[str, Kinds]:
    """The parts that come in several kinds, those of other kinds included, by dotted key."""
    found: dict[str, Kinds] = {}
    for name, field in model.model_fields.items():
        key, kinds = f"{prefix}{name}", kinds_of(field)
        if kinds is not None:
            found[key] = kinds
            for kind in kinds.names:
                found |= parts_of_kinds(kinds.find(kind), f"{key}.")
        elif is_section(field.annotation):
            found |= parts_of_kinds(field.annotation, f"{key}.")
    return found


def dotted_keys() -> list[str]:
    """Of every setting of every kind."""
    return list(dict.fromkeys(key for key, _, _ in dotted_fields(every_kind=True)))


def _sections(key: str) -> list[str]:
    """Those that it lies in."""
    parts = key.split(".")[:-1]
    return [".".join(parts[:count]) for count in range(1, len(parts) + 1)]


def kinds_of(field: FieldInfo) -> Kinds | None:
    return next((each for each in field.metadata if isinstance(each, Kinds)), None)


def _meaning(field: FieldInfo) -> str:
    """With the words that a setting takes, where its description does not say them all."""
    said, words = field.description or "", [str(word) for word in _words(field.annotation)]
    return said if all(word in said for word in words) else f"{said} ({', '.join(words)})"


def _words(annotation: Any) -> Iterator[Any]:
    if get_origin(annotation) is Literal:
        yield from get_args(annotation)
    else:
        for part in get_args(annotation):
            yield from _words(part)


def _default(field: FieldInfo) -> str:
    default = field.get_default(call_default_factory=True)
    if isinstance(default, PydanticUndefinedType):
        return ""
    written = yaml.safe_dump(to_jsonable_python(default), default_flow_style=True, width=1000)
    return written.removesuffix("...\n").strip()


def section(tree: Any, keys: Sequence[str]) -> tuple[type[BaseModel] | None, Kinds | None, dict]:
    """Where a dotted key leads: the settings model there, by the kinds that `tree` chooses, the kinds of that
    part if it comes in several, and what the tree says of it. The model is None where no settings lie."""
    model: type[BaseModel] | None = RunConfig
    kinds, found = None, tree if isinstance(tree, dict) else {}
    for key in keys:
        field = model.model_fields.get(key)
        kinds = None if field is None else kinds_of(field)
        found = found.get(key, {})
        if kinds is not None:
            model, found = kind_of(kinds, found)
        else:
            model = None if field is None else section_in(field.annotation)
        found = found if isinstance(found, dict) else {}
        if model is None:
            return None, None, {}
    return model, kinds, found


def kind_of(kinds: Kinds, given: Any) -> tuple[type[BaseModel] | None, dict]:
    """The one that a tree chooses, as far as it can be told."""
    given = {kinds.tag: given} if isinstance(given, str) else given if isinstance(given, dict) else {}
    try:
        return kinds.find(given.get(kinds.tag, kinds.default)), given
    except ValueError:
        return None, given


def did_you_mean(key: str, tree: dict) -> str:
    """Another kind's setting, initials (lr) or a near miss among the same section's keys, else among all dotted keys by
    last name."""
    inside, _, name = key.rpartition(".")
    model, kinds, given = section(tree, inside.split(".") if inside else [])
    siblings = [] if model is None else list(model.model_fields)
    if kinds is not None:
        if others := [other for other in kinds.names if name in kinds.find(other).model_fields]:
            return (
                f": {kinds.tag}={given.get(kinds.tag, kinds.default)} has no such setting; {', '.join(others)} have it"
            )
        siblings.append(kinds.tag)
    initials = [each for each in siblings if "_" in each and name == "".join(word[0] for word in each.split("_"))]
    close = initials or difflib.get_close_matches(name, siblings, n=1, cutoff=0.7)
    if close:
        return f"; did you mean {inside + '.' if inside else ''}{close[0]}?"
    known = dotted_keys()
    known += sorted({section for each in known for section in _sections(each)})
    elsewhere = [other for other in known if other.rpartition(".")[2] == name]
    elsewhere = elsewhere or difflib.get_close_matches(key, known, n=1, cutoff=0.75)
    return f"; did you mean {' or '.join(elsewhere[:2])}?" if elsewhere else f"; known here: {', '.join(siblings)}"


def recipe_schema() -> dict[str, Any]:
    """A JSON schema that recipes and layers fit."""
    schema = RunConfig.model_json_schema()
    base = {"type": "string", "description": "another recipe that this one is laid over, relative to this file"}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema} | {
        "title": "recipe",
        "properties": {"base": base} | schema["properties"],
    }


def section_in(annotation: Any) -> type[BaseModel] | None:
    """The settings model that a field is, or may be instead of a plain value."""
    if is_section(annotation):
        return annotation
    parts = get_args(annotation) if get_origin(annotation) in (Annotated, Union, UnionType) else ()
    return next((found for part in parts if (found := section_in(part)) is not None), None)


def is_section(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def section_inside(annotation: Any) -> tuple[str, type[BaseModel]] | None:
    """Of settings that are there only if they are set, `X | None` or `dict[str, X]`: what their keys have more."""
    for each in get_args(annotation):
        if is_section(each):
            return (".NAME" if get_origin(annotation) is dict else ""), each
    return None


def flat(tree: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """A nested config by dotted keys."""
    found: dict[str, Any] = {}
    for key, value in tree.items():
        found |= flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {prefix + key: value}
    return found
