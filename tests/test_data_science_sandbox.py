"""Model-written code cannot get out: every escape is tried behind every kind of wall this machine has.

A payload is the body of a real `build_model`. It raises "escaped: ..." if it gets through; the same
bodies run without a sandbox do get through, so that a payload which tries nothing is noticed.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import textwrap
import threading
import time

import numpy
import psutil
import pytest

from envs.data_science import scoring
from envs.data_science.sandbox import isolation
from envs.data_science.sandbox.inside import syscalls
from envs.data_science.sandbox.pool import AT_ONCE, Fit, Limits, Pool, Sandbox, SandboxFailed, pool
from envs.data_science.tables import table_of

TABLE = table_of("iris", "")
WALLS = [walls for walls in isolation.WALLS if not isolation.missing(walls)]
GOOD_BODY = "from sklearn.linear_model import LogisticRegression; return LogisticRegression().fit(x, y)"
GOOD = f"def build_model(x, y): {GOOD_BODY}"


@pytest.fixture(params=WALLS)
def walls(request) -> str:
    return request.param


@pytest.fixture(autouse=True)
def nothing_remembered():
    scoring.forget()


@pytest.fixture(scope="module", autouse=True)
def closed_in_the_end():
    yield
    pool.close()


def code(body: str) -> str:
    return "def build_model(x, y):\n" + textwrap.indent(textwrap.dedent(body).strip(), "    ")


def fit(body: str) -> Fit:
    return Fit(code(body), TABLE.x, TABLE.y, TABLE.x, 3, 0, Limits(WALLS[0], 30, 2048))


def error_of(body: str, walls: str, seconds: int = 30, megabytes: int = 2048) -> str:
    result = scoring.evaluate(code(body), TABLE, 0, Limits(walls, seconds, megabytes))
    assert result.auc is None, "the code must not have succeeded"
    return result.error


def outside(body: str) -> str:
    """What the body does without a sandbox: the last line that Python writes about it."""
    script = code(body) + "\nbuild_model([], [])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=30)
    return done.stderr.strip().splitlines()[-1] if done.stderr.strip() else ""


def in_session(session: int) -> list[int]:
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(ProcessLookupError, psutil.Error):
            if os.getsid(process.pid) == session and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process.pid)
    return found


def gone(session: int, seconds: float = 10.0) -> bool:
    end = time.monotonic() + seconds
    while in_session(session) and time.monotonic() < end:
        time.sleep(0.02)
    return not in_session(session)


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
        "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (65, 65))", True, "ValueError: not allowed"
    ),
    "fork": ("import os; os.fork() or os._exit(0)", True),
    "spawn": ("import subprocess; subprocess.check_output('id')", True),
    "shell": ("import os; assert os.system('true') == 0", True, "AssertionError"),
    "exec": ("import os; os.execv('/bin/sh', ['sh', '-c', 'echo escaped >&2'])", True),
    "thread": ("import threading; threading.Thread(target=int).start()", True, "RuntimeError: can't start new thread"),
    "new session": ("import os, time; time.sleep(0.1); os.setsid()", True),
    "become somebody": ("import os; os.setuid(os.getuid())", True),
    "internet socket": ("import socket; socket.socket()", True),
    "unix socket": ("import socket; socket.socket(socket.AF_UNIX)", True),
    "pair of sockets": ("import socket; socket.socketpair()", True),
    "library": ("import ctypes; ctypes.CDLL('libanl.so.1')", True, "OSError: libanl.so.1"),
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
}  # fmt: skip


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
    assert error_of(JOBLIB, walls) == "ValueError: no process but this one (line 5)"


def test_a_call_that_is_not_on_the_list_does_not_exist(walls):
    if os.uname().machine != "x86_64":
        pytest.skip("the numbers are those of x86-64")
    body = f"""
        import ctypes
        libc, open_ones = ctypes.CDLL(None, use_errno=True), []
        for name, number in {CALLS!r}.items():
            if libc.syscall(number, 0, 0, 0, 0, 0, 0) != -1 or ctypes.get_errno() != 13:
                open_ones.append(name)
        raise ValueError(f"open: {{open_ones}}")
    """
    assert error_of(body, walls) == "ValueError: open: [] (line 7)"
    foreign = "import ctypes; ctypes.CDLL(None).syscall(0x40000000 + 39)"  # getpid by the x32 interface
    assert error_of(foreign, walls) == "the process was killed by SIGSYS (Bad system call)"


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
    assert set(saw["root"]) == visible and not {"home", "tmp", "proc", "sys", "dev", "var"} & visible
    assert saw["pid"] == 1 and saw["uid"] == 65534 and saw["host"] == "sandbox"
    assert saw["passwd"] == saw["secret"] == saw["environ"] == "FileNotFoundError"
    assert saw["kill"] == saw["kill all"] == "ProcessLookupError"
    assert saw["tcp"] in ("OSError", "ConnectionRefusedError") and saw["unix"] == "ConnectionRefusedError"
    assert saw["interfaces"] == ["lo"] and saw["written"] == [] and saw["linked"] == "OSError"
    assert saw["set-user-id"] in ("PermissionError", "OSError") and saw["remount"] == -1


def test_what_uses_up_time_is_killed_with_all_that_is_in_it(walls):
    with Pool().sandbox(walls) as sandbox:
        session = sandbox.process.pid
        assert in_session(session)
        spin = """
            import signal, time
            for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
                try: signal.signal(number, signal.SIG_IGN)
                except (OSError, ValueError): pass
            signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
            while True: time.sleep(0.001)
        """
        started = time.monotonic()
        with pytest.raises(TimeoutError):
            sandbox.run(fit(spin), started + 1)
        assert 0.9 < time.monotonic() - started < 10
        assert gone(session)


@pytest.mark.parametrize(
    "body",
    [
        "while True: pass",
        "import os, signal; signal.pthread_sigmask(signal.SIG_BLOCK, [2, 15]); signal.raise_signal(signal.SIGSTOP)",
        "import sys\nwhile True: print('x' * 10**6); print('x' * 10**6, file=sys.stderr)",
    ],
)
def test_time_runs_out_in_words(body):
    before = time.monotonic()
    assert error_of(body, WALLS[0], seconds=1) == "TimeoutError: no result after 1 seconds"
    assert time.monotonic() - before < 30


def test_memory_is_bounded(walls):
    assert error_of("x = bytearray(4 << 30)", walls).startswith("MemoryError")
    assert error_of("import numpy; x = numpy.ones(1 << 29)", walls).startswith("MemoryError")
    hoard = "hoard = []\nwhile True: hoard.append(b'x' * (1 << 24))"
    assert error_of(hoard, walls, megabytes=1024).startswith("MemoryError")
    assert scoring.evaluate(GOOD, TABLE, 0, Limits(walls, 30, 1024)).auc > 0.9, "what remains is enough to work with"


WRITE_RESULTS = "import os\nfor fd in range(3, 1024):\n  try: os.write(fd, {text}); break\n  except OSError: pass\n"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("import os; os._exit(0)", "the process ended without predictions"),
        ("import os; os._exit(77)", "the process ended without predictions"),
        ("import os; os.abort()", "the process was killed by SIGABRT (Aborted)"),
        ("import ctypes; ctypes.string_at(0)", "the process was killed by SIGSEGV (Segmentation fault)"),
        ("import sys; sys.exit('bye')", "SystemExit: bye (line 2)"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt (line 2)"),
        ("class E(Exception):\n  def __str__(self): raise E\nraise E", "the process ended without predictions"),
        (WRITE_RESULTS.format(text="b'x' * 10**6"), "the process sent more than predictions"),
        (WRITE_RESULTS.format(text="b'P' + bytes(8)") + "os._exit(0)", "the process ended without predictions"),
        (WRITE_RESULTS.format(text="b'cos\\nsystem\\n(S\"touch /tmp/parley-escape\"\\ntR.'") + "os._exit(0)",
         "the process ended without predictions"),
        (WRITE_RESULTS.format(text="b'E\\xff\\x00\\n/root/x y'") + "os._exit(0)", "x y"),
    ],
)  # fmt: skip
def test_what_comes_back_is_a_claim(body, said):
    assert error_of(body, WALLS[0]) == said
    assert not os.path.exists("/tmp/parley-escape")


CLASSIFIER = """
class Model:
    def predict_proba(self, x):
        import numpy
        return {given}
