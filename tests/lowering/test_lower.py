"""Ops as functions of ONNX operators: what is traced, what is refused, and that files run without pyopnb."""

from __future__ import annotations

import pickle
import re
import subprocess
import sys
import textwrap
import warnings

import numpy as np
import onnx
import onnxruntime
import pytest
from bodies import BODIES, REFUSED, example, source

import pyopnb
from pyopnb.engine.models.ort_capabilities import takes_empty
from pyopnb.engine.ops.types import tensor_type
from pyopnb.lowering.rules import TABLE, name_of


@pytest.fixture
def op(define):
    """Define ``demo::Name`` with a body; its name."""

    def op(body: str, name: str = "Op") -> str:
        text = textwrap.indent(textwrap.dedent(body).strip("\n"), "    ")
        define(f'@pyopnb.pyop("demo::{name}")\nclass {name}:\n{text}\n', f"{name.lower()}_.py")
        return f"demo::{name}"

    return op


def lower(op: str, *arrays: np.ndarray, **options):
    """Lower an op, with finite=True where onnxruntime 1.25 sorts NaN between numbers and that is found."""
    try:
        return pyopnb.lower(op, *arrays, **options)
    except pyopnb.errors.NotLowered as error:
        if takes_empty() or "got with NaN and infinities" not in str(error):
            raise
        return pyopnb.lower(op, *arrays, **{**options, "finite": True})


def plainly(model: onnx.ModelProto, **feeds: np.ndarray) -> list[np.ndarray]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(
        model.SerializeToString(), options, ["CPUExecutionProvider"]
    ).run(None, feeds)


def call(
    function: onnx.FunctionProto, *arrays: np.ndarray, outputs: int = 1, **attrs
) -> list[np.ndarray]:
    names = [f"x{n}" for n in range(len(arrays))]
    node = pyopnb.node(
        f"{function.domain}::{function.name}", names, [f"y{n}" for n in range(outputs)], **attrs
    )
    types = {
        name: pyopnb.TensorType(tensor_type(str(array.dtype)).dtype, (None,) * array.ndim)
        for name, array in zip(names, arrays, strict=True)
    }
    known = pyopnb.registry.find(function.domain, function.name)
    if known is not None:
        pyopnb.registry.remove(known.name)
    return plainly(
        pyopnb.model([node], types, list(node.output), functions=[function]),
        **dict(zip(names, arrays, strict=True)),
    )


# ---- what is traced, and what is not ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", BODIES)
def test_numpy_as_it_is_used(define, name):
    # lower itself compares: at five sizes, on a dozen of values, in three dtypes.
    define(f'@pyopnb.pyop("demo::Body")\n{source(BODIES[name])}')
    function = lower("demo::Body", *example(BODIES[name]))
    assert function.node


def test_every_traced_function_is_called_in_a_body():
    text = "".join(BODIES.values())
    names = {name_of(function).rpartition(".")[2] for function in TABLE}
    uncalled = {name for name in names if not re.search(rf"\b{name}\b", text)}
    # Those with a sign are called by it.
    signs = {
        "bitwise_and",
        "divide",
        "equal",
        "floor_divide",
        "less",
        "matmul",
        "multiply",
        "negative",
    }
    assert uncalled - signs <= {"copy", "remainder"}


def test_the_end_of_an_open_slice_is_no_number_to_overflow_with(op):
    name = op("def compute(self, x) -> 'float32[N]':\n    return (x[:, 1:] * x[:, :-1]).sum(1)")
    x = np.random.default_rng(14).normal(size=(5, 4)).astype(np.float32)
    assert pyopnb.lower(name, x).node


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_operators_is_refused_with_its_line(define, name):
    body, message = REFUSED[name]
    define(f'@pyopnb.pyop("demo::Body")\n{source(body)}')
    with pytest.raises(
        pyopnb.errors.NotLowered,
        match=rf"(?s)demo::Body, line \d+ of compute \(return .*expected .*got .*{message}",
    ):
        pyopnb.lower("demo::Body", *example(body))


