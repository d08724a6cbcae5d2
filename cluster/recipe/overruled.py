"""What a layer takes back of what stands before it. Layers are chosen by their names, so a run says it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cluster.recipe.packaged import recipe_file
from cluster.recipe.reading import COMMAND_LINE, is_layer, leaves, merge, parse_override, read_recipe


def overruled(overrides: Sequence[str]) -> list[str]:
    """One line for each setting that a layer changes after another one or the command line has set it, unless the
    command line decides it later."""
    tree: dict = {}
    said: dict[str, str] = {}  # setting -> the layer that had it last, or the command line
    lines: dict[str, str] = {}
    for override in overrides:
        if not is_layer(override):
            over, key = written_out(parse_override(override)), override.partition("=")[0]
            for decided in [each for each in said if f"{each}.".startswith(f"{key}.")]:
                del said[decided]
                lines.pop(decided, None)
            said |= dict.fromkeys(leaves(over), f"the {COMMAND_LINE}")
            tree = merge(tree, over)
            continue
        over = written_out(read_recipe(recipe_file(override)))
        after = merge(tree, over)
        for key in leaves(over):
            before, now = value_at(tree, key), value_at(after, key)
            if key in said and before != now:
                lines[key] = f"{key} is {shown(now)} by {override}, not {shown(before)} as {said[key]} says"
        said |= dict.fromkeys(leaves(over), override)
        tree = after
    return list(lines.values())


def written_out(over: dict) -> dict:
    """With `{kind: ppo}` where `ppo` alone stands."""
    return merge(sections(over), over)


def sections(tree: Mapping) -> dict:
    return {key: sections(value) for key, value in tree.items() if isinstance(value, dict)}


def value_at(tree: Mapping, key: str) -> Any:
    """None where nothing is set."""
    value: Any = tree
    for part in key.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def shown(value: Any) -> str:
    return "nothing" if value is None else str(value)
