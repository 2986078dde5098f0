"""The numbers of torch against the numbers of a session: the first node that differs is named, with the line of torch that it comes from."""

from __future__ import annotations

import copy
import io
import warnings
from collections import Counter

import numpy as np
import onnx
import pytest
import torch
from onnx import numpy_helper
from torch import nn

import pyopnb
import pyopnb.torch
from pyopnb.diffs.traces.diff import TraceDiff
from pyopnb.errors import InputError, ModelError
from pyopnb.torch.recording import Recorder


class Net(nn.Module):
    """Convolutions with normalization and a way around them, then a block of attention."""

    def __init__(self):
        super().__init__()
        self.stem, self.norm = nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8)
        self.down, self.across = (
            nn.Conv2d(8, 8, 3, stride=2, padding=1),
            nn.Conv2d(8, 8, 1, stride=2),
        )
        self.block = nn.TransformerEncoderLayer(
            8, 2, 16, batch_first=True, norm_first=True, activation="gelu"
        )
        self.drop, self.head = nn.Dropout(), nn.Linear(8, 5)
        self.norm.running_mean.normal_()
        self.norm.running_var.uniform_(0.5, 2)

    def forward(self, image, shift):
        x = torch.sigmoid(self.norm(self.stem(image)))
        x = torch.tanh(self.down(x)) + self.across(x)
        x = self.block(x.flatten(2).transpose(1, 2))
        return self.head((self.drop(x.mean(1)) * 2 - 1).abs()).log_softmax(-1), x.argmax(-1) + shift


def arguments():
    return torch.randn(2, 3, 6, 6), torch.tensor(3)


@pytest.fixture(scope="module")
def net():
    torch.manual_seed(0)
    return Net().eval(), arguments()


@pytest.fixture(scope="module")
def in_torch(net):
    return pyopnb.torch.trace(*net)


def session_trace(model, feeds, **options):
    return pyopnb.trace(model, dict(feeds), check=False, times=False, **options)


# ---- the first node that differs ---------------------------------------------------------------------------------------------