def test_the_line_is_that_of_a_function_that_the_op_calls(define):
    define(
        """
        def halved(x):
            return x / 2 if x.max() > 1 else x

        @pyopnb.pyop("demo::Halved")
        class Halved:
            def compute(self, x):
                return halved(x)
        """
    )
    with pytest.raises(
        pyopnb.errors.NotLowered, match=r"line 5 of halved \(return x / 2 if x.max\(\) > 1 else x\)"
    ):
        pyopnb.lower("demo::Halved", np.ones(3, np.float32))


def test_a_refusal_that_the_op_catches_is_one_all_the_same(op):
    name = op(
        """
        def compute(self, x):
            try:
                return x * float(x[0])
            except Exception:
                return x
        """
    )
    with pytest.raises(
        pyopnb.errors.NotLowered,
        match=r"line \d+ of compute \(return x \* float\(x\[0\]\)\).*float\(\) of an array",
    ):
        pyopnb.lower(name, np.ones(3, np.float32))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("def __init__(self):\n    self.runs = 0\ndef compute(self, x):\n    self.runs += 1\n    return x + self.runs", "what compute changes on self"),
        ("def __init__(self):\n    self.sum = np.zeros(3, np.float32)\ndef compute(self, x):\n    self.sum += 1\n    return x + self.sum", "what compute changes on self"),
        ("def compute(self, x):\n    return x.nothing", "AttributeError, 'numpy.ndarray' object has no attribute 'nothing'"),
        ("def compute(self, x):\n    return x.view(np.int32).view(np.float32)", r"view\(\) of an array"),
        ("def compute(self, x):\n    return np.where(x == None, 0, x)", "a comparison with NoneType"),
        ("def compute(self, x):\n    y = x.copy(); v = y[1:]; v += 10; return y + 1", "a view of an array that was written"),
        ("def compute(self, x):\n    y = x.copy(); v = y.T; y[0] = 1; return v.T + y", "a view of an array that was written"),
        ("def compute(self, x):\n    y = np.zeros(3, np.float32); v = y[:1]; v += x[:1]; return y", "a view of an array that was written"),
        ("def compute(self, x):\n    y = x.copy(); y[:2][0] = 1; return y", "a write into a view"),
    ],
)  # fmt: skip
def test_what_cannot_be_traced_is_refused(op, body, message):
    if "nothing" in message:
        with pytest.raises(AttributeError, match="nothing"):
            pyopnb.lower(op(body), np.ones(3, np.float32))
        return
    with pytest.raises(pyopnb.errors.NotLowered, match=message):
        pyopnb.lower(op(body), np.ones(3, np.float32))


def test_a_wrong_function_is_refused_and_not_returned(op, monkeypatch):
    # What the comparison is for: here Sinh is recorded for tanh.
    from pyopnb.lowering.rules import TABLE

    name = op("def compute(self, x):\n    return np.tanh(x)")
    monkeypatch.setitem(TABLE, np.tanh, TABLE[np.sinh])
    with pytest.raises(
        pyopnb.errors.NotLowered,
        match=r"demo::Op: expected the results of compute, got with the example \(1\.0\): output 0 at \[0\] is 1\.17\d+ instead of 0\.76\d+",
    ):
        pyopnb.lower(name, np.ones(3, np.float32))


def test_a_function_that_is_right_at_one_size_alone_is_refused(op, monkeypatch):
    from pyopnb.lowering import tracing

    name = op("def compute(self, x):\n    return x * x.shape[0]")
    monkeypatch.setattr(tracing, "size_of", lambda x, axis: int(x.value.shape[axis]))
    with pytest.raises(
        pyopnb.errors.NotLowered,
        match=r"got with inputs of sizes \[4\] \(1\.0\): output 0 at \[0\] is 3\.0 instead of 4\.0",
    ):
        pyopnb.lower(name, np.ones(3, np.float32))


# ---- arrays without elements, other dtypes -------------------------------------------------------------------------------------


UNTRIED = " Not compared without elements."


