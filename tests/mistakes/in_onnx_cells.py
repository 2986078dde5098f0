"""Mistakes in ``%%onnx`` cells."""

from __future__ import annotations

from mistake import Mistake

MISTAKES = (
    Mistake(
        "an operator of ONNX is misspelled",
        """
        %%onnx -q m
        (float[N] x) => (y) { y = «Softmx»(x) }
        """,
        ("line 2, column 27", "(::Softmx): expected an operator of ONNX"),
        "m.graph.node[0].op_type == 'Softmax'",
    ),
    Mistake(
        "an input is misspelled",
        """
        %%onnx -q m
        (float[N] features) => (y) { y = Abs(«featrues») }
        """,
        (
            "line 2, column 38",
            "input featrues: expected an input, an initializer or an output of a node",
        ),
        "m.graph.node[0].input[0] == 'features'",
    ),
    Mistake(
        "a dtype that does not exist",
        """
        %%onnx -q m
        («flaot»[N] x) => (y) { y = Abs(x) }
        """,
        ("line 2, column 2", "expected one of the dtypes", "got flaot"),
        "m.graph.input[0].type.tensor_type.elem_type == onnx.TensorProto.FLOAT",
    ),
)
