"""A taskset of verifiers, run by a Python that has the package: one question a task, and faults on request."""

import os
import subprocess
import time

import verifiers.v1 as vf


class Data(vf.TaskData):
    answer: int


class Sum(vf.Task[Data, vf.State, vf.TaskConfig]):
    @vf.reward
    async def right(self, task, trace) -> float:
        print("a world that talks")
        said = trace.last_reply.strip()
        if said == "crash":
            raise RuntimeError("it crashed")
        if said == "die":
            os._exit(7)
        if said == "leave":
            subprocess.Popen(["sleep", "617"], start_new_session=True)
        if said in ("hang", "leave"):
            time.sleep(1000)
        if said == "nan":
            return float("nan")
        return float(str(task.answer) == said)


class SumsConfig(vf.TasksetConfig):
    largest: int = 9


class Sums(vf.Taskset[Sum, SumsConfig]):
    def load(self):
        for number in range(self.config.largest):
            data = Data(prompt=f"{number} + {number} =", system_prompt="Answer with a number.", answer=2 * number)
            yield Sum(data, self.config.task)


__all__ = ["Sums"]
