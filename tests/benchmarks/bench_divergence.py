"""How long it takes to find where two runs part, on a transformer block of 31 nodes, and what runs in other ways cost."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from table import Row, beside, milli, timed

sys.path.append(str(Path(__file__).parents[1] / "networks"))
from light import feeds, light
from transformer import transformer

import pyopnb

X = np.random.default_rng(0).normal(size=(2, 8, 32)).astype(np.float32)


def rows() -> Iterator[Row]:
    models = transformer(), transformer("tanh")
    runs = [pyopnb.trace(model, x=X) for model in models]
    assert [step.outputs[0].b for step in pyopnb.diff(*runs).origins] == ["b0.bent"]

    calls = {
        "all": lambda: pyopnb.diff(*(pyopnb.trace(model, x=X) for model in models)),
        "diff": lambda: pyopnb.diff(*runs),
    }
    best = timed(calls, 5)
    yield Row(
        "first divergence, 31 nodes, both traces and the diff, seconds",
        milli(best["all"]),
        "",
        best["all"],
        0.5,
    )
    yield Row("the diff alone, all nodes alone in one session", milli(best["diff"]), "", None)

    network = light("squeezenet")
    arrays = feeds(network)
    session = pyopnb.Session(network)
    calls = {
        "run": lambda: session.run(None, arrays),
        "stability": lambda: pyopnb.stability(network, arrays),
        "here": lambda: pyopnb.trace(network, arrays, times=False),
        "elsewhere": lambda: pyopnb.trace(network, arrays, on=sys.executable),
    }
    best = timed(calls, 5)
    what = "stability of SqueezeNet: 4 sessions, 8 runs"
    yield beside(what, best["stability"], best["run"], "a warm run", 30)
    what = "its trace in another Python, on top of the one here, seconds"
    more = best["elsewhere"] - best["here"]
    yield Row(what, milli(best["elsewhere"]), f"{milli(best['here'])} here", more, 3)
