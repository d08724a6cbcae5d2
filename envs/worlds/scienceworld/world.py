"""ScienceWorld inside its process: the package's own archive, asked for what an episode needs and no more."""

from __future__ import annotations

import json
from typing import Any

from envs.worlds.java.machine import Episodes, Simulator
from envs.worlds.package import number_of, package, text_of

OUT_OF_REACH = "reset task"  # which would take back what was done


class World(Episodes):
    simulator = "scienceworld.runtime.pythonapi.PythonInterface"
    heap = 640

    def __init__(self) -> None:
        self.archive = package("scienceworld.constants", "scienceworld").JAR_PATH
        self.variations: dict[str, dict[str, list[int]]] = {}  # by task and split
        super().__init__()

    def begin(self, simulator: Simulator, asked: dict[str, Any]) -> dict[str, Any]:
        """As the package's own environment begins: the first look is a move."""
        java, gold = simulator.java, asked.get("gold", False)
        numbers = self.numbers(java, asked["task"])[asked["split"]]
        variation = numbers[asked["seed"] % len(numbers)]
        java.load(asked["task"], variation, asked["simplifications"], gold)
        java.reset()
        simulator.known = {"listed": asked["listed"], "scene": asked["scene"]}
        found = self.step(simulator, "look around")
        found |= {"task": text_of(java.getTaskDescription()), "variation": variation, "variations": len(numbers)}
        if gold:
            simulator.spent = True  # whatever it begins after it has found a solution takes ten times as long
            found["gold"] = [text_of(each) for each in java.getGoldActionSequence()]
        return found

    def numbers(self, java: Any, task: str) -> dict[str, list[int]]:
        if task not in self.variations:
            java.load(task, 0, "", False)
            self.variations[task] = {
                "train": list(java.getVariationsTrain()),
                "dev": list(java.getVariationsDev()),
                "test": list(java.getVariationsTest()),
            }
        return self.variations[task]

    def step(self, simulator: Simulator, command: str) -> dict[str, Any]:
        java = simulator.java
        found = {
            "text": text_of(java.step(command)),
            "score": round(100 * number_of(java.getScore())),
            "over": bool(java.getCompleted()),
        }
        if simulator.known["scene"]:
            found |= {"look": text_of(java.freeActionLook()), "inventory": text_of(java.freeActionInventory())}
        if simulator.known["listed"]:
            told = json.loads(java.getValidActionObjectCombinationsJSON())["validActions"]
            found["actions"] = sorted({text_of(each["action"]) for each in told} - {OUT_OF_REACH})
        return found
