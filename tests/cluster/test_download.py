"""Models of the hub: fetched once by each node, before anything else, or one line that says why not."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace

import pytest

from cluster.errors import ConfigError, LostError, RunError
from cluster.recipe.config import RunConfig
from cluster.run.download import on_every_node
from cluster.run.policy import policy_folder, whole_frozen
from cluster.run.shared_folder import check_seen

NAME, COMMIT = "someone/small", "0123456789abcdef0123456789abcdef01234567"
FILES = {"config.json": b'{"model_type": "llama"}', "model.safetensors": b"weights", "original/model.pth": b"again"}


@pytest.fixture(scope="module")
def nodes(ray_cluster):
    """The session's, and one more."""
    from ray._private.node import Node
    from ray._private.parameter import RayParams

    address = ray_cluster.get_runtime_context().gcs_address
    more = Node(RayParams(gcs_address=address, num_cpus=1, object_store_memory=80 * 2**20), head=False)
    yield alive(ray_cluster)
    more.kill_all_processes(check_alive=False, allow_graceful=True)
    deadline = time.monotonic() + 30
    while len(alive(ray_cluster)) > 1 and time.monotonic() < deadline:
        time.sleep(0.1)


def alive(ray) -> list[str]:
    return sorted(node["NodeID"] for node in ray.nodes() if node["Alive"])


@pytest.fixture
def hub(monkeypatch, tmp_path):
    """A server that answers as the hub does, for one model; what it was asked for."""
    asked: Counter = Counter()

    class Answers(BaseHTTPRequestHandler):
        def log_message(self, *_):
            pass

        def do_HEAD(self):
            self.do_GET()

        def do_GET(self):
            path = self.path.split("?")[0]
            file = path.partition("/resolve/")[2].partition("/")[2]
            asked[self.command, file or path] += 1
            if path.startswith(f"/api/models/{NAME}/tree/"):
                found = [{"type": "file", "path": name, "size": len(FILES[name]), "oid": name} for name in FILES]
                body = json.dumps(found).encode()
            elif path.startswith(f"/api/models/{NAME}"):
                body = json.dumps({"id": NAME, "sha": COMMIT, "siblings": [{"rfilename": f} for f in FILES]}).encode()
            elif file in FILES:
                body = FILES[file]
            else:
                self.send_error(404)
                return
            self.send_response(200)
            for header, value in (("X-Repo-Commit", COMMIT), ("ETag", f'"{file}"'), ("Content-Length", len(body))):
                self.send_header(header, str(value))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    yield asked
    server.shutdown()


def test_a_model_of_the_hub_is_on_disk_before_a_run_starts(nodes, hub, tmp_path, monkeypatch):
    class Quiet:
        def stage(self, text):
            self.said = text

    config = RunConfig.model_validate({"model": {"path": NAME}})
    started = SimpleNamespace(path=tmp_path)
    folder = Path(policy_folder(config, started, Quiet()))
    assert folder.is_relative_to(tmp_path / "hub") and folder.name == COMMIT
    there = {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}
    assert there == {name: FILES[name] for name in ("config.json", "model.safetensors")}
    assert hub["GET", "model.safetensors"] == 1, "nodes that share a cache fetch it once"
    with monkeypatch.context() as patch:
        patch.setattr(sys.modules[__name__], "COMMIT", "f" * 40)  # the hub has a newer one
        assert policy_folder(config, started, Quiet()) == str(folder), "a run goes on from the weights it began with"
        (tmp_path / "another").mkdir()
        newer = policy_folder(config, SimpleNamespace(path=tmp_path / "another"), Quiet())
        assert Path(newer).name == "f" * 40
    assert on_every_node(NAME, COMMIT, 60.0) == str(folder)
    assert hub["GET", "model.safetensors"] == 1


def test_every_node_fetches_once(nodes, tmp_path):
    def note(name, revision):
        import ray

        node = ray.get_runtime_context().get_node_id()
        (tmp_path / f"{node} {os.getpid()}").touch()
        return f"/models/{name}/{revision}"

    assert on_every_node(NAME, "main", 60.0, note) == f"/models/{NAME}/main"
    assert sorted(file.name.split()[0] for file in tmp_path.iterdir()) == nodes


def test_caches_in_different_places_are_refused(nodes):
    def own_place(name, revision):
        import ray

        return "/cache/" + ray.get_runtime_context().get_node_id()

    with pytest.raises(ConfigError, match=f"{NAME} has to be in the same folder on every node.*the same HF_HOME"):
        on_every_node(NAME, None, 60.0, own_place)


def test_a_slow_hub_has_a_limit_of_its_own(nodes):
    def sleep(name, revision):
        time.sleep(60)

    began = time.monotonic()
    with pytest.raises(ConfigError, match=f"{NAME} was not fetched within model.download_seconds=3 by node"):
        on_every_node(NAME, None, 3.0, sleep)
    assert time.monotonic() - began < 20


def test_a_model_that_is_not_there_is_one_line(nodes, hub, monkeypatch):
    with pytest.raises(ConfigError, match="model.path=someone/else cannot be fetched by node .*404.*Not Found") as said:
        on_every_node("someone/else", None, 60.0)
    assert "\n" not in str(said.value)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(ConfigError, match=f"model.path={NAME} cannot be fetched .*set 'HF_HUB_OFFLINE=0'"):
        on_every_node(NAME, None, 60.0)


def test_a_process_that_dies_is_no_wrong_model(nodes):
    with pytest.raises(LostError, match=f"rollout.frozen.old={NAME} was not fetched by node"):
        on_every_node(NAME, None, 60.0, lambda name, revision: os._exit(1), key="rollout.frozen.old")


def test_frozen_players_of_the_hub_are_fetched_too(nodes, hub, tmp_path):
    config = RunConfig.model_validate({"rollout": {"frozen": {"old": NAME}}})
    whole_frozen(config, SimpleNamespace(path=tmp_path), SimpleNamespace(stage=print))
    assert (Path(config.rollout.frozen["old"]) / "config.json").read_bytes() == FILES["config.json"]


def test_a_policy_in_a_folder_that_is_not_shared_is_named(nodes, tmp_path):
    own = Path(f"/proc/self/task/{threading.get_native_id()}")  # there for this process alone
    with pytest.raises(RunError, match=f"does not see {own}: `output` has to be a folder that all nodes share"):
        check_seen(own, SimpleNamespace(path=Path("/proc/self")))
    check_seen(tmp_path, SimpleNamespace(path=tmp_path))
    check_seen("/models/elsewhere", SimpleNamespace(path=tmp_path))