@pytest.mark.parametrize(
    ("body", "shape"),
    [
        ("x.mean(1)", (3, 0)), ("x.mean()", (0,)), ("np.mean(x, (0, 2), keepdims=True)", (2, 4, 0)), ("x.var(0)", (0, 4)), ("x.var(0, ddof=1)", (0, 4)), ("x.std(1, ddof=2)", (3, 1)),
        ("np.median(x, axis=1)", (3, 0)), ("np.any(x > 0, 1)", (3, 0)), ("np.all(x > 0, 1)", (3, 0)), ("np.repeat(x, 2, 1)", (0, 0)),
        # onnxruntime 1.32's Einsum ends the process where what is summed over is empty.
        ("np.einsum('ij,kj->ik', x, x)", (3, 0)), ("np.einsum('ijk,ljk->il', x, x)", (3, 2, 0)), ("np.einsum('bij,bkj->bik', x, x)", (2, 3, 0)), ("np.einsum('ij->i', x)", (3, 0)), ("np.einsum('ijk,ljk->il', x, x)", (0, 3, 1)), ("np.einsum('bij->bji', x)", (0, 2, 3)), ("np.einsum('IJ,KJ->IK', x, x)", (0, 3)), ("np.einsum('ij,j->i', x, x[0])", (3, 0)),
    ],
)  # fmt: skip
def test_arrays_without_elements_are_as_in_numpy(op, body, shape):
    dtype = "bool" if " > " in body else "float32"
    name = op(
        f'def compute(self, x: "float32[{",".join("NMK"[: len(shape)])}]") -> "{dtype}[...]":\n    return {body}'
    )
    function = lower(name, np.ones([size or 2 for size in shape], np.float32))
    if not takes_empty():
        assert UNTRIED in function.doc_string
        return
    x = np.zeros(shape, np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = pyopnb.registry[name].current.cls().compute(x)
    np.testing.assert_array_equal(call(function, x)[0], expected)


def test_a_function_that_is_wrong_for_arrays_without_elements_is_refused(op, monkeypatch):
    from pyopnb.lowering.numpy import reductions

    name = op("def compute(self, x):\n    return x.mean(1)")
    monkeypatch.setattr(reductions, "may_be_empty", lambda x, axes: False)
    if not takes_empty():
        assert UNTRIED in pyopnb.lower(name, np.ones((3, 2), np.float32)).doc_string
        return
    with pytest.raises(
        pyopnb.errors.NotLowered,
        match=r"got with inputs of sizes \[3, 0\].*: output 0 at \[0\] is \S+ instead of nan",
    ):
        pyopnb.lower(name, np.ones((3, 2), np.float32))
    assert pyopnb.lower(
        name, np.ones((3, 2), np.float32), finite=True
    ).node  # the mean of nothing is NaN


# ---- writing ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        "y = x.copy(); y[1] = 5; y[:, 1:] *= 2; y[y > 4] -= 1; y[[0, 2], [1, 0]] = 7; return y",
        "y = np.zeros((x.shape[0], 4), x.dtype); y[:, 1:3] = x[:, :2]; y[..., -1] = 2; return y",
        "y = np.empty_like(x); y[...] = x; np.add(y, 1, out=y); y -= 0.5; y.fill(2); y[x > 0] = x[x > 0]; return y",
        "y = [x, x * 2]; y[0] = y[1]; a, b = y; a += 1; return a + b",
        "y = np.zeros((3, 3), np.float32); y[0] = 5; y[1, 1] += 2; return x[:, :3] @ y",
    ],
)
def test_writes_in_place_are_as_in_numpy(op, body):
    pyopnb.lower(
        op(f"def compute(self, x):\n    {body}"),
        np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32),
    )


def test_a_write_that_numpy_refuses_is_refused(op):
    name = op("def compute(self, x) -> 'int32[N]':\n    y = x.copy()\n    y += 0.5\n    return y")
    with pytest.raises(TypeError, match="Cannot cast ufunc 'add' output"):
        pyopnb.lower(name, np.arange(3, dtype=np.int32))


# ---- attrs and sizes ----------------------------------------------------------------------------------------------------------


