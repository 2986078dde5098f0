"""Gradients of ops in torch: against gradcheck of torch, compiled, redefined; and nets that `grad` derives, against torch."""

import numpy as np
import onnx
import pytest
import torch
from small_gradients import SCALE, USER_RELU

import pyopnb
import pyopnb.torch
from pyopnb.engine.models.ort_capabilities import newest_opset

INFER = "    def infer(self, x, *more): return x\n    def backward"
SQUARES = """
@pyopnb.pyop("demo::Squares")
class Squares:
    def compute(self, *xs): return sum(x * x for x in xs)
    def infer(self, *xs): return xs[0]
    def backward(self, inputs, outputs, grads): return tuple(2 * x * grads[0] for x in inputs)

@pyopnb.pyop("demo::Pick")
class Pick:
    def compute(self, x, places) -> ("float64[N,M]", "float64[N,M]"): return x[places], np.sin(x)
    def backward(self, inputs, outputs, grads):
        (x, places), (first, second) = inputs, grads
        d = np.zeros_like(x) if second is None else second * np.cos(x)
        if first is not None:
            np.add.at(d, places, first)
        return d, None
"""


def doubles(*shape):
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


@pytest.fixture
def ops(define):
    define(USER_RELU.replace("    def backward", INFER) + SCALE + SQUARES)


def test_gradcheck(ops):
    relu, scale = pyopnb.torch.op("demo::UserRelu"), pyopnb.torch.op("demo::Scale")
    squares, pick = pyopnb.torch.op("demo::Squares"), pyopnb.torch.op("demo::Pick")
    x, w, b, places = doubles(3, 4), doubles(4), doubles(4), torch.tensor([0, 2, 2])
    check = torch.autograd.gradcheck
    assert check(lambda x: relu(x, slope=0.3), x)
    assert check(scale, (x, w, b)) and check(lambda x, w: scale(x, w, None), (x, w))
    assert check(lambda *xs: squares(*xs), (x, doubles(3, 4), doubles(3, 4)))
    assert check(lambda x: pick(x, places), x) and check(lambda x: pick(x, places)[1], x)


def test_gradcheck_and_check_grad_agree_on_mistakes(define):
    define(USER_RELU.replace("self.slope * dy", "dy").replace("    def backward", INFER))
    x = doubles(3, 4)
    assert not torch.autograd.gradcheck(pyopnb.torch.op("demo::UserRelu"), x, raise_exception=False)
    assert not pyopnb.check_grad("demo::UserRelu", x.detach().numpy()).ok


def test_what_needs_no_gradient_gets_none(ops):
    scale = pyopnb.torch.op("demo::Scale")
    x, w = doubles(3, 4), doubles(4).detach()
    scale(x, w, None).sum().backward()
    assert torch.allclose(x.grad, w.expand(3, 4)) and w.grad is None


def test_compiled(ops):
    relu, x = pyopnb.torch.op("demo::UserRelu"), doubles(3, 4)

    def loss(x):
        return relu(torch.sin(x), slope=0.3).square().sum()

    (eager,) = torch.autograd.grad(loss(x), x)
    (compiled,) = torch.autograd.grad(
        torch.compile(loss, fullgraph=True, backend="aot_eager")(x), x
    )
    assert torch.allclose(eager, compiled)


def test_torch_checks_it_with_its_gradient(ops):
    relu = pyopnb.torch.op("demo::UserRelu")
    checks = torch.library.opcheck(relu.overload, (doubles(2, 3),), {"slope": 0.5})
    assert set(checks.values()) == {"SUCCESS"}


def test_redefined(define):
    text = USER_RELU.replace("    def backward", INFER)
    define(text)
    relu, x = pyopnb.torch.op("demo::UserRelu"), -torch.ones(2)
    x.requires_grad_()
    relu(x, slope=0.5).sum().backward()
    assert x.grad.tolist() == [0.5, 0.5]
    define(text.replace("self.slope * dy", "10 * self.slope * dy"))
    x.grad = None
    relu(x, slope=0.5).sum().backward()
    assert x.grad.tolist() == [5, 5]
    define(text.split("    def backward")[0])
    with pytest.raises(
        pyopnb.errors.DefinitionError, match="expected an op with a gradient, got one without"
    ):
        relu(x, slope=0.5).sum().backward()


