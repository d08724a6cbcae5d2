"""Model-written code cannot get out: every escape is tried behind every kind of wall this machine has.

A payload is the body of a real `build_model`. It raises an Exception if it gets through; the same
bodies run without a sandbox do get through, so that a payload which tries nothing is noticed.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from envs.data_science.sandbox import isolation
from envs.data_science.sandbox.inside import syscalls
from tests.support.sandbox_payloads import WALLS, code, error_of, heard
from tests.support.sandbox_payloads import closed_in_the_end as closed_in_the_end
from tests.support.sandbox_payloads import each_of_the_walls as each_of_the_walls
from tests.support.sandbox_payloads import nothing_remembered as nothing_remembered


def outside(body: str) -> str:
    """What the body does without a sandbox: the last line that Python writes about it."""
    script = code(body) + "\nbuild_model([], [])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=30)
    return done.stderr.strip().splitlines()[-1] if done.stderr.strip() else ""


def test_this_machine_has_something_to_test():
    assert "process" in WALLS
    assert ("bubblewrap" in WALLS) == (shutil.which("bwrap") is not None)


# name: (body, whether it gets through without a sandbox, the error inside if it is not a PermissionError).
# None of them does harm should it get through: signals are number 0, files are only opened.
ESCAPES = {
    "host file": ("open('/etc/passwd')", True),
    "home": ("import os; os.listdir(os.path.expanduser('~'))", True),
    "environment of the host": ("import os; os.environ['PARLEY_TEST_SECRET']", True, "KeyError"),
    "environment of the parent": ("import os; open(f'/proc/{os.getppid()}/environ')", True),
    "memory of the parent": ("import os; open(f'/proc/{os.getppid()}/mem', 'rb')", True),
    "its own memory": ("open('/proc/self/mem', 'rb')", True),
    "labels in the installed packages": (
        "from sklearn.datasets import load_iris; load_iris()", True, "ModuleNotFoundError"
    ),
    "write to tmp": ("open('/tmp/parley-escape', 'w')", True),
    "write to shared memory": ("open('/dev/shm/parley-escape', 'w')", True),
    "write to the installation": ("import sklearn; open(sklearn.__file__, 'r+')", True),
    "unlink": ("import os; os.unlink('/tmp/parley-sacrifice')", True),
    "symlink": ("import os; os.symlink('/etc', '/tmp/parley-escape')", True),
    "make a folder": ("import os; os.mkdir('/tmp/parley-escape')", True),
    "change a mode": ("import os; os.chmod('/tmp/parley-sacrifice', 0o777)", True),
    "rename": ("import os; os.rename('/tmp/parley-sacrifice', '/tmp/parley-escape')", True),
    "kill the parent": ("import os; os.kill(os.getppid(), 0)", True),
    "kill everybody": ("import os; os.kill(-1, 0)", True),
    "kill its group": ("import os; os.killpg(0, 0)", True),
    "limits of the parent": ("import os, resource; resource.prlimit(os.getppid(), resource.RLIMIT_CPU)", True),
    "raise its limits": (
        "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (65, 65))", True, "ValueError"
    ),
    "fork": ("import os; os.fork() or os._exit(0)", True),
    "spawn": ("import subprocess; subprocess.check_output('id')", True),
    "shell": ("import os; assert os.system('true') == 0", True, "AssertionError"),
    "exec": ("import os; os.execv('/bin/sh', ['sh', '-c', 'echo escaped >&2'])", True),
    "thread": ("import threading; threading.Thread(target=int).start()", True, "RuntimeError"),
    "new session": ("import os, time; time.sleep(0.1); os.setsid()", True),
    "become somebody": ("import os; os.setuid(os.getuid())", True),
    "internet socket": ("import socket; socket.socket()", True),
    "unix socket": ("import socket; socket.socket(socket.AF_UNIX)", True),
    "pair of sockets": ("import socket; socket.socketpair()", True),
    "library": ("import ctypes; ctypes.CDLL('libanl.so.1')", True, "OSError"),
    "memory file": ("import os; os.memfd_create('x')", True),
    "pipe": ("import os; os.pipe()", True),
    "state of shared descriptors": (
        "import os, fcntl\nfor fd in range(1024):\n  try: fcntl.fcntl(fd, fcntl.F_GETFD)\n  except OSError: continue\n"
        "  fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL))",
        True,
    ),
}  # fmt: skip
JOBLIB = """
import os
from joblib import Parallel, delayed
assert Parallel(2, "loky")([delayed(os.getpid)()]) == [os.getpid()]
raise ValueError("no process but this one")
"""
# Calls that Python has no function for: name, x86-64 number. Arguments are zeros; what counts is EACCES (13),
# which none of them answers by itself.
CALLS = {
    "ptrace": 101, "process_vm_readv": 310, "process_vm_writev": 311, "mount": 165, "unshare": 272, "setns": 308,
    "pivot_root": 155, "chroot": 161, "clone3": 435, "clone": 56, "vfork": 58, "shmget": 29, "mq_open": 240,
    "keyctl": 250, "add_key": 248, "bpf": 321, "io_uring_setup": 425, "perf_event_open": 298, "userfaultfd": 323,
    "pidfd_open": 434, "pidfd_send_signal": 424, "pidfd_getfd": 438, "execveat": 322, "seccomp": 317,
    "init_module": 175, "rt_sigqueueinfo": 129, "tkill": 200, "open_tree": 428, "fsopen": 430, "prctl": 157,
    "sysinfo": 99,  # tells of the whole machine: two programs could talk by it
}  # fmt: skip
PROBES = (335, 336)  # uretprobe, uprobe


@pytest.fixture
def around(monkeypatch):
    """What the escapes are after; nothing of it is left behind."""
    monkeypatch.setenv("PARLEY_TEST_SECRET", "swordfish")
    with open("/tmp/parley-sacrifice", "w"):
        pass
    yield
    for path in ("/tmp/parley-sacrifice", "/tmp/parley-escape", "/dev/shm/parley-escape"):
        with contextlib.suppress(FileNotFoundError):
            os.rmdir(path) if os.path.isdir(path) and not os.path.islink(path) else os.unlink(path)


@pytest.mark.parametrize("name", ESCAPES)
def test_an_escape_fails(name, walls, around):
    body, _, *other = ESCAPES[name]
    assert error_of(f"{body}\nraise Exception('escaped')", walls).startswith(other[0] if other else "PermissionError")
    assert os.path.exists("/tmp/parley-sacrifice") and not os.path.lexists("/tmp/parley-escape")
    assert not os.path.lexists("/dev/shm/parley-escape")


@pytest.mark.parametrize("name", [name for name, (_, free, *_) in ESCAPES.items() if free])
def test_the_same_escape_succeeds_without_a_sandbox(name, around):
    if name == "raise its limits" and os.geteuid() != 0:
        pytest.skip("only root may raise limits")
    assert "escaped" in outside(f"{ESCAPES[name][0]}\nraise Exception('escaped')")


def test_joblib_works_in_one_process(walls):
    assert error_of(JOBLIB, walls) == "ValueError (line 5)"


def test_a_call_that_is_not_on_the_list_does_not_exist(walls):
    if os.uname().machine != "x86_64":
        pytest.skip("the numbers are those of x86-64")
    listed = {numbers[0] for numbers in syscalls.CALLS.values()} | {72, 234, 302}  # these with some arguments only
    body = f"""
        import ctypes
        libc, open_ones = ctypes.CDLL(None, use_errno=True), []
        for name, number in {CALLS!r}.items():
            if libc.syscall(number, 0, 0, 0, 0, 0, 0) != -1 or ctypes.get_errno() != 13:
                open_ones.append(name)
        text = f"open: {{open_ones}}"
    """
    assert heard(body, walls) == "open: []"
    numbers = [each for each in range(1024) if each not in listed and each not in PROBES]
    body = f"""
        import ctypes
        libc, open_ones = ctypes.CDLL(None, use_errno=True), []
        for number in {numbers}:
            if libc.syscall(number, 0, 0, 0, 0, 0, 0) != -1 or ctypes.get_errno() != 13:
                open_ones.append(number)
        text = f"open: {{open_ones}}"
    """
    assert len(numbers) > 970 and heard(body, walls) == "open: []"
    foreign = "import ctypes; ctypes.CDLL(None).syscall(0x40000000 + 39)"  # getpid by the x32 interface
    assert error_of(foreign, walls) == "the process was killed by SIGSYS (Bad system call)"


def test_the_two_calls_that_no_filter_is_asked_about_do_nothing(walls):
    """They are in the kernel's own exception to filters since probes return by a call."""
    if os.uname().machine != "x86_64":
        pytest.skip("the numbers are those of x86-64")
    call = "import ctypes; libc = ctypes.CDLL(None, use_errno=True)\ngot = libc.syscall({}, 0, 0, 0, 0, 0, 0)\n"
    uprobe = heard(f"{call.format(336)}text = f'{{got}} {{ctypes.get_errno()}}'", walls)
    assert uprobe in (f"-1 {errno.ENXIO}", f"-1 {errno.EACCES}")
    refused = "assert got == -1 and ctypes.get_errno() == 13\nraise LookupError"
    killed = "the process was killed by SIGILL (Illegal instruction)"
    assert error_of(f"{call.format(335)}{refused}", walls) in (killed, "LookupError (line 5)")


