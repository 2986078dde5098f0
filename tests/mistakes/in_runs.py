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
        "None among strings",
        _UPPER
        + """
        y, = s(«x=["a", None]»)
        """,
        ("feed x[1]: expected str, as in string[N], got None",),
        "y.tolist() == ['a', '']",
    ),
    Mistake(
        "a missing value of pandas among strings",
        _UPPER
        + """
        y, = s(«x=np.array([np.nan, "b"], dtype=object)»)
        """,
        ("feed x[0]: expected str, as in string[N], got float nan",),
        "y.tolist() == ['', 'b']",
    ),
    Mistake(
        "a number and bytes among strings",
        _UPPER
        + """
        y, = s(«x=["a", 1.5, b"c"]»)
        """,
        ("feed x[1]: expected str, as in string[N], got float 1.5",),
        "y.tolist() == ['a', '1.5', 'c']",
    ),
    Mistake(
        "the inputs of check in a tuple",
        """
        %%pyop -q -d demo
        class Add:
            def compute(self, a, b):
                return a + b
        ---
        a, b = np.float32([1, 2]), np.float32([3, 4])
        report = pyopnb.«check("demo::Add", (a, b))»
        """,
        ("check of demo::Add, input 0: expected an array, got a tuple",),
        "report['schema'].ok",
        advice=r"Try: (check\(.*?\)), as",
    ),
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