def test_the_numbers_are_those_of_torch(net, in_torch):
    module, args = net
    with torch.no_grad():
        scores, places = module(*args)
        stem = module.norm(module.stem(args[0]))
    np.testing.assert_allclose(in_torch["log_softmax"], scores.numpy(), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(in_torch[in_torch.outputs[1]], places.numpy())
    conv = in_torch.model.graph.node[0]
    assert conv.op_type == "Conv"
    np.testing.assert_allclose(in_torch[conv.output[0]], stem.numpy(), rtol=1e-4, atol=1e-5)
    assert [array.tolist() for array in in_torch.feeds.values()] == [arg.tolist() for arg in args]
    assert in_torch.runtime == f"torch {torch.__version__}"
    assert (
        "x = torch.sigmoid(self.norm(self.stem(image)))`, in norm (BatchNorm2d)"
        in in_torch.sources[conv.output[0]]
    )


def test_an_exported_model_agrees(net, in_torch):
    model = pyopnb.torch.export(
        *net,
        dynamic_shapes=({0: "batch"}, None),
        input_names=["photo", "n"],
        output_names=["scores", "places"],
    )
    found = pyopnb.diff(
        in_torch, session_trace(model, zip(["photo", "n"], in_torch.feeds.values(), strict=True))
    )
    assert found.ok
    assert found.origin is None
    assert len(found.steps) >= 20
    assert set(found.outputs) == {"scores", "places"}


OTHER = {
    "Add": "Sub",
    "Sub": "Add",
    "Abs": "Neg",
    "Mul": "Add",
    "Sigmoid": "Tanh",
    "Tanh": "Sigmoid",
    "ReduceMean": "ReduceMax",
    "Gelu": "Relu",
}


def spoil(model, place):
    """A copy with another weight, epsilon or axis, or another operator, at one node; None where there is none to change."""
    model = copy.deepcopy(model)
    node = model.graph.node[place]
    weights = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    for port in reversed(range(len(node.input))):
        array = weights.get(node.input[port])
        if array is not None and array.dtype == np.float32 and array.size:
            array = array.copy()
            array.flat[array.size // 2] += 0.5
            node.input[port] += "_spoilt"
            model.graph.initializer.append(numpy_helper.from_array(array, node.input[port]))
            return model
    for attribute in node.attribute:
        if attribute.name == "epsilon":
            attribute.f = 0.05
            return model
        if node.op_type in ("Softmax", "LogSoftmax", "ArgMax") and attribute.name == "axis":
            attribute.i = 0
            return model if node.op_type != "ArgMax" else None
    if node.op_type not in OTHER:
        return None
    node.op_type = OTHER[node.op_type]
    if node.op_type == "Relu":
        del node.attribute[:]
    return model


def test_each_spoilt_node_is_named(in_torch, capsys):
    """As many copies of the model as there are nodes to spoil: the origin is that node, or the operation of torch it is in.

    Where the outputs agree there is no origin: a Softmax takes no notice of a number added to a whole row.
    """
    counts = Counter()
    for place, node in enumerate(in_torch.model.graph.node):
        model = spoil(in_torch.model, place)
        if model is None:
            continue
        found = pyopnb.diff(in_torch, session_trace(model, in_torch.feeds))
        if found.outputs_agree:
            assert found.origin is None and not found.ok
            counts["absorbed"] += 1
            continue
        (origin,) = found.origins[:1] or [None]
        assert origin is not None, f"{node.name}: no origin"
        named = {tensor.b for tensor in origin.outputs}
        exact, within = (
            bool(named & set(node.output)),
            any(text.startswith(f"{node.name} (") for text in origin.between),
        )
        assert exact or within, f"{node.name}: {found}"
        assert origin.source
        counts["exact" if exact else "within its operation"] += 1
    with capsys.disabled():
        print(
            f"\nspoilt nodes that diff named: {counts['exact']} exactly, {counts['within its operation']} among its operation's, absorbed: {counts['absorbed']}"
        )
    assert counts["exact"] >= 20
    assert counts["absorbed"] <= 2


def test_the_origin_has_its_line_submodule_and_cause(in_torch):
    model = copy.deepcopy(in_torch.model)
    norms = [node for node in model.graph.node if node.op_type == "LayerNormalization"]
    next(attribute for attribute in norms[1].attribute if attribute.name == "epsilon").f = 0.05
    found = pyopnb.diff(in_torch, session_trace(model, in_torch.feeds))
    assert found.origin.changes == ("attr epsilon: 1e-05 → 0.05",)
    assert found.origin.source.endswith(
        "`x = self.block(x.flatten(2).transpose(1, 2))`, in block.norm2 (LayerNorm)"
    )
    lines = str(found).splitlines()
    assert lines[0].startswith("different: ")
    assert lines[1].startswith(
        f"where: {norms[1].name} (LayerNormalization), from test_recording.py:"
    )
    assert lines[2].startswith("how much: ")
    assert all(
        step.verdict in ("propagates", "amplifies", "hides", "same")
        for step in found.steps
        if step is not found.origin
    )
    picture = pyopnb.show(found).svg
    assert "block.norm2 (LayerNorm)" in picture
    assert TraceDiff.from_json(found.to_json()) == found
    assert found.judged(atol=10).ok


def test_models_of_other_exporters_and_levels(net, in_torch):
    module, args = net
    held = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(module, args, held, dynamo=False, input_names=["image", "shift"])
    older = onnx.load_from_string(held.getvalue())
    found = pyopnb.diff(in_torch, session_trace(older, in_torch.feeds))
    assert found.ok
    assert len(found.steps) >= 20
    plain = session_trace(in_torch.model, in_torch.feeds, optimized=False)
    assert pyopnb.diff(in_torch, plain).ok
    outputs = session_trace(in_torch.model, in_torch.feeds, level="summaries")
    assert pyopnb.diff(in_torch, outputs).ok


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.qkv, self.out = nn.LayerNorm(16), nn.Linear(16, 48), nn.Linear(16, 16)
        self.up, self.down = nn.Linear(16, 32), nn.Linear(32, 16)

    def forward(self, x):
        q, k, v = self.qkv(self.norm(x)).chunk(3, -1)
        x = x + self.out(torch.softmax(q @ k.transpose(-1, -2) / 4, -1) @ v)
        return x + self.down(nn.functional.gelu(self.up(x)))


class Images(nn.Sequential):
    def __init__(self):
        convolved = (nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.SiLU(), nn.MaxPool2d(2))
        grouped = (nn.Conv2d(8, 8, 3, groups=2), nn.GroupNorm(2, 8), nn.Hardswish())
        super().__init__(
            *convolved, *grouped, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 5)
        )


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru, self.head = nn.GRU(6, 8, batch_first=True), nn.Linear(8, 3)

    def forward(self, x):
        return self.head(self.gru(x)[0][:, -1])


@pytest.mark.parametrize(
    ("kind", "shape", "wrong"),
    [
        (Attention, (2, 5, 16), "up.bias"),
        (Images, (2, 3, 12, 12), "4.weight"),
        (Recurrent, (2, 7, 6), "head.weight"),
    ],
)
def test_the_older_and_the_newer_exporter_of_torch_agree(kind, shape, wrong):
    module, x = kind().eval(), torch.randn(*shape)
    for parameter in module.parameters():
        nn.init.normal_(parameter, float(parameter.dim() == 1), 0.3)
    held = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(module, (x,), held, dynamo=False, input_names=["x"])
        newer = torch.onnx.export(module, (x,), dynamo=True, verbose=False, input_names=["x"])
    models = onnx.load_from_string(held.getvalue()), newer.model_proto
    feeds = {"x": x.numpy()}
    for a, b in (models, models[::-1]):
        found = pyopnb.diff(session_trace(a, feeds), session_trace(b, feeds))
        assert found.ok and found.origin is None, str(found)
        found = pyopnb.first_divergence(a, b, feeds)
        assert found.ok and found.origin is None, str(found)
    # A weight of the newer one is wrong.
    older, newer = models
    (weight,) = (tensor for tensor in newer.graph.initializer if tensor.name == wrong)
    changed = numpy_helper.to_array(weight) * np.float32(1.5)
    weight.CopyFrom(numpy_helper.from_array(changed, wrong))
    (reader,) = (node for node in newer.graph.node if wrong in node.input)
    for found in (
        pyopnb.diff(session_trace(older, feeds), session_trace(newer, feeds)),
        pyopnb.first_divergence(older, newer, feeds),
    ):
        assert not found.outputs_agree
        assert [tensor.b for tensor in found.origin.outputs] == [reader.output[0]], str(found)
        assert any(wrong in change for change in found.origin.changes), str(found)


# ---- what torch does otherwise -----------------------------------------------------------------------------------------------


class Trained(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.drop = nn.BatchNorm1d(4), nn.Dropout()

    def forward(self, x):
        return self.drop(self.norm(x))


def test_modules_in_training_mode_are_said_to_differ():
    module = Trained()
    before = copy.deepcopy(module.state_dict())
    trained = pyopnb.torch.trace(module, (torch.randn(16, 4) + 1,))
    assert all(torch.equal(before[name], value) for name, value in module.state_dict().items())
    found = pyopnb.diff(trained, session_trace(trained.model, trained.feeds))
    normalized, dropped = found.origins
    assert normalized.changes[0] == (
        "training mode: norm (BatchNorm1d) normalizes by the batch in torch, and by its running statistics as exported"
    )
    assert dropped.nondeterministic
    assert dropped.changes[0] == "random: drop (Dropout) draws other numbers in each run"


class Chosen(nn.Module):
    def forward(self, x):
        y = torch.inverse(x)
        return torch.cond(y.sum() > 0, lambda y: y * 2, lambda y: y - 1, (y,)) @ x


def test_bodies_and_ops_in_the_place_of_torch(define):
    text = """
        @pyopnb.pyop("demo::Inverse")
        class Inverse:
            def compute(self, x): return np.linalg.inv(x)
            def infer(self, x): return "float32[...]"
    """
    define(text)
    ops = {torch.ops.aten.inverse.default: "demo::Inverse"}
    mine = pyopnb.torch.trace(Chosen().eval(), (torch.eye(3) * 2 + 0.1,), ops=ops)
    assert mine.versions == {}
    session = pyopnb.Session(mine.model)
    assert pyopnb.diff(mine, session.trace(mine.feeds)).ok

    model = copy.deepcopy(mine.model)
    (branch,) = (node for node in model.graph.node if node.op_type == "If")
    for attribute in branch.attribute:
        for node in attribute.g.node:
            node.op_type = "Div"
    found = pyopnb.diff(mine, session_trace(model, mine.feeds))
    assert found.origin.op == "::If"
    assert "torch.cond(" in found.origin.source

    define(text.replace("inv(x)", "inv(x) * np.float32(1.01)"), "again.py")
    found = pyopnb.diff(mine, session.trace(mine.feeds))
    assert found.origin.op == "demo::Inverse"
    assert "`y = torch.inverse(x)`" in found.origin.source
    assert found.origin.changes == (f"demo::Inverse, version 2, where {mine.runtime} ran its own",)


def test_bfloat16_keeps_its_dtype_and_a_trace_stays_when_the_module_trains_on():
    module, x = (
        nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8)).bfloat16().eval(),
        torch.randn(4, 8, dtype=torch.bfloat16),
    )
    mine = pyopnb.torch.trace(module, (x,))
    before = {name: array.copy() for name, array in mine.items()}
    with torch.no_grad():
        for tensor in (*module.parameters(), x):
            tensor.zero_()
    assert all(np.array_equal(before[name], array) for name, array in mine.items())
    assert {array.dtype.name for array in mine.values.values()} == {"bfloat16"}
    assert all(
        "bfloat16" in remark for remark in mine.remarks.values()
    )  # of which ONNX Runtime has no such kernels
    found = pyopnb.diff(mine, pyopnb.Session(mine.model).trace(mine.feeds))
    assert found.ok
    assert len(found.steps) == 2


