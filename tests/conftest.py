"""Shared fixtures: one tiny model, one private Ray cluster for the whole session.

`make test` runs two processes. One begins with the modules that start runs of their own, one after the
other; the other with those that need no Ray. Then both take, module by module, those that share the
cluster of their process, the learners' last. So no more than two of these are at work at a time."""

from __future__ import annotations

import os
import signal
from functools import cache
from pathlib import Path

os.environ.setdefault("DS_ACCELERATOR", "cpu")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("RAY_worker_niceness", "0")  # or the other process takes the CPUs from Ray's workers
# In the background of a shell Ctrl-C is ignored, by whatever is started there too, and some tests send one.
signal.signal(signal.SIGINT, signal.default_int_handler)

import pytest

# Modules that start a Ray cluster of their own.
STARTS_RAY = {
    *("test_benchmarks", "test_cli", "test_doors_out", "test_end_to_end", "test_engine", "test_every_game_trains"),
    "test_growing",
    *("test_intention_run", "test_job", "test_offline_run", "test_oni", "test_oni_endpoint"),
    *("test_places", "test_reward_http", "test_reward_model_run", "test_securing", "test_sleep", "test_sync"),
    *("test_ray_watch", "test_signals", "test_trials", "test_twosome_play"),
}
OWN_NODES = {"test_growing", "test_places", "test_securing"}


@cache
def shares_ray(module: Path) -> bool:
    """Asks for `ray_cluster`, or for `learners`, which are processes of it."""
    text = module.read_text()
    return "ray_cluster" in text or "(learners" in text


def part(module: Path) -> str:
    """What is run by one process, in one go."""
    return "own Ray" if module.stem in STARTS_RAY else module.stem


def turn(module: Path) -> int:
    if module.stem in STARTS_RAY:
        return 0
    return 1 + shares_ray(module) * (1 + (module.parent.name == "learners"))


def pytest_collection_modifyitems(items):
    # some connect to nodes of their own, and others of their part leave the shared cluster connected
    items.sort(key=lambda item: (turn(item.path), item.path.stem not in OWN_NODES))


def pytest_xdist_make_scheduler(config, log):
    from xdist.scheduler import LoadScopeScheduling

    class Parts(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return part(config.rootpath / nodeid.partition("::")[0])

    return Parts(config, log)


@pytest.fixture(scope="session", autouse=True)
def alfworld_games(tmp_path_factory):
    """ALFWorld's data is the user's: here a few small games of our own, wherever it is looked for."""
    from tests.support.alfworld_games import write_games

    os.environ["ALFWORLD_DATA"] = str(write_games(tmp_path_factory.mktemp("alfworld")))


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory):
    """Folder of an untrained embedded policy for Twenty Questions."""
    from envs.settings import GameSettings
    from learners.embedded.build import build_policy
    from learners.settings import EmbeddedSettings

    folder = tmp_path_factory.mktemp("tiny_model")
    return build_policy(GameSettings(), EmbeddedSettings(steps=0, seed=7), cache=folder)


@pytest.fixture(scope="session")
def folder_of(tmp_path_factory):
    """Folder of a small random model of a family, its head tied or not."""
    from benchmarks.architectures import make
    from envs.registry import make_game
    from learners.embedded.tokenizer import make_tokenizer

    tokenizer = make_tokenizer(make_game("twenty_questions", {}).language(), 512)

    @cache
    def made(family: str, tied: bool):
        return make(family, tied, tokenizer, tmp_path_factory.mktemp(f"{family}-{tied}"))

    return made


@pytest.fixture(scope="session")
def ray_cluster():
    import ray

    ray.init(address="local", num_cpus=4, include_dashboard=False, log_to_driver=False, object_store_memory=512 * 2**20)
    ray._private.worker._global_node.kill_log_monitor()  # it reads the logs of all processes, for nobody
    yield ray
    ray.shutdown()


@pytest.fixture(scope="session")
def learners(ray_cluster, tiny_model):
    """Two ranks, which become what a test asks for."""
    from tests.support.learner_pair import Learners

    pair = Learners(ray_cluster, str(tiny_model))
    yield pair
    for process in pair.processes:
        ray_cluster.kill(process)


@pytest.fixture(scope="session")
def parrot_model(tmp_path_factory):
    """Folder of an untrained embedded policy for Parrot: knows so few words that chance pays."""
    from envs.settings import GameSettings
    from learners.embedded.build import build_policy
    from learners.settings import EmbeddedSettings

    folder = tmp_path_factory.mktemp("parrot_model")
    return build_policy(GameSettings(name="parrot"), EmbeddedSettings(steps=0, seed=7, hidden=32), cache=folder)


@pytest.fixture(scope="module")
def worlds_cache(tmp_path_factory):
    """Worlds are generated into an empty folder, so that what is tested is not what somebody else left."""
    folder = tmp_path_factory.mktemp("worlds")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PARLEY_CACHE", str(folder))
        yield folder
