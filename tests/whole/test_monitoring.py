"""deploy/monitoring: rules and dashboard ask for series that there are, and promtool accepts and tests them."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

import pytest
import yaml

from cluster.record.metric_list import exported, unlisted
from cluster.record.metrics import RayMetrics

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "deploy" / "monitoring"
RULES = [rule for group in yaml.safe_load((FOLDER / "alerts.yaml").read_text())["groups"] for rule in group["rules"]]
PROMTOOL = shutil.which("promtool")
needs_promtool = pytest.mark.skipif(PROMTOOL is None, reason="no promtool here: apt-get install prometheus")


def queries() -> list[str]:
    board = json.loads((FOLDER / "grafana.json").read_text())
    return [target["expr"] for panel in board["panels"] for target in panel.get("targets", [])]


def promtool(*words: str | Path) -> subprocess.CompletedProcess:
    return subprocess.run([PROMTOOL, *words], capture_output=True, text=True, timeout=60)


def test_alerts_ask_for_series_that_a_run_or_ray_exports():
    from ray.dashboard.modules.reporter.reporter_agent import METRICS_GAUGES

    asked = {name for rule in RULES for name in re.findall(r"ray_\w+", rule["expr"])}
    of_ray = {f"ray_{name}" for name in METRICS_GAUGES}
    assert asked - of_ray - {f"ray_{name}" for name in exported()} == {"ray_parley_value", "ray_parley_updated_at"}
    named = {name for rule in RULES for name in re.findall(r'name="([^"]+)"', rule["expr"])}
    assert named and unlisted(named) == []
    assert {name for query in queries() for name in re.findall(r"ray_node_\w+", query)} <= of_ray


def test_every_panel_of_runs_and_engines_follows_the_chosen_run():
    free = [query for query in queries() if "$run" not in query]
    assert {re.search(r"ray_\w+", query)[0] for query in free} == {"ray_node_gpus_utilization", "ray_node_gram_used"}
    assert all(query.count("ray_") == query.count("$run") for query in queries() if query not in free)


def test_every_alert_has_a_test_that_provokes_it():
    tests = yaml.safe_load((FOLDER / "alerts_test.yaml").read_text())["tests"]
    fired = str(tests[0]["promql_expr_test"][0]["exp_samples"])
    assert [rule["alert"] for rule in RULES if f'alertname="{rule["alert"]}"' not in fired] == []
    assert all({"summary", "action"} == set(rule["annotations"]) for rule in RULES)


@needs_promtool
def test_prometheus_accepts_rules_queries_and_settings(tmp_path):
    for words in (["check", "rules", FOLDER / "alerts.yaml"], ["test", "rules", FOLDER / "alerts_test.yaml"]):
        done = promtool(*words)
        assert done.returncode == 0 and "SUCCESS" in done.stdout, done.stdout + done.stderr
    rules = [{"record": f"panel:{i}", "expr": query.replace("$run", ".*")} for i, query in enumerate(queries())]
    (tmp_path / "panels.yaml").write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    assert (done := promtool("check", "rules", tmp_path / "panels.yaml")).returncode == 0, done.stderr
    shutil.copy(FOLDER / "alerts.yaml", tmp_path)
    text = (FOLDER / "prometheus.yaml").read_text()
    with_service = re.sub(r"^  #(- |  )", r"  \1", text, flags=re.MULTILINE)
    for name, written in (("as_it_is", text), ("with_service", with_service)):
        (tmp_path / f"{name}.yaml").write_text(written)
        (tmp_path / "rewards.key").write_text("a key")
        assert (done := promtool("check", "config", "--syntax-only", tmp_path / f"{name}.yaml")).returncode == 0, (
            done.stderr
        )
    jobs = yaml.safe_load(written)["scrape_configs"]
    assert [job["job_name"] for job in jobs] == ["ray", "parley_rewards"]
    assert jobs[1]["authorization"] == {"credentials_file": "rewards.key"}


def test_panels_of_engines_ask_for_metrics_of_vllm():
    import vllm.v1.metrics.loggers as loggers

    asked = {re.sub("_total$", "", name) for query in queries() for name in re.findall(r"ray_vllm_(\w+)", query)}
    known = set(re.findall(r'name="vllm:(\w+)"', Path(loggers.__file__).read_text()))
    assert asked and asked <= known


@pytest.fixture
def prometheus(ray_cluster, tmp_path):
    """A real one that scrapes this Ray every second."""
    target = next(f"127.0.0.1:{node['MetricsExportPort']}" for node in ray_cluster.nodes() if node["Alive"])
    config = yaml.safe_load((FOLDER / "prometheus.yaml").read_text())
    config["scrape_configs"] = [{"job_name": "ray", "static_configs": [{"targets": [target]}]}]
    config["global"] = {"scrape_interval": "1s"}
    (tmp_path / "prometheus.yaml").write_text(yaml.safe_dump(config))
    shutil.copy(FOLDER / "alerts.yaml", tmp_path)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    command = ["prometheus", "--config.file=prometheus.yaml", f"--web.listen-address={address}"]
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(command, cwd=tmp_path, stdout=log, stderr=log)
        try:
            yield f"http://{address}"
        finally:
            process.terminate()
            process.wait(30)


@pytest.mark.skipif(shutil.which("prometheus") is None, reason="no Prometheus here: apt-get install prometheus")
def test_every_panel_of_a_run_has_data_in_a_real_prometheus(prometheus):
    metrics = RayMetrics("panels")
    stages = {f"seconds/{name}": 1.0 for name in ("collect", "learn")}
    values = {metric.name: 1.0 for named in exported().values() for metric in named if "<" not in metric.name} | stages
    missing, deadline = queries(), time.monotonic() + 120
    while missing and time.monotonic() < deadline:
        metrics.record(values)
        time.sleep(1)
        of_runs = [query.replace("$run", "panels") for query in queries() if "ray_parley" in query]
        missing = [query for query in of_runs if not results(prometheus, query)]
    assert missing == []
    assert results(prometheus, 'time() - ray_parley_updated_at{run="panels"} < 60')
    (nodes,) = results(prometheus, "count by (SessionName) (ray_node_mem_total)")
    assert nodes["metric"]["SessionName"] and nodes["value"][1] == "1"
    assert len(of_runs) > 12 and results(prometheus, 'ray_parley_failures_total{reason="worker_died"}')


GAUGES = """
import os, time, urllib.request

os.environ["RAY_metrics_report_interval_ms"] = "1000"
import ray
from cluster.record import metrics

metrics.AGAIN_SECONDS = 0.5
ray.init(address="local", num_cpus=1, log_to_driver=False)
port = next(node["MetricsExportPort"] for node in ray.nodes())


def there():
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as got:
        return 'ray_parley_reward{' in got.read().decode()


run = metrics.RayMetrics("gauges")
run.record({"rollout/outcome": 0.5})
deadline = time.monotonic() + 60
while not there() and time.monotonic() < deadline:
    time.sleep(0.5)
time.sleep(6)
long_after = there()
run.close()
while there() and time.monotonic() < deadline:
    time.sleep(0.5)
print("long after it was recorded:", long_after, "after the run:", there())
"""


@pytest.mark.long
@pytest.mark.timeout(150)
def test_a_gauge_is_there_until_the_run_ends():
    done = subprocess.run([sys.executable, "-c", GAUGES], cwd=ROOT, capture_output=True, text=True, timeout=140)
    assert done.stdout.splitlines()[-1:] == ["long after it was recorded: True after the run: False"], done.stderr


def results(address: str, query: str) -> list[dict]:
    try:
        asked = urllib.parse.urlencode({"query": query})
        with urllib.request.urlopen(f"{address}/api/v1/query?{asked}", timeout=10) as got:
            return json.load(got)["data"]["result"]
    except (urllib.error.URLError, ConnectionError):  # it is not up yet
        return []
