"""Mistakes in models that only ONNX Runtime sees: built with ``onnx.helper``, or of what the installed one lacks."""

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
    Mistake(
        "no kernel for a dtype, in a run",
        _BUILD
        + """
        model = build(node("Erf", ["x"], ["y"]), kind=11)
        r = pyopnb.run(model, np.float64([0, 9]), «»)
        """,
        ("the node of output 'y' (::Erf)", "got T is float64; there are kernels for"),
        "abs(r['y'] - [0, 1]).max() < 1e-6",
    ),
    Mistake(
        "no kernel for a dtype, in a trace",
        _BUILD
        + """
        model = build(node("Erf", ["x"], ["e"]), node("Neg", ["e"], ["y"]), kind=11)
        t = pyopnb.trace(model, np.float64([0, 9]), «»)
        """,
        ("the node of output 'e' (::Erf)", "got T is float64; there are kernels for"),
        "abs(t['e'] - [0, 1]).max() < 1e-6",
    ),
    Mistake(
        "no kernel for a dtype that the operator has, in a call",
        """
        input = np.float64([0, 9])
        y = «pyopnb.call("Erf", input)»
        """,
        (
            "call of Erf: expected a node that the installed onnxruntime can run, got T is float64; there are kernels for",
        ),
        "abs(y - [0, 1]).max() < 1e-6",
    ),
    Mistake(
        "a float index in a call",
        """
        indices = [0.0]
        y = pyopnb.call("Gather", np.float32([3, 4]), «indices»)
        """,
        ("call of Gather, input indices: expected int32, int64, got float64",),
        "y.tolist() == [3]",
    ),
    Mistake(
        "no kernel for a dtype, in an onnx cell",
        """
        %%onnx -q model
        (double[N] x) => (double[N] y) { y = Erf(x) }
        ---
        s = «pyopnb.Session(model)»
        """,
        ("the node of output 'y' (::Erf)", "got T is float64; there are kernels for"),
        "abs(s(x=np.float64([0, 9]))['y'] - [0, 1]).max() < 1e-6",
    ),
    Mistake(
        "no kernel for a dtype, on the command line",
        _BUILD
        + """
        onnx.save(build(node("Erf", ["x"], ["y"]), kind=11), "erf.onnx")
        np.savez("feeds.npz", x=np.float64([0, 9]))
        ---
        !python -m pyopnb diff erf.onnx erf.onnx --feeds feeds.npz «»
        """,
        (
            "model erf.onnx: the node of output 'y' (::Erf)",
            "got T is float64; there are kernels for",
        ),
        "True",  # the command ended with 0
    ),
    # ---- operators
    Mistake(
        "a misspelled operator in a model of onnx's helper",
        _BUILD
        + """
        s = pyopnb.Session(build(node("«Releu»", ["x"], ["y"])))
        """,
        (
            "UnknownOp: the node of output 'y' (::Releu): expected an operator of ONNX",
            "got ::Releu",
        ),
        "s(x=[-1, 2])['y'].tolist() == [0, 2]",
    ),
    Mistake(
        "a misspelled operator in a model that is run",
        _BUILD
        + """
        r = pyopnb.run(build(node("«relu»", ["x"], ["y"])), [-1, 2])
        """,
        ("UnknownOp: the node of output 'y' (::relu)",),
        "r['y'].tolist() == [0, 2]",
    ),
    Mistake(
        "a misspelled operator of onnxruntime's own domain",
        """
        m = pyopnb.model(pyopnb.node("com.microsoft::«Gellu»", "x", "y"), {"x": "float32[N]"}, "y")
        s = pyopnb.Session(m)
        """,
        ("expected an operator of com.microsoft", "got com.microsoft::Gellu"),
        "s(x=[0])['y'].tolist() == [0]",
    ),
    Mistake(
        "a misspelled operator on the command line",
        _BUILD
        + """
        onnx.save(build(node("«Releu»", ["x"], ["y"])), "m.onnx")
        np.savez("feeds.npz", x=np.float32([0, 9]))
        ---
        !python -m pyopnb diff m.onnx m.onnx --feeds feeds.npz
        """,
        ("model m.onnx: the node of output 'y' (::Releu)",),
        "True",
    ),
    Mistake(
        "the forgotten domain of a registered op in a model of onnx's helper",
        _HALF
        + _BUILD
        + """
        s = pyopnb.Session(build(node("Half", ["x"], ["y"], «»)))
        """,
        ("the node of output 'y' (::Half)", "got ::Half"),
        "s(x=[1])['y'].tolist() == [0.5]",
    ),
    Mistake(
        "the forgotten domain of a registered op in a node",
        _HALF
        + """
        m = pyopnb.model(pyopnb.node("«Half»", "x", "y"), {"x": "float32[N]"}, "y")
        """,
        ("the node of output 'y' (::Half)", "got ::Half"),
        "pyopnb.run(m, [1])['y'].tolist() == [0.5]",
    ),
    Mistake(
        "the forgotten domain of a registered op in an onnx cell",
        _HALF
        + """
        %%onnx -q m
        (float[N] x) => (float[N] y) { y = «Half»(x) }
        """,
        ("(::Half): expected an operator of ONNX",),
        "pyopnb.run(m, [1])['y'].tolist() == [0.5]",
    ),
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
        "the forgotten domain of an operator of ONNX's other domain",
        _BUILD
        + """
        s = pyopnb.Session(build(node("Binarizer", ["x"], ["y"], «»)))
        """,
        ("the node of output 'y' (::Binarizer)",),
        "s(x=[-1, 2])['y'].tolist() == [0, 1]",
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
        "an attr that the operator does not have, in a model of onnx's helper",
        _BUILD
        + """
        s = pyopnb.Session(build(node("LeakyRelu", ["x"], ["y"], «alhpa»=0.5)))
        """,
        ("the node of output 'y' (::LeakyRelu), attr alhpa: expected one of alpha, got alhpa",),
        "s(x=[-2])['y'].tolist() == [-1]",
    ),
    Mistake(
        "an attr that the operator does not have, in a call",
        """
        y = pyopnb.call("LeakyRelu", np.float32([-2]), «alhpa»=0.5)
        """,
        ("call of LeakyRelu, attr alhpa: expected one of alpha, got alhpa",),
        "y.tolist() == [-1]",
    ),
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
    Mistake(
        "a float for an int attr, in a trace",
        _BUILD
        + """
        t = pyopnb.trace(build(node("Softmax", ["x"], ["y"], «axis=0.0»)), [1])
        """,
        (
            "the node of output 'y' (::Softmax), attr axis: expected an int, as Softmax takes, got axis = 0.0",
        ),
        "t['y'].tolist() == [1]",
    ),
    Mistake(
        "a forgotten attr",
        _BUILD
        + """
        s = pyopnb.Session(build(node("Cast", ["x"], ["y"], «»)))
        """,
        (
            "the node of output 'y' (::Cast), attr to: expected an int, which Cast needs, got nothing",
        ),
        "s(x=[1])['y'].tolist() == [1]",
    ),
    # ---- inputs
    Mistake(
        "an unconnected input",
        _BUILD
        + """
        nodes = node("Neg", ["x"], ["features"]), node("Abs", ["«featrues»"], ["y"])
        s = pyopnb.Session(build(*nodes))
        """,
        (
            "the node of output 'y' (::Abs), input featrues: expected an input, an initializer or an output of a node",
        ),
        "s(x=[-1])['y'].tolist() == [1]",
    ),
    Mistake(
        "an input too many for an operator",
        _BUILD
        + """
        s = pyopnb.Session(build(node("Abs", «["x", "x"]», ["y"])))
        """,
        ("the node of output 'y' (::Abs): expected 1 input (X), got 2",),
        "s(x=[-1])['y'].tolist() == [1]",
    ),
    # ---- dtypes
    Mistake(
        "a float64 initializer beside float32",
        _BUILD
        + """
        w = np.array([2.0])
        s = pyopnb.Session(build(node("Mul", ["x", "w"], ["y"]), weights={"w": «w»}))
        """,
        (
            "the node of output 'y' (::Mul), input w: expected float32, as x is, got float64 in an initializer",
        ),
        "s(x=[3])['y'].tolist() == [6]",
    ),
    Mistake(
        "a float64 initializer before float32",
        _BUILD
        + """
        w = np.array([2.0])
        r = pyopnb.run(build(node("Mul", ["w", "x"], ["y"]), weights={"w": «w»}), [3])
        """,
        (
            "the node of output 'y' (::Mul), input w: expected float32, as x is, got float64 in an initializer",
        ),
        "r['y'].tolist() == [6]",
    ),
    Mistake(
        "a float64 array as an initializer of a model",
        """
        w = np.array([2.0])
        nodes = [pyopnb.node("Abs", "x", "a"), pyopnb.node("Mul", "a w", "y")]
        s = pyopnb.Session(pyopnb.model(nodes, {"x": "float32[N]"}, "y", initializers={"w": «w»}))
        """,
        (
            "the node of output 'y' (::Mul), input w: expected float32, as a is, got float64 in an initializer",
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
            "the node of output 'y' (::Reshape), input shape: expected int64, got int32 in an initializer",
        ),
        "s(x=[3])['y'].tolist() == [[3]]",
    ),
    Mistake(
        "two dtypes in a call",
        """
        B = np.array([2.0])
        y = pyopnb.call("Mul", np.float32([3]), «B»)
        """,
        ("call of Mul, input B: expected float32, as A is, got float64",),
        "y.tolist() == [6]",
    ),
)