def test_a_listening_server_hears_nothing(walls):
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_UNIX) as unix:
        unix.bind("\0parley-test-server")
        unix.listen()
        port = server.getsockname()[1]
        for body in (
            f"import socket; s = socket.socket(); s.connect(('127.0.0.1', {port})); raise Exception('escaped')",
            "import socket; s = socket.socket(socket.AF_UNIX); s.connect('\\0parley-test-server')\n"
            "raise Exception('escaped')",
        ):
            assert "escaped" in outside(body)
            assert error_of(body, walls).startswith("PermissionError")


PROBING = """
import json, os, socket
def tried(what):
    try: return str(what())
    except Exception as error: return type(error).__name__
print(json.dumps({
    "root": sorted(os.listdir("/")), "pid": os.getpid(), "uid": os.getuid(), "host": socket.gethostname(),
    "passwd": tried(lambda: open("/etc/passwd").read()),
    "secret": tried(lambda: open(SECRET).read()),
    "environ": tried(lambda: open(f"/proc/{PARENT}/environ").read()),
    "kill": tried(lambda: os.kill(PARENT, 0)),
    "kill all": tried(lambda: os.kill(-1, 0)),
    "tcp": tried(lambda: socket.create_connection(("127.0.0.1", PORT), 2)),
    "unix": tried(lambda: socket.socket(socket.AF_UNIX).connect(UNIX)),
    "interfaces": [name for _, name in socket.if_nameindex()],
    "written": [place for place in ("/", "/tmp", "/usr/lib", "/etc", "/dev/shm", PACKAGES, INSIDE)
                if tried(lambda: os.unlink(open(place + "/parley-escape", "w").name)) not in
                ("OSError", "FileNotFoundError", "PermissionError", "NotADirectoryError")],
    "linked": tried(lambda: os.symlink("/etc", "/escape")),
    "set-user-id": tried(lambda: os.setuid(0)),
    "remount": __import__("ctypes").CDLL(None).mount(b"none", b"/usr/lib", None, 32 | 4096, None),
}))
"""


