"""A world in a process of its own that does whatever a test asks it to."""

from __future__ import annotations

import ctypes
import math
import os
import signal
import subprocess
import sys
import tempfile
import time


class Crooked:
    def __init__(self, refuse: str = ""):
        if refuse:
            raise ValueError(refuse)
        self.said: list[str] = []
        self.held: list[bytearray] = []

    def say(self, text: str) -> list[str]:
        self.said.append(text)
        return self.said

    def forget(self) -> None:
        self.said = []

    def whoami(self) -> int:
        return os.getpid()

    def rest(self) -> None:
        time.sleep(0.7)

    def crash(self) -> None:
        os.kill(os.getpid(), signal.SIGSEGV)

    def leave(self) -> None:
        print("out of luck", flush=True)
        os._exit(3)

    def hang_in_c(self) -> None:
        """Holding the interpreter's lock, so that no thread of this process can do anything."""
        ctypes.PyDLL(None).pause()

    def fall(self) -> None:
        raise RuntimeError("broken\nin two")

    def nan(self) -> dict:
        return {"reward": math.nan}

    def bytes(self) -> list:
        return [b"text"]

    def huge(self) -> str:
        return "x" * 2**25

    def print(self, lines: int) -> int:
        for number in range(lines):
            print(f"line {number} of world")
        os.system("echo of a program of the world; echo on standard error >&2")
        return lines

    def hold(self, megabytes: int) -> int:
        self.held.append(bytearray(os.urandom(1)) * (megabytes * 2**20))
        return megabytes

    def hold_and_wait(self, megabytes: int) -> None:
        self.hold(megabytes)
        time.sleep(60)

    def write(self) -> list[str]:
        """A temporary file of its own, and one of a program that it starts."""
        own = tempfile.mkdtemp(prefix="crooked")
        return [own, subprocess.check_output(["mktemp", "-d"], text=True).strip()]

    def start_another(self, megabytes: int = 0) -> int:
        """As a world in Java does; in a session of its own."""
        code = f"import time; held = b'1' * ({megabytes} * 2**20); print('up', flush=True); time.sleep(600)"
        program = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, start_new_session=True)
        program.stdout.readline()
        return program.pid
