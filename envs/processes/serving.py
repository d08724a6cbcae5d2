"""Inside a world's process: make the world, and answer calls until nobody asks any more.

A message is its length, four bytes, and JSON:

    when it starts       {"made": pid} | {"refused": "ValueError: ..."}
    ["reset", 7] -->     {"is": ...} | {"raised": "ValueError: ..."} | {"no_json": "TypeError: ..."}
"""

from __future__ import annotations

import json
import os
import socket
import struct
from importlib import import_module
from typing import Any, BinaryIO

LENGTH = struct.Struct("<I")


def serve(wire: socket.socket, of: str, options: dict[str, Any]) -> None:
    module, _, name = of.partition(":")
    try:
        world = getattr(import_module(module), name)(**options)
    except (Exception, SystemExit) as error:
        send(wire, {"refused": line_of(error)})
        return
    send(wire, {"made": os.getpid()})
    asked = wire.makefile("rb")  # which takes a whole message at once
    while (message := receive(asked)) is not None:
        method, *arguments = message
        try:
            answer = getattr(world, method)(*arguments)
        except (Exception, SystemExit) as error:
            send(wire, {"raised": line_of(error)})
            continue
        try:
            send(wire, {"is": answer})
        except (TypeError, ValueError, RecursionError) as error:
            send(wire, {"no_json": line_of(error)})


def line_of(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:200]


def written(message: Any) -> bytes:
    """ValueError or TypeError for what is no JSON, NaN too."""
    text = json.dumps(message, allow_nan=False, separators=(",", ":")).encode()
    return LENGTH.pack(len(text)) + text


def send(wire: socket.socket, message: Any) -> None:
    wire.sendall(written(message))


def receive(asked: BinaryIO) -> Any:
    """None at the end."""
    length = asked.read(LENGTH.size)
    size = LENGTH.unpack(length)[0] if len(length) == LENGTH.size else 0
    text = asked.read(size)
    return json.loads(text) if size and len(text) == size else None
