"""`parley serve-model`: a model or a run's newest policy behind an OpenAI-compatible server.

What is wrong with the command is said before anything is loaded. The server is vLLM's own, in a process
of its own (`actors.serving`); Ctrl-C or SIGTERM ends it and leaves nothing behind.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from cluster.api import words_of
from cluster.commands.command import KEY_VARIABLE, LOCAL, Command, takes_overrides
from cluster.errors import CheckpointError, ConfigError, RunError
from cluster.recipe.config import RunConfig
from cluster.recipe.reading import load_recipe
from cluster.record import checkpoints
from cluster.record.manner import busy
from cluster.record.run_folder import existing, is_run, read_config

LOG, MERGED = "server.log", "merged"  # in a folder of this command's own
STOPPING = (signal.SIGINT, signal.SIGTERM)

EXAMPLES = f"""\
A model folder or Hugging Face name is served as it is, a run by its newest checkpoint's policy, and
'embedded' is the small policy of game.name. Settings are those of a recipe: rollout.engine.* and model.*.
Clients must send the key in {KEY_VARIABLE}, if that is set; it has to be where --host lets other machines call.

examples:
  parley serve-model Qwen/Qwen3-0.6B --port 8000
  parley serve-model runs/demo-20260101-120000
  parley serve-model embedded game.name=virtualhome rollout.engine.max_context=2048
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", help="model folder, Hugging Face name, run folder, or 'embedded'")
    takes_overrides(parser)
    parser.add_argument("--host", default="127.0.0.1", metavar="H", help="address to listen at; default 127.0.0.1")
    parser.add_argument("--port", type=_port, default=8000, metavar="N", help="default 8000; 0: any that is free")


def _port(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"should be a whole number from 0 to 65535, not {text!r}")
    return int(text)


def run(asked: argparse.Namespace) -> None:
    config, model, name = _resolved(asked)
    key = os.environ.get(KEY_VARIABLE, "")
    if asked.host not in LOCAL and not key:
        raise ConfigError(f"--host {asked.host} lets others call: set {KEY_VARIABLE} to the key that they must send")
    with _scratch() as folder, _stopped_by_signals():
        from actors.serving import ModelServer, Serving, ServingError, free_port
        from cluster.plan.machine import here
        from cluster.plan.of_run import plan_run
        from cluster.run.policy import check_model

        try:
            port = free_port(asked.host, asked.port)
            whole = _whole(config, model, folder)
            config.rollout.engine.kind = "vllm"
            config.rollout.workers, config.rollout.frozen = 1, {}  # one server, of this model
            check_model(whole, config)
            config = plan_run(config, here(), "play", whole).config
            serving = Serving(
                model=str(whole),
                name=name,
                host=asked.host,
                port=port,
                engine=config.rollout.engine,
                key=key,
                seed=config.seed,
                trust_remote_code=config.model.trust_remote_code,
                on_gpu=bool(config.rollout.gpus_per_worker),
            )
            print(f"loading {whole}", flush=True)
            with ModelServer(serving, folder / LOG) as server, _deaf_while_leaving():
                with busy("starting the server; what it says is in its log"):
                    server.wait_until_healthy()
                print("\n".join(_told(serving)), flush=True)
                server.wait()
        except ServingError as error:
            raise RunError(str(error)) from error


def _made(say: Callable[[str], None], done: int, total: int, loss: float | None = None) -> None:
    if sys.stderr.isatty():  # elsewhere each would be a line
        say(f"making the embedded policy: {done}/{total}")


def _told(serving) -> list[str]:
    key = {"key_variable": KEY_VARIABLE} if serving.key else {}
    entry = {"url": f"{serving.url}/v1", "model": serving.name, **key}
    return [
        f"serving {serving.name} at {serving.url}/v1; Ctrl-C stops it. In a recipe, to have it in a seat of a game:",
        "  game:",
        "    players: {SEAT: endpoint:served}",
        "  rollout:",
        "    endpoints:",
        f"      served: {json.dumps(entry)}",
    ]


def _resolved(asked: argparse.Namespace) -> tuple[RunConfig, str, str]:
    """The settings, what to load, and the name that clients ask for."""
    target = Path(asked.model).expanduser()
    if is_run(asked.model):
        config = read_config(existing(target), asked.overrides)
        newest = checkpoints.latest(target / "checkpoints")
        if newest is None:
            raise CheckpointError(f"{target} holds no complete checkpoint to serve")
        return config, str((newest / "policy").resolve()), target.resolve().name
    config = load_recipe(None, [*asked.overrides, *words_of({"model.path": asked.model})])
    name = target.resolve().name if target.is_dir() else asked.model
    return config, config.model.path, name


def _whole(config: RunConfig, model: str, folder: Path) -> Path | str:
    """A model that vLLM loads as it is."""
    if model == "embedded":
        from transformers.utils.logging import disable_progress_bar

        from learners.embedded.build import build_policy

        disable_progress_bar()
        print("making the embedded policy (some minutes the first time, then cached)", flush=True)
        with busy("making the embedded policy") as say:
            return build_policy(config.game, config.model.embedded, progress=partial(_made, say))
    from cluster.run.download import fetch
    from cluster.run.policy import first_line, is_adapter, merge_adapter

    if not Path(model).is_dir():
        try:
            with busy(f"fetching {model}"):
                model = fetch(model, config.model.revision)
        except (OSError, ValueError) as error:
            raise ConfigError(f"model {model} cannot be fetched: {first_line(error)}") from error
    if not is_adapter(model):
        return model
    print("merging the adapter into its base model", flush=True)
    return merge_adapter(model, folder / MERGED, config.model.trust_remote_code)


@contextmanager
def _scratch() -> Iterator[Path]:
    """A folder for a merged model and the server's log. Of a server that failed the log stays, for the message
    names it."""
    folder = Path(tempfile.mkdtemp(prefix="parley-serve-"))
    try:
        yield folder
    except RunError:
        shutil.rmtree(folder / MERGED, ignore_errors=True)
        if not (folder / LOG).is_file():
            folder.rmdir()
        raise
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


@contextmanager
def _stopped_by_signals() -> Iterator[None]:
    """SIGTERM unwinds like Ctrl-C."""

    def interrupt(signum, frame):
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in STOPPING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _deaf_while_leaving() -> Iterator[None]:
    """A second signal does not keep the server from being ended, which takes seconds at most."""
    try:
        yield
    finally:
        for number in STOPPING:
            signal.signal(number, signal.SIG_IGN)


ABOUT = "answer chats with a model or a run's newest policy, as other programs ask them"
COMMAND = Command("serve-model", ABOUT, run, arguments, EXAMPLES)
