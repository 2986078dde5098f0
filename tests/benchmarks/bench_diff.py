"""What ``diff`` costs, beside the one number ``np.abs(a - b).max()``."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from importlib.util import find_spec

import numpy as np
from peers import PEERS, named
from table import Row, micro, milli, show, timed

import pyopnb

SIZE = 100_000_000
EXTRA = 64  # MB
OTHERS = {"10M": (10_000_000, 2, 1), "1,000": (1000, 5, 20)}  # for the others: elements, repeats, loops


def rows() -> Iterator[Row]:
    rng = np.random.default_rng(0)
    a = rng.standard_normal(SIZE, dtype=np.float32)
    b = rng.standard_normal(SIZE, dtype=np.float32)
    b *= np.float32(1e-6)
    b += a
    what = f"2 × {SIZE // 10**6}M float32"
    tracemalloc.start()
    assert pyopnb.diff(a, b).verdict == "close"
    extra = tracemalloc.get_traced_memory()[1] / 2**20
    tracemalloc.stop()
    yield Row(f"diff, {what}, extra memory in MB", f"{extra:.1f} MB", "", extra, EXTRA)
    best = timed({"full": lambda: pyopnb.diff(a, b), "numpy": lambda: np.abs(a - b).max()}, 3)
    yield _row(f"diff, {what}, all facts", best["full"], best["numpy"], 2.5)
    spoilt = b.copy()
    spoilt[::1000] += 1
    best = timed({"full": lambda: pyopnb.diff(a, spoilt), "numpy": lambda: np.abs(a - spoilt).max()}, 2)
    yield _row(f"diff, {what}, every 1000th over", best["full"], best["numpy"])
    np.multiply(a, 2, out=spoilt)
    best = timed({"full": lambda: pyopnb.diff(a, spoilt), "numpy": lambda: np.abs(a - spoilt).max()}, 2)
    yield _row(f"diff, {what}, one twice the other", best["full"], best["numpy"])
    b[:] = a
    best = timed({"full": lambda: pyopnb.diff(a, b), "numpy": lambda: np.abs(a - b).max()}, 3)
    yield _row(f"diff, {what}, identical", best["full"], best["numpy"], 0.4)
    x, y = a[:1000].copy(), a[:1000] * np.float32(1 + 1e-6)
    calls = {"diff": lambda: pyopnb.diff(x, y), "facts": lambda: pyopnb.diff(x, y).parts[0].facts}
    best = timed(calls, 7, 200)
    yield Row("diff, 2 × 1,000 float32, the verdict, in 100 µs", micro(best["diff"]), "", best["diff"] / 100e-6, 1)
    yield Row("diff, 2 × 1,000 float32, and all facts, in 100 µs", micro(best["facts"]), "", best["facts"] / 100e-6)
    np.multiply(a, np.float32(1 + 1e-6), out=b)
    for count, (size, repeats, loops) in OTHERS.items():
        yield from _others(a[:size].copy(), b[:size].copy(), count, repeats, loops)


def _others(a: np.ndarray, b: np.ndarray, count: str, repeats: int, loops: int) -> Iterator[Row]:
    """What ours costs beside what each of the others does; of few elements the facts wait until somebody asks."""
    calls = {name: make(a, b) for name, (_, make) in PEERS.items() if find_spec(name)}
    best = timed({"ours": lambda: pyopnb.diff(a, b).verdict, **calls}, repeats, loops)
    said, found = (micro, "the verdict") if a.size < 10**6 else (milli, "all facts")
    for name in PEERS:
        peer = f"{said(best[name])} " if name in best else ""
        ratio = best["ours"] / best[name] if name in best else None
        yield Row(f"diff, 2 × {count} float32, {found}", said(best["ours"]), f"{peer}{named(name)}", ratio)


def _row(what: str, ours: float, peer: float, bar: float | None = None) -> Row:
    return Row(what, milli(ours), f"{milli(peer)} np.abs(a - b).max()", ours / peer, bar)


if __name__ == "__main__":
    show(rows())
