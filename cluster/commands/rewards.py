"""`parley rewards serve`: the reward service over HTTP, until it is stopped."""

from __future__ import annotations

import argparse
import logging
import os
import signal
import threading
from pathlib import Path

from cluster.commands.command import KEY_VARIABLE, LOCAL, Command, layers_and_settings, takes_overrides
from cluster.errors import ConfigError, RunError
from cluster.recipe.config import RunConfig
from cluster.recipe.reading import load_recipe
from cluster.record.manner import busy
from parley.names import ray_options
from reward_service.service.http.dialogue import register
from reward_service.shaper import SHAPERS

SHORTEST_KEY = 16  # characters

EXAMPLES = f"""\
examples:
  export {KEY_VARIABLE}=$(openssl rand -hex 24)
  parley rewards serve reward.shaper=aria reward.http.host=0.0.0.0
  parley rewards serve recipes/shapers/aria.yaml reward.http.port=9000 reward.http.shards=4
  parley rewards serve reward.shaper=aria 'reward.http.games={{gsm8k: {{judge: contains}}}}'
  parley rewards serve --no-key                       on this machine only
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=["serve"], help="serve: answer over HTTP until stopped")
    parser.add_argument("recipe", nargs="?", metavar="RECIPE", help="YAML file whose `reward` section is used")
    takes_overrides(parser)
    parser.add_argument("--no-key", action="store_true", help="let anybody on this machine call it")


def run(asked: argparse.Namespace) -> None:
    config = load_recipe(None, layers_and_settings(asked))
    try:
        register(config.reward.http.games)
    except ValueError as error:
        raise ConfigError(str(error)) from error
    if config.reward.shaper.reads_answers:
        kind = SHAPERS.name_of(config.reward.shaper)
        raise ConfigError(f"reward.shaper={kind} asks the policy that trains here: give a shaper that callers can ask")
    key = api_key(config, asked.no_key)
    serve(config, key)


def api_key(config: RunConfig, none_wanted: bool) -> str | None:
    """From the file or the environment variable; None where none is wanted and nobody else can call."""
    http = config.reward.http
    if none_wanted:
        if http.host not in LOCAL:
            raise ConfigError(f"--no-key is for this machine alone, but reward.http.host={http.host}")
        return None
    if http.key_file:
        try:
            key, where = Path(http.key_file).expanduser().read_text(encoding="utf-8").strip(), http.key_file
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"reward.http.key_file: cannot read {http.key_file!r}: {error}") from error
    else:
        key, where = os.environ.get(KEY_VARIABLE, "").strip(), f"the environment variable {KEY_VARIABLE}"
    if not key:
        raise ConfigError(
            f"{where} holds no API key: set {KEY_VARIABLE} or reward.http.key_file, or give --no-key on this machine"
        )
    if len(key) < SHORTEST_KEY or not key.isascii() or not key.isprintable() or " " in key:
        raise ConfigError(f"the API key in {where} should be {SHORTEST_KEY} or more plain characters without spaces")
    return key


def serve(config: RunConfig, key: str | None) -> None:
    import ray

    from cluster.plan.machine import check_reachable
    from cluster.run.signals import own_sigterm
    from reward_service.service.http.deployment import SERVES_PATIENCE, DeployedService

    logging.getLogger("ray.serve").setLevel(logging.WARNING)
    signal.signal(signal.SIGTERM, signal.getsignal(signal.SIGINT))  # while it starts, both unwind
    http, started_here = config.reward.http, not ray.is_initialized()
    http.state = str(Path(http.state).expanduser().resolve())  # actors have another working directory
    print(f"starting {http.shards} {'shard' if http.shards == 1 else 'shards'}, state in {http.state}", flush=True)
    try:
        if started_here:
            address = os.environ.get("RAY_ADDRESS") or "local"
            os.environ.setdefault(SERVES_PATIENCE, f"{http.start_seconds:g}")
            with own_sigterm(), busy("starting Ray"):
                check_reachable(address)
                ray.init(address=address, log_to_driver=False, logging_level="ERROR", **ray_options())
        with busy("starting the shards"):
            service = DeployedService(config.reward, config.game, key)
            service.start()
    except (RuntimeError, ValueError, OSError, ray.exceptions.RayError) as error:
        if started_here:
            ray.shutdown()
        raise RunError(f"the reward service cannot start: {error}") from error
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    try:
        kind = SHAPERS.name_of(config.reward.shaper)
        print(f"ready: {service.address} ({kind}; {'with an' if key else 'no'} API key)", flush=True)
        print(f"try it: {service.address}/docs    stop: Ctrl-C", flush=True)
        while not stop.wait(1.0):
            pass
        print("stopping: what was taken is answered and written down", flush=True)
    finally:
        service.close()
        if started_here:
            ray.shutdown()


COMMAND = Command("rewards", "serve rewards to other training", run, arguments, EXAMPLES)
