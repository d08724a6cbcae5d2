"""The server of `parley watch`: in this process, until Ctrl-C."""

from __future__ import annotations

import logging
import secrets
import socket
from collections.abc import Sequence

from cluster.errors import ConfigError
from cluster.watch.followed import Followed

LOCAL_NAMES = ("127.0.0.1", "localhost", "[::1]")
END_SECONDS = 1  # for open connections: those of events never end by themselves


def serve(runs: Sequence[Followed], host: str, port: int, local: bool, say=print) -> None:
    import uvicorn

    from cluster.watch.app import application

    token = None if local else secrets.token_urlsafe(24)
    names = LOCAL_NAMES if local else ("*",)
    with bound(host, port) as listening:
        shown = host if ":" not in host else f"[{host}]"
        address = f"http://{shown}:{listening.getsockname()[1]}/"
        say(f"{', '.join(run.name for run in runs)}: {address}{f'?token={token}' if token else ''} (Ctrl-C ends it)")
        config = uvicorn.Config(
            application(runs, token, names),
            log_level="warning",
            access_log=False,
            timeout_graceful_shutdown=END_SECONDS,
            lifespan="off",
        )

        class Server(uvicorn.Server):
            def handle_exit(self, *told) -> None:
                # what was being worked out for a page is given up; uvicorn would show that as an error
                logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
                super().handle_exit(*told)

        Server(config).run(sockets=[listening])


def bound(host: str, port: int) -> socket.socket:
    """A socket of our own, so that a port that is taken is one line, and port 0 one that is free."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen()  # so that whoever reads the address can use it
    except OSError as error:
        listening.close()
        raise ConfigError(
            f"cannot listen on {host}, port {port}: {error.strerror}; choose another with --port"
        ) from error
    return listening