def test_what_is_recorded_is_no_memory_of_the_weights():
    weight = torch.ones(2, 3)
    recorder = Recorder(torch.fx.symbolic_trace(lambda weight: weight.mT))
    recorder.results([weight])
    weight.zero_()
    assert len(recorder.values) == 2
    assert all(array.all() for array in recorder.values.values())


# ---- what cannot be compared -------------------------------------------------------------------------------------------------


def test_what_is_refused_says_what_to_type(net, in_torch):
    module, args = net
    runs = session_trace(in_torch.model, in_torch.feeds)
    with pytest.raises(
        InputError,
        match=r"expected the run of the program that was exported first, .*Try: diff\(b, a\)",
    ):
        pyopnb.diff(runs, in_torch)
    with pytest.raises(InputError, match=r"Try: \(x,\)"):
        pyopnb.torch.trace(module, args[0])
    with pytest.raises(
        ModelError, match="expected a tensor with values, got one on the device meta"
    ):
        pyopnb.torch.trace(module, (args[0].to("meta"), args[1]))
    feeds = dict(in_torch.feeds)
    feeds["image"] = feeds["image"] * 2
    found = pyopnb.diff(in_torch, session_trace(in_torch.model, feeds))
    assert "where: already in the feeds; no node introduces a difference" in str(found)
    other = pyopnb.parse(
        "(float[2,3,6,6] image) => (float[2,3,6,6] y) { a = Sin(image)  y = Cos(a) }"
    )
    with pytest.raises(InputError, match="of which none correspond"):
        pyopnb.diff(in_torch, session_trace(other, {"image": in_torch.feeds["image"]}))


