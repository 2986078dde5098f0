"""Mistakes in models that are built of nodes, and in sessions and their options."""

from __future__ import annotations

from mistake import Mistake

_HALF = """
        %%pyop -q -d my
        class Half:
            def compute(self, x: "float32[N]") -> "float32[N]":
                return x * np.float32(0.5)
        ---
        x = np.float32([2])
        m = pyopnb.model(pyopnb.node("my::Half", "x", "y"), {"x": "float32[N]"}, "y")
        ---
"""

MISTAKES = (
    Mistake(
        "the address of a model",
        """
        import urllib.request
        url = "https://example.org/model.onnx"
        onnx.save(pyopnb.model(pyopnb.node("Abs", "x", "y"), {"x": "float32[N]"}, "y"), "model.onnx")
        urllib.request.urlretrieve = lambda url: ("model.onnx", None)
        ---
        s = pyopnb.Session(«url»)
        """,
        ("model: expected a file on this machine, got a URL",),
        "s.get_inputs()[0].name == 'x'",
    ),
    Mistake(
        "the name of a file is misspelled",
        """
        onnx.save(pyopnb.model(pyopnb.node("Abs", "x", "y"), {"x": "float32[N]"}, "y"), "clip.onnx")
        ---
        s = pyopnb.Session("«clp.onnx»")
        """,
        ("ModelError: Load model clp.onnx failed. File doesn't exist.",),
        "s.get_inputs()[0].name == 'x'",
    ),
    Mistake(
        "a model saved into a folder that is not there",
        _HALF
        + """
        import os
        «»
        pyopnb.save(m, "results/today/model.onnx")
        """,
        ("expected a folder that can be written to, got no such folder",),
        "os.path.exists('results/today/model.onnx')",
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
    Mistake(
        "an attr without a default",
        """
        %%pyop -q -d demo
        class Power:
            def __init__(self, exponent: int):
                self.exponent = exponent
            def compute(self, x):
                return x ** self.exponent
        ---
        s = pyopnb.Session(pyopnb.model(pyopnb.node("demo::Power", "x", "y", «exp»=2), {"x": "int64[N]"}, "y"))
        """,
        ("attr exp: expected one of exponent, got exp = 2",),
        "s(x=np.int64([3]))['y'].tolist() == [9]",
        advice="write (exponent), or",
    ),
    Mistake(
        "a node to replace that is not there",
        """
        %%pyop -q -d demo
        class Calm:
            def compute(self, x):
                return x
        ---
        m = pyopnb.model(pyopnb.node("Softmax", "x", "y"), {"x": "float32[N]"}, "y")
        ---
        m = pyopnb.replace(m, "«Sotfmax»", "demo::Calm")
        """,
        ("where 'Sotfmax': expected a node's name, an op type or an output's name of the model",),
        "m.graph.node[0].op_type == 'Calm'",
    ),
    Mistake(
        "a misspelled keyword of a session",
        """
        m = pyopnb.model(pyopnb.node("Abs", "x", "y"), {"x": "float32[N]"}, "y")
        ---
        s = pyopnb.Session(m, «provider»=["CPUExecutionProvider"])
        """,
        ("InputError: Session: expected one of its parameters", "got provider="),
        "s.get_providers() == ['CPUExecutionProvider']",
    ),
    Mistake(
        "the newest IR version and opset of onnx",
        """
        x, y = (onnx.helper.make_tensor_value_info(name, 1, ["N"]) for name in "xy")
        graph = onnx.helper.make_graph([onnx.helper.make_node("Abs", ["x"], ["y"])], "g", [x], [y])
        helper = onnx.helper
        ---
        m = «helper.make_model(graph, ir_version=77)»
        s = pyopnb.Session(m)
        """,
        ("VersionsLowered: lowered for onnxruntime", "IR version 77 → "),
        "s.lowered == () and s(x=np.float32([-1]))['y'].tolist() == [1]",
        advice="To make it so: (.*)",
    ),
    Mistake(
        "a shape for an example array",
        """
        m = pyopnb.model(pyopnb.node("Abs", "x", "y"), {"x": «[2, 3]»}, "y")
        """,
        ("input x: expected a type, or an example array, got list [2, 3]",),
        "pyopnb.run(m, np.zeros((2, 3), np.float32))['y'].shape == (2, 3)",
    ),
)
