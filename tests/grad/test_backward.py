"""``backward`` on a class: the gradient op that comes with it, from definition to removal, and what it refuses."""

import subprocess
import sys
from textwrap import dedent

import numpy as np
import pytest
from small_gradients import SCALE, USER_RELU

import pyopnb
from pyopnb.engine.ops.registry import Registry
from pyopnb.errors import DefinitionError, ModelError, ResultError
from pyopnb.models.module_files import load_module, save_module

X = np.float32([[-1, 2, 3], [4, -5, 6]])
DY = np.float32([[1, 2, 3], [4, 5, 6]])


def names(registry=pyopnb.registry):
    return [op.name for op in registry]


def test_the_class_defines_two_ops(define):
    (version,) = define(USER_RELU)
    assert names() == ["demo::UserRelu", "demo::UserReluGrad"]
    assert version.gradient is pyopnb.registry["demo::UserReluGrad"].current
    assert len(pyopnb.registry) == len(list(pyopnb.registry))
    assert (
        version.gradient.gradient_of == "demo::UserRelu" and version.gradient.epoch == version.epoch
    )
    y = pyopnb.call("demo::UserRelu", X, slope=0.5)
    dx = pyopnb.call("demo::UserReluGrad", X, y, DY, slope=0.5)
    assert np.array_equal(dx, np.where(X > 0, DY, 0.5 * DY)) and dx.dtype == np.float32


def test_its_schema_has_the_types_of_the_first_and_its_attrs(define):
    define("""
        @pyopnb.pyop("demo::Two")
        class Two:
            def __init__(self, k: int): self.k = k
            def compute(self, x: "float32[N,M]", places: "int64[N]", w=None) -> ("float32[N]", "float32[M]"): ...
            def backward(self, inputs, outputs, grads): ...
        """)
    assert str(pyopnb.registry["demo::TwoGrad"].current.schema) == (
        "(x: float32[N,M], places: int64[N], w = None, output_0: float32[N], output_1: float32[M], "
        "grad_0: float32[N] = None, grad_1: float32[M] = None)<k: int> -> float32[N,M], int64[N], any[...]"
    )


@pytest.mark.parametrize("bias", [True, False])
def test_optional_inputs_and_gradients_that_nobody_asks_for(define, bias):
    define(SCALE)
    w, b = np.float32([1, 2, 3]), np.float32([1, 1, 1])
    inputs = [X, w] + [b] * bias
    y = pyopnb.call("demo::Scale", *inputs)
    given = {"x": X, "w": w, "y": y, "dy": DY} | ({"b": b} if bias else {})
    ports = ["x", "w", "b" if bias else "", "y", "dy"]
    results = ["dx", "dw", "db"] if bias else ["dx", "dw"]
    for wanted in (results, results[1:]):
        outputs = [name if name in wanted else "" for name in results]
        node = pyopnb.node("demo::ScaleGrad", ports, outputs)
        found = pyopnb.run(pyopnb.model(node, given, wanted), **given)
        expected = {"dx": DY * w, "dw": (DY * X).sum(0), "db": DY.sum(0)}
        assert all(np.array_equal(found[name], expected[name]) for name in wanted)


def test_a_gradient_that_is_not_there_and_none_for_an_input(define):
    define("""
        @pyopnb.pyop("demo::Pair")
        class Pair:
            def compute(self, x, places):
                return x[places], 2 * x
            def backward(self, inputs, outputs, grads):
                (x, places), (first, second) = inputs, grads
                dx = np.zeros_like(x) if second is None else 2 * second
                if first is not None:
                    np.add.at(dx, places, first)
                return dx, None
        """)
    x, places = np.float32([1, 2, 3]), np.int64([0, 0, 2])
    feeds = {"x": x, "places": places, "p": x, "q": x, "d": x}
    for first, second, expected in [
        ("d", "", [3, 0, 3]),
        ("", "d", [2, 4, 6]),
        ("d", "d", [5, 4, 9]),
    ]:
        node = pyopnb.node(
            "demo::PairGrad", ["x", "places", "p", "q", first, second], ["dx", "dplaces"]
        )
        result = pyopnb.run(pyopnb.model(node, feeds, ["dx", "dplaces"]), **feeds)
        assert result["dx"].tolist() == expected and result["dplaces"].tolist() == [0, 0, 0]
        assert result["dplaces"].dtype == np.int64


def test_variadic_inputs(define):
    define("""
        @pyopnb.pyop("demo::SumOfSquares")
        class SumOfSquares:
            def compute(self, *xs): return sum(x * x for x in xs)
            def backward(self, inputs, outputs, grads): return tuple(2 * x * grads[0] for x in inputs)
        """)
    feeds = {"a": X, "b": -X, "c": X, "y": X, "dy": DY}
    node = pyopnb.node("demo::SumOfSquaresGrad", list(feeds), ["da", "db", "dc"])
    result = pyopnb.run(pyopnb.model(node, feeds, ["da", "db", "dc"]), **feeds)
    assert all(np.array_equal(result[f"d{name}"], 2 * feeds[name] * DY) for name in "abc")


