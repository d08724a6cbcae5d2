"""A root of its own: what bubblewrap does, for machines that do not have it.

    namespaces.py VISIBLE -- PROGRAM ARGUMENTS...     VISIBLE: JSON, as `isolation.visible()` lists it

Starts the program as the first process of new user, mount, process, network, IPC, host-name
and control-group namespaces. Its root is an empty file system that holds the visible places
and nothing else, all of it read-only; there is no /proc, no /dev, no way back to the old
root; its network has no device that is up. It is nobody and holds no capability.

Uses the standard library only, and runs in a process of its own with one thread: a
namespace cannot be entered on behalf of a worker that has many.
"""

from __future__ import annotations

import ctypes
import json
import os
import platform
import sys

NEW_NAMESPACES = 0x00020000 | 0x02000000 | 0x04000000 | 0x08000000 | 0x10000000 | 0x20000000 | 0x40000000
READ_ONLY, NO_SETUID, NO_DEVICES, REMOUNT, BIND, RECURSIVE, PRIVATE = 1, 2, 4, 32, 4096, 16384, 1 << 18
# statvfs flag -> mount flag: a mount that a user namespace inherits keeps these when it is mounted again
KEPT = {1: 1, 2: 2, 4: 4, 8: 8, 1024: 1024, 2048: 2048, 4096: 1 << 21}
DETACH = 2
PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
NOBODY = 65534
OLD_ROOT = "/.outside"
PLACE = "/tmp"  # what the new root is mounted over, in this mount namespace only

libc = ctypes.CDLL(None, use_errno=True)


def checked(what: str, result: int) -> None:
    if result != 0:
        raise OSError(ctypes.get_errno(), f"{what}: {os.strerror(ctypes.get_errno())}")


def mount(source: str, target: str, kind: str | None, flags: int, options: str | None = None) -> None:
    encoded = [None if text is None else text.encode() for text in (source, target, kind, options)]
    checked(f"mount {target}", libc.mount(*encoded[:3], ctypes.c_ulong(flags), encoded[3]))


def become_nobody() -> None:
    """Enter the namespaces; in them, one user and one group exist, both called nobody."""
    user, group = os.geteuid(), os.getegid()
    checked("unshare", libc.unshare(NEW_NAMESPACES))
    for name, text in (("setgroups", "deny"), ("uid_map", f"{NOBODY} {user} 1"), ("gid_map", f"{NOBODY} {group} 1")):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)


def move_into_new_root(visible: list[list[str]]) -> None:
    mount("none", "/", None, RECURSIVE | PRIVATE)
    mount("tmpfs", PLACE, "tmpfs", NO_SETUID | NO_DEVICES, "size=1m,mode=755")
    os.mkdir(PLACE + OLD_ROOT)
    pivot_root = (ctypes.c_long(PIVOT_ROOT[platform.machine()]), PLACE.encode(), (PLACE + OLD_ROOT).encode())
    checked("pivot_root", libc.syscall(*pivot_root))
    os.chdir("/")
    for path, *link in visible:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if link:
            os.symlink(link[0], path)
            continue
        outside = OLD_ROOT + path
        if os.path.isdir(outside):
            os.makedirs(path, exist_ok=True)
        elif not os.path.exists(path):
            open(path, "x").close()
        mount(outside, path, None, BIND)
        here = os.statvfs(path).f_flag
        kept = sum(flag for found, flag in KEPT.items() if here & found)
        mount("none", path, None, kept | BIND | REMOUNT | READ_ONLY | NO_SETUID | NO_DEVICES)
    checked("umount", libc.umount2(OLD_ROOT.encode(), DETACH))
    os.rmdir(OLD_ROOT)
    mount("none", "/", None, BIND | REMOUNT | READ_ONLY | NO_SETUID | NO_DEVICES)


def main() -> None:
    visible, program = json.loads(sys.argv[1]), sys.argv[3:]
    become_nobody()
    child = os.fork()  # the first process of the new process namespace
    if child == 0:
        move_into_new_root(visible)
        libc.sethostname(b"sandbox", 7)
        os.execv(program[0], program)  # as nobody, which ends every capability
    os.closerange(0, 3)
    os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) & 0xFF)


if __name__ == "__main__":
    main()
