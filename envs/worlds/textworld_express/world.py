"""TextWorldExpress inside its process: the package's own archive, asked once a turn."""

from __future__ import annotations

import json
from typing import Any

from envs.worlds.java.machine import Episodes
from envs.worlds.package import number_of, package, text_of


class World(Episodes):
    simulator = "textworldexpress.runtime.PythonInterface"

    def __init__(self) -> None:
        self.archive = package("textworld_express.constants", "textworld_express").JAR_PATH
        self.loaded: dict[Any, list[str]] = {}
        super().__init__()

    def begin(self, simulator: Any, asked: dict[str, Any]) -> dict[str, Any]:
        settings = ",".join(f"{name}={value}" for name, value in sorted(asked["settings"].items()))
        wanted = [asked["game"], settings]
        if self.loaded.get(simulator) != wanted:  # loading takes far longer than beginning
            if refused := simulator.load(*wanted):
                raise ValueError(refused)
            self.loaded[simulator] = wanted
        gold = asked.get("gold", False)
        found = self.seen(simulator.generateNewGameJSON(asked["seed"], asked["split"], gold))
        found["task"] = text_of(simulator.getTaskDescription())
        if gold:
            found["gold"] = [text_of(each) for each in simulator.getGoldActionSequence()]
        return found

    def step(self, simulator: Any, command: str) -> dict[str, Any]:
        return self.seen(simulator.stepJSON(command))

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