def test_the_gradient_op_has_an_instance_of_its_own(define):
    define("""
        @pyopnb.pyop("demo::Counts")
        class Counts:
            def __init__(self): self.forward = self.back = 0
            def compute(self, x):
                self.forward += 1
                return x
            def backward(self, inputs, outputs, grads):
                self.back += 1
                return grads[0] * np.float32(10 * self.back + self.forward)
        """)
    nodes = [pyopnb.node("demo::Counts", "x", "y"), pyopnb.node("demo::CountsGrad", "x y x", "dx")]
    session = pyopnb.Session(pyopnb.model(nodes, {"x": "float32[]"}, ["y", "dx"]))
    assert [float(session(x=1)["dx"]) for _ in range(3)] == [10, 20, 30]


# ---- redefined, rolled back, withdrawn, removed ------------------------------------------------------------------------------

BODY = """
@pyopnb.pyop("demo::Times")
class Times:
    def compute(self, x): return {k} * x
    {backward}
"""


def times(k, backward=True):
    return BODY.format(
        k=k,
        backward=f"def backward(self, inputs, outputs, grads): return {k} * grads[0]"
        if backward
        else "",
    )


@pytest.fixture
def pair():
    """A model of the op and its gradient op."""
    nodes = [pyopnb.node("demo::Times", "x", "y"), pyopnb.node("demo::TimesGrad", "x y x", "dx")]
    return pyopnb.model(nodes, {"x": "float32[]"}, ["y", "dx"])


def values(session):
    return [float(value) for value in session.run(None, {"x": np.float32(1)})]


def test_reload_and_rollback_of_both(define, pair):
    define(times(2))
    session = pyopnb.Session(pair)
    assert values(session) == [2, 2]
    define(times(3))
    assert values(session) == [3, 3]
    restored = pyopnb.registry.rollback("demo::Times")
    assert values(session) == [2, 2] and restored.number == restored.gradient.number == 3
    assert pyopnb.diff(*pyopnb.registry.history("demo::TimesGrad")[:2]).verdict == "different"
    assert pyopnb.diff(*pyopnb.registry.history("demo::TimesGrad")[::2]).verdict == "identical"


def test_a_class_without_backward_takes_the_gradient_op_away_and_rollback_brings_it_back(
    define, pair
):
    define(times(2))
    session = pyopnb.Session(pair)
    define(times(3, backward=False))
    assert names() == ["demo::Times"] and values(session) == [3, 2]  # sessions keep what is removed
    assert "backward: only in a" in str(pyopnb.diff(*pyopnb.registry.history("demo::Times")))
    pyopnb.registry.rollback("demo::Times")
    assert names() == ["demo::Times", "demo::TimesGrad"] and values(session) == [2, 2]


@pytest.mark.parametrize("second", [True, False])
def test_withdraw_is_as_if_it_had_not_been_defined(define, pair, second):
    define(times(2))
    session = pyopnb.Session(pair)
    former = pyopnb.registry["demo::TimesGrad"].current
    (version,) = define(times(3, backward=second))
    pyopnb.registry.withdraw(version)
    assert values(session) == [2, 2]
    assert pyopnb.registry["demo::TimesGrad"].current is former
    assert pyopnb.registry.history("demo::TimesGrad") == (former,)
    define(times(5))
    assert values(session) == [5, 5] and pyopnb.registry["demo::TimesGrad"].current.number == 3


def test_the_gradient_op_goes_with_its_op(define):
    define(times(2))
    for what in ("remove", "rollback"):
        with pytest.raises(DefinitionError, match=rf'Try: pyopnb.registry.{what}\("demo::Times"\)'):
            getattr(pyopnb.registry, what)("demo::TimesGrad")
    assert len(names()) == 2


OWN = '@pyopnb.pyop("demo::TimesGrad")\nclass Own:\n    def compute(self, x): return x\n'


def test_an_op_of_ones_own_of_that_name_is_not_overwritten(define):
    define(OWN)
    with pytest.raises(DefinitionError, match="expected the name demo::TimesGrad to be free"):
        define(times(2))
    assert names() == ["demo::TimesGrad"] and pyopnb.registry["demo::TimesGrad"].current.number == 1


def test_nor_is_the_gradient_op(define):
    define(times(2))
    with pytest.raises(DefinitionError, match="the name of the gradient op of demo::Times"):
        define(OWN)
    assert pyopnb.registry["demo::TimesGrad"].current.gradient_of == "demo::Times"


def test_saved_and_loaded_with_the_source_of_the_op(define, pair, tmp_path):
    define(times(2))
    assert [op.name for op in pyopnb.save(pair, tmp_path / "pair.onnx")] == ["demo::Times"]
    save_module(tmp_path / "times.py")
    pyopnb.registry.clear()
    loaded = pyopnb.load(tmp_path / "pair.onnx", ops=["demo::Times"])
    assert values(pyopnb.Session(loaded.model)) == [2, 2]
    pyopnb.registry.clear()
    load_module(tmp_path / "times.py")
    assert names() == ["demo::Times", "demo::TimesGrad"]