def test_attrs_are_part_of_the_function(op):
    name = op(
        """
        def __init__(self, axis: int = -1, times: int = 2, mode: str = "sum", by: float = 2.0):
            self.axis, self.times, self.mode, self.by = axis, times, mode, by
        def compute(self, x):
            for _ in range(self.times):
                x = x * self.by
            if self.mode == "max" or self.by > 100:
                return x.max(self.axis)
            return x.sum(self.axis)
        """
    )
    x = np.float32([[1, 2, 3], [4, 5, 6]])
    function = pyopnb.lower(name, x, times=3, axis=0)
    np.testing.assert_array_equal(call(function, x)[0], x.sum(0) * 8)


def test_a_size_of_the_hint_is_a_number(op):
    name = op(
        'def compute(self, x: "float32[N,3]"):\n    return sum(x[:, k] * k for k in range(x.shape[1])) + sum(row.sum() for row in x.T)'
    )
    function = pyopnb.lower(name, np.ones((2, 3), np.float32))
    x = np.float32(np.random.default_rng(0).normal(size=(7, 3)))
    pyopnb.testing.assert_close(
        call(function, x)[0], x[:, 1] + 2 * x[:, 2] + x.sum(), rtol=1e-5, atol=1e-5
    )


def test_sizes_that_are_the_same_size_can_be_compared(op):
    name = op(
        "def compute(self, x):\n    assert x.shape == x.shape and x.ndim == 2\n    return x.reshape(x.shape[1], x.shape[0])"
    )
    assert [node.op_type for node in pyopnb.lower(name, np.ones((2, 3), np.float32)).node] == [
        "Shape",
        "Shape",
        "Concat",
        "Reshape",
    ]


def test_functions_of_the_module_and_weights_of_the_instance_come_along(define):
    define(
        """
        def scaled(x, by):
            return x * np.full(x.shape, by, x.dtype)

        class Base:
            def half(self, x):
                return scaled(x, 0.5) + np.zeros((x.shape[0], 1), np.float32)

        @pyopnb.pyop("demo::Weighted")
        class Weighted(Base):
            def __init__(self):
                self.weights = np.float32([[1, 2], [3, 4]])
            def compute(self, x, y=None, *more):
                return self.half(x) @ self.weights if y is None else y
        """
    )
    x = np.float32([[2, 4], [6, 8], [1, 1]])
    pyopnb.testing.assert_close(
        call(pyopnb.lower("demo::Weighted", x), x)[0], x / 2 @ np.float32([[1, 2], [3, 4]])
    )


def test_finite_arrays_need_no_nodes_for_nan(op):
    name = op("def compute(self, x):\n    return x.max(1)")
    x = np.ones((2, 3), np.float32)
    exact, finite = pyopnb.lower(name, x), pyopnb.lower(name, x, finite=True)
    assert [node.op_type for node in finite.node if node.op_type != "Constant"] == ["ReduceMax"]
    assert np.isnan(call(exact, np.float32([[1, np.nan, 2]]))[0][0])


def test_examples_of_several_dtypes_are_refused(op):
    name = op("def compute(self, x):\n    return x + 1")
    with pytest.raises(
        pyopnb.errors.InputError,
        match=r"example 1: expected the dtypes, ranks and attrs of the first, \(float32\[1\]\), got \(float64\[1\]\)",
    ):
        pyopnb.lower(name, np.ones(1, np.float32), examples=[np.ones(1)])


def test_what_the_op_raises_on_the_example_arrives(op):
    name = op("def compute(self, x):\n    raise KeyError('mine')")
    with pytest.raises(KeyError, match="mine"):
        pyopnb.lower(name, np.ones(1, np.float32))


# ---- size ---------------------------------------------------------------------------------------------------------------------


