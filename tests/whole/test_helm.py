"""The Helm chart: what it makes of its values, held against KubeRay's own schemas where they are at hand."""

from __future__ import annotations

import os
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from cluster.commands.cli import parse
from cluster.recipe.reading import load_recipe

DEPLOY = Path(__file__).parents[2] / "deploy"
CHART = DEPLOY / "helm" / "parley"
HELM = os.environ.get("HELM") or shutil.which("helm")
CRDS = os.environ.get("KUBERAY_CRDS", "")
RUN = "train demo --keep-going"
VALUES = {
    "standing": (),
    "one run on CPUs": (f"run.command={RUN}", "image.tag=cpu", "workers.gpus=0", "run.hours=0"),
    "a short run with keys": (
        "run.command=evaluate runs/first",
        "run.hours=0.5",
        "env[0].name=HF_TOKEN",
        "env[0].value=secret",
        "envFrom[0].secretRef.name=keys",
        "imagePullSecrets[0].name=registry",
        "rewards.enabled=true",
    ),
    "a run that goes on": ("run.command=resume /shared/runs/first", "storage.claim=ours"),
    "with rewards": ("rewards.enabled=true", "podMonitor=true", "workers.nodeSelector.pool=a100"),
}
needs_helm = pytest.mark.skipif(HELM is None, reason="no helm here: put it on the PATH, or its path into HELM")


