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
        ("line 2, column 27", "op Softmx: expected an op of ONNX"),
        "m.graph.node[0].op_type == 'Softmax'",
    ),
    Mistake(
        "an input is misspelled",
        """
        %%onnx -q m
        (float[N] features) => (y) { y = Abs(«featrues») }
        """,
        ("line 2, column 38", "input featrues: expected an input, an initializer or a value made above"),
        "m.graph.node[0].input[0] == 'features'",
    ),
    Mistake(
        "an output is never made",
        """
        %%onnx -q m
        (float[N] x) => («result») { results = Abs(x) }
        """,
        ("output result: expected the name of a value of this graph",),
        "m.graph.output[0].name == 'results'",
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
