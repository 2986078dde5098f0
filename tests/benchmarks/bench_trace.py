"""What it costs to look at a run: a trace beside a plain run, and the memory of summaries alone."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from table import Row, milli, timed

sys.path.append(str(Path(__file__).parents[1] / "networks"))
from transformer import transformer

import pyopnb

_TENSORS, _SIZE = 40, 4_000_000

_MEMORY = f"""
import sys, threading, time
import numpy as np, pyopnb

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096 / 2**20

nodes = [pyopnb.node(("Neg", "Abs", "Sin")[n % 3], f"t{{n}}", f"t{{n + 1}}") for n in range({_TENSORS})]
session = pyopnb.Session(pyopnb.model(nodes, {{"t0": "float32[N]"}}, "t{_TENSORS}"))
look = session if sys.argv[1] == "plain" else lambda x: session.trace(x, level=sys.argv[1])
x = np.ones({_SIZE}, np.float32)
look(x[:10])
before, most, over = resident(), [0], threading.Event()

def watch():
    while not over.wait(0.001):
        most[0] = max(most[0], resident())

thread = threading.Thread(target=watch)
thread.start()
kept = look(x)
over.set()
thread.join()
print(most[0] - before)
"""


def rows() -> Iterator[Row]:
    model = transformer(width=256)
    x = np.float32(np.random.default_rng(1).standard_normal((1, 64, 256)))
    session = pyopnb.Session(model)
    count = len(model.graph.node)
    best = timed(
        {
            "plain": lambda: session(x=x),
            "build": lambda: pyopnb.Session(model),
            f"trace of a transformer block of {count} nodes": lambda: session.trace(x=x),
            "… without times": lambda: session.trace(x=x, times=False),
            "… summaries": lambda: session.trace(x=x, level="summaries"),
            "… not compared with a normal run": lambda: session.trace(x=x, check=False),
        },
        20,
    )
    plain, build = best.pop("plain"), best.pop("build")
    for what, took in best.items():
        yield Row(
            what,
            milli(took),
            f"{milli(plain)} a plain run, {milli(build)} a session",
            took / (plain + build),
        )
    if sys.platform == "linux":
        plain, kept, sums = (_peak(level) for level in ("plain", "all", "summaries"))
        yield Row(
            f"peak of summaries, {_TENSORS} x 15 MiB",
            f"{sums:.0f} MiB",
            f"{plain:.0f} plain, {kept:.0f} all",
            sums / kept,
            0.25,
        )


def _peak(level: str) -> float:
    return float(
        subprocess.run(
            [sys.executable, "-c", _MEMORY, level], capture_output=True, text=True, check=True
        ).stdout
    )
