"""What ScienceWorld has: its thirty tasks, with how many test variations each has, and what a process may take."""

from __future__ import annotations

from envs.processes.process import Kind

TASKS = {
    "boil": 9,
    "melt": 9,
    "freeze": 9,
    "change-the-state-of-matter-of": 9,
    "use-thermometer": 135,
    "measure-melting-point-known-substance": 109,
    "measure-melting-point-unknown-substance": 75,
    "power-component": 5,
    "power-component-renewable-vs-nonrenewable-energy": 5,
    "test-conductivity": 225,
    "test-conductivity-of-unknown-substances": 150,
    "find-living-thing": 75,
    "find-non-living-thing": 75,
    "find-plant": 75,
    "find-animal": 75,
    "grow-plant": 33,
    "grow-fruit": 33,
    "chemistry-mix": 8,
    "chemistry-mix-paint-secondary-color": 9,
    "chemistry-mix-paint-tertiary-color": 9,
    "lifespan-longest-lived": 32,
    "lifespan-shortest-lived": 32,
    "lifespan-longest-lived-then-shortest-lived": 32,
    "identify-life-stages-1": 5,
    "identify-life-stages-2": 4,
    "inclined-plane-determine-angle": 42,
    "inclined-plane-friction-named-surfaces": 348,
    "inclined-plane-friction-unnamed-surfaces": 42,
    "mendelian-genetics-known-plant": 30,
    "mendelian-genetics-unknown-plant": 120,
}
ELECTRICAL = ("power-component", "test-conductivity")  # how the names of tasks begin that need connecting
NO_CONNECTING = ("noElectricalAction", "easy")
SIMPLIFICATIONS = (
    "easy",
    "teleportAction",
    "selfWateringFlowerPots",
    "openContainers",
    "openDoors",
    "noElectricalAction",
)
SPLITS = ("train", "dev", "test")

KIND = Kind("scienceworld", "envs.worlds.scienceworld.world:World", megabytes=1000)
PER_PROCESS = 16  # episodes in one process; each takes about 10 MB of the machine's heap
