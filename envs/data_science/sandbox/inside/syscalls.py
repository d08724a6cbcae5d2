"""The system-call filter: what is not listed here does not exist for model-written code.

A list of what may be done, not of what may not. With it a process computes, writes to
descriptors it already has, and ends. It cannot open, look up or change a file, start a
process or a thread, run a program, open a socket, signal or trace another process, make a
namespace or mount anything: each such call fails with EACCES, which Python raises as
PermissionError. A filter, once installed, is never lifted.

Two calls of x86-64 no filter is asked about: newer kernels let `uretprobe` (335) and `uprobe`
(336) pass, for the probes that root sets. From anywhere but a probe's own trampoline, the first
ends the process (SIGILL) and the second does nothing (ENXIO).

Runs inside the sandbox: the standard library is all there is.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct

# name: number on x86-64, number on 64-bit ARM
CALLS = {
    "brk": (12, 214),
    "clock_getres": (229, 114),
    "clock_gettime": (228, 113),
    "clock_nanosleep": (230, 115),
    "close": (3, 57),
    "dup": (32, 23),
    "exit": (60, 93),
    "exit_group": (231, 94),
    "fstat": (5, 80),
    "futex": (202, 98),
    "getegid": (108, 177),
    "geteuid": (107, 175),
    "getgid": (104, 176),
    "getpid": (39, 172),
    "getppid": (110, 173),
    "getrandom": (318, 278),
    "getrusage": (98, 165),
    "gettid": (186, 178),
    "gettimeofday": (96, 169),
    "getuid": (102, 174),
    "lseek": (8, 62),
    "madvise": (28, 233),
    "membarrier": (324, 283),
    "mmap": (9, 222),
    "mprotect": (10, 226),
    "mremap": (25, 216),
    "munmap": (11, 215),
    "nanosleep": (35, 101),
    "pread64": (17, 67),
    "read": (0, 63),
    "readv": (19, 65),
    "rt_sigaction": (13, 134),
    "rt_sigprocmask": (14, 135),
    "rt_sigreturn": (15, 139),
    "sched_getaffinity": (204, 123),
    "sched_yield": (24, 124),
    "sigaltstack": (131, 132),
    "times": (100, 153),
    "uname": (63, 160),
    "write": (1, 64),
    "writev": (20, 66),
}
DESCRIPTOR_COMMANDS = (0, 1, 2, 3, 1030)  # F_DUPFD, F_GETFD, F_SETFD, F_GETFL, F_DUPFD_CLOEXEC; no F_SETFL, no locks
ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}  # column above, AUDIT_ARCH

_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06  # BPF: ld word absolute, jeq, jge, ret
_NUMBER_AT, _ARCHITECTURE_AT, _FIRST_ARGUMENT_AT = 0, 4, 16  # offsets in struct seccomp_data; arguments are 8 bytes
_ALLOW, _REFUSE, _KILL = 0x7FFF0000, 0x00050000 | errno.EACCES, 0x80000000
_FOREIGN = 0x40000000  # x86-64: calls of the x32 interface start here
_SET_SECCOMP, _FILTER_MODE, _SET_NO_NEW_PRIVILEGES, _SET_DUMPABLE = 22, 2, 38, 4  # prctl


def program(machine: str, own_process: int) -> bytes:
    """The filter as BPF instructions. Only fit for the process whose number it is given:
    that is the only one that it may send signals to (abort) or ask the limits of."""
    column, architecture = ARCHITECTURES[machine]
    code = [(_LOAD, 0, 0, _ARCHITECTURE_AT), (_EQUAL, 1, 0, architecture), (_RETURN, 0, 0, _KILL)]
    code += [(_LOAD, 0, 0, _NUMBER_AT), (_AT_LEAST, 0, 1, _FOREIGN), (_RETURN, 0, 0, _KILL)]
    for numbers in CALLS.values():
        code += [(_EQUAL, 0, 1, numbers[column]), (_RETURN, 0, 0, _ALLOW)]
    fcntl, tgkill, prlimit = ((72, 25), (234, 131), (302, 261))
    code += _only_with(fcntl[column], 1, DESCRIPTOR_COMMANDS)
    code += _only_with(tgkill[column], 0, (own_process,))
    code += _only_with(prlimit[column], 0, (0, own_process))
    code.append((_RETURN, 0, 0, _REFUSE))
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in code)


def _only_with(number: int, argument: int, values: tuple[int, ...]) -> list[tuple[int, int, int, int]]:
    """Allow a call if its argument (0 is the first; its low 32 bits) is one of `values`, else refuse it."""
    checks = []
    for value in values:
        checks += [(_EQUAL, 0, 1, value), (_RETURN, 0, 0, _ALLOW)]
    inside = [(_LOAD, 0, 0, _FIRST_ARGUMENT_AT + 8 * argument), *checks, (_RETURN, 0, 0, _REFUSE)]
    return [(_EQUAL, 0, len(inside), number), *inside]


def install() -> None:
    """From here on this process, and whatever it became, is held to the list. Raises OSError
    where the kernel refuses, and KeyError on an architecture that the list is not made for."""
    code = program(platform.machine(), os.getpid())
    instructions = ctypes.create_string_buffer(code, len(code))

    class Filter(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("instructions", ctypes.c_void_p)]

    call = ctypes.CDLL(None, use_errno=True).prctl
    chosen = Filter(len(code) // 8, ctypes.addressof(instructions))
    for arguments in (
        (_SET_DUMPABLE, 0, 0, 0, 0),
        (_SET_NO_NEW_PRIVILEGES, 1, 0, 0, 0),
        (_SET_SECCOMP, _FILTER_MODE, ctypes.byref(chosen), 0, 0),
    ):
        if call(*arguments) != 0:
            raise OSError(ctypes.get_errno(), f"prctl {arguments[0]}: {os.strerror(ctypes.get_errno())}")
