"""A store of files."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from envs.tools.tool import ToolError
from envs.tools.world import World

MOST_FILES = 50
LONGEST_TEXT = 500
Name = Annotated[str, Field(description="name of the file", max_length=60)]


def list_files(world: World) -> list[str]:
    """The names of all files."""
    return sorted(world.files)


def read_file(world: World, name: Name) -> str:
    """The text of a file."""
    if name not in world.files:
        raise ToolError("there is no such file")
    return world.files[name]


def write_file(
    world: World, name: Name, text: Annotated[str, Field(description="its new text", max_length=LONGEST_TEXT)]
) -> None:
    """Write a file, whether it is there or not."""
    if name not in world.files and len(world.files) >= MOST_FILES:
        raise ToolError("there are too many files")
    world.files[name] = text


def delete_file(world: World, name: Name) -> None:
    """Delete a file."""
    read_file(world, name)
    del world.files[name]