def test_nothing_keeps_the_classes_of_dropped_versions():
    import gc
    import weakref

    registry = Registry()

    def one():
        class Times:
            def compute(self, x):
                return x

            def backward(self, inputs, outputs, grads):
                return grads[0]

        version = registry.define(Times, "demo::Times")
        return weakref.ref(version.cls), weakref.ref(version.gradient.cls)

    held = one()
    registry.clear()
    gc.collect()
    assert [ref() for ref in held] == [None, None]


# ---- what is refused ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("backward", "got"),
    [
        ("def backward(self, y, dy): return dy", r"got \(self, y, dy\)"),
        ("def backward(self): return 1", r"got \(self\)"),
        ("backward = 3", "got 3"),
        ("def backward(self, inputs, outputs, grads): yield 1", r"a generator \(yield\)"),
        (
            "def backward(self, inputs, outputs, grads, *, k): return 1",
            "got",
        ),
    ],
)
def test_a_backward_that_cannot_be_called(define, backward, got):
    define(times(2))
    with pytest.raises(DefinitionError, match=rf"class Times, backward: expected .*{got}"):
        define(BODY.format(k=3, backward=backward))
    assert pyopnb.registry["demo::Times"].current.number == 1 and len(names()) == 2


WRONG = {
    "return g, g": "line 9, `return g, g`, gradient of b: expected float32[3], got float32[2,3]. Try: return y.sum(axis=0)",
    "return g.T, None": "gradient of x: expected float32[2,3], got float32[3,2].",
    "return g": "`return g`: expected a tuple of 2 gradients, of x, b, got float32[2,3]. Try: None for an input that has no gradient",
    "return g, g, g": "expected a tuple of 2 gradients, of x, b, got a tuple of 3",
    "return [None, None]": "expected a tuple of 2 gradients, of x, b, got list",
    "h = g, g": "expected a tuple of 2 gradients, of x, b, got None: backward ended without a return",
    "return g, g.sum(0, dtype=np.float64)": "gradient of b: expected float32[3], got float64[3]. Try: return np.asarray(y",
    "return g, g.sum(0, keepdims=True)": "expected float32[3], got float32[1,3]",
    "return g > 0, None": "gradient of x: expected float32[2,3], got bool[2,3]",
}


@pytest.mark.parametrize("body", WRONG)
def test_a_wrong_gradient_is_named_with_its_line(define, body):
    define(f"""
@pyopnb.pyop("demo::Plus")
class Plus:
    def compute(self, x, b): return x + b
    def backward(self, inputs, outputs, grads):
        (g,) = grads
        {body}
""")
    with pytest.raises(ResultError) as caught:
        pyopnb.call("demo::PlusGrad", X, X[0], X, DY)
    assert str(caught.value).startswith(("demo::Plus, backward, line ", "demo::Plus, backward: "))
    assert WRONG[body] in str(caught.value)


def test_what_backward_raises_arrives_as_itself(define):
    define(
        BODY.format(
            k=2,
            backward="def backward(self, inputs, outputs, grads): raise ArithmeticError('mine')",
        )
    )
    with pytest.raises(ArithmeticError, match="mine") as caught:
        pyopnb.call("demo::TimesGrad", X, X, DY)
    assert "demo::TimesGrad), version 1" in caught.value.__notes__[0]


def test_a_required_output_is_asked_for(define):
    define(SCALE.replace("(self, x, w, b=None)", "(self, x, w, b=None) -> 'float32[...]'"))
    feeds = {"x": X, "w": X[0], "dy": DY}
    model = pyopnb.model(
        pyopnb.node("demo::ScaleGrad", ["x", "w", "", "", "dy"], "dx"), feeds, "dx"
    )
    with pytest.raises(ModelError, match="input output_0: expected float32"):
        pyopnb.run(model, **feeds)


def test_writing_into_a_gradient_is_refused_as_for_inputs(define):
    define(
        BODY.format(
            k=2,
            backward="def backward(self, inputs, outputs, grads): grads[0][:] = 0; return grads[0]",
        )
    )
    with pytest.raises(ValueError, match="read-only"):
        pyopnb.call("demo::TimesGrad", X, X, DY)


def test_a_gradient_op_that_keeps_what_it_was_given_ends_no_process():
    code = """
        import numpy as np, pyopnb

        @pyopnb.pyop("demo::Keeps")
        class Keeps:
            kept = []
            def compute(self, x): return x
            def backward(self, inputs, outputs, grads):
                self.kept.append((inputs, grads))
                return grads[0]

        nodes = [pyopnb.node("demo::Keeps", "x", "y"), pyopnb.node("demo::KeepsGrad", "x y x", "dx")]
        session = pyopnb.Session(pyopnb.model(nodes, {"x": "float32[N]"}, ["y", "dx"]))
        for n in range(1, 20):
            session.run(None, {"x": np.full(1000 * n, n, np.float32)})
        print(all((grads[0] == n + 1).all() for n, (_, grads) in enumerate(Keeps.kept)))
        """
    done = subprocess.run(
        [sys.executable, "-P", "-c", dedent(code)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr
