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
    Mistake(
        "two colons as in pyopnb.node",
        """
        %%onnx -q m
        (float[N] x) => (y) { y = «lab::NMS»(x) }
        """,
        ("column 27", "expected domain.OpType, got lab"),
        "(m.graph.node[0].domain, m.graph.node[0].op_type) == ('lab', 'NMS')",
    ),
    Mistake(
        "an operator of Python",
        """
        %%onnx -q m
        (float[N] x) => (y) {
            «y = x + 1»
        }
        """,
        ("line 3, column 11, in `y = x + 1`: expected `(`, got +",),
        "pyopnb.run(m, np.float32([2]))['y'].tolist() == [3]",
    ),
    Mistake(
        "a formula of Python",
        """
        %%onnx -q m
        (int64[N] x) => (y) {
            «y = 2 * x ** 2 - x»
        }
        """,
        ("line 3, column 9",),
        "pyopnb.run(m, np.int64([3]))['y'].tolist() == [15]",
    ),
    Mistake(
        "an attr among the inputs",
        """
        %%onnx -q m
        (float[N] x) => (y) { «y = LeakyRelu(x, alpha=0.5)» }
        """,
        ("expected `)`, got =", "LeakyRelu<alpha = 0.5>(x)"),
        "pyopnb.run(m, np.float32([-2]))['y'].tolist() == [-1]",
    ),
    Mistake(
        "a text attr among the inputs",
        """
        %%onnx -q m
        (float[N] x) => (y) { «y = Gelu(x, approximate='tanh')» }
        """,
        ("expected `)`, got =",),
        "m.graph.node[0].attribute[0].s == b'tanh'",
    ),
    Mistake(
        "a call inside a call",
        """
        %%onnx -q m
        (float[N] a, float[N] x) => (y) {
            «y = Relu(Sub(a, x))»
        }
        """,
        ("line 3", "expected `)`, got ("),
        "pyopnb.run(m, np.float32([2, 2]), np.float32([1, 3]))['y'].tolist() == [1, 0]",
    ),
    Mistake(
        "a number among the inputs",
        """
        %%onnx -q m
        (float[N] x) => (y) {
            «y = Clip(x, 0, 6)»
        }
        """,
        ("expected `)`, got 0",),
        "pyopnb.run(m, np.float32([-2, 7]))['y'].tolist() == [0, 6]",
    ),
    Mistake(
        "another name for a value",
        """
        %%onnx -q m
        (float[N] x) => (y) {
            «y = x»
        }
        """,
        ("expected `(`, got }",),
        "[n.op_type for n in m.graph.node] == ['Identity']",
    ),
    Mistake(
        "a semicolon",
        """
        %%onnx -q m
        (float[N] x) => (y) {
            «y = Abs(x);»
        }
        """,
        ("got ;",),
        "[n.op_type for n in m.graph.node] == ['Abs']",
    ),
    Mistake(
        "a hint as in Python",
        """
        %%onnx -q m
        («x: float32[N]») => (y) { y = Abs(x) }
        """,
        ("expected a type and a name, got x",),
        "m.graph.input[0].type.tensor_type.elem_type == 1",
    ),
    Mistake(
        "the arrow of Python",
        """
        %%onnx -q m
        (float[N] x) «->» (y) { y = Abs(x) }
        """,
        ("expected `=>`, got -",),
        "[n.op_type for n in m.graph.node] == ['Abs']",
    ),
    Mistake(
        "an output without parentheses",
        """
        %%onnx -q m
        (float[N] x) => «y» { y = Abs(x) }
        """,
        ("expected `(`, got y",),
        "m.graph.output[0].name == 'y'",
    ),
    Mistake(
        "True",
        """
        %%onnx -q m
        (float[N,M] x) => (y) { y = ReduceMax<keepdims = «False»>(x) }
        """,
        ("expected a number or text, got False",),
        "m.graph.node[0].attribute[0].i == 0",
    ),
    Mistake(
        "the name of a dtype as an attr",
        """
        %%onnx -q m
        (float[N] x) => (y) { y = Cast<to = «INT64»>(x) }
        """,
        ("got INT64",),
        "m.graph.node[0].attribute[0].i == 7",
    ),
    Mistake(
        "single quotes",
        """
        %%onnx -q m
        (float[N] x) => (y) { y = Gelu<approximate = «'tanh'»>(x) }
        """,
        ("expected a number or a text in double quotes",),
        "m.graph.node[0].attribute[0].s == b'tanh'",
    ),
    Mistake(
        "a tuple of Python",
        """
        %%onnx -q m
        (float[N,M] x) => (y) { y = Transpose<perm = «(1, 0)»>(x) }
        """,
        ("expected a list, got (",),
        "list(m.graph.node[0].attribute[0].ints) == [1, 0]",
    ),
    Mistake(
        "an initializer that begins with its name",
        """
        %%onnx -q m
        (float[N] x) => (y) <«w = float[1] {2}»> { y = Mul(x, w) }
        """,
        ("expected a type and a name, got w",),
        "pyopnb.run(m, np.float32([3]))['y'].tolist() == [6]",
    ),
    Mistake(
        "lower case",
        """
        %%onnx -q m
        (float[N] x) => (y) { y = «relu»(x) }
        """,
        ("op relu: expected an op of ONNX",),
        "[n.op_type for n in m.graph.node] == ['Relu']",
    ),
    Mistake(
        "an attr that the operator does not have",
        """
        %%onnx -q m
        (float[N] x) => (y) { y = LeakyRelu<«alhpa» = 0.5>(x) }
        """,
        ("attr alhpa: expected one of alpha, got alhpa",),
        "pyopnb.run(m, np.float32([-2]))['y'].tolist() == [-1]",
    ),
    Mistake(
        "a text where an operator takes a number",
        """
        %%onnx -q m
        (float[N] x) => (y) { y = Cast<to = «"int64"»>(x) }
        """,
        ("attr to: expected an int, as Cast takes, got to = 'int64'",),
        "pyopnb.run(m, np.float32([-2]))['y'].dtype == np.int64",
    ),
    Mistake(
        "a name that is none",
        """
        %%onnx -q «2m»
        (float[N] x) => (y) { y = Abs(x) }
        """,
        ("%%onnx, NAME: expected a valid variable name, got 2m",),
        "clipper.graph.name == 'clipper'",
        advice="Try: %%onnx (.*)",
    ),
)