# ---- nets, by pyopnb.grad and by torch ---------------------------------------------------------------------------------------


class Leaky(torch.nn.Module):
    def forward(self, x):
        return pyopnb.torch.op("demo::UserRelu")(x, slope=0.1)


class Attention(torch.nn.Module):
    """A block of a transformer."""

    def __init__(self):
        super().__init__()
        self.norm, self.mix, self.out = (
            torch.nn.LayerNorm(8),
            torch.nn.Linear(8, 24),
            torch.nn.Linear(8, 8),
        )

    def forward(self, x):
        q, k, v = (
            part.unflatten(-1, (2, 4)).transpose(1, 2)
            for part in self.mix(self.norm(x)).chunk(3, -1)
        )
        weights = torch.softmax(q @ k.transpose(-1, -2) / 2, -1)
        return x + self.out((weights @ v).transpose(1, 2).flatten(2))


NETS = {
    "conv": (
        lambda: torch.nn.Sequential(
            torch.nn.Conv2d(1, 4, 3, padding=1),
            Leaky(),
            torch.nn.MaxPool2d(2),
            torch.nn.Conv2d(4, 4, 3, stride=2),
            Leaky(),
            torch.nn.AvgPool2d(2, stride=1),
            torch.nn.Flatten(),
            torch.nn.Linear(16, 3),
        ),
        (2, 1, 14, 14),
    ),
    "attention": (lambda: torch.nn.Sequential(Attention(), Leaky(), Attention()), (2, 5, 8)),
}


def set_opset(model, version):
    """Have a model import another opset, in which its operators mean the same."""
    next(entry for entry in model.opset_import if not entry.domain).version = version
    for node in (
        model.graph.node if version < 18 else ()
    ):  # what they say by default came with that opset
        kept = [a for a in node.attribute if a.name not in ("num_outputs", "noop_with_empty_axes")]
        del node.attribute[:]
        node.attribute.extend(kept)


