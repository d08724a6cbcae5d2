"""A model behind vLLM's own OpenAI-compatible server, in a process of its own.

    with ModelServer(serving, log) as server:    # started
        server.wait_until_healthy()              # or ServingError, with what its log says last
        server.wait()                            # until it ends by itself, which is an error too

Leaving the context ends the server and every process it started: asked first, then forced. Should this
process be killed, the kernel ends the server. It listens with the settings that rollout workers use; a
model without a chat template gets a plain one, for it must answer chats.
"""

from __future__ import annotations

import ctypes
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from actors.engines.vllm_platform import CPU_BLOCK, card_memory, prepare_environment
from actors.settings import EngineSettings

STOP_SECONDS = 20.0  # for the server to end when asked
POLL_SECONDS = 0.25
SAID_LAST = 3  # lines of the log that an error shows
PLAIN_TEMPLATE = (
    "{%- for message in messages -%}{{ message['content'] }}\n\n{%- endfor -%}"  # a base model goes on with the text
)
PR_SET_PDEATHSIG = 1


class ServingError(RuntimeError):
    """The server did not start, or ended by itself; the message says what is known."""


@dataclass(frozen=True, slots=True)
class Serving:
    model: str  # folder or hub name
    name: str  # that clients ask for
    host: str
    port: int
    engine: EngineSettings
    key: str = ""  # that clients must send; empty: none
    seed: int = 0
    trust_remote_code: bool = False
    on_gpu: bool = False

    @property
    def url(self) -> str:
        return f"http://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"

    def command(self) -> list[str]:
        on_gpu, engine = self.on_gpu, self.engine
        dtype = "float32" if engine.dtype == "auto" else engine.dtype
        least = engine.max_sequences if on_gpu else engine.max_context  # on CPU a prompt is computed whole
        words = [
            *(sys.executable, "-m", "vllm.entrypoints.openai.api_server"),
            *("--model", self.model, "--served-model-name", self.name, "--host", self.host, "--port", str(self.port)),
            *("--dtype", dtype, "--seed", str(self.seed), "--max-model-len", str(engine.max_context)),
            *("--max-num-seqs", str(engine.max_sequences)),
            *("--max-num-batched-tokens", str(max(engine.max_batched_tokens, least))),
            *("--tensor-parallel-size", str(engine.tensor_parallel), "--generation-config", "vllm"),
            *("--disable-uvicorn-access-log", "--no-enable-log-requests"),
            "--enable-prefix-caching" if engine.prefix_caching else "--no-enable-prefix-caching",
        ]
        if on_gpu:
            words += [
                word
                for name, value in card_memory(engine).items()
                for word in (f"--{name.replace('_', '-')}", str(value))
            ]
        else:
            words += ["--kv-cache-memory-bytes", str(int(engine.cpu_cache_gib * 2**30))]
            words += ["--block-size", str(CPU_BLOCK), "--no-enable-chunked-prefill"]
        if self.eager:
            words.append("--enforce-eager")
        if self.trust_remote_code:
            words.append("--trust-remote-code")
        if not has_chat_template(self.model, self.trust_remote_code):
            words += ["--chat-template", PLAIN_TEMPLATE]
        return words

    @property
    def eager(self) -> bool:
        return not self.on_gpu if self.engine.enforce_eager is None else self.engine.enforce_eager

    def environment(self) -> dict[str, str]:
        prepare_environment(compiles=self.on_gpu or not self.eager)
        variables = {name: value for name, value in os.environ.items() if name != "VLLM_ENABLE_V1_MULTIPROCESSING"}
        return variables | ({"VLLM_API_KEY": self.key} if self.key else {})  # not on the command line, which all see


class ModelServer:
    """`log`: a file for what the server prints."""

    def __init__(self, serving: Serving, log: Path):
        self.serving, self.log = serving, log
        self.process: subprocess.Popen | None = None

    def __enter__(self) -> ModelServer:
        libc = ctypes.CDLL(None)
        with self.log.open("w") as output:
            self.process = subprocess.Popen(
                self.serving.command(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=self.serving.environment(),
                start_new_session=True,  # Ctrl-C is for this process alone, which ends the server in order
                preexec_fn=lambda: libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM),
            )
        return self

    def __exit__(self, *exception) -> None:
        self._signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(STOP_SECONDS)
        self._signal(signal.SIGKILL)  # whatever of its group is left
        self.process.wait(STOP_SECONDS)
        until = time.monotonic() + STOP_SECONDS
        while self._signal(0) and time.monotonic() < until:
            time.sleep(0.05)

    def _signal(self, number: int) -> bool:
        """To the server and all it started; whether there was anybody."""
        try:
            os.killpg(self.process.pid, number)
        except ProcessLookupError:
            return False
        return True

    def wait_until_healthy(self) -> None:
        limit = self.serving.engine.start_seconds
        until = time.monotonic() + limit
        while not self._healthy():
            self._check()
            if time.monotonic() > until:
                raise ServingError(
                    f"the server of {self.serving.name!r} did not start within {limit:g} s "
                    f"(rollout.engine.start_seconds); {self.said_last()}"
                )
            time.sleep(POLL_SECONDS)

    def _healthy(self) -> bool:
        connection = http.client.HTTPConnection(self.serving.host, self.serving.port, timeout=2)
        try:
            connection.request("GET", "/health")
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def wait(self) -> None:
        """Until the server ends, which it should not."""
        while True:
            self._check()
            time.sleep(POLL_SECONDS)

    def _check(self) -> None:
        if (code := self.process.poll()) is not None:
            raise ServingError(
                f"the server of {self.serving.name!r} ended by itself (exit code {code}); {self.said_last()}"
            )

    def said_last(self) -> str:
        lines = [line.strip() for line in self.log.read_text(errors="replace").splitlines() if line.strip()]
        errors = [line for line in lines if "Error: " in line] or lines  # the first is the cause, later ones its echo
        return f"its log {self.log} says: {' | '.join(dict.fromkeys(errors[:SAID_LAST])) or 'nothing'}"


def has_chat_template(model: str, trust_remote_code: bool = False) -> bool:
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(model, trust_remote_code=trust_remote_code)
    except (OSError, ValueError) as error:
        raise ServingError(f"the tokenizer of {model} cannot be loaded: {str(error).strip().splitlines()[0]}") from None
    return bool(getattr(tokenizer, "chat_template", None))


def free_port(host: str, port: int) -> int:
    """`port` if it is free, any free one for 0; an error that names it if it is taken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, port))
        except OSError as error:
            raise ServingError(f"cannot listen at {host}:{port}: {error.strerror or error}") from None
        return listener.getsockname()[1]


def base_of(adapter: Path) -> str:
    """The model that a PEFT adapter was made for."""
    return json.loads((adapter / "adapter_config.json").read_text())["base_model_name_or_path"]
