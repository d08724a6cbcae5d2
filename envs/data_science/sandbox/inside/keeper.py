"""The trusted process of a sandbox: it loads scikit-learn once and forks for each fit and each prediction.

    worker --- requests (fd 0) ---> keeper --- fork ---> limits, filter, model code: a fit, or a prediction
           <-- reports (fd 1) -----                       |
           <-- results (its own pipe) --------------------+

Neither opens a file, not even one that the walls around the sandbox would let it see: the
data sets that come with scikit-learn and other packages hold the classes of the other half.

The keeper reads no data: each process reads its own request, so nothing of one is in the
memory that the next one is a copy of. A fit sees one half of the rows with their classes, and
sends a pickle of its model. When it has ended, another process opens the pickle, is given the
other half without classes, and sends numbers. Either may send the names of an error's class
instead; the worker believes none of it. Neither can reach the keeper (see `syscalls`), so a
report - a wait status - is the keeper's own word.

The keeper ends when its requests end: it cannot outlive the worker.

Runs inside the sandbox: the standard library, numpy and scikit-learn are all there is.
    keeper.py RESULTS_FD NULL_FD probe|serve PACKAGES...
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import pickle
import random
import resource
import select
import signal
import socket
import struct
import sys
from types import CodeType

REQUESTS, REPORTS = 0, 1
READY = 0x70617269  # the first report
SOURCE = "<build_model>"
ERROR_BYTES = 1000
UNFIT, MISSHAPEN = b"U", b"S"  # what was returned is no model that can be sent; predictions of another shape
COMPUTING = (  # what code for scikit-learn imports besides scikit-learn itself
    "array", "bisect", "cmath", "collections", "contextlib", "copy", "csv", "dataclasses", "datetime", "decimal",
    "enum", "fractions", "functools", "hashlib", "heapq", "inspect", "io", "itertools", "json", "logging", "math",
    "numbers", "operator", "os", "pickle", "pprint", "random", "re", "statistics", "string", "sys", "textwrap",
    "threading", "time", "traceback", "types", "typing", "warnings", "cloudpickle",
    "numpy.fft", "numpy.linalg", "numpy.ma", "numpy.polynomial", "numpy.random", "pandas",
    "scipy.cluster", "scipy.fft", "scipy.integrate", "scipy.interpolate", "scipy.linalg", "scipy.ndimage",
    "scipy.optimize", "scipy.signal", "scipy.sparse", "scipy.sparse.csgraph", "scipy.sparse.linalg",
    "scipy.spatial", "scipy.spatial.distance", "scipy.special", "scipy.stats",
    "sklearn.experimental.enable_halving_search_cv", "sklearn.experimental.enable_iterative_imputer",
    "sklearn.utils._pprint",  # imported by the first repr of an estimator
)  # fmt: skip


def preload() -> None:
    """All that a fit can import: it opens no file, so what is not loaded now does not exist for it."""
    import sklearn

    for name in (*(f"sklearn.{each}" for each in sklearn.__all__), *COMPUTING):
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    from sklearn.neighbors import KNeighborsClassifier

    KNeighborsClassifier(1).fit([[0.0], [1.0]], [0, 1]).predict([[0.0]])  # looks for the thread pools, once


def limit(seconds: int, megabytes: int) -> None:
    """Hard limits of one process. Without files, processes and threads, this is all it can use up."""
    memory = megabytes * 2**20
    for what, most in (
        (resource.RLIMIT_AS, memory),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_CPU, seconds + 1),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_MEMLOCK, 0),
        (resource.RLIMIT_NOFILE, 64),
        (resource.RLIMIT_NPROC, 0),
    ):
        resource.setrlimit(what, (most, most))


def enclose(results: int, null: int, seconds: int, megabytes: int) -> None:
    """Give up everything that model code does not need. What follows is not trusted any more."""
    from syscalls import install

    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    os.closerange(3, results)
    os.closerange(results + 1, 2**20)
    limit(seconds, megabytes)
    install()


def work(results: int, null: int) -> None:
    """One request, from reading it to sending the result."""
    try:
        import numpy

        request = json.loads(_exactly(REQUESTS, struct.unpack("<I", _exactly(REQUESTS, 4))[0]))
        rows, columns = request["rows"], request["columns"]
        x = numpy.frombuffer(_exactly(REQUESTS, 8 * rows * columns)).reshape(rows, columns).copy()
        rest = _exactly(REQUESTS, request["rest"])
        enclose(results, null, request["seconds"], request["megabytes"])
        random.seed(request["seed"])
        numpy.random.seed(request["seed"])
        if "code" in request:
            message = fitted(request["code"], x, numpy.frombuffer(rest, dtype=numpy.int64).copy())
        else:
            message = predicted(rest, x, request["classes"])
    except BaseException as error:
        names = [each.__name__ for each in type(error).__mro__]
        message = "\n".join([f"E{line_of(error)}", *names]).encode("utf-8", "replace")[:ERROR_BYTES]
    view = memoryview(message)
    while view:
        view = view[os.write(results, view) :]
    os._exit(0)


def fitted(code: str, x, y) -> bytes:
    """The model as a pickle, by value: classes and functions of the program go with it."""
    import cloudpickle

    world = {"__name__": "__main__", "__builtins__": __builtins__}
    exec(compile(code, SOURCE, "exec"), world)
    model = world["build_model"](x, y)
    if not hasattr(model, "predict_proba"):
        return UNFIT
    try:
        return b"M" + cloudpickle.dumps(model)
    except (pickle.PicklingError, AttributeError, TypeError):
        return UNFIT


def predicted(model: bytes, x, classes: int) -> bytes:
    """Rows x classes as numbers; the columns of classes that the model has never seen are 0."""
    import numpy

    model = pickle.loads(model)
    given = numpy.asarray(model.predict_proba(x), dtype=numpy.float64)
    known = [int(each) for each in getattr(model, "classes_", range(classes))]
    if given.shape != (len(x), len(known)) or len({*known}) < len(known) or not {*known} <= {*range(classes)}:
        return MISSHAPEN
    aligned = numpy.zeros((len(x), classes))
    aligned[:, known] = given
    return b"P" + aligned.tobytes()


def line_of(error: BaseException) -> int:
    """The innermost line of the model's code that the error passed through; 0 if there is none."""
    place, line = error.__traceback__, 0
    while place is not None:
        code: CodeType = place.tb_frame.f_code
        if code.co_filename == SOURCE:
            line = place.tb_lineno
        place = place.tb_next
    return line