return Model()
"""


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("numpy.full((len(x), 3), numpy.nan)", "ValueError: predict_proba gave NaN or infinity"),
        ("numpy.full((len(x), 3), numpy.inf)", "ValueError: predict_proba gave NaN or infinity"),
        ("numpy.full((len(x), 3), 1.1)", "ValueError: predict_proba gave numbers outside [0, 1]"),
        ("numpy.full((len(x), 3), -0.1)", "ValueError: predict_proba gave numbers outside [0, 1]"),
        ("numpy.zeros((len(x), 2))", "ValueError: predict_proba gave shape (75, 2), not (75, 3)"),
        ("numpy.zeros((10**5, 3))", "ValueError: predict_proba gave shape (100000, 3), not (75, 3)"),
        ("numpy.zeros(len(x))", "ValueError: predict_proba gave shape (75,), not (75, 3)"),
        ("[['a'] * 3] * len(x)", "ValueError: could not convert string to float: 'a'"),
        ("[[Model()] * 3] * len(x)", "TypeError: float() argument must be a string or a real number, not 'Model'"),
        ("None", "ValueError: predict_proba gave shape (), not (75, 3)"),
    ],
)
def test_predictions_are_checked(given, said):
    assert error_of(CLASSIFIER.format(given=given), WALLS[0]) == said


def test_an_object_that_runs_code_when_unpickled_is_never_unpickled(tmp_path):
    marker = tmp_path / "marker"
    body = f"""
        from sklearn.dummy import DummyClassifier
        class Evil(DummyClassifier):
            def __reduce__(self): return (open, ({str(marker)!r}, 'w'))
        return Evil().fit(x, y)
    """
    assert scoring.evaluate(code(body), TABLE, 0, Limits(WALLS[0], 30, 2048)).auc == 0.5
    assert not marker.exists()


def test_the_metric_cannot_be_patched_and_nothing_is_remembered_between_splits(walls):
    """Each split is a process of its own: what one leaves behind, labels for instance, no other finds."""
    body = """
        import json, numpy, sklearn.metrics
        from sklearn.dummy import DummyClassifier
        if hasattr(json, "left_behind"): raise Exception("escaped")
        json.left_behind = y
        sklearn.metrics.roc_auc_score = numpy.mean = lambda *a, **k: 1.0
        return DummyClassifier().fit(x, y)
    """
    assert scoring.evaluate(code(body), TABLE, 0, Limits(walls, 30, 2048)).auc == 0.5


def test_a_sandbox_is_used_again_until_it_had_to_be_killed():
    own = Pool()
    with own.sandbox(WALLS[0]) as first:
        for body in ("import os; os._exit(1)", "raise Exception", "import os; os.abort()"):
            first.run(fit(body), time.monotonic() + 20)
    with own.sandbox(WALLS[0]) as second:
        assert second is first
        with pytest.raises(OverflowError):
            second.run(fit(WRITE_RESULTS.format(text="b'x' * 10**6")), time.monotonic() + 20)
    assert own.idle == [] and gone(first.process.pid)
    with own.sandbox(WALLS[0]) as third:
        assert third is not first
        status, sent = third.run(fit(GOOD_BODY), time.monotonic() + 20)
        assert status == 0 and len(sent) == 1 + 8 * 3 * 150
    own.close()
    assert gone(third.process.pid)


def test_a_keeper_killed_from_outside_costs_no_attempt():
    limits = Limits(WALLS[0], 30, 2048)
    scoring.evaluate(GOOD, TABLE, 1, limits)
    for warm in pool.idle:
        os.killpg(warm.process.pid, signal.SIGKILL)
    assert scoring.evaluate(GOOD, TABLE, 2, limits).auc > 0.9

    broken = Sandbox(WALLS[0])
    threading.Timer(0.3, lambda: os.killpg(broken.process.pid, signal.SIGKILL)).start()
    with pytest.raises(SandboxFailed, match="died"):
        broken.run(fit("while True: pass"), time.monotonic() + 20)


def test_a_sandbox_dies_with_its_worker(walls):
    script = f"""
