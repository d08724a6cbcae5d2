"""Rooms as the machines of a Ray cluster, each with a network address and a Ray node that asks for a token.

    with Nodes(folder, environment, cpus=4) as nodes:     the head, and no other node yet
        room = nodes.add()                      one more joins
        nodes.cut(room), nodes.mend(room)       its cable is pulled, and put back
        nodes.lose(room)                        its power fails: no other machine is told

The head's room holds the bridge that connects them. Who is not root may not lay cables between rooms.
"""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

from benchmarks.chaos.room import Room, wait_until

NETWORK, PORT = "10.77.0", 6379
START_SECONDS = 120.0
IP_SECONDS = 10.0
HEAD_CPUS = 3  # a learner rank of as many fits there best, and no worker does
OBJECTS = 2**27  # bytes of a node's object store


class Nodes:
    def __init__(self, folder: Path, environment: dict[str, str], cpus: int):
        self.folder, self.cpus = folder, cpus
        self.environment = {
            **environment,
            "RAY_ADDRESS": f"{NETWORK}.1:{PORT}",
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": os.urandom(16).hex(),
        }
        self.rooms: list[Room] = []
        self.lost: set[int] = set()

    def __enter__(self) -> Nodes:
        if os.geteuid() != 0:
            raise RuntimeError("no network between rooms: it needs root")
        with ExitStack() as stack:
            self.stack = stack
            head = self._room(self.folder)
            _ip(head, "link", "add", "bridge", "type", "bridge")
            _ip(head, "addr", "add", f"{NETWORK}.1/24", "dev", "bridge")
            _ip(head, "link", "set", "bridge", "up")
            self._ray(head, "--head", f"--port={PORT}", f"--num-cpus={HEAD_CPUS}", "--include-dashboard=false")
            self.stack = stack.pop_all()
        return self

    def __exit__(self, *exception) -> None:
        self.stack.close()

    @property
    def head(self) -> Room:
        return self.rooms[0]

    @property
    def others(self) -> list[Room]:
        """The nodes beside the head that have power."""
        return [room for number, room in enumerate(self.rooms) if number and number not in self.lost]

    def add(self) -> Room:
        number = len(self.rooms)
        folder = self.folder / f"node{number}"
        folder.mkdir()
        room = self._room(folder)
        cable = f"cable{number}"
        _ip(self.head, "link", "add", cable, "type", "veth", "peer", "name", "cable", "netns", str(room.first))
        _ip(self.head, "link", "set", cable, "master", "bridge", "up")
        _ip(room, "addr", "add", f"{NETWORK}.{number + 1}/24", "dev", "cable")
        _ip(room, "link", "set", "cable", "up")
        self._ray(room, f"--address={NETWORK}.1:{PORT}", f"--num-cpus={self.cpus}")
        return room

    def cut(self, room: Room) -> None:
        _ip(self.head, "link", "set", f"cable{self.rooms.index(room)}", "down")

    def mend(self, room: Room) -> None:
        _ip(self.head, "link", "set", f"cable{self.rooms.index(room)}", "up")

    def lose(self, room: Room) -> None:
        self.cut(room)
        self.lost.add(self.rooms.index(room))
        room.__exit__()

    def _room(self, folder: Path) -> Room:
        room = self.stack.enter_context(Room(folder, 0, self.environment, network=True))
        _ip(room, "link", "set", "lo", "up")
        self.rooms.append(room)
        return room

    def _ray(self, room: Room, *how: str) -> None:
        """Start Ray on a node, which goes on by itself then."""
        address = f"--node-ip-address={NETWORK}.{self.rooms.index(room) + 1}"
        command = [sys.executable, "-m", "ray.scripts.scripts", "start", address, *how]
        room.start([*command, f"--object-store-memory={OBJECTS}", "--disable-usage-stats"], room.folder / "ray")
        if not wait_until(lambda: room.look() is not None, START_SECONDS) or room.ended:
            raise RuntimeError(f"Ray does not start on a node: {(room.folder / 'ray').read_text(errors='replace')}")


def _ip(room: Room, *command: str) -> None:
    """Say it to the room's own network."""
    where = ["nsenter", f"--net=/proc/{room.first}/ns/net"]
    subprocess.run([*where, "ip", *command], check=True, capture_output=True, timeout=IP_SECONDS)
