"""A million runs of one session: the process may not grow."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from table import Row

import pyopnb

WARM_UP, RUNS = 50_000, 1_000_000


@pyopnb.pyop("bench::Twice")
class Twice:
    def compute(self, x):
        return x * 2


def resident() -> int:
    """Bytes of memory that this process has, by Linux."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def rows() -> Iterator[Row]:
    session = pyopnb.Session(
        pyopnb.model([pyopnb.node("bench::Twice", "x", "y")], {"x": "float32[N]"}, "y")
    )
    feeds = {"x": np.ones(16, np.float32)}
    for _ in range(WARM_UP):
        session.run(None, feeds)
    before, begin = resident(), time.perf_counter()
    for _ in range(RUNS):
        session.run(None, feeds)
    took, grown = time.perf_counter() - begin, (resident() - before) / 2**20
    yield Row(
        "MB that 1,000,000 runs leave behind", f"{grown:.2f} MB", f"in {took:.1f} s", grown, 2
    )
