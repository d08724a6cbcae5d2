"""Shared fixtures: one tiny model, one private Ray cluster for the whole session."""

from __future__ import annotations

import os

os.environ.setdefault("DS_ACCELERATOR", "cpu")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import pytest


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory):
    """Folder of an untrained embedded policy for Twenty Questions."""
    from envs.settings import GameSettings
    from learners.embedded.build import build_policy
    from learners.settings import EmbeddedSettings

    folder = tmp_path_factory.mktemp("tiny_model")
    return build_policy(GameSettings(), EmbeddedSettings(steps=0, seed=7), cache=folder)


@pytest.fixture(scope="session")
def ray_cluster():
    import ray

    ray.init(address="local", num_cpus=4, include_dashboard=False, log_to_driver=False, object_store_memory=512 * 2**20)
    yield ray
    ray.shutdown()


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
