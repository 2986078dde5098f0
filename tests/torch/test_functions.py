"""Ops of the registry as functions of torch: eager, compiled, exported, reloaded."""

import re

import numpy as np
import pytest
import torch
from line_interrupts import lines_that_leave_held
from torch import nn

import pyopnb
import pyopnb.torch
from pyopnb.torch import functions


@pytest.fixture
def soft_clip(define):
    define("""
        @pyopnb.pyop("demo::SoftClip")
        class SoftClip:
            def __init__(self, limit: float = 1.0, mode: str = "tanh"):
                self.limit = limit
            def compute(self, x):
                return self.limit * np.tanh(x / self.limit)
            def infer(self, x):
                return x
    """)
    return pyopnb.torch.op("demo::SoftClip")


@pytest.fixture
def halves(define):
    define("""
        @pyopnb.pyop("demo::Halves")
        class Halves:
            def __init__(self, axis: int, names: list[str] = None):
                self.axis = axis
            def compute(self, x, bias=None) -> ("float32[...]", "int64[...]"):
                x = x if bias is None else x + bias
                half = x.shape[self.axis] // 2
                return np.take(x, range(half), self.axis), np.take(x, range(half), self.axis).astype(np.int64)
            def infer(self, x, bias=None):
                shape = list(x.shape)
                shape[self.axis] = None if isinstance(shape[self.axis], str) else shape[self.axis] // 2
                return x.like(shape=shape), x.like(dtype="int64", shape=shape)
    """)
    return pyopnb.torch.op("demo::Halves")


def tanh(x, limit):
    return limit * torch.tanh(x / limit)


def test_eager_in_every_dtype_and_layout(soft_clip):
    x = torch.randn(3, 4)
    torch.testing.assert_close(soft_clip(x, limit=2.0), tanh(x, 2.0))
    torch.testing.assert_close(soft_clip(x.T), tanh(x.T, 1.0))
    torch.testing.assert_close(soft_clip(x.double(), limit=0.1), tanh(x.double(), 0.1))
    torch.testing.assert_close(soft_clip(x.half()), tanh(x, 1.0).half(), rtol=2e-3, atol=2e-3)
    assert soft_clip(x[:0]).shape == (0, 4)
    assert soft_clip(torch.tensor(2.0)).shape == ()


def test_several_outputs_optional_inputs_and_variadic_ones(halves, define):
    x = torch.arange(8.0).reshape(2, 4)
    first, whole = halves(x, None, axis=1)
    assert first.tolist() == [[0, 1], [4, 5]]
    assert whole.dtype == torch.int64
    assert halves(x, torch.ones(4), axis=1)[0].tolist() == [[1, 2], [5, 6]]
    define(
        '@pyopnb.pyop("demo::Total")\nclass Total:\n    def compute(self, *xs): return sum(xs)\n    def infer(self, *xs): return xs[0]'
    )
    assert pyopnb.torch.op("demo::Total")(x, x, x).tolist() == (x * 3).tolist()


def test_results_that_share_memory_are_copied(define):
    define(
        '@pyopnb.pyop("demo::Same")\nclass Same:\n    def compute(self, x): return x\n    def infer(self, x): return x'
    )
    x = torch.zeros(3)
    y = pyopnb.torch.op("demo::Same")(x)
    x += 1
    assert y.tolist() == [0, 0, 0]


def test_torch_checks_the_op(soft_clip):
    checks = torch.library.opcheck(
        soft_clip.overload, (torch.randn(3, 4),), {"limit": 2.0, "mode": "tanh"}
    )
    assert set(checks.values()) == {"SUCCESS"}


