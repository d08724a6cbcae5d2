"""A server of MCP that behaves badly, without the SDK.

    python tests/support/odd_mcp_server.py MODE [TOLD] [TOOLS]

    deaf       reads nothing     stuck      answers until a tool is called
    error      -32000 for each call         garbage    prints first, and wrong results follow
    echo       says what it was given        fails      ends with an error once a tool is called

TOLD: a file for its process and those it has started. TOOLS: JSON, name -> schema.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from typing import Any


def send(identity: Any, **what: Any) -> None:
    print(json.dumps({"jsonrpc": "2.0", "id": identity, **what}), flush=True)


def tell(path: str) -> None:
    """Of this process, and of one that it has started and that nobody can tell to end. Neither ends when told to."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    child = subprocess.Popen(["sleep", "600"], start_new_session=True, stdout=subprocess.DEVNULL)
    with open(f"{path}.part", "w") as file:
        file.write(f"{os.getpid()} {child.pid}")
    os.replace(f"{path}.part", path)


def serve(mode: str, told: str = "", tools: str = '{"echo": {"type": "object", "properties": {"x": {}}}}') -> None:
    if mode == "deaf":
        tell(told)
        time.sleep(600)
    if mode == "garbage":
        print("Starting the server ...\nand more\n\n{}", flush=True)
    listed = [{"name": name, "inputSchema": schema} for name, schema in json.loads(tools).items()]
    for line in sys.stdin:
        asked = json.loads(line)
        identity, method = asked.get("id"), asked["method"]
        if identity is None:
            continue
        if method == "initialize":
            about = {"name": "odd", "version": "1"}
            version = asked["params"]["protocolVersion"]
            send(identity, result={"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": about})
        elif method == "tools/list":
            send(identity, result={"tools": listed})
        elif method != "tools/call":
            send(identity, error={"code": -32601, "message": "no such method"})
        elif mode == "stuck":
            tell(told)
            time.sleep(600)
        elif mode == "fails":
            raise RuntimeError("the database is away")
        elif mode == "error":
            send(identity, error={"code": -32000, "message": "my own error"})
        elif mode == "garbage":
            send(identity, result={"content": [{"type": "video", "text": 3}]})
        else:
            given = {"name": asked["params"]["name"], **asked["params"].get("arguments", {})}
            send(identity, result={"content": [{"type": "text", "text": json.dumps(given)}]})


if __name__ == "__main__":
    serve(*sys.argv[1:])
