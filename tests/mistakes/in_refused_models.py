"""Mistakes in models that only ONNX Runtime sees: built with ``onnx.helper``, or with operators that the installed one lacks."""

from __future__ import annotations

from mistake import Mistake

_BUILD = """
        from onnx import helper, numpy_helper
        def build(*nodes, kind=1, weights=(), opset=17, y=None):
            ends = [helper.make_tensor_value_info("x", kind, ["N"])], [helper.make_tensor_value_info("y", y or kind, None)]
            graph = helper.make_graph(nodes, "g", *ends, [numpy_helper.from_array(w, n) for n, w in dict(weights).items()])
            imports = [helper.make_opsetid("", opset), helper.make_opsetid("demo", 1), helper.make_opsetid("ai.onnx.ml", 1)]
            return helper.make_model(graph, ir_version=8, opset_imports=imports)
        node = helper.make_node
        ---
"""

_HALF = """
        %%pyop -q -d demo
        class Half:
            def compute(self, x):
                return x / 2
        ---
"""

MISTAKES = (
    # ---- no kernel, through each door
    Mistake(
        "no kernel for a dtype, in a session",
        _BUILD
        + """
        model = build(node("Erf", ["x"], ["y"]), kind=11)
        s = «pyopnb.Session(model)»
        """,
        ("the node of output 'y' (::Erf)", "got T is float64; there are kernels for", "float32"),
        "abs(s(x=np.float64([0, 9]))['y'] - [0, 1]).max() < 1e-6",
    ),
    # ---- operators
    Mistake(
        "the forgotten domain of a registered op in a call",
        _HALF
        + """
        y = pyopnb.call(«"Half"», np.float32([1]))
        """,
        ("call of ::Half",),
        "y.tolist() == [0.5]",
    ),
    Mistake(
        "an operator that came in a newer opset than the model's",
        _BUILD
        + """
        from onnx import helper
        x, y = (helper.make_tensor_value_info(name, 1, ["N"]) for name in "xy")
        graph = helper.make_graph([node("Mish", ["x"], ["y"])], "g", [x], [y])
        s = pyopnb.Session(helper.make_model(graph, ir_version=8, opset_imports=[«helper.make_opsetid("", 17)»]))
        """,
        (
            "the node of output 'y' (::Mish): expected version 18 of ai.onnx or newer, in which Mish came",
            "got version 17 imported",
        ),
        "s(x=[0])['y'].tolist() == [0]",
    ),
    # ---- attrs
    Mistake(
        "an int for a float attr",
        _BUILD
        + """
        s = pyopnb.Session(build(node("LeakyRelu", ["x"], ["y"], «alpha=2»)))
        """,
        (
            "the node of output 'y' (::LeakyRelu), attr alpha: expected a float, as LeakyRelu takes, got alpha = 2",
        ),
        "s(x=[-2])['y'].tolist() == [-4]",
    ),
    # ---- inputs
    # ---- dtypes
    Mistake(
        "a float64 initializer beside float32",
        _BUILD
        + """
        w = np.array([2.0])
        s = pyopnb.Session(build(node("Mul", ["x", "w"], ["y"]), weights={"w": «w»}))
        """,
        (
            "the node of output 'y' (::Mul)",
            "got A is float32 and B is float64; the operator takes one type for both",
        ),
        "s(x=[3])['y'].tolist() == [6]",
    ),
    Mistake(
        "an int32 initializer for a shape",
        _BUILD
        + """
        shape = np.array([1, -1], np.int32)
        s = pyopnb.Session(build(node("Reshape", ["x", "shape"], ["y"]), weights={"shape": «shape»}))
        """,
        (
            "the node of output 'y' (::Reshape)",
            "got shape is int32; the operator takes int64",
        ),
        "s(x=[3])['y'].tolist() == [[3]]",
    ),
)