@pytest.mark.parametrize("net", NETS)
def test_nets_have_the_gradients_of_torch(ops, net):
    make, shape = NETS[net]

    class Loss(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.net = make()

        def forward(self, x):
            return self.net(x).square().mean()

    module, x = Loss().eval(), torch.randn(*shape)
    for weight in module.parameters():  # the exporter writes equal weights once
        torch.nn.init.normal_(weight, 0.1, 0.4)
    model = pyopnb.torch.export(module, (x,))
    loss = model.graph.output[0].name
    weights = [
        name
        for name, _ in module.named_parameters()
        if name in {t.name for t in model.graph.initializer}
    ]
    assert len(weights) >= 4
    feed = model.graph.input[0].name
    x.requires_grad_()
    module(x).backward()
    expected = {
        feed: x.grad,
        **{name: dict(module.named_parameters())[name].grad for name in weights},
    }
    # Rules change at opset 18.
    for opset in (newest_opset(), 18, 17):
        set_opset(model, opset)
        onnx.checker.check_model(model)
        derived = pyopnb.grad(model, [feed, *weights], loss)
        result = pyopnb.run(derived, {feed: x.detach().numpy()})
        for name, want in expected.items():
            apart = np.abs(result[f"grad_{name}"] - want.numpy()).max()
            assert apart <= 1e-6 * float(want.abs().max()), (opset, name, apart)


# ---- what torch runs in a model ----------------------------------------------------------------------------------------------


class Solves(torch.nn.Module):
    """Calls ops of which the exporter has no function, one with two results and one on complex numbers."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(3, 3))

    def forward(self, x):
        x = x @ self.weight
        square = x.T @ x + torch.eye(3)
        values, vectors = torch.linalg.eigh(square)
        spectrum = torch.fft.fft(vectors.square() @ values)
        return torch.inverse(square).sum() + spectrum.abs().sum()


class Decides(torch.nn.Module):
    """Is a part, in which one weight stands twice and that writes to its argument."""

    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(3, 3)
        self.second = torch.nn.Linear(3, 3)
        self.second.weight = self.first.weight

    def forward(self, x):
        if x.sum() > 0:
            x[x > 100] = 0
        return self.second(torch.tanh(self.first(x)))


class Tagger(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn, self.decides = torch.nn.GRU(3, 3, batch_first=True), Decides()

    def forward(self, x):
        times, last = self.rnn(x)
        return self.decides(times).square().mean() + last.square().sum()


@pytest.mark.parametrize(
    ("make", "shape", "sizes"),
    [(Solves, (5, 3), None), (Tagger, (2, 4, 3), ({0: "n", 1: "t"},))],
    ids=["calls", "parts"],
)
@pytest.mark.filterwarnings("ignore::pyopnb.torch.StandIns")
def test_what_torch_runs_has_the_gradients_of_torch(make, shape, sizes):
    module, x = make().eval(), torch.randn(*shape)
    model = pyopnb.torch.export(
        module, (x,), dynamic_shapes=sizes, input_names=["x"], output_names=["loss"]
    )
    weights = dict(module.named_parameters(remove_duplicate=False))
    names = [tensor.name for tensor in model.graph.initializer if tensor.name in weights]
    assert {id(weights[name]) for name in names} == {id(weight) for weight in weights.values()}
    result = pyopnb.run(pyopnb.grad(model, ["x", *names], "loss"), {"x": x.numpy()})
    x.requires_grad_()
    module(x).backward()
    expected = {"x": x.grad, **{name: weights[name].grad for name in names}}
    for name, gradient in expected.items():
        atol = 1e-5 * float(gradient.abs().max())
        np.testing.assert_allclose(result[f"grad_{name}"], gradient, rtol=1e-4, atol=atol)


@pytest.mark.filterwarnings("ignore::pyopnb.torch.StandIns")
def test_an_exported_model_trains_the_weights_of_its_parts():
    class Sums(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn, self.head = torch.nn.GRU(2, 8, batch_first=True), torch.nn.Linear(8, 1)

        def forward(self, x):
            return self.head(self.rnn(x)[0][:, -1])

    module, x = Sums().eval(), torch.randn(64, 5, 2)
    sums = x.sum((1, 2), keepdim=False).unsqueeze(1)
    model = pyopnb.torch.export(
        module,
        (x[:4],),
        dynamic_shapes=({0: "n", 1: "t"},),
        input_names=["x"],
        output_names=["y"],
    )
    training = pyopnb.train(
        model,
        {"x": x.numpy(), "sums": sums.numpy()},
        loss="mse",
        optimizer=pyopnb.training.Adam(learning_rate=0.02),
        epochs=30,
        progress=False,
    )
    before = float(((module(x) - sums) ** 2).mean().detach())
    after = pyopnb.run(training.model, {"x": x.numpy()})["y"]
    assert float(((after - sums.numpy()) ** 2).mean()) < before / 10
    initial = {
        tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer
    }
    for tensor in training.model.graph.initializer:
        if tensor.name.startswith("rnn."):
            assert not np.array_equal(onnx.numpy_helper.to_array(tensor), initial[tensor.name])


@pytest.mark.filterwarnings("ignore::pyopnb.torch.StandIns")
def test_a_part_that_autograd_cannot_follow_has_no_gradient_of_zero():
    class Sorts(torch.nn.Module):
        def forward(self, x):
            return torch.from_numpy(np.sort(x.detach().numpy())).sum()

    model = pyopnb.torch.export(
        Sorts().eval(), (torch.randn(4),), input_names=["x"], output_names=["loss"]
    )
    with pytest.raises(pyopnb.errors.ModelError, match="detach or NumPy"):
        pyopnb.grad(model, ["x"], "loss")
