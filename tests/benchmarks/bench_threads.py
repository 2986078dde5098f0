"""Two threads that run one session, where the op's NumPy lets the GIL go; beside them two threads with NumPy alone.

Where NumPy alone does not reach the bar either, the row says something of the machine: another
process had a core of it. With smaller arrays the threads more often want the GIL at the same time,
and who waits for it pays for being woken.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from table import Row, milli

import pyopnb

REPEATS = 30
ELEMENTS = 5_000_000  # that a thread goes through in one repeat


def waves(x):
    return np.exp(np.sin(x))


@pyopnb.pyop("bench::Waves")
class Waves:
    def compute(self, x):
        return waves(x)


def seconds(
    call: Callable[[], object], times: int, pool: ThreadPoolExecutor, threads: int
) -> float:
    """How long it takes until each thread has made so many calls."""

    def work(_: int) -> None:
        for _ in range(times):
            call()

    begin = time.perf_counter()
    list(pool.map(work, range(threads)))
    return time.perf_counter() - begin


def compared(size: int, bar: float | None) -> Row:
    x = np.random.default_rng(0).random(size, np.float32)
    session = pyopnb.Session(
        pyopnb.model([pyopnb.node("bench::Waves", "x", "y")], {"x": "float32[N]"}, "y")
    )
    calls: dict[str, Callable[[], object]] = {
        "session": lambda: session.run(None, {"x": x}),
        "numpy": lambda: waves(x),
    }
    times = ELEMENTS // size
    best = {(name, threads): float("inf") for name in calls for threads in (1, 2)}
    with ThreadPoolExecutor(2) as pool:
        for _ in range(REPEATS):
            for (
                name,
                threads,
            ) in best:  # they take turns, so that a slow moment of the machine meets all
                best[name, threads] = min(
                    best[name, threads], seconds(calls[name], times, pool, threads)
                )
    mine, numpys = (2 * best[name, 1] / best[name, 2] for name in calls)
    what = f"times the runs of one thread: 2 threads, one session, {size:,}"
    return Row(
        what,
        milli(best["session", 1] / times),
        f"{numpys:.2f} times with NumPy alone",
        mine,
        bar,
        least=True,
    )


def rows() -> Iterator[Row]:
    yield compared(1_000_000, 1.6)
    yield compared(100_000, None)
