"""Sessions on their way to other processes, and many batches by threads and by a Dask cluster on this machine."""

from __future__ import annotations

import logging
import pickle
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from table import Row, beside, milli, timed

import pyopnb

MODEL = 25_000_000  # elements of float32: 100 MB
BATCHES = 10_000
WORKERS = 4
WORK = 0.001  # seconds of a batch
TURNS = (
    2  # of both on Dask, whose scheduler alone takes 2 to 3 ms of CPU for each task of client.map
)
SIZE = 1_000_000  # elements of a batch for threads


@pyopnb.pyop("bench::Wait")
class Wait:
    def compute(self, x):
        import time

        time.sleep(0.001)
        return x * 2


@pyopnb.pyop("bench::Sorted")
class Sorted:
    def compute(self, x):
        return np.sort(x)


@pyopnb.pyop("bench::Exponential")
class Exponential:
    def compute(self, x):
        return np.exp(np.sin(x))


def wait(x):
    time.sleep(WORK)
    return x * 2


def pickled() -> Iterator[Row]:
    weight = np.random.default_rng(0).random(MODEL, np.float32)
    model = pyopnb.model(
        pyopnb.node("Add", "x w", "y"), {"x": f"float32[{MODEL}]"}, "y", initializers={"w": weight}
    )
    session = pyopnb.Session(model)
    data = pickle.dumps(session, pickle.HIGHEST_PROTOCOL)
    size = model.ByteSize()
    yield Row(
        "a pickled session, 100 MB",
        f"{len(data) / 1e6:.1f} MB",
        f"{size / 1e6:.1f} MB the model",
        len(data) / size,
        1.1,
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        path.write_bytes(model.SerializeToString())
        del model, session
        best = timed(
            {"pickle": lambda: pickle.loads(data), "file": lambda: pyopnb.Session(path)}, 9
        )
    yield beside(
        "a session from its pickle, 100 MB", best["pickle"], best["file"], "from the file", 1.2
    )


def threads(op: str, alone: Callable[[np.ndarray], object], bar: float | None) -> Row:
    """What a second thread gains: a machine of two cores that another process uses gives less to both."""
    x = np.random.default_rng(0).random(SIZE, np.float32)
    session = pyopnb.Session(
        pyopnb.model([pyopnb.node(f"bench::{op}", "x", "y")], {"x": "float32[N]"}, "y")
    )
    with ThreadPoolExecutor(1) as one, ThreadPoolExecutor(2) as two:
        calls: dict[str, Callable[[], object]] = {
            "one": lambda: pyopnb.map(session, [x] * 32, one),
            "two": lambda: pyopnb.map(session, [x] * 32, two),
            "numpy one": lambda: list(one.map(lambda _: alone(x), range(32))),
            "numpy two": lambda: list(two.map(lambda _: alone(x), range(32))),
        }
        best = timed(calls, 12)
    return Row(
        f"times as fast: map on 2 threads, {op}, {SIZE:,}",
        milli(best["two"] / 32),
        f"{best['numpy one'] / best['numpy two']:.2f} times with NumPy alone",
        best["one"] / best["two"],
        bar,
        least=True,
    )


def on_dask() -> Row:
    from dask.distributed import Client, LocalCluster

    session = pyopnb.Session(
        pyopnb.model(pyopnb.node("bench::Wait", "x", "y"), {"x": "float32[N]"}, {"y": "float32[N]"})
    )
    batches = [np.float32([n]) for n in range(BATCHES)]
    with (
        LocalCluster(
            n_workers=WORKERS,
            threads_per_worker=1,
            dashboard_address=":0",
            silence_logs=logging.ERROR,
        ) as cluster,
        Client(cluster) as client,
    ):
        # Dask is quicker with a cluster that has had work, and so are we.
        calls: dict[str, Callable[[], object]] = {
            "map": lambda: pyopnb.map(session, batches, client.get_executor()),
            "client.map": lambda: client.gather(client.map(wait, batches, pure=False)),
        }
        best = timed(calls, TURNS)
    return beside(
        f"{BATCHES:,} batches of 1 ms on {WORKERS} workers",
        best["map"],
        best["client.map"],
        f"client.map of Dask {version('distributed')}",
        1.2,
    )


def rows() -> Iterator[Row]:
    yield from pickled()
    # Much of the second is the system's work for new memory, 4 MB a batch, and threads wait
    # for each other there.
    yield threads("Sorted", np.sort, 1.8)
    yield threads("Exponential", lambda x: np.exp(np.sin(x)), None)
    if find_spec("distributed"):
        yield on_dask()
