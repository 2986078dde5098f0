"""Mistakes in feeds, names of tensors, traces, diffs and checks."""

from __future__ import annotations

from mistake import Mistake

_ABS = """
        s = pyopnb.Session(pyopnb.model(pyopnb.node("Abs", "x", "y"), {"x": "float32[N]"}, "y"))
        ---
"""

_UPPER = """
        s = pyopnb.Session(pyopnb.model(pyopnb.node("Identity", "x", "y"), {"x": "string[N]"}, "y"))
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
    Mistake(
        "a dot instead of two colons",
        """
        %%pyop -q -d lab
        class Same:
            def compute(self, x):
                return x
        ---
        y = pyopnb.call(«"lab.Same"», np.float32([2]))
        """,
        ("op name: expected domain::OpType, got 'lab.Same'",),
        "y.tolist() == [2]",
    ),
    Mistake(
        "an op without its domain",
        """
        %%pyop -q -d lab
        class Same:
            def compute(self, x):
                return x
        ---
        y = pyopnb.call(«"Same"», np.float32([2]))
        """,
        ("call of ::Same: expected an op of the registry or of the installed runtime",),
        "y.tolist() == [2]",
    ),
    Mistake(
        "an output that a result does not have",
        """
        s = pyopnb.Session(pyopnb.model(pyopnb.node("Abs", "x", "y"), {"x": "float32[N]"}, "y"))
        ---
        x = np.float32([-1])
        y = s(x=x)[«"Y"»]
        """,
        ("UnknownName: result: expected y, got Y",),
        "y.tolist() == [1]",
    ),
    Mistake(
        "a tensor that is not in a trace",
        """
        s = pyopnb.Session(pyopnb.model(pyopnb.node("Abs", "x", "y"), {"x": "float32[N]"}, "y"))
        ---
        x = np.float32([-1])
        y = s.trace(x=x)[«"yy"»]
        """,
        ("UnknownName: trace: expected a tensor of the trace, got 'yy'",),
        "y.tolist() == [1]",
    ),
    Mistake(
        "an input of compute that the node leaves out",
        """
        %%pyop -q -d demo
        class Shift:
            def compute(self, x, «by»):
                return x + (1 if by is None else by)
        ---
        s = pyopnb.Session(pyopnb.model(pyopnb.node("demo::Shift", "x", "y"), {"x": "float64[N]"}, "y"))
        """,
        ("the node of output 'y' (demo::Shift), input by: expected any[...], got nothing",),
        "s(x=[1.0])['y'].tolist() == [2]",
    ),
)