import os, sys, threading, time
sys.path.insert(0, {os.getcwd()!r})
from envs.data_science.sandbox.pool import Fit, Limits, Sandbox
from envs.data_science.tables import table_of
t, box = table_of("iris", ""), Sandbox({walls!r})
spin = Fit("def build_model(x, y):\\n  while True: pass", t.x, t.y, t.x, 3, 0, Limits({walls!r}, 60, 2048))
threading.Thread(target=box.run, args=(spin, time.monotonic() + 60), daemon=True).start()
time.sleep(0.5)
print(box.process.pid, flush=True)
time.sleep(60)
"""
    worker = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    session = int(worker.stdout.readline())
    assert len(in_session(session)) >= 2, "a keeper and a fit at work"
    worker.kill()
    worker.wait()
    worker.stdout.close()
    assert gone(session)


def test_no_more_sandboxes_at_work_than_there_are_processors():
    own, together = Pool(), threading.Barrier(AT_ONCE)
    at_work, most, lock = 0, 0, threading.Lock()

    def use():
        nonlocal at_work, most
        with own.sandbox(WALLS[0]):
            with lock:
                at_work += 1
                most = max(most, at_work)
            together.wait(60)
            time.sleep(0.01)
            with lock:
                at_work -= 1

    users = [threading.Thread(target=use) for _ in range(4 * AT_ONCE)]
    for user in users:
        user.start()
    for user in users:
        user.join()
    assert most == AT_ONCE and len(own.idle) <= AT_ONCE
    own.close()


# Which walls


@pytest.fixture
def fresh_choice():
    isolation.choose.cache_clear()
    yield
    isolation.choose.cache_clear()


def test_walls_that_are_not_here_are_refused_or_replaced_aloud(fresh_choice, monkeypatch, tmp_path, caplog):
    monkeypatch.setenv("PATH", str(tmp_path))  # no bwrap on it
    with pytest.raises(ValueError, match="isolation='bubblewrap' cannot be met here .*bwrap is not on the PATH"):
        isolation.choose("bubblewrap")
    with pytest.raises(ValueError, match="isolation='chroot' must be one of: auto, bubblewrap, namespaces, process"):
        isolation.choose("chroot")
    if "namespaces" not in WALLS:
        pytest.skip("no namespaces here")
    assert isolation.choose("auto") == "namespaces"
    (warning,) = [record.getMessage() for record in caplog.records if record.name == "parley.data_science"]
    assert "bwrap is not on the PATH" in warning and "namespaces that Parley makes itself" in warning


def test_without_user_namespaces_only_the_filter_is_left_and_it_says_so():
    """For real: in a user namespace that may have no further ones."""
    if shutil.which("unshare") is None or "namespaces" not in WALLS:
        pytest.skip("needs the tool unshare, and namespaces to begin with")
    script = """
