"""`parley completion SHELL`: what bash, zsh or fish need to complete the words of `parley`.

    eval "$(parley completion bash)"        in ~/.bashrc; zsh the same in ~/.zshrc
    parley completion fish > ~/.config/fish/completions/parley.fish

The words are in the script: commands, their options, recipes, games and settings. Nothing is started at a key press.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator

from cluster.commands.command import Command
from cluster.recipe.fields import dotted_keys
from cluster.recipe.packaged import packaged
from envs.registry import game_names

EXAMPLES = """\
examples:
  eval "$(parley completion bash)"        in ~/.bashrc
  eval "$(parley completion zsh)"         in ~/.zshrc
  parley completion fish > ~/.config/fish/completions/parley.fish
"""
BASH = """\
_parley() {
    local word=${COMP_WORDS[COMP_CWORD]} words=
    if ((COMP_CWORD == 1)); then
        words=%(commands)s
    else
        case ${COMP_WORDS[1]} in
%(cases)s
        esac
    fi
    COMPREPLY=($(compgen -W "$words" -- "$word") $(compgen -f -- "$word"))
    [[ ${COMPREPLY[0]:-} != *= ]] || compopt -o nospace 2>/dev/null
}
complete -o bashdefault -F _parley parley
"""
ZSH = """\
_parley() {
    local -a found
    local words_of=
    if ((CURRENT == 2)); then
        words_of=%(commands)s
    else
        case $words[2] in
%(cases)s
        esac
    fi
    found=(${=words_of})
    compadd -S '' -- ${(M)found:#*=}
    compadd -- ${found:#*=}
    _files
}
compdef _parley parley
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=["bash", "zsh", "fish"], metavar="SHELL", help="bash, zsh or fish")


def run(asked: argparse.Namespace) -> None:
    words = words_of_commands(asked.parser)
    if asked.shell == "fish":
        print("\n".join(_fish(words)))
        return
    assigned = "words" if asked.shell == "bash" else "words_of"
    cases = (f"            {name}) {assigned}={shlex.quote(' '.join(each))} ;;" for name, (_, each) in words.items())
    form = BASH if asked.shell == "bash" else ZSH
    print(form % {"commands": shlex.quote(" ".join(words)), "cases": "\n".join(cases)}, end="")


def words_of_commands(parser: argparse.ArgumentParser) -> dict[str, tuple[str, list[str]]]:
    """Of each command what it is about, and the words that it takes."""
    (commands,) = (each for each in parser._actions if isinstance(each, argparse._SubParsersAction))
    about = {each.dest: each.help or "" for each in commands._choices_actions}
    return {name: (about[name], list(_words_of(made))) for name, made in commands.choices.items()}


def _words_of(parser: argparse.ArgumentParser) -> Iterator[str]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            yield from action.choices
        yield from (option for option in action.option_strings if option.startswith("--"))
        if not action.option_strings:
            yield from map(str, action.choices or () if not isinstance(action, argparse._SubParsersAction) else ())
        if action.dest == "recipe" or action.metavar == "RECIPE":
            yield from (key.rpartition("/")[2] for key in packaged())
        elif action.dest == "game":
            yield from game_names()
        elif action.dest == "overrides" and action.metavar != "option=value":
            yield from (f"{key}=" for key in dotted_keys())
        elif action.dest == "key":
            yield from dotted_keys()


def _fish(words: dict[str, tuple[str, list[str]]]) -> Iterator[str]:
    for name, (about, each) in words.items():
        yield f"complete -c parley -n __fish_use_subcommand -f -a {name} -d {shlex.quote(about)}"
        inside = f"complete -c parley -n '__fish_seen_subcommand_from {name}'"
        yield f"{inside} -a {shlex.quote(' '.join(word for word in each if not word.startswith('-')))}"
        yield from (f"{inside} -l {word.removeprefix('--')}" for word in each if word.startswith("--"))


COMMAND = Command("completion", "print what a shell needs to complete these words", run, arguments, EXAMPLES)
