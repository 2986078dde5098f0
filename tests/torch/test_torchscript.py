"""The older exporter, which traces: ops of the registry are its nodes, and what it would make a constant is refused."""

import io
import re
import warnings

import numpy as np
import onnx
import pytest
import torch
from torch import nn

import pyopnb
import pyopnb.torch

SOFT_CLIP = """
    @pyopnb.pyop("demo::SoftClip")
    class SoftClip:
        def __init__(self, limit: float = 1.0, mode: str = "tanh", sizes: list[int] = None):
            self.limit = limit
        def compute(self, x, bias=None):
            return self.limit * np.tanh((x if bias is None else x + bias) / self.limit)
        def infer(self, x, bias=None):
            return x
"""


class Clipped(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.line, self.function = nn.Linear(4, 6), function

    def forward(self, x):
        y = self.line(x)
        return self.function(y, None, limit=0.5, sizes=[3, 4]).relu() + self.function(y, x[:, :1])


class Inverse(nn.Module):
    def forward(self, x):
        return torch.inverse(x) + x


def agree(model, module, *examples):
    session = pyopnb.Session(model)
    for example in examples:
        feeds = {
            entry.name: value.numpy()
            for entry, value in zip(session.get_inputs(), example, strict=True)
        }
        with torch.no_grad():
            np.testing.assert_allclose(
                session.run(None, feeds)[0], module(*example).numpy(), rtol=1e-3, atol=1e-5
            )


def test_a_function_of_an_op_is_its_node_in_torchs_own_export(define):
    define(SOFT_CLIP)
    module, file = Clipped(pyopnb.torch.op("demo::SoftClip")).eval(), io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of torch: it has a newer one
        torch.onnx.export(
            module,
            (torch.randn(3, 4),),
            file,
            dynamo=False,
            input_names=["x"],
            dynamic_axes={"x": {0: "n"}},
        )
    model = onnx.load_model_from_string(file.getvalue())
    first, second = [node for node in model.graph.node if node.domain == "demo"]
    assert {attr.name: attr.f or attr.s or list(attr.ints) for attr in first.attribute} == {
        "limit": 0.5,
        "mode": b"tanh",
        "sizes": [3, 4],
    }
    assert [len([name for name in node.input if name]) for node in (first, second)] == [1, 2]
    agree(model, module, (torch.randn(3, 4),), (torch.randn(1, 4),))


class Alone(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x, None)


def test_results_have_the_dtype_and_rank_that_torch_saw(define, capfd):
    define(SOFT_CLIP)
    module = Alone(pyopnb.torch.op("demo::SoftClip")).eval()
    model = pyopnb.torch.export(
        module, (torch.randn(3, 4),), dynamo=False, dynamic_shapes=({0: "batch"},)
    )
    assert (
        "shape inference" not in capfd.readouterr().err
    )  # what C++ says of results without a type
    (output,) = model.graph.output
    assert output.type.tensor_type.elem_type == onnx.TensorProto.FLOAT
    assert [dim.HasField("dim_value") for dim in output.type.tensor_type.shape.dim] == [
        False,
        False,
    ]


def test_the_document_on_inverse():
    pyopnb.torch.register_custom_op_symbolic("::linalg_inv", "com.microsoft::Inverse")
    sizes = {0: "n", 1: "m", 2: "m"}
    examples = [
        (torch.eye(m).repeat(n, 1, 1) + 0.1 * torch.randn(n, m, m),)
        for n, m in ((2, 3), (5, 4), (1, 2))
    ]
    model = pyopnb.torch.export(
        Inverse().eval(), examples[0], dynamic_shapes=(sizes,), dynamo=False
    )
    assert [(node.domain, node.op_type) for node in model.graph.node] == [
        ("com.microsoft", "Inverse"),
        ("", "Add"),
    ]
    assert [entry.name for entry in model.graph.input] == ["x"]
    agree(model, Inverse(), *examples)


def test_an_op_of_the_registry_for_an_op_of_torch(define):
    define("""
        @pyopnb.pyop("demo::Bessel")
        class Bessel:
            def compute(self, x):
                return 1 - x**2 / np.float32(4) + x**4 / np.float32(64)
    """)
    pyopnb.torch.register_custom_op_symbolic("aten::special_bessel_j0", "demo::Bessel")

    class Waves(nn.Module):
        def forward(self, x):
            return torch.special.bessel_j0(x)

    model = pyopnb.torch.export(Waves().eval(), (torch.rand(3) / 2,), dynamo=False)
    assert [(node.domain, node.op_type) for node in model.graph.node] == [("demo", "Bessel")]


def test_names_that_are_not_there():
    for symbolic, op, said in (
        (
            "::inversed",
            "com.microsoft::Inverse",
            "symbolic_name: expected a torch op, namespace::name, or ::name for one of",
        ),
        (
            "inverse",
            "com.microsoft::Inverse",
            "symbolic_name: expected a torch op, namespace::name, or ::name for one of",
        ),
        (
            "::inverse",
            "com.microsoft::Inversed",
            "op: expected an op of the registry, or an operator of ONNX Runtime, got com.",
        ),
    ):
        with pytest.raises(pyopnb.errors.InputError, match=re.escape(said)):
            pyopnb.torch.register_custom_op_symbolic(symbolic, op)


class InNumPy(nn.Module):
    def forward(self, x):
        y = x * 2
        return torch.from_numpy(np.tanh(y.numpy())) + x


class OnTensors(nn.Module):
    def forward(self, x):
        return torch.as_tensor(np.tanh(x.detach())) + x


class Item(nn.Module):
    def forward(self, x):
        return x * float(x.sum())


@pytest.mark.parametrize("dynamo", [True, False])
@pytest.mark.parametrize(
    ("module", "line"),
    [
        (InNumPy, "return torch.from_numpy(np.tanh(y.numpy())) + x"),
        (OnTensors, "return torch.as_tensor(np.tanh(x.detach())) + x"),
    ],
)
def test_numpy_in_forward_is_refused_with_the_line(module, line, dynamo):
    with pytest.raises(pyopnb.errors.ModelError) as caught:
        pyopnb.torch.export(module().eval(), (torch.ones(3),), dynamo=dynamo)
    assert re.search(
        rf"test_torchscript\.py:\d+, `{re.escape(line)}`: expected torch ops, which follow the",
        str(caught.value),
    )
    assert 'and call pyopnb.torch.op("demo::Part")' in str(caught.value)


def test_a_number_taken_out_of_a_tensor_is_found_by_a_second_run():
    with pytest.raises(pyopnb.errors.ModelError) as caught:
        pyopnb.torch.export(Item().eval(), (torch.ones(3),), dynamo=False)
    assert re.search(r"`return x \* float\(x\.sum\(\)\)`: expected torch ops", str(caught.value))
    assert "for the arguments times 1.01" in str(caught.value)


def test_what_the_older_exporter_lacks(capfd):
    class Waves(nn.Module):
        def forward(self, x):
            return torch.special.bessel_j1(x)

    with pytest.raises(
        pyopnb.errors.ModelError,
        match=r"got Exporting the operator 'aten::special_bessel_j1' .* Try: leave out dynamo=F",
    ):
        pyopnb.torch.export(Waves().eval(), (torch.ones(3),), dynamo=False)
    with pytest.raises(
        pyopnb.errors.InputError,
        match="ops: expected none with dynamo=False, got 1 op. Try: pyopnb.torch.register_",
    ):
        pyopnb.torch.export(
            Waves().eval(),
            (torch.ones(3),),
            dynamo=False,
            ops={torch.ops.aten.special_bessel_j1: "demo::X"},
        )
