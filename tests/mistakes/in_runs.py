"""Mistakes in feeds, names of tensors, traces, diffs and checks."""

from __future__ import annotations

from mistake import Mistake

_ABS = """
        s = pyopnb.Session(pyopnb.model(pyopnb.node("Abs", "x", "y"), {"x": "float32[N]"}, "y"))
        ---
"""

MISTAKES = (
    Mistake(
        "an array of float64",
        _ABS
        + """
        x = np.array([-1.0, 2.0])
        y, = s(«x=x»)
        """,
        ("feed x: expected float32[N], got float64[2]",),
        "y.tolist() == [1, 2] and y.dtype == np.float32",
    ),
    Mistake(
        "a feed by another name",
        _ABS
        + """
        y, = s(«X»=np.float32([-1]))
        """,
        ("feeds: expected x: float32[N], got X",),
        "y.tolist() == [1]",
        advice=r"write (\S+) for X",
    ),
)
