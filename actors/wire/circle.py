"""The sender and every engine process in one broadcast, over gloo or NCCL; none waits for ever.

    sender                    process 0, and the owner of the store where all meet
    broadcast, join           run in a thread of their own; whoever called looks on
    over                      a key of the store: the sender's last word, with its reason

A collective ends only when all take part, and neither library tells everybody that one of them
is gone. So a caller keeps looking elsewhere while it waits (`look`, which raises when there is
nothing to wait for): the sender at its workers, an engine process at the store, which goes
with the sender. Whoever finds the circle broken leaves it at once, and a circle that was left
is never used again: another is made.

To leave is to close what this process holds. NCCL's communicator is aborted, which ends the
kernel that waits. A wait in gloo cannot be ended: it stays behind in its thread, with the
connections, until its own time limit, `seconds` from its start.

What to know of NCCL: a broadcast with a dead member never ends by itself. `PyNcclCommunicator.destroy` in vLLM
calls `ncclCommAbort` in a thread that it waits 5 s for; vLLM's binding has no watchdog. torch's process group has one,
which by default ends the whole process. `ncclCommInitRank` cannot be aborted: the thread that waits in it is left
behind. vLLM pins NCCL settings in its own processes, so both sides make the communicator in `unpinned_nccl_env`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from datetime import timedelta
from typing import Any, Protocol

import torch
from torch.distributed import BroadcastOptions, PrefixStore, ProcessGroupGloo, Store, TCPStore

LOOK_SECONDS = 0.1
OVER = "over"


class CircleBroken(RuntimeError):
    """The broadcast cannot go on; the message says what was seen."""


class Member(Protocol):
    """One library's communicator."""

    def broadcast(self, run: torch.Tensor) -> None:
        """Process 0's bytes to all; returns when they are here."""

    def close(self) -> None: ...


class Gloo:
    def __init__(self, store: Store, rank: int, size: int, seconds: float):
        self.group: ProcessGroupGloo | None = ProcessGroupGloo(store, rank, size, timeout=timedelta(seconds=seconds))

    def broadcast(self, run: torch.Tensor) -> None:
        group, options = self.group, BroadcastOptions()
        options.rootRank = 0
        try:
            group.broadcast([run], options).wait()
        finally:
            del group  # or an error, which keeps this frame, would keep the connections

    def close(self) -> None:
        self.group = None  # its connections close with the last reference, which a waiting thread may hold


class Nccl:
    """vLLM's own binding: unlike torch's process group it has no watchdog, which would end the
    whole process when a peer is gone."""

    def __init__(self, store: Store, rank: int, size: int, seconds: float):
        from vllm.distributed.device_communicators.pynccl import PyNcclCommunicator
        from vllm.distributed.utils import StatelessProcessGroup
        from vllm.utils.nccl import unpinned_nccl_env

        device = torch.device("cuda", torch.cuda.current_device())
        with unpinned_nccl_env():
            self.communicator = PyNcclCommunicator(StatelessProcessGroup(rank, size, store), device)
        if self.communicator.disabled:
            raise CircleBroken("vLLM cannot load NCCL in this process")

    def broadcast(self, run: torch.Tensor) -> None:
        stream = torch.cuda.current_stream(run.device)
        self.communicator.broadcast(run, src=0, stream=stream)
        stream.synchronize()

    def close(self) -> None:
        self.communicator.destroy()  # an abort, with a time limit of its own


LIBRARIES: dict[str, Callable[[Store, int, int, float], Member]] = {"gloo": Gloo, "nccl": Nccl}


class Circle:
    """One process's part; making one returns when all have joined. `store` is for the circle's
    own use: a connection serves one call at a time, and joining may keep it busy."""

    def __init__(
        self, library: str, store: Store, rank: int, size: int, seconds: float, look: Callable[[], None]
    ) -> None:
        self.library, self.seconds, self.look = library, seconds, look
        self.device = torch.device("cuda", torch.cuda.current_device()) if library == "nccl" else torch.device("cpu")
        self.member: Member | None = None
        self.lock = threading.Lock()  # guards `member` against a thread that joins too late
        self.left = False

        def join() -> None:
            member = LIBRARIES[library](PrefixStore("circle", store), rank, size, seconds)
            with self.lock:
                left = self.left
                self.member = None if left else member
            if left:  # else who leaves closes it
                member.close()

        self._beside("joining", join)

    def broadcast(self, run: torch.Tensor) -> None:
        """The bytes of process 0 in every process's `run`, on this circle's device."""
        member = self.member
        if member is None:
            raise CircleBroken("this circle was left")
        if run.is_cuda:  # its memory may still be in use on another stream
            torch.cuda.synchronize(run.device)
        self._beside("broadcast", lambda: member.broadcast(run))

    def leave(self) -> None:
        with self.lock:
            self.left = True
            member, self.member = self.member, None
        if member is not None:
            member.close()

    def _beside(self, what: str, work: Callable[[], None]) -> None:
        """Do it in a thread, and look on. Whatever goes wrong, the circle is left."""

        def on_device() -> None:
            if self.device.type == "cuda":
                torch.cuda.set_device(self.device)
            work()

        done = beside(on_device, f"circle {what}")
        deadline = time.monotonic() + self.seconds
        try:
            while not wait([done], LOOK_SECONDS).done:
                self.look()
                if time.monotonic() > deadline:
                    raise CircleBroken(f"{self.library} {what} took longer than {self.seconds:g} s")
            if error := done.exception():
                first = (str(error).strip() or type(error).__name__).splitlines()[0].partition(". ")[0]
                raise CircleBroken(f"{self.library} {what} failed: {first}") from error
        except BaseException:
            self.leave()
            raise


class Sender:
    """What an engine process sees of the sender, in its store, while it waits. A sender that was
    stopped does not even refuse an answer, so it is asked in a thread."""

    def __init__(self, store: TCPStore, silence_seconds: float):
        self.store, self.silence_seconds = store, silence_seconds
        self.answer: Future[bool] | None = None
        self.asked = 0.0

    def look(self) -> None:
        if self.answer is None:
            self.answer, self.asked = beside(lambda: self.store.check([OVER]), "ask the sender"), time.monotonic()
        if self.answer.done():
            answer, self.answer = self.answer, None
            if answer.exception():
                raise CircleBroken("the sender is gone") from answer.exception()
            if answer.result():
                raise CircleBroken(f"the sender gave up: {self.store.get(OVER).decode()}")
        elif time.monotonic() - self.asked > self.silence_seconds:
            raise CircleBroken(f"the sender gave no sign of life for {self.silence_seconds:g} s")


def beside(work: Callable[[], Any], name: str) -> Future:
    """Do it in a thread that nobody has to wait for."""
    done: Future = Future()

    def run() -> None:
        try:
            done.set_result(work())
        except BaseException as error:
            done.set_exception(error)

    threading.Thread(target=run, name=name, daemon=True).start()
    return done


def host_store(address: str, seconds: float) -> TCPStore:
    """The sender's; any free port of this node."""
    return TCPStore(address, 0, is_master=True, timeout=timedelta(seconds=seconds), wait_for_workers=False)


def visit_store(address: str, port: int, seconds: float) -> TCPStore:
    return TCPStore(address, port, is_master=False, timeout=timedelta(seconds=seconds), wait_for_workers=False)
