"""What `export` and `missing` say of the calls that run in torch, and what replaces them."""

import pickle
import warnings

import numpy as np
import onnx
import pytest
import torch
from onnx import helper
from torch import nn

import pyopnb
import pyopnb.torch
from pyopnb.engine.models.protos import attribute_values
from pyopnb.torch.calls import Unwritable, decode, encode
from pyopnb.torch.program import calls_in


class Inverse(nn.Module):
    def forward(self, x):
        y = torch.inverse(x)
        return torch.linalg.solve_triangular(y, x, upper=True, left=False) + y


@pytest.fixture
def example():
    return torch.eye(3).repeat(2, 1, 1) * 4 + 0.1


@pytest.fixture
def said(example):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = pyopnb.torch.export(
            Inverse().eval(), (example,), dynamic_shapes=({0: "batch"},), input_names=["x"]
        )
    (warning,) = [each for each in caught if isinstance(each.message, pyopnb.torch.StandIns)]
    assert warning.filename == __file__
    return model, warning.message


def test_the_warning_says_which_calls_and_where_and_has_their_cells(said):
    _, message = said
    inverse, solve = message.holes
    assert (inverse.op, inverse.reason) == ("torch.ops.aten.inverse.default", "no ONNX function")
    assert inverse.line.startswith("test_report.py:")
    assert inverse.line.endswith(", `y = torch.inverse(x)`")
    assert inverse.types.endswith(",3,3]) -> float32" + inverse.types.rpartition("float32")[2])
    assert str(message).startswith("2 Python nodes, run by torch: test_report.py:")
    assert "\n" not in str(message)
    assert str(pickle.loads(pickle.dumps(message))) == str(message)
    assert solve.op == "torch.ops.aten.linalg_solve_triangular.default"