import logging; logging.basicConfig(format="%(message)s")
from envs.data_science.game import DataScience
for demand in ("bubblewrap", "namespaces"):
    try: DataScience(isolation=demand)
    except ValueError as error: print(error)
game = DataScience()
game.reset(0)
step = game.step("def build_model(x, y): from sklearn.naive_bayes import GaussianNB; return GaussianNB().fit(x, y)")
print(game.limits.walls, game.outcome()["coder"] > 0.9)
"""
    inner = f"echo 0 > /proc/sys/user/max_user_namespaces && exec {sys.executable} -c '{script}'".replace('"', '\\"')
    done = subprocess.run(
        ["unshare", "-Ur", "sh", "-c", inner.replace('\\"', '"')], capture_output=True, text=True, timeout=60
    )
    lines = done.stdout.splitlines()
    assert len(lines) == 3, done.stderr
    assert "isolation='bubblewrap' cannot be met here" in lines[0]
    assert "isolation='namespaces' cannot be met here" in lines[1]
    assert lines[2] == "process True"
    assert "without namespaces" in done.stderr and "only the system-call filter and the limits hold it" in done.stderr


# The filter as a program, on both architectures


def judged(program: bytes, architecture: int, number: int, *arguments: int) -> int:
    """What the kernel's interpreter answers: the filter's instructions, step by step."""
    data = struct.pack("<IIQ6Q", number, architecture, 0, *(arguments + (0,) * 6)[:6])
    code, place, value = list(struct.iter_unpack("=HBBI", program)), 0, 0
    while True:
        kind, true, false, constant = code[place]
        if kind == 0x20:
            value = struct.unpack_from("<I", data, constant)[0]
            place += 1
        elif kind in (0x15, 0x35):
            held = value == constant if kind == 0x15 else value >= constant
            place += 1 + (true if held else false)
        else:
            assert kind == 0x06
            return constant


FORBIDDEN = (  # x86-64, 64-bit ARM: open a file, run a program, start a process, signal, connect, trace, mount, ...
    (257, 56), (437, 437), (59, 221), (56, 220), (435, 435), (62, 129), (41, 198), (42, 203), (101, 117), (165, 40),
    (272, 97), (319, 279), (425, 425), (310, 270), (311, 271), (250, 219), (321, 280), (434, 434), (263, 35),
)  # fmt: skip


@pytest.mark.parametrize("machine", syscalls.ARCHITECTURES)
def test_the_filter_allows_the_list_and_nothing_else(machine):
    column, architecture = syscalls.ARCHITECTURES[machine]
    program = syscalls.program(machine, own_process=42)
    allowed = {numbers[column] for numbers in syscalls.CALLS.values()}
    assert len(allowed) == len(syscalls.CALLS), "no number twice"
    conditional = {"x86_64": (72, 234, 302), "aarch64": (25, 131, 261)}[machine]
    for number in range(600):
        if number not in conditional:
            expected = 0x7FFF0000 if number in allowed else 0x0005000D
            assert judged(program, architecture, number, 7, 7) == expected
    for forbidden in FORBIDDEN:  # whatever the list says
        assert judged(program, architecture, forbidden[column], 0, 0) == 0x0005000D
    fcntl, tgkill, prlimit = conditional
    assert [command for command in range(2000) if judged(program, architecture, fcntl, 5, command) == 0x7FFF0000] == [
        0, 1, 2, 3, 1030,
    ]  # fmt: skip
    assert [who for who in range(100) if judged(program, architecture, tgkill, who) == 0x7FFF0000] == [42]
    assert [who for who in range(100) if judged(program, architecture, prlimit, who) == 0x7FFF0000] == [0, 42]
    assert judged(program, architecture, 0x40000000) == 0x80000000
    assert judged(program, 0x40000003, 20) == 0x80000000  # 32-bit x86


@pytest.mark.filterwarnings("ignore")
def test_every_classifier_with_its_defaults_works_inside():
    """Nothing that scikit-learn loads late is missing where no file can be opened."""
    from sklearn.utils import all_estimators

    wide = table_of("breast_cancer", "")
    x, y, worked = wide.x[::4], wide.y[::4], 0
    for name, made_by in all_estimators(type_filter="classifier"):
        try:
            made_by().fit(x, y).predict_proba(x)
        except Exception:
            continue  # needs an estimator to wrap, or gives no probabilities
        body = f"from {made_by.__module__} import {name}; return {name}().fit(x, y)"
        with pool.sandbox("process") as sandbox:
            told = Fit(code(body), x, y, x, 2, 0, Limits("process", 60, 2048))
            status, sent = sandbox.run(told, time.monotonic() + 60)
        assert (status, sent[:1]) == (0, b"P"), (name, sent[:200])
        assert numpy.isfinite(numpy.frombuffer(sent, "<f8", offset=1)).all()
        worked += 1
    assert worked >= 20
