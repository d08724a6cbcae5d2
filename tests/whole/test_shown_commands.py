"""Every command that README and docs show is one that the command line takes: its words, its recipe, its settings."""

from __future__ import annotations

import argparse
import importlib.util
import re
import runpy
import shlex
import sys
from pathlib import Path

import pytest

from cluster.commands import cli
from cluster.commands.command import layers_and_settings
from cluster.commands.config import of_kind, of_section
from cluster.recipe.reading import load_recipe
from envs.registry import game_names, make_game

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
COMMAND = re.compile(r"(?:.* -- |(?:\w+=\S* )*)((?:parley|make|python -m|python(?= \S+\.py))(?: .*|$))")
PLACEHOLDER = re.compile(r"[A-Z][A-Z|]*")  # RECIPE, RUN|MODEL
OF_A_PAGE = {"recipe.yaml"}  # tests/envs/test_doors_third_party.py trains with it


def shown(text: str) -> set[str]:
    """The commands of a page, in code blocks and in code between words."""
    text = re.sub(r" *\\\n\s*", " ", text)
    fenced = re.findall(r"^```([^\n]*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    blocks = [block for language, block in fenced if language in ("", "bash", "text")]
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)
    lines = [line for block in blocks for line in block.splitlines()]
    lines += [line for line in prose.splitlines() if line.startswith("    ")]
    spans = [" ".join(span.split()) for span in re.findall(r"`([^`]+)`", prose)]
    found = (
        COMMAND.fullmatch(re.split(r" {2,}|\t| # | && | > ", line.strip().removeprefix("$ "))[0])
        for line in lines + spans
    )
    return {match[1] for match in found if match and not re.search(r" \[|ACTION|\.\.\.", match[1])}


COMMANDS = sorted({(str(page.relative_to(ROOT)), each) for page in PAGES for each in shown(page.read_text("utf-8"))})


def test_commands_are_found_wherever_they_stand():
    block = "```yaml\na: 1\n```\n```\nray job submit --x . -- \\\n    parley train a.yaml b=1   # c\n```\n"
    page = f"see `make demo` and\n\n    python -m benchmarks.words\n\n{block}"
    assert shown(page) == {"make demo", "python -m benchmarks.words", "parley train a.yaml b=1"}
    assert len(COMMANDS) > 100


@pytest.mark.parametrize(("page", "command"), COMMANDS)
def test_a_command_that_a_page_shows_is_accepted(page, command, monkeypatch):
    monkeypatch.chdir(ROOT)
    monkeypatch.syspath_prepend(ROOT / "docs" / "examples" / "methods")
    first, *words = shlex.split(re.sub(r"=N\b", "=1", command))
    if first == "make":
        check_make(words, monkeypatch)
    elif first == "parley" or words[:2] == ["-m", "cluster"]:
        check_parley(words if first == "parley" else words[2:])
    elif words[0] == "-m" and words[1].partition(".")[0] == "benchmarks":
        check_benchmark(words[1], words[2:], monkeypatch)
    elif words[0] == "-m":
        assert importlib.util.find_spec(words[1].partition(".")[0]), words[1]
    else:
        assert Path(words[0]).is_file()


def check_parley(words: list[str]) -> None:
    assert {*words[:1]} <= {each.name for each in cli.COMMANDS}
    if len(words) < 2 or words == ["completion", "SHELL"]:
        return  # a name alone, and not a whole command
    parsed, name = cli.parse(words), words[0]
    asked = vars(parsed)
    if name == "config":
        key, kind = asked["key"], asked["kind"]
        assert is_placeholder(key) or (of_kind(key, kind) if kind else of_section(key))
    elif name == "games":
        assert is_placeholder(asked["game"]) or asked["game"] in game_names()
    elif name == "play":
        assert is_placeholder(asked["game"]) or make_game(asked["game"], numbers(asked["overrides"]))
    elif name in ("doctor", "rewards"):
        load_recipe(None, layers_and_settings(parsed))
    elif "overrides" in asked:
        of_folder = "recipes/offline/tiny_bargaining.yaml" if name == "offline" else None
        check_recipe(asked.get("recipe", asked.get("target")), asked["overrides"], of_folder)
        assert not str(asked.get("input")).startswith("docs/") or Path(asked["input"]).is_file()


def check_recipe(recipe: str | None, overrides: list[str], of_folder: str | None = None) -> None:
    if recipe in OF_A_PAGE:
        return
    if not recipe or not recipe.endswith(".yaml"):
        recipe = of_folder  # of a placeholder, or a run's folder
    load_recipe(recipe, [each for each in overrides if each != "key=value"])


def numbers(options: list[str]) -> dict[str, object]:
    pairs = (option.split("=") for option in options)
    return {key: int(value) if value.isdigit() else value for key, value in pairs}


def is_placeholder(word: str) -> bool:
    return bool(PLACEHOLDER.fullmatch(word))


def check_make(words: list[str], monkeypatch) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    arguments = [word.removeprefix("ARGS=") for word in words if word.startswith("ARGS=")]
    assert {word for word in words if "=" not in word} <= targets
    modules = {"gpu-check": "benchmarks.gpu", "bench": "benchmarks"}
    for target in set(words) & set(modules):
        check_benchmark(modules[target], shlex.split(*arguments or [""]), monkeypatch)


class Parsed(Exception):
    """The arguments were taken; nothing else is run."""


def check_benchmark(module: str, arguments: list[str], monkeypatch) -> None:
    def parse_only(parser, given=None, namespace=None):
        whole(parser, given, namespace)
        raise Parsed

    whole = argparse.ArgumentParser.parse_args
    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", parse_only)
    monkeypatch.setattr(sys, "argv", [module, *arguments])
    monkeypatch.delitem(sys.modules, module, raising=False)  # it is run, as `python -m` does
    with pytest.raises(Parsed):
        runpy.run_module(module, run_name="__main__")