class Blocks(nn.Module):
    """Has two calls of an op in submodules, and a part that torch.export cannot capture."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.decides = Inverse(), Inverse(), Decides()

    def forward(self, x):
        return self.decides(self.second(torch.relu(self.first(x)) + x))


class Decides(nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            return x * 2
        return -x


def test_the_report_has_a_row_for_each_node(example):
    with pytest.warns(pyopnb.torch.StandIns):
        model = pyopnb.torch.export(Blocks().eval(), (example,), input_names=["x"])
    # It is read from the model, of which the file knows as much.
    read = onnx.load_model_from_string(model.SerializeToString())
    report = pyopnb.torch.report(read)
    assert [hole.path for hole in report] == [
        *["first (Inverse)"] * 2,
        *["second (Inverse)"] * 2,
        "decides (Decides)",
    ]
    assert report[0].line.endswith("`y = torch.inverse(x)`")
    assert report[1].line.endswith("left=False) + y`")
    assert report[4].remedy == "torch.cond, or torch.where"
    assert "a branch that depends on values of a tensor" in report[4].reason
    assert report.cells["torch.aten::inverse"].startswith("%%pyop -d torch.aten")
    assert len([op for op in report.cells if op.startswith("torch.pyopnb_part::Decides")]) == 1
    table = repr(report)
    assert "torch.cond" in table.splitlines()[-1]


def test_a_cell_replaces_the_op_in_the_live_session(said, example, define):
    model, _ = said
    session = pyopnb.Session(model)
    before = session(x=example)[0]
    cells = pyopnb.torch.report(model).cells
    assert sorted(cells) == ["torch.aten::inverse", "torch.aten::linalg_solve_triangular"]
    head, _, body = cells["torch.aten::inverse"].partition("\n")
    assert head == "%%pyop -d torch.aten"
    body = body.replace("class inverse:", '@pyopnb.pyop("torch.aten::inverse")\nclass inverse:')
    define(
        body.replace('raise NotImplementedError("torch.aten::inverse")', "return np.linalg.inv(x)"),
        "mine.py",
    )
    assert pyopnb.registry["torch.aten::inverse"].current.number == 2
    # The cell says the type of the result, which the op of torch does not.
    with pytest.warns(pyopnb.errors.SessionRebuilt):
        np.testing.assert_allclose(session(x=example)[0], before, rtol=1e-5)


def test_missing_lists_the_same_before_the_export(example):
    found = pyopnb.torch.missing(Inverse().eval(), (example,))
    assert [hole.op for hole in found] == [
        "torch.ops.aten.inverse.default",
        "torch.ops.aten.linalg_solve_triangular.default",
    ]
    assert repr(found).splitlines()[0].startswith("op  ")
    assert "(float32[2,3,3]) -> float32[2,3,3]" in repr(found)
    assert len(pyopnb.registry) == 0 or found[:1]
    nothing = pyopnb.torch.missing(nn.Linear(3, 2).eval(), (torch.ones(1, 3),))
    assert not nothing
    assert repr(nothing) == "Nothing runs in torch: the exporter has every op"


def test_an_operator_of_the_runtime_in_its_place(example):
    class Plain(nn.Module):
        def forward(self, x):
            return torch.inverse(x) + x

    ops = {torch.ops.aten.inverse.default: "com.microsoft::Inverse"}
    model = pyopnb.torch.export(
        Plain().eval(), (example,), dynamic_shapes=({0: "n", 1: "m", 2: "m"},), ops=ops
    )
    assert [
        (node.domain, node.op_type, len(node.attribute)) for node in model.graph.node if node.domain
    ] == [("com.microsoft", "Inverse", 0)]
    session = pyopnb.Session(model)
    for size in ((2, 3), (5, 4), (1, 2)):
        x = torch.eye(size[1]).repeat(size[0], 1, 1) + 0.1 * torch.randn(size[0], size[1], size[1])
        got = session.run(None, {session.get_inputs()[0].name: x.numpy()})[0]
        np.testing.assert_allclose(got, Plain()(x).numpy(), rtol=1e-3, atol=1e-5)


def test_an_op_of_the_registry_in_its_place(example, define):
    define("""
        @pyopnb.pyop("demo::Solve")
        class Solve:
            def __init__(self, upper: bool, left: bool = True): self.upper, self.left = upper, left
            def compute(self, a, b):
                assert self.upper and not self.left
                return (b @ np.linalg.inv(np.triu(a))).astype(np.float32)
    """)
    ops = {
        torch.ops.aten.linalg_solve_triangular: "demo::Solve",
        torch.ops.aten.inverse.default: "com.microsoft::Inverse",
    }
    model = pyopnb.torch.export(Inverse().eval(), (example,), ops=ops)
    assert [f"{node.domain}::{node.op_type}" for node in model.graph.node if node.domain] == [
        "com.microsoft::Inverse",
        "demo::Solve",
    ]


def test_a_model_with_other_numbers_is_refused(example, define):
    define(
        '@pyopnb.pyop("demo::Wrong")\nclass Wrong:\n    def compute(self, x): return np.linalg.inv(x) * np.float32(1.01)'
    )
    with pytest.raises(
        pyopnb.errors.ModelError,
        match=r"module Inverse: expected the same numbers as in torch, got with the example",
    ):
        pyopnb.torch.export(
            Inverse().eval(), (example,), ops={torch.ops.aten.inverse.default: "demo::Wrong"}
        )


class Arguments(nn.Module):
    def forward(self, x, i):
        return (
            torch.nan_to_num(x, nan=0.1, posinf=1e300),
            torch.sum(x, dtype=torch.float64),
            torch.clamp(x, max=0.3),
            torch.add(x, x, alpha=2),
            torch.add(x, 3),
            torch.std(x, dim=None, correction=0),
            torch.cat([x, x], -1),
            x[:, i],
            torch.nn.functional.pad(x, (1, 1), mode="reflect"),
            torch.full_like(x, True, dtype=torch.bool),
            torch.full_like(x, float("-inf"), memory_format=torch.contiguous_format),
            (x * 2j).real,
            torch.zeros([], device="cpu"),
            torch.quantile(x, 1 / 3),
            torch.roll(x, [1, -1], [0, 1]),
        )


def test_every_kind_of_argument_comes_back_from_its_attribute():
    program = torch.export.export(Arguments(), (torch.randn(3, 3), torch.tensor([0, 1])))
    seen = 0
    for node in calls_in(program):
        try:
            call = encode(node)
        except Unwritable:
            continue
        proto = helper.make_node("X", [], [])
        for name, value in call.attrs.items():
            kept = pyopnb.node("demo::X", "x", "y", **{name: value}).attribute
            proto.attribute.extend(kept)
        attrs = attribute_values(proto, None, "")
        # Calls in a graph have no numbers to be viewed.
        attrs.pop("torch_complex", None)
        args, kwargs = decode(call.target, attrs, call.inputs)
        given = {
            **dict(zip((a.name for a in call.target._schema.arguments), node.args, strict=False)),
            **node.kwargs,
        }
        decoded = (
            dict(
                zip(
                    (a.name for a in call.target._schema.arguments if not a.kwarg_only),
                    args,
                    strict=True,
                )
            )
            | kwargs
        )
        for name, value in given.items():
            back = decoded[name]
            assert back == value, (call.target, name, value, back)
            assert isinstance(value, torch.fx.Node | list | tuple) or type(back) is type(value), (
                call.target,
                name,
                value,
                back,
            )
        seen += 1
    assert seen >= 15
