"""What ``diff`` costs, beside the one number ``np.abs(a - b).max()``."""

from __future__ import annotations

import math
import resource
import threading
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import ml_dtypes
import numpy as np
from peers import PEERS, named
from table import Row, beside, micro, milli, timed

import pyopnb

SIZE = 100_000_000
EXTRA = 64  # MB
OTHERS = {
    "10M": (10_000_000, 2, 1),
    "1,000": (1000, 5, 20),
}  # for the others: elements, repeats, loops


BAR, IDENTICAL = 2.0, 0.4  # times np.abs(a - b).max()


def distributions(
    a: np.ndarray, rng: np.random.Generator
) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Pairs of arrays whose facts cost differently much, one after the other: two of them are as long as memory allows."""
    noise = rng.standard_normal(a.size, dtype=np.float32)
    yield "random", a, noise
    noise *= np.float32(1e-6)
    noise += a
    yield "all within", a, noise
    noise[::1000] += 1
    yield "every 1000th over", a, noise
    noise += np.float32(1e-2)
    yield "all over", a, noise
    noise[:] = np.abs(a)
    np.sqrt(noise, out=noise)
    noise += a
    yield "errors on a curve", noise, a
    np.multiply(a, 2, out=noise)
    yield "one twice the other", a, noise
    noise[::3] = np.nan
    yield "a third NaN", a, noise
    noise[1::3] = np.inf
    noise[2::6] = 0
    yield "NaN, infinities, zeros", noise, a
    noise[:] = np.nan
    yield "NaN against numbers", noise, a
    noise[::2] = a[::2]
    yield "each second NaN", a, noise
    noise[::2] = np.inf
    yield "infinities against NaN and infinities", np.full_like(a, -np.inf), noise
    noise[:] = a
    noise[::1024] += np.arange(1, noise[::1024].size + 1)
    yield "worse from block to block", noise, a
    noise.view(np.uint32)[:] = rng.integers(0, 2**32, a.size, np.uint32)
    yield "random bits", noise, a
    noise[:] = 1
    yield "against ones", a, noise
    np.multiply(a, np.float32(1e-40), out=noise)
    yield "subnormals", noise, np.zeros_like(a)
    ascending = np.sort(a)
    np.multiply(ascending, 2, out=noise)
    yield "sorted, one twice the other", ascending, noise
    np.add(ascending, 1, out=noise)
    yield "sorted, one more", noise, ascending


def dtypes(a: np.ndarray) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Pairs of other dtypes, and of arrays whose elements are not side by side or in another order; a tenth as long."""
    a = a[: a.size // 10]
    b = a * np.float32(1.001)
    b[::3] = np.nan
    for kind in (np.float64, np.float16, ml_dtypes.bfloat16, np.complex64):
        yield f"{np.dtype(kind)}, a third NaN", a.astype(kind), b.astype(kind)
    for kind in (np.int8, np.int64):
        yield f"{np.dtype(kind)}", (a * 20).astype(kind), (a * 21).astype(kind)
    yield "float32, each second element", a[::2], b[::2]
    side = math.isqrt(a.size)
    matrix, other = (array[: side**2].reshape(side, side) for array in (a, b))
    yield "float32, transposed", matrix.T, other.T


def rows() -> Iterator[Row]:
    rng = np.random.default_rng(0)
    a = rng.standard_normal(SIZE, dtype=np.float32)
    what = f"2 × {SIZE // 10**6}M float32"
    yield Row(
        f"diff, {what}, extra memory in MB",
        f"{(extra := _extra_memory(a, -a)):.1f} MB",
        "",
        extra,
        EXTRA,
    )
    worst: tuple[float, str, float, float] = (0.0, "", 0.0, 0.0)
    for name, x, y in distributions(a, rng):
        with np.errstate(all="ignore"):
            best = timed(
                {
                    "full": lambda x=x, y=y: pyopnb.diff(x, y),
                    "numpy": lambda x=x, y=y: np.abs(x - y).max(),
                },
                3,
            )
        yield _row(f"diff, {what}, all facts, {name}", best["full"], best["numpy"])
        worst = max(worst, (best["full"] / best["numpy"], name, best["full"], best["numpy"]))
    yield _row(f"diff, {what}, all facts, the worst: {worst[1]}", worst[2], worst[3], BAR)
    for name, x, y in dtypes(a):
        with np.errstate(all="ignore"):
            best = timed(
                {
                    "full": lambda x=x, y=y: pyopnb.diff(x, y),
                    "numpy": lambda x=x, y=y: np.abs(x - y).max(),
                },
                3,
            )
        yield _row(f"diff, 2 × {x.size // 10**6}M {name}, all facts", best["full"], best["numpy"])
    b = a.copy()
    best = timed({"full": lambda: pyopnb.diff(a, b), "numpy": lambda: np.abs(a - b).max()}, 3)
    yield _row(f"diff, {what}, identical", best["full"], best["numpy"], IDENTICAL)
    x, y = a[:1000].copy(), a[:1000] * np.float32(1 + 1e-6)
    calls = {
        "diff": lambda: pyopnb.diff(x, y).verdict,
        "facts": lambda: pyopnb.diff(x, y).parts[0].facts,
    }
    best = timed(calls, 7, 200)
    yield Row(
        "diff, 2 × 1,000 float32, the verdict, in 50 µs",
        micro(best["diff"]),
        "",
        best["diff"] / 50e-6,
        1,
    )
    yield Row(
        "diff, 2 × 1,000 float32, and all facts, in 50 µs",
        micro(best["facts"]),
        "",
        best["facts"] / 50e-6,
    )
    np.multiply(a, np.float32(1 + 1e-6), out=b)
    for count, (size, repeats, loops) in OTHERS.items():
        yield from _others(a[:size].copy(), b[:size].copy(), count, repeats, loops)


def _extra_memory(a: np.ndarray, b: np.ndarray) -> float:
    """MB that a diff takes at most, seen from outside: Python does not know what native code takes."""
    before, most, done = _resident(), 0.0, threading.Event()

    def watch() -> None:
        nonlocal most
        while not done.wait(0.001):
            most = max(most, _resident())

    watcher = threading.Thread(target=watch)
    watcher.start()
    assert pyopnb.diff(a, b).verdict == "different"
    done.set()
    watcher.join()
    return max(most - before, 0.0)


def _resident() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 2**20


def _others(a: np.ndarray, b: np.ndarray, count: str, repeats: int, loops: int) -> Iterator[Row]:
    """The cost of ours beside each of the others; for few elements the facts wait for the first access."""
    calls = {name: make(a, b) for name, (_, make) in PEERS.items() if find_spec(name)}
    best = timed({"ours": lambda: pyopnb.diff(a, b).verdict, **calls}, repeats, loops)
    said, found = (micro, "the verdict") if a.size < 10**6 else (milli, "all facts")
    for name in PEERS:
        peer = f"{said(best[name])} " if name in best else ""
        ratio = best["ours"] / best[name] if name in best else None
        yield Row(
            f"diff, 2 × {count} float32, {found}", said(best["ours"]), f"{peer}{named(name)}", ratio
        )


def _row(what: str, ours: float, peer: float, bar: float | None = None) -> Row:
    return beside(what, ours, peer, "np.abs(a - b).max()", bar)