@pytest.mark.parametrize("behind", [walls for walls in WALLS if walls != "process"])
def test_the_walls_hold_without_the_filter(behind, tmp_path):
    """The walls are what holds if the filter has a hole: here any Python runs behind them, unfiltered."""
    secret = tmp_path / "secret"
    secret.write_text("swordfish")
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_UNIX) as unix:
        unix.bind("\0parley-test-walls")
        unix.listen()
        known = {"SECRET": str(secret), "PARENT": os.getpid(), "PORT": server.getsockname()[1]}
        known |= {"UNIX": "\0parley-test-walls", "PACKAGES": isolation.packages()[0], "INSIDE": str(isolation.INSIDE)}
        script = "".join(f"{name} = {value!r}\n" for name, value in known.items()) + PROBING
        program = [isolation.python(), "-sPS", "-c", script]
        done = subprocess.run(
            isolation.command(behind, program), env=isolation.ENVIRONMENT, capture_output=True, text=True, timeout=30
        )
    assert done.returncode == 0, done.stderr
    saw = json.loads(done.stdout)
    visible = {path.split("/")[1] for path, *_ in isolation.visible()}
    python = {Path(place).parts[1] for place in (sys.prefix, sys.base_prefix, isolation.INSIDE)}
    assert set(saw["root"]) == visible and not ({"home", "tmp", "proc", "sys", "dev", "var"} - python) & visible
    assert saw["pid"] == 1 and saw["uid"] == 65534 and saw["host"] == "sandbox"
    assert saw["passwd"] == saw["secret"] == saw["environ"] == "FileNotFoundError"
    assert saw["kill"] == saw["kill all"] == "ProcessLookupError"
    assert saw["tcp"] in ("OSError", "ConnectionRefusedError") and saw["unix"] == "ConnectionRefusedError"
    assert saw["interfaces"] == ["lo"] and saw["written"] == [] and saw["linked"] == "OSError"
    assert saw["set-user-id"] in ("PermissionError", "OSError") and saw["remount"] == -1