# ---- models -------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def network(op):
    """Three ops of which one stays, between plain ONNX operators."""
    op(
        "def __init__(self, limit: float = 1.0):\n    self.limit = limit\ndef compute(self, x):\n    return self.limit * np.tanh(x / self.limit)",
        "SoftClip",
    )
    op(
        "def __init__(self, axis: int = -1):\n    self.axis = axis\ndef compute(self, x):\n    return np.sort(x, self.axis)",
        "Sort",
    )
    op("def compute(self, x):\n    return x if x.sum() > 0 else -x", "Flip")
    nodes = [
        pyopnb.node("demo::SoftClip", "x", "a", name="first", limit=2.0),
        pyopnb.node("Neg", "a", "b"),
        pyopnb.node("demo::SoftClip", "b", "c", name="second"),
        pyopnb.node("demo::Sort", "c", "d", name="rows"),
        pyopnb.node("demo::Sort", "d", "e", name="columns", axis=0),
    ]
    return nodes, {"x": "float32[N,3]"}


def test_a_model_runs_in_plain_onnxruntime(network, tmp_path):
    nodes, types = network
    model = pyopnb.model(nodes, types, "e")
    before = model.SerializeToString()
    lowered = pyopnb.lower(model, finite=not takes_empty())
    assert model.SerializeToString() == before
    assert sorted(f.name for f in lowered.functions) == ["SoftClip", "SoftClip_2", "Sort", "Sort_2"]
    x = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    expected = pyopnb.run(model, x=x)["e"]
    pyopnb.testing.assert_close(plainly(lowered, x=x)[0], expected, rtol=1e-6)
    onnx.checker.check_model(lowered, full_check=True)
    written = pyopnb.text(lowered)
    pyopnb.registry.clear()  # as for a reader of the text
    np.testing.assert_array_equal(plainly(pyopnb.parse(written), x=x)[0], plainly(lowered, x=x)[0])
    # In a process that has no pyopnb:
    onnx.save(lowered, tmp_path / "lowered.onnx")
    np.save(tmp_path / "x.npy", x)
    code = textwrap.dedent(
        """
        import sys
        sys.modules["pyopnb"] = sys.modules["onnx"] = None
        import numpy as np, onnxruntime
        session = onnxruntime.InferenceSession("lowered.onnx", providers=["CPUExecutionProvider"])
        np.save("y.npy", session.run(None, {"x": np.load("x.npy")})[0])
        """
    )
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)
    pyopnb.testing.assert_close(np.load(tmp_path / "y.npy"), expected, rtol=1e-6)


def test_where_the_op_is_known_it_serves(network, define):
    nodes, types = network
    lowered = pyopnb.lower(pyopnb.model(nodes[:1], types, "a"))
    x = np.float32([[1, 2, 3]])
    session = pyopnb.Session(lowered)
    pyopnb.testing.assert_close(session(x=x)["a"], plainly(lowered, x=x)[0], rtol=1e-6)
    define(
        '@pyopnb.pyop("demo::SoftClip")\nclass SoftClip:\n    def __init__(self, limit: float = 1.0):\n        self.limit = limit\n    def compute(self, x):\n        return x * 0 + self.limit'
    )
    np.testing.assert_array_equal(session(x=x)["a"], [[2, 2, 2]])
    pyopnb.testing.assert_close(plainly(lowered, x=x)[0], 2 * np.tanh(x / 2), rtol=1e-6)
    pyopnb.registry.remove("demo::SoftClip")
    pyopnb.testing.assert_close(pyopnb.Session(lowered)(x=x)["a"], 2 * np.tanh(x / 2), rtol=1e-6)


def test_what_cannot_become_a_function_stays_and_a_warning_says_why(network):
    nodes, types = network
    model = pyopnb.model([*nodes, pyopnb.node("demo::Flip", "e", "f", name="flip")], types, "f")
    with pytest.warns(
        pyopnb.errors.StayedInPython,
        match=r"(?s)1 Python node left in the model:\n  node 'flip' \(demo::Flip\): demo::Flip, line \d.*a condition that depends",
    ) as said:
        lowered = pyopnb.lower(model, finite=not takes_empty())
    assert list(said[0].message.reasons) == ["node 'flip' (demo::Flip)"]
    assert said[0].filename == __file__
    assert str(pickle.loads(pickle.dumps(said[0].message))) == str(said[0].message)
    assert len(lowered.functions) == 4
    x = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    pyopnb.testing.assert_close(
        pyopnb.run(lowered, x=x)["f"], pyopnb.run(model, x=x)["f"], rtol=1e-6
    )
    with pytest.raises(pyopnb.errors.NotLowered, match="a condition that depends on values"):
        pyopnb.lower(model, strict=True, finite=not takes_empty())


