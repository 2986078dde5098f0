"""Mistakes in models that are built of nodes, and in sessions and their options."""

from __future__ import annotations

from mistake import Mistake

MISTAKES = (
    Mistake(
        "an attr is a dict",
        """
        n = pyopnb.node("demo::Lookup", "x", "y", «table={"a": 1, "b": 2}»)
        """,
        ("node demo::Lookup, attr table: expected a number, str", "got dict {'a': 1, 'b': 2}"),
        "[list(attr.strings or attr.ints) for attr in n.attribute] == [[b'a', b'b'], [1, 2]]",
    ),
    Mistake(
        "an attr is a list of several kinds",
        """
        n = pyopnb.node("demo::Lookup", "x", "y", «vocab=["a", 1]»)
        """,
        ("node demo::Lookup, attr vocab: expected a number, str", "got a list of str and int: ['a', 1]"),
        "list(n.attribute[0].strings) == [b'a', b'1']",
    ),
    Mistake(
        "an attr is a list of lists",
        """
        n = pyopnb.node("demo::Filter", "x", "y", «kernel=[[1, 2], [3, 4]]»)
        """,
        ("node demo::Filter, attr kernel: expected a number, str", "got a list of list: [[1, 2], [3, 4]]"),
        "list(n.attribute[0].t.dims) == [2, 2]",
    ),
    Mistake(
        "a folder for a model",
        """
        from pathlib import Path
        Path("resnet/onnx").mkdir(parents=True, exist_ok=True)
        onnx.save(pyopnb.model(pyopnb.node("Abs", "x", "y"), {"x": "float32[N]"}, "y"), "resnet/onnx/model.onnx")
        ---
        s = pyopnb.Session(«"resnet"»)
        """,
        ("model resnet: expected a model file, got a folder",),
        "s(x=np.float32([-1]))['y'].tolist() == [1]",
    ),
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
