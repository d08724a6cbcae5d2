"""TextWorldExpress inside its process: the package's own archive, asked once a turn."""

from __future__ import annotations

import json
from typing import Any

from envs.worlds.java.machine import Episodes, Simulator
from envs.worlds.package import number_of, package, text_of


class World(Episodes):
    simulator = "textworldexpress.runtime.PythonInterface"

    def __init__(self) -> None:
        self.archive = package("textworld_express.constants", "textworld_express").JAR_PATH
        super().__init__()

    def begin(self, simulator: Simulator, asked: dict[str, Any]) -> dict[str, Any]:
        settings = ",".join(f"{name}={value}" for name, value in sorted(asked["settings"].items()))
        wanted = [asked["game"], settings]
        java = simulator.java
        if simulator.known.get("loaded") != wanted:  # loading takes far longer than beginning
            if refused := java.load(*wanted):
                raise ValueError(refused)
            simulator.known["loaded"] = wanted
        gold = asked.get("gold", False)
        found = self.seen(java.generateNewGameJSON(asked["seed"], asked["split"], gold))
        found["task"] = text_of(java.getTaskDescription())
        if gold:
            found["gold"] = [text_of(each) for each in java.getGoldActionSequence()]
        return found

    def step(self, simulator: Simulator, command: str) -> dict[str, Any]:
        return self.seen(simulator.java.stepJSON(command))

    def seen(self, answer: str) -> dict[str, Any]:
        told = json.loads(answer)
        return {
            "text": text_of(told["observation"]),
            "look": text_of(told["look"]),
            "inventory": text_of(told["inventory"]),
            "actions": sorted(map(text_of, told["validActions"])),
            "score": number_of(told["score"]),
            "won": bool(told["tasksuccess"]),
            "lost": bool(told["taskfailure"]),
        }