class Normalized(nn.Module):
    """By the statistics of the batch, where the exporter writes the running ones."""

    def forward(self, x, mean, variance):
        return nn.functional.batch_norm(x.exp(), mean, variance, training=True).tanh()


@pytest.mark.everywhere  # 12 s; test_bodies_and_ops_in_the_place_of_torch aligns such a node as well
def test_what_export_leaves_to_torch_is_the_same_node_in_the_trace():
    args = torch.randn(4, 3), torch.zeros(3), torch.ones(3)
    mine = pyopnb.torch.trace(Normalized().eval(), args)
    assert [node.op_type for node in mine.model.graph.node] == ["Exp", "batch_norm", "Tanh"]
    (remark,) = mine.remarks.values()
    assert remark.startswith(
        "export leaves torch.ops.aten.batch_norm.default to torch: with the example"
    )
    with pytest.warns(pyopnb.torch.StandIns):
        model = pyopnb.torch.export(Normalized().eval(), args)
    found = pyopnb.diff(mine, session_trace(model, mine.feeds))
    assert found.ok
    assert len(found.steps) == 3
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        as_exported = torch.onnx.export(
            Normalized().eval(), args, dynamo=True, verbose=False
        ).model_proto
    found = pyopnb.diff(mine, session_trace(as_exported, mine.feeds))
    assert found.origin.op == "::BatchNormalization"
    assert found.origin.changes[0] == remark


class Feigned(nn.Module):
    """Another computation where it is exported, as with `torch.onnx.ops.symbolic`."""

    def forward(self, x):
        return x * 2 if torch.compiler.is_exporting() else x * 3


def test_a_program_that_is_not_what_forward_computes_is_refused():
    expected = r"module Feigned: expected the numbers of forward, operation by operation, got with the example"
    with pytest.raises(ModelError, match=expected):
        pyopnb.torch.trace(Feigned().eval(), (torch.full((2,), 3.0),))
