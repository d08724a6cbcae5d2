"""A Java machine, started from a world's own archive, and what such a world is inside its process.

    java()                the program that runs archives, or one line that says how to get it
    Machine(archive)      begins one, with a bound on its memory
    Episodes              a world of many episodes, told apart by a number

What one episode raises is its own failure: the others go on. When the machine itself ends, so does the process.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from envs.worlds.package import MissingPackage, package

START_SECONDS, END_SECONDS = 20.0, 2.0
HOW = "apt-get install openjdk-17-jre-headless, or set JAVA_HOME to another one"
OPTIONS = (
    "-XX:+UseSerialGC",  # small heaps: nothing is collected by threads of its own
    "-XX:-UsePerfData",
    "-XX:+UnlockExperimentalVMOptions",
    "-XX:hashCode=2",  # objects without a hash of their own share one: else their order in sets is never the same twice
)


def java() -> str:
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=str(Path(home) / "bin")) if home else shutil.which("java")
    if found is None:
        where = f"there is no bin/java in JAVA_HOME={home}" if home else "there is no java on the PATH"
        raise MissingPackage(f"Java is not installed ({where}): {HOW}")
    return found


class Machine:
    def __init__(self, archive: str, megabytes: int):
        py4j = package("py4j.java_gateway", "py4j")
        program, options = java(), [f"-Xmx{megabytes}m", *OPTIONS]
        try:
            port, self.process = py4j.launch_gateway(
                classpath=archive,
                cwd=str(Path(archive).parent),  # where a world's data are
                java_path=program,
                javaopts=options,
                die_on_exit=True,
                return_proc=True,
            )
        except (ValueError, OSError):  # it did not say where it listens
            raise MissingPackage(f"{program} does not start ({complaint(program, options)}): {HOW}") from None
        address = py4j.GatewayParameters(auto_field=True, port=port)
        self.gateway = py4j.JavaGateway(gateway_parameters=address, java_process=self.process)
        self.errors = package("py4j.protocol", "py4j")

    def has_ended(self, error: Exception) -> bool:
        """Whether that is why a call failed."""
        if isinstance(error, self.errors.Py4JError) and not isinstance(error, self.errors.Py4JJavaError):
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(END_SECONDS)  # the connection is gone a moment before the process is
        return self.process.poll() is not None

    def make(self, name: str) -> Any:
        """An object of the Java class with this full name."""
        found = self.gateway.jvm
        for part in name.split("."):
            found = getattr(found, part)
        return found()


def complaint(program: str, options: Sequence[str]) -> str:
    """What a Java that does not start says of it."""
    try:
        told = subprocess.run([program, *options, "-version"], capture_output=True, text=True, timeout=START_SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        return reason(error)
    lines = f"{told.stdout}\n{told.stderr}".strip().splitlines()
    return f"code {told.returncode}: {lines[0] if lines else 'it says nothing'}"[:200]


@dataclass(slots=True)
class Simulator:
    """What plays one episode, and then another one: an object in Java, and what is known of it here."""

    java: Any
    known: dict[str, Any] = field(default_factory=dict)
    spent: bool = False  # it plays this episode, and no other one


class Episodes(ABC):
    """What a process of the world answers to. The simulator of one who has left is another one's then."""

    archive: str
    simulator: str  # its class in Java
    heap: int = 256  # MB

    def __init__(self) -> None:
        self.machine = Machine(self.archive, self.heap)
        self.playing: dict[int, Simulator] = {}
        self.idle: list[Simulator] = []

    def ask(self, number: int, what: str, *arguments: Any) -> dict[str, Any]:
        """{"is": answer} or {"raised": line}."""
        try:
            if number not in self.playing:
                self.playing[number] = self.idle.pop() if self.idle else self.made()
            return {"is": getattr(self, what)(self.playing[number], *arguments)}
        except Exception as error:
            if self.machine.has_ended(error):
                print(f"its Java machine has ended with code {self.machine.process.poll()}", flush=True)
                os._exit(1)
            self.playing.pop(number, None)  # nobody knows what state it is in
            return {"raised": reason(error)}

    def leave(self, number: int) -> None:
        simulator = self.playing.pop(number, None)
        if simulator is not None and not simulator.spent:
            self.idle.append(simulator)

    def made(self) -> Simulator:
        return Simulator(self.machine.make(self.simulator))

    @abstractmethod
    def begin(self, simulator: Simulator, asked: dict[str, Any]) -> dict[str, Any]:
        """Start what is asked for, whatever was going on before."""

    @abstractmethod
    def step(self, simulator: Simulator, command: str) -> dict[str, Any]: ...


def reason(error: Exception) -> str:
    """One line: of an exception in Java its own name and message, without where it was thrown."""
    lines = [line.strip(" :") for line in str(error).splitlines() if line.strip(" :")]
    thrown = next((line for line in lines if line.startswith(("java.", "scala."))), None)
    return (thrown or f"{type(error).__name__}: {lines[0] if lines else ''}")[:200]
