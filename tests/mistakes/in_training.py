"""Mistakes in calls of train and grad, among them what people type who come from torch."""

from __future__ import annotations

from mistake import Mistake

_LINE = """
        m = pyopnb.model(pyopnb.node("Mul", "x w", "y"), {"x": "float32[N]"}, "y", initializers={"w": np.float32([0])})
        x = np.linspace(-1, 1, 8, dtype=np.float32)
        ---
"""

MISTAKES = (
    Mistake(
        "the learning rate as in torch",
        _LINE
        + """
        r = pyopnb.train(m, {"x": x, "t": 3 * x}, loss="mse", «lr=0.5», progress=False)
        """,
        ("train: got an unexpected keyword argument",),
        "r.steps == 1",
    ),
    Mistake(
        "a regression without a loss",
        _LINE
        + """
        r = pyopnb.train(m, {"x": x, "t": 3 * x}, progress=False, «»)
        """,
        ("labels t: expected int64[N], the number of each sample's class, got float32[8]",),
        "r.steps == 1",
    ),
    Mistake(
        "labels of float64",
        _LINE
        + """
        t = 3.0 * x.astype(np.float64)
        r = pyopnb.train(m, {"x": x, «"t": t»}, loss="mse", progress=False)
        """,
        ("labels t: expected float32[N], got float64[8]",),
        "r.steps == 1",
    ),
)