@cache
def made(name: str) -> dict[str, dict[str, Any]]:
    """By kind."""
    words = [word for each in VALUES[name] for word in ("--set", each)]
    done = subprocess.run([HELM, "template", "first", CHART, *words], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return {each["kind"]: each for each in yaml.safe_load_all(done.stdout) if each}


def strict(schema: Any) -> Any:
    """Unknown fields are mistakes, which Kubernetes would drop in silence."""
    if isinstance(schema, list):
        return [strict(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: strict(value) for key, value in schema.items()}
    if isinstance(found.get("properties"), dict) and not found.get("x-kubernetes-preserve-unknown-fields"):
        found.setdefault("additionalProperties", False)
    return found


@cache
def schema_of(kind: str) -> dict[str, Any]:
    for path in Path(CRDS).glob("*.yaml"):
        definition = yaml.load(path.read_text(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        if definition["spec"]["names"]["kind"] == kind:
            (version,) = (each for each in definition["spec"]["versions"] if each["name"] == "v1")
            schema = strict(version["schema"]["openAPIV3Schema"])
            schema["properties"]["metadata"] = {"type": "object"}
            return schema
    raise AssertionError(f"{CRDS} has no definition of {kind}")


def ray_objects() -> list[tuple[str, str]]:
    files = [(path.name, "") for path in sorted((DEPLOY / "kuberay").glob("ray*.yaml"))]
    return files + [("chart", name) for name in VALUES]


@pytest.mark.skipif(not CRDS, reason="KUBERAY_CRDS names no folder with the CRDs of KubeRay (its helm-chart/*/crds)")
@pytest.mark.parametrize(("file", "name"), ray_objects())
def test_kuberay_knows_every_field(file, name):
    if file == "chart" and HELM is None:
        pytest.skip("no helm here")
    documents = made(name).values() if name else yaml.safe_load_all((DEPLOY / "kuberay" / file).read_text())
    checked = [each for each in documents if each["apiVersion"] == "ray.io/v1"]
    for each in checked:
        jsonschema.Draft7Validator(schema_of(each["kind"])).validate(each)
    assert checked
    wrong = yaml.safe_load(yaml.safe_dump(checked[0]))
    wrong["spec"]["rayVersoin"] = "2"
    with pytest.raises(jsonschema.ValidationError, match="rayVersoin"):
        jsonschema.Draft7Validator(schema_of(wrong["kind"])).validate(wrong)


@needs_helm
def test_a_run_has_a_command_that_is_taken_a_named_end_and_the_shared_folder():
    job = made("one run on CPUs")["RayJob"]["spec"]
    assert job["entrypoint"] == f"parley {RUN}" and "activeDeadlineSeconds" not in job
    asked = parse(job["entrypoint"].split()[1:])
    assert asked.keep_going
    (head,) = job["rayClusterSpec"]["headGroupSpec"]["template"]["spec"]["containers"]
    output = Path(head["workingDir"]) / load_recipe(asked.recipe, asked.overrides).output
    assert str(output) in [mount["mountPath"] for mount in head["volumeMounts"]], "as of every other command"
    assert "submitterPodTemplate" not in job
    again = made("a run that goes on")["RayJob"]["spec"]
    assert (again["entrypoint"], again["activeDeadlineSeconds"]) == ("parley resume /shared/runs/first", 86_400)
    pod = again["rayClusterSpec"]["headGroupSpec"]["template"]["spec"]
    assert pod["volumes"][0]["persistentVolumeClaim"] == {"claimName": "ours"}
    assert "PersistentVolumeClaim" not in made("a run that goes on") and "RayCluster" not in made("one run on CPUs")
    assert "gpu" not in str(made("one run on CPUs"))


@needs_helm
def test_keys_and_pull_secrets_reach_every_pod_and_half_an_hour_is_half_an_hour():
    objects = made("a short run with keys")
    job = objects["RayJob"]["spec"]
    assert (job["activeDeadlineSeconds"], job["ttlSecondsAfterFinished"]) == (1800, 600)
    pods = [*ray_pods(job["rayClusterSpec"]), objects["Deployment"]["spec"]["template"]]
    for pod in pods:
        (container,) = pod["spec"]["containers"]
        assert {"name": "HF_TOKEN", "value": "secret"} in container["env"]
        assert container["envFrom"] == [{"secretRef": {"name": "keys"}}]
    for pod in (*pods, job["submitterPodTemplate"]):
        assert pod["spec"]["imagePullSecrets"] == [{"name": "registry"}]
    assert job["submitterPodTemplate"]["spec"]["containers"][0]["image"] == container["image"]


@needs_helm
def test_a_release_scrapes_its_own_pods_alone():
    objects = made("with rewards")
    wanted = objects["PodMonitor"]["spec"]["selector"]["matchLabels"]
    assert wanted["app.kubernetes.io/instance"] == "first"
    for pod in ray_pods(objects["RayCluster"]["spec"]):
        assert pod["metadata"]["labels"] == wanted


def ray_pods(cluster: dict[str, Any]) -> list[dict[str, Any]]:
    return [each["template"] for each in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"])]


@needs_helm
def test_the_reward_service_takes_its_words_and_has_one_key_and_one_owner():
    objects = made("with rewards")
    spec = objects["Deployment"]["spec"]
    (container,) = spec["template"]["spec"]["containers"]
    asked = parse(container["args"][1:])
    http = load_recipe(None, [*([asked.recipe] if asked.recipe else []), *asked.overrides]).reward.http
    assert (http.host, http.key_file, http.port) == ("0.0.0.0", "/keys/key", 8400)
    assert (spec["replicas"], spec["strategy"]) == (1, {"type": "Recreate"})
    assert objects["Service"]["spec"]["selector"] == spec["selector"]["matchLabels"]
    assert objects["RayCluster"]["spec"]["workerGroupSpecs"][0]["template"]["spec"]["nodeSelector"] == {"pool": "a100"}


def test_the_chart_agrees_with_the_files_for_kuberay():
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    (cluster,) = (
        each
        for each in yaml.safe_load_all((DEPLOY / "kuberay/raycluster.yaml").read_text())
        if each["kind"] == "RayCluster"
    )
    (worker,) = cluster["spec"]["workerGroupSpecs"][0]["template"]["spec"]["containers"]
    limits = {"cpu": str(values["workers"]["cpu"]), "memory": values["workers"]["memory"]}
    assert worker["resources"]["limits"] == limits | {"nvidia.com/gpu": str(values["workers"]["gpus"])}
    assert cluster["spec"]["rayVersion"] == values["rayVersion"]
    assert worker["image"] == f"{values['image']['repository']}:{values['image']['tag']}"