class Clipped(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.line, self.function = nn.Linear(4, 6), function

    def forward(self, x):
        return self.function(self.line(x), limit=0.5).relu()


def test_compiled_as_one_graph(soft_clip):
    module, x = Clipped(soft_clip).eval(), torch.randn(2, 4)
    with torch.no_grad():
        torch.testing.assert_close(
            torch.compile(module, backend="aot_eager", fullgraph=True)(x), module(x)
        )


def test_exported_as_its_node(soft_clip, exported):
    module, x = Clipped(soft_clip).eval(), torch.randn(3, 4)
    assert exported(module, (x,), (x[:2],), dynamic_shapes=({0: "batch"},)) == []
    (node,) = [node for node in pyopnb.torch.export(module, (x,)).graph.node if node.domain]
    assert (node.domain, node.op_type) == ("demo", "SoftClip")
    assert {attr.name: attr.f or attr.s for attr in node.attribute} == {
        "limit": 0.5,
        "mode": b"tanh",
    }


class Halved(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        first, whole = self.function(x, None, axis=1)
        return first + whole


def test_sizes_from_infer(halves, exported):
    x = torch.randn(3, 6) * 3
    assert exported(Halved(halves), (x,), (x[:2],), dynamic_shapes=({0: "batch"},)) == []


def test_a_new_version_serves_the_function_and_the_exported_model(soft_clip, define):
    module, x = Clipped(soft_clip).eval(), torch.randn(3, 4)
    session = pyopnb.Session(pyopnb.torch.export(module, (x,)))
    define("""
        @pyopnb.pyop("demo::SoftClip")
        class SoftClip:
            def __init__(self, limit: float = 1.0, mode: str = "tanh"):
                self.limit = limit
            def compute(self, x):
                return np.clip(x, -self.limit, self.limit)
            def infer(self, x):
                return x
    """, "second.py")  # fmt: skip
    with torch.no_grad():
        expected = torch.clip(module.line(x), -0.5, 0.5).relu()
        torch.testing.assert_close(module(x), expected)
    np.testing.assert_allclose(
        session.run(None, {session.get_inputs()[0].name: x.numpy()})[0], expected.numpy(), rtol=1e-6
    )


def test_an_old_function_never_runs_a_changed_signature(soft_clip, define):
    define(
        '@pyopnb.pyop("demo::SoftClip")\nclass SoftClip:\n    def __init__(self, gain: float = 2.0): pass\n    def compute(self, x): return x',
        "second.py",
    )
    with pytest.raises(pyopnb.errors.SchemaChanged) as caught:
        soft_clip(torch.ones(3))
    assert str(caught.value) == (
        "op demo::SoftClip, function of version 1: expected (x)<limit: float = 1.0, mode: str = 'tanh'>, got (x)<gain: float = "
        '2.0> (version 2). Try: pyopnb.torch.op("demo::SoftClip")'
    )


def test_gradients_are_refused(soft_clip):
    x = torch.ones(3, requires_grad=True)
    with pytest.raises(
        pyopnb.errors.DefinitionError,
        match="op demo::SoftClip: expected an op with a gradient, got one without. Try: def backward",
    ):
        soft_clip(x).sum().backward()


@pytest.mark.filterwarnings("ignore:There is a performance drop")
def test_vmap_calls_it_for_each_sample(soft_clip):
    x = torch.arange(6.0).reshape(2, 3)
    assert torch.equal(torch.vmap(soft_clip)(x), soft_clip(x))


def test_what_no_function_of_torch_can_be(define):
    define("""
        @pyopnb.pyop("demo::Plain")
        class Plain:
            def compute(self, x): return x
        @pyopnb.pyop("demo::Table")
        class Table:
            def __init__(self, table: np.ndarray): pass
            def compute(self, x): return x
        @pyopnb.pyop("demo::Open")
        class Open:
            def __init__(self, **attrs): pass
            def compute(self, x): return x
    """)
    for name, said in (
        (
            "demo::Table",
            "op demo::Table, attr table: expected int, float, bool, str or a list of them, as a function of torch, got",
        ),
        (
            "demo::Open",
            "op demo::Open, __init__: expected attrs by name, as a function of torch, got **attrs.",
        ),
    ):
        with pytest.raises(pyopnb.errors.DefinitionError, match=re.escape(said)):
            pyopnb.torch.op(name)
    with pytest.raises(
        pyopnb.errors.UnknownName,
        match="op demo::Plane: expected an op of the registry, got demo::Plane. Try: demo::Plain",
    ):
        pyopnb.torch.op("demo::Plane")
    plain = pyopnb.torch.op("demo::Plain")
    assert plain(torch.ones(2)).tolist() == [1, 1]
    with pytest.raises(
        pyopnb.errors.InputError, match=r"op demo::Plain, attr limit: expected no attrs, got limit."
    ):
        plain(torch.ones(2), limit=2.0)
    with pytest.raises(
        pyopnb.errors.ModelError,
        match="a rank in the hint of compute or from infer, which torch needs to trace",
    ):
        pyopnb.torch.export(Halved(lambda x, _, axis: (plain(x), x)).eval(), (torch.ones(2, 2),))


def test_the_exception_of_an_op_arrives_as_itself(define):
    define(
        '@pyopnb.pyop("demo::Bad")\nclass Bad:\n    def compute(self, x): raise KeyError("mine")'
    )
    with pytest.raises(KeyError, match="mine"):
        pyopnb.torch.op("demo::Bad")(torch.ones(2))


def test_an_interrupt_at_any_line_leaves_no_lock_held(soft_clip):
    def action():
        pyopnb.torch.op("demo::SoftClip")
        soft_clip(torch.ones(2))

    assert lines_that_leave_held(action, [functions._lock], functions) == []
