"""A YAML recipe and dotted overrides -> one RunConfig, or one clear line.

    base: demo.yaml            # optional: start from another recipe, relative to this file
    rollout:
      workers: 2               # command line: rollout.workers=2

    train games/virtualhome.yaml credit/poad.yaml rollout.workers=2

Overrides are laid over the recipe from left to right: settings, and whole files, layers that say
only what they are about. Mappings merge key by key; everything else, an empty mapping included,
replaces what was there. Where a part is made another kind (`method: poad`), settings stay that this kind has too.
Nothing here imports torch, vllm or ray: a mistake costs milliseconds.
"""

from __future__ import annotations

import difflib
import os
import types
from collections.abc import Iterator, Mapping, Sequence
from inspect import signature
from pathlib import Path
from typing import Annotated, Any, Union, get_args, get_origin

import yaml
from pydantic import BaseModel, ValidationError

from cluster.errors import ConfigError
from cluster.recipe.config import RunConfig
from cluster.recipe.earlier import in_todays_shape
from cluster.recipe.fields import did_you_mean, is_section, kind_of, kinds_of, section_in
from cluster.recipe.packaged import SUFFIXES, packaged, recipe_file
from cluster.recipe.plain_yaml import read_yaml
from cluster.recipe.renamed import GONE, WHOLE_ONCE, instead_of, renamed
from envs.game import Game, hook
from envs.kinds import Kinds
from envs.registry import OWN, game_class, game_names, is_game, make_game
from envs.well_formed import NotAGame, is_a_game
from envs.worlds.package import MissingPackage

COMMAND_LINE = "command line"


def load_recipe(
    path: str | Path | None, overrides: Sequence[str] = (), written: bool = False, to_read: bool = False
) -> RunConfig:
    """The config of a recipe (of the defaults alone if `path` is None) under `overrides`. `written`: it is one that
    a run wrote into its folder, perhaps by an earlier version. `to_read`: nothing will be started by it."""
    file = None if path is None else recipe_file(path)
    tree = {} if file is None else read_recipe(file)
    if file is not None and "game" not in tree and (instead := instead_of(file, WHOLE_ONCE)):
        raise ConfigError(f"{path} is a layer, which says nothing of a game: write {instead}")
    if written:
        tree = in_todays_shape(tree)
    sources = {}
    for override in overrides:
        layer = is_layer(override)
        over = read_recipe(recipe_file(override)) if layer else parse_override(override)
        keys = leaves(over) if layer else [override.partition("=")[0]]
        sources |= dict.fromkeys(keys, override if layer else COMMAND_LINE)
        tree = merge(tree, over)
    config = check(tree, "" if path is None else str(path), sources, to_read)
    _check_discount(config, sources)
    return config


def _check_discount(config: RunConfig, sources: Mapping[str, str]) -> None:
    """In a config that a run wrote every part has a gamma of its own, so that one for all of them would do nothing."""
    own = {f"{key}.gamma": part.gamma for key, part in config.discounted.items()}
    given = any(_related(key, other) for key in own for other in sources)
    if "gamma" in sources and config.gamma is not None and config.gamma not in own.values() and not given:
        say = " ".join(f"{key}={config.gamma:g}" for key in own)
        raise ConfigError(f"{sources['gamma']}: gamma={config.gamma:g}: every part has its own here; say {say}")


def check(
    tree: dict, source: str, sources: Mapping[str, str] = types.MappingProxyType({}), to_read: bool = False
) -> RunConfig:
    """Everything that can be known of a config before anything starts. `sources`: dotted key ->
    who overrode it. `to_read`: nothing will be started, so its game and its models need not be there."""
    problems = list(_no_numbers(tree, RunConfig))
    if not problems:
        try:
            config = RunConfig.model_validate(tree)
        except ValidationError as error:
            problems = [_explain(problem, tree) for problem in error.errors()]
            problems.sort(key=lambda problem: renamed(problem[0]) is None)  # these explain the others
    if problems:
        key, message = problems[0]
        where = next((name for other, name in reversed(sources.items()) if _related(key, other)), source)
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        raise ConfigError(f"{where + ': ' if where else ''}{key + ': ' if key else ''}{message}{more}")
    if to_read:
        return config
    _check_game(config)
    config.game.options = {name: _absolute(value) for name, value in config.game.options.items()}
    config.model.path = _model_folder("model.path", config.model.path)
    config.rollout.frozen = {
        name: _model_folder(f"rollout.frozen.{name}", folder) for name, folder in config.rollout.frozen.items()
    }
    return config


def to_yaml(config: RunConfig) -> str:
    """The whole config, defaults included; `load_recipe` reads it back to an equal one."""
    return yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False, allow_unicode=True, width=100)


def read_recipe(path: Path, inside: tuple[Path, ...] = ()) -> dict:
    if path.resolve() in inside:
        raise ConfigError(f"{path}: base: the recipe is its own base")
    try:
        tree = read_yaml(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        if instead := instead_of(path, GONE):
            raise ConfigError(f"{path} is gone: write {instead}") from None
        raise ConfigError(f"recipe {str(path)!r} does not exist{_similar_files(path)}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"recipe {str(path)!r} cannot be read: {error}") from error
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}: not YAML: {_place(error)}") from error
    if tree is None:
        return {}
    if not isinstance(tree, dict):
        raise ConfigError(f"{path}: a recipe is a mapping of keys to values, not a {type(tree).__name__}")
    base = tree.pop("base", None)
    if base is None:
        return tree
    if not isinstance(base, str):
        raise ConfigError(f"{path}: base: should be the path of another recipe, not {base!r}")
    return merge(read_recipe(path.parent / base, (*inside, path.resolve())), tree)


def is_layer(override: str) -> bool:
    return "=" not in override and recipe_file(override).suffix in SUFFIXES


def leaves(tree: Mapping, prefix: str = "") -> list[str]:
    """Dotted keys of what is no section."""
    return [
        leaf
        for key, value in tree.items()
        for leaf in (leaves(value, f"{prefix}{key}.") if value and isinstance(value, dict) else [f"{prefix}{key}"])
    ]


def parse_override(text: str) -> dict:
    """'a.b=[1, 2]' -> {'a': {'b': [1, 2]}}"""
    key, equals, value = text.partition("=")
    if not equals or not all(part.strip() for part in key.split(".")):
        raise ConfigError(f"{COMMAND_LINE}: {text!r} is neither key=value (for example rollout.workers=2) nor a recipe")
    try:
        parsed = read_yaml(value)
    except yaml.YAMLError as error:
        raise ConfigError(f"{COMMAND_LINE}: {key}: cannot read {value!r}: {_place(error)}") from error
    tree: Any = parsed
    for part in reversed(key.split(".")):
        tree = {part: tree}
    return tree


def merge(under: dict, over: Mapping, model: type[BaseModel] | None = RunConfig) -> dict:
    """`over` laid on `under`, both of the shape of `model`."""
    merged = dict(under)
    for key, value in over.items():
        field = None if model is None else model.model_fields.get(key)
        below, inner = merged.get(key), None if field is None else field.annotation
        if field is not None and (kinds := kinds_of(field)):
            below, value, inner = _of_one_kind(kinds, below, value)
        if value and isinstance(value, dict) and isinstance(below, dict):
            merged[key] = merge(below, value, inner if is_section(inner) else None)
        else:
            merged[key] = value
    return merged


def _of_one_kind(kinds: Kinds, below: Any, value: Any) -> tuple[Any, Any, type[BaseModel] | None]:
    """A part that comes in several kinds, as mappings, and the kind that it is of then. What was said of another kind
    stays where this one has a setting of that name."""
    below, value = ({kinds.tag: each} if isinstance(each, str) else each for each in (below, value))
    if not isinstance(below, dict) or not isinstance(value, dict):
        return below, value, None
    name = value.get(kinds.tag, below.get(kinds.tag, kinds.default))
    kind, _ = kind_of(kinds, {kinds.tag: name})
    if kind is not None and name != below.get(kinds.tag, kinds.default):
        below = {key: said for key, said in below.items() if key in kind.model_fields}
    return below, value, kind


def _explain(problem: dict, tree: dict) -> tuple[str, str]:
    """pydantic's account of one problem -> (dotted key, what is wrong in our words)."""
    parts = [str(part) for part in problem["loc"] if part != "function-after"]
    key = ".".join(part for part in parts if not part.startswith("["))
    given = problem.get("input")
    shown = "nothing" if given is None else repr(given)
    kinds = {"int": "a whole number", "float": "a number", "bool": "true or false", "list": "a list", "tuple": "a list"}
    match problem["type"]:
        case "extra_forbidden":
            return key, renamed(key) or f"unknown key{did_you_mean(key, tree)}"
        case "missing":
            return key, "has to be given"
        case "literal_error":
            return key, f"{given!r} is not one of {problem['ctx']['expected'].replace(' or ', ', ')}"
        case "model_type" | "model_attributes_type" | "dict_type":
            return key, f"should be a mapping of keys to values, not {shown}"
        case "string_type":
            hint = f" (in quotes it is text: '\"{given}\"')" if isinstance(given, int | float) else ""
            return key, f"should be text, not {shown}{hint}"
        case "string_pattern_mismatch":
            return key, f"{given!r} does not fit {problem['ctx']['pattern']}"
        case "value_error":
            return key, str(problem["ctx"]["error"])
    kind, _, fault = problem["type"].partition("_")
    if kind in kinds and fault in ("type", "parsing", "from_float"):
        return key, f"should be {kinds[kind]}, not {shown}"
    message = problem["msg"].removeprefix("Input ")
    return key, f"{message[:1].lower()}{message[1:]}, not {shown}"


def _related(key: str, other: str) -> bool:
    """One of two dotted keys is the other, or a section around it."""
    return f"{key}.".startswith(f"{other}.") or f"{other}.".startswith(f"{key}.")


def _no_numbers(tree: Any, model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, str]]:
    """pydantic takes `true` for the number 1, and the text '10' for 10; a recipe that says so is mistaken."""
    for name, value in tree.items() if isinstance(tree, dict) else ():
        field = model.model_fields.get(name)
        if field is None:
            continue
        kinds = kinds_of(field)
        inner = kind_of(kinds, value)[0] if kinds else section_in(field.annotation)
        if inner is not None and (isinstance(value, dict) or is_section(field.annotation)):
            yield from _no_numbers(value, inner, f"{prefix}{name}.")
        elif isinstance(value, bool) and not _takes(field.annotation, bool) and _takes(field.annotation, int, float):
            yield f"{prefix}{name}", f"should be a number, not {str(value).lower()}"
        elif _is_number(value) and _takes(field.annotation, int, float) and not _takes(field.annotation, str):
            yield f"{prefix}{name}", f"should be a number, not the text {value!r}"


def _is_number(value: Any) -> bool:
    """Whether it is text that reads as one."""
    try:
        return isinstance(value, str) and float(value) is not None
    except ValueError:
        return False


def _takes(annotation: Any, *kinds: type) -> bool:
    if get_origin(annotation) in (Union, types.UnionType):
        return any(_takes(part, *kinds) for part in get_args(annotation))
    if get_origin(annotation) is Annotated:
        return _takes(get_args(annotation)[0], *kinds)
    if get_args(annotation):  # Literal[0, 1]: the kinds of its values
        return any(type(value) in kinds for value in get_args(annotation))
    return annotation in kinds


def _check_game(config: RunConfig) -> None:
    """The game exists, takes its options, and its seats can be filled as asked."""
    name, options, players = config.game.name, config.game.options, config.game.players
    if ":" not in name and not is_game(name):
        close = difflib.get_close_matches(name, game_names(), n=1, cutoff=0.6)
        hint = f"did you mean {close[0]}?" if close else f"known: {', '.join(game_names())}; {OWN}"
        raise ConfigError(f"game.name: unknown game {name!r}; {hint}")
    try:
        is_a_game(name, made_by := game_class(name))
        parameters = signature(made_by).parameters.values()
    except ValueError as error:
        raise ConfigError(f"game.name: {error}") from error
    known = [parameter.name for parameter in parameters]
    for option in options:
        if option not in known and not any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
            close = difflib.get_close_matches(option, known, n=1, cutoff=0.6)
            hint = f"did you mean {close[0]}?" if close else f"it has: {', '.join(known) or 'none'}"
            raise ConfigError(f"game.options.{option}: {name} has no such option; {hint}")
    try:
        game = make_game(name, options)
    except MissingPackage as error:
        raise ConfigError(f"game.name: {name}: {error}") from error
    except NotAGame as error:
        raise ConfigError(f"game.name: {error}") from error
    except (TypeError, ValueError) as error:
        given = "" if str(error).startswith("game option") else f" refuses {options}"  # or it has named the one
        raise ConfigError(f"game.options: {name}{given}: {error}") from error
    except Exception as error:  # of whoever wrote the game
        raise ConfigError(f"game.name: {name} cannot be made: {type(error).__name__}: {error}") from error
    if config.rollout.choose_listed and not _lists_actions(game):
        raise ConfigError(f"rollout.choose_listed: {name} lists no actions to choose from, at least not at its opening")
    if getattr(config.reward.shaper, "annotator", "") == "rule" and hook(game, "helpful") is None:
        raise ConfigError(
            f"reward.shaper.annotator=rule: {name} has no rule `helpful` that could annotate; "
            "reward.shaper.annotator=endpoint asks a language model"
        )
    if config.rollout.score_answers and getattr(type(game), "answers", Game.answers) is Game.answers:
        raise ConfigError(f"rollout.score_answers: {name} does not say what would have been right (Game.answers)")
    for seat, player in players.items():
        if seat not in game.seats:
            raise ConfigError(f"game.players.{seat}: {name} has no such seat; its seats: {', '.join(game.seats)}")
        _check_player(f"game.players.{seat}", player, game.players(), config)


def _lists_actions(game: Game) -> bool:
    try:
        game.reset(0)
        return bool(game.actions())
    except Exception as error:  # of whoever wrote the game
        raise ConfigError(f"game.name: {game.name} cannot be set up: {type(error).__name__}: {error}") from error


def _check_player(key: str, player: str, scripted: Mapping[str, type], config: RunConfig) -> None:
    kind, _, who = player.partition(":")
    known = {
        "scripted": scripted,
        "frozen": config.rollout.frozen,
        "endpoint": config.rollout.endpoints,
    }
    if player == "policy":
        return
    if kind not in known:
        raise ConfigError(f"{key}: {player!r} is not policy, scripted:NAME, frozen:NAME or endpoint:NAME")
    if who not in known[kind]:
        place = {"scripted": "the game has", "frozen": "rollout.frozen has", "endpoint": "rollout.endpoints has"}[kind]
        raise ConfigError(f"{key}: no {kind} player {who!r}; {place}: {', '.join(sorted(known[kind])) or 'none'}")


def _model_folder(key: str, path: str) -> str:
    """A local model's absolute folder, so that every process finds it; a hub name as it is.
    Whatever starts like a path, or has more parts than `org/name`, must be there."""
    folder = Path(path).expanduser()
    if folder.is_dir() and path != "embedded":
        if not (folder / "config.json").exists() and not (folder / "adapter_config.json").exists():
            raise ConfigError(f"{key}: folder {path!r} holds no model (no config.json)")
        return str(folder.resolve())
    if path.startswith(("/", ".", "~")) or path.endswith("/") or path.count("/") > 1 or folder.is_file():
        raise ConfigError(f"{key}: no model folder at {path!r}")
    if not path.strip():
        raise ConfigError(f"{key}: is empty; give 'embedded', a Hugging Face name or a folder")
    return path


def _absolute(value: Any) -> Any:
    """A file or folder that an option of the game names, for processes that work elsewhere; without a slash only a
    file with an ending is meant. Those of a submitted job stay as they are: its working directory is another one each
    time."""
    if isinstance(value, list):
        return [_absolute(each) for each in value]
    named = isinstance(value, str) and ("/" in value or (Path(value).suffix and os.path.isfile(value)))
    if not named or not os.path.exists(os.path.expanduser(value)):
        return value
    path = str(Path(value).expanduser().resolve())
    return value if "working_dir_files" in path else path


def _similar_files(path: Path) -> str:
    if path.suffix not in SUFFIXES:
        close = difflib.get_close_matches(path.name, [each.rpartition("/")[2] for each in packaged()], n=1, cutoff=0.5)
        games = [each.rpartition("/")[2] for each in packaged() if each.startswith("games/")]
        return f"; did you mean {close[0]}?" if close else f"; there are demo, {', '.join(games)}"
    folder = path.parent if path.parent.is_dir() else Path("recipes")
    names = sorted(p.name for p in folder.glob("*.yaml")) if folder.is_dir() else []
    close = difflib.get_close_matches(path.name, names, n=1, cutoff=0.5)
    return f"; did you mean {folder / close[0]}?" if close else ""


def _place(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    what = getattr(error, "problem", None) or str(error).splitlines()[0]
    return f"line {mark.line + 1}, column {mark.column + 1}: {what}" if mark else what