def test_an_op_that_does_not_run_on_random_arrays_stays_with_what_it_raises(op):
    name = op("def compute(self, x):\n    return x + {1.0: 2}[float(x.max())]")
    model = pyopnb.model(pyopnb.node(name, "x", "y"), {"x": "float32[2]"}, "y")
    with pytest.warns(
        pyopnb.errors.StayedInPython,
        match=r"on \(float32\[2\]\): expected a result of compute, got KeyError, .*Try: lower\(model, ",
    ):
        pyopnb.lower(model)


def test_a_mistake_of_the_tracer_is_no_reason_to_stay(op, monkeypatch):
    from pyopnb.lowering import one_op

    name = op("def compute(self, x):\n    return x + 1")
    model = pyopnb.model(pyopnb.node(name, "x", "y"), {"x": "float32[2]"}, "y")
    monkeypatch.setattr(one_op, "verify", lambda *args, **kwargs: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        pyopnb.lower(model)


def test_feeds_tell_types_that_the_model_does_not(op):
    op('def compute(self, x) -> "float32[...]":\n    return x[x > 0]', "Positive")
    op(
        "def compute(self, x):\n    assert len(x) == 3\n    return np.sqrt(x).sum(keepdims=True)",
        "Roots",
    )
    model = pyopnb.model(
        [
            pyopnb.node("demo::Positive", "x", "p"),
            pyopnb.node("Abs", "p", "q"),
            pyopnb.node("demo::Roots", "q", "y"),
        ],
        {"x": "float32[N,M]"},
        "y",
    )
    with pytest.warns(
        pyopnb.errors.StayedInPython,
        match=r"input q: expected a dtype and a rank, got .*Try: lower\(model, \{…\}\)",
    ):
        pyopnb.lower(model)
    x = np.float32([[1, -2], [4, 9]])
    with pytest.warns(pyopnb.errors.StayedInPython, match=r"len\(\) of a size that can change"):
        pyopnb.lower(model, {"x": x})
    op("def compute(self, x):\n    return np.sqrt(x).sum(keepdims=True)", "Roots")
    lowered = pyopnb.lower(model, {"x": x})
    np.testing.assert_array_equal(plainly(lowered, x=x)[0], [6])


def test_float16_inside_of_float32_may_be_more_exact_than_numpy_s(op):
    body = "def compute(self, x) -> 'float32[...]':\n    return (x**2 + x).astype(np.float32)"
    pyopnb.lower(op(body), np.random.default_rng(0).normal(size=(4, 50)).astype(np.float16))


def test_an_operator_that_raises_where_the_op_does_not_is_refused(op):
    body = "return np.pad(x, ((1, 2), (2, 1)), mode='reflect')"
    x = np.random.default_rng(0).normal(size=(4, 5)).astype(np.float32)
    message = r"for \(float32\[.*got Pad reflect requires axis length.*Try: the sizes that"
    with pytest.raises(pyopnb.errors.NotLowered, match=message):
        pyopnb.lower(op(f"def compute(self, x):\n    {body}"), x)
    pyopnb.lower(op(f"def compute(self, x: 'float32[4,5]'):\n    {body}"), x)


def test_an_overflow_of_float16_hides_no_wrong_number(op, monkeypatch):
    from pyopnb.lowering.rules import TABLE

    # In NumPy, float16 overflows in the deviation, in ONNX Runtime it does not.
    name = op("def compute(self, x):\n    return np.stack([np.tanh(x), x * 0 + np.std(x * 300)])")
    x = np.random.default_rng(0).normal(size=60).astype(np.float16)
    pyopnb.lower(name, x)
    monkeypatch.setitem(TABLE, np.tanh, TABLE[np.sinh])
    with pytest.raises(
        pyopnb.errors.NotLowered,
        match=r"got with \S.*: output 0 at \[0,\d+\] is \S+ instead of \S+",
    ):
        pyopnb.lower(name, x)