def _exactly(descriptor: int, size: int) -> bytes:
    pieces = []
    while size:
        piece = os.read(descriptor, min(size, 2**20))
        if not piece:
            os._exit(1)
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)


def prove_enclosure(results: int, null: int) -> None:
    """A fit must be unable to open a socket, and say so, before any code is let in."""
    child = os.fork()
    if child == 0:
        try:
            enclose(results, null, seconds=10, megabytes=4096)
            socket.socket(socket.AF_UNIX)
        except PermissionError:
            os._exit(0)
        finally:
            os._exit(1)
    if os.waitpid(child, 0)[1] != 0:
        sys.exit("the limits or the system-call filter cannot be put in force here")


def main() -> None:
    results, null, what = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    sys.path += [os.path.dirname(os.path.abspath(__file__)), *sys.argv[4:]]
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    prove_enclosure(results, null)
    if what == "probe":
        return
    preload()
    gc.freeze()
    os.write(REPORTS, struct.pack("<I", READY))
    waiting = select.poll()
    waiting.register(REQUESTS, select.POLLIN)
    while waiting.poll()[0][1] & select.POLLIN:
        child = os.fork()
        if child == 0:
            try:
                work(results, null)
            finally:
                os._exit(1)  # not even what an error does to its own report leads back here
        ended = os.pidfd_open(child)
        working = select.poll()
        working.register(ended, select.POLLIN)
        working.register(REQUESTS, 0)  # hang-ups only
        if any(descriptor == REQUESTS for descriptor, _ in working.poll()):
            os.kill(child, signal.SIGKILL)
            return
        os.close(ended)
        os.write(REPORTS, struct.pack("<I", os.waitpid(child, 0)[1]))


if __name__ == "__main__":
    main()
