"""Mistakes in models that are built of nodes, and in sessions and their options."""

from __future__ import annotations

from mistake import Mistake

MISTAKES = (
    Mistake(
        "an operator of ONNX is misspelled in a node",
        """
        m = pyopnb.model(pyopnb.node("«Releu»", "x", "y"), {"x": "float32[N]"}, "y")
        """,
        ("the node of output 'y'", "expected an operator of ONNX, or an op of the registry"),
        "m.graph.node[0].op_type == 'Relu'",
    ),
    Mistake(
        "an op of one's own is misspelled in a node",
        """
        %%pyop -q -d demo
        class Half:
            def compute(self, x):
                return x / 2
        ---
        s = pyopnb.Session(pyopnb.model(pyopnb.node("«demo::Hlaf»", "x", "y"), {"x": "float64[N]"}, "y"))
        """,
        ("the node of output 'y'", "got demo::Hlaf"),
        "s(x=np.ones(1))['y'].tolist() == [0.5]",
        advice=r"or write (\S+)",
    ),
    Mistake(
        "an attr is misspelled in a node",
        """
        %%pyop -q -d demo
        class Times:
            def __init__(self, factor: int = 2):
                self.factor = factor
            def compute(self, x):
                return x * self.factor
        ---
        s = pyopnb.Session(pyopnb.model(pyopnb.node("demo::Times", "x", "y", «facotr»=3), {"x": "int64[N]"}, "y"))
        """,
        ("attr facotr: expected one of factor, got facotr = 3",),
        "s(x=np.ones(1, np.int64))['y'].tolist() == [3]",
        advice="write (factor), or",
    ),
)
