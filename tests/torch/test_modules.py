"""Modules that users write: each agrees with torch at several sizes, and calls in torch what the exporter lacks.

The tolerance is the one of `exported`, 1e-4 of each number and 1e-5, unless a row says another. Single
ops are in test_op_db.
"""

import importlib

import numpy as np
import pytest
import torch
from onnx import numpy_helper
from torch import nn
from torch._higher_order_ops import scan

import pyopnb
import pyopnb.torch

BATCH = {0: "batch"}
BESSEL = "aten.special_bessel_j0"


def some(*shape):
    return torch.randn(*shape)


# ---- calls that the exporter lacks -------------------------------------------------------------


class Probes(nn.Module):
    """Calls with one result, with several, with named ones, and with a buffer; lists go in and come out."""

    def __init__(self):
        super().__init__()
        self.register_buffer("edges", torch.linspace(-2, 2, 9))

    def forward(self, x):
        u, s, v = torch.linalg.svd(x, full_matrices=False)
        return (
            torch.inverse(x @ x.mT + torch.eye(4)) + x,
            u @ torch.diag_embed(s) @ v,
            torch.searchsorted(self.edges, x).float(),
            torch.kthvalue(x, 2, 1).values,
            *torch._foreach_lgamma([x[0].abs() + 1, x[1].abs() + 1]),
            torch.linalg.multi_dot([x, x.mT, x]),
        )


class KalmanStep(nn.Module):
    def __init__(self):
        super().__init__()
        self.move = nn.Parameter(torch.eye(4) + 0.1 * some(4, 4))
        self.see = nn.Parameter(some(2, 4))
        self.register_buffer("noise", 0.1 * torch.eye(2))

    def forward(self, x, p, z):
        x, p = x @ self.move.T, self.move @ p @ self.move.T + 0.01 * torch.eye(4)
        gain = p @ self.see.T @ torch.inverse(self.see @ p @ self.see.T + self.noise)
        return x + ((z - x @ self.see.T).unsqueeze(1) @ gain.mT).squeeze(1), p - gain @ self.see @ p


class MedianPool(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3)

    def forward(self, x):
        return self.conv(x).flatten(2).median(-1).values


class Sizes(nn.Module):
    def forward(self, x):
        values, counts = torch.unique(x.round(), return_counts=True)
        return (
            values,
            counts,
            x[x > 0],
            torch.bincount(x.abs().long().flatten(), minlength=2) + 1,
            torch.lgamma(values.abs() + 1),
        )


class InPlace(nn.Module):
    def forward(self, x):
        x.mul_(2).add_(1)
        y = torch.zeros_like(x)
        y[:, 0] = torch.lgamma(x[:, 0].abs() + 1)
        y[:, 1:].copy_(x[:, 1:])
        return y, x.clamp_(min=0)


class Shared(nn.Module):
    """One layer called three times, whose weight another layer also has."""

    def __init__(self):
        super().__init__()
        self.layer, self.back = nn.Linear(4, 4), nn.Linear(4, 4, bias=False)
        self.back.weight = self.layer.weight

    def forward(self, x):
        for _ in range(3):
            x = torch.special.i0e(self.layer(x))
        return self.back(x)


class Layers(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(3, 8, 3),
            nn.BatchNorm2d(8),
            nn.GroupNorm(2, 8),
            nn.ReLU(inplace=True),
            nn.Dropout(0.5),
        )
        self.attend = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)

    def forward(self, x):
        return self.attend(self.net(x).flatten(2).mT)


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(3, 4, batch_first=True)
        self.gru = nn.GRU(4, 2, bidirectional=True, batch_first=True)

    def forward(self, x):
        y, (h, c) = self.lstm(x)
        return self.gru(y)[0], h + torch.special.i1(c)


class FakeQuantized(nn.Module):
    def __init__(self):
        super().__init__()
        self.line = nn.Linear(4, 3)

    def forward(self, x):
        return self.line(torch.fake_quantize_per_tensor_affine(x, 0.05, 3, -128, 127))


# ---- complex numbers inside --------------------------------------------------------------------


class Signals(nn.Module):
    def forward(self, x):
        spectrum = torch.fft.fft(x)
        frames = torch.stft(x, 16, hop_length=8, window=torch.hann_window(16), return_complex=True)
        return (
            torch.fft.irfft(torch.fft.rfft(x) * 0.5, n=32),
            torch.view_as_real(torch.fft.fftshift(spectrum, dim=-1)),
            frames.abs(),
        )


class Roots(nn.Module):
    """The roots of polynomials: complex numbers inside, real ones outside."""

    def forward(self, coefficients):
        n = coefficients.shape[1]
        companion = torch.diag_embed(torch.ones(n - 1), -1).expand(coefficients.shape[0], n, n)
        companion = torch.cat([companion[:, :, :-1], -coefficients.flip(1).unsqueeze(2)], 2)
        roots = torch.linalg.eigvals(companion)
        return roots.abs().sort(1).values, roots.real.sum(1), (roots * roots.conj()).real.sum(1)


class Mixed(nn.Module):
    """Complex numbers go into calls that torch makes: of both dtypes, conjugated, beside real ones and in a list."""

    def forward(self, x, y):
        spectrum = torch.fft.fft(x)
        solved = torch.linalg.solve(spectrum.mH, torch.complex(y, y))
        both = torch.linalg.multi_dot(
            [torch.linalg.inv(spectrum.conj()), solved, solved.double().to(torch.complex64)]
        )
        return torch.linalg.svdvals(both)


# ---- control flow ------------------------------------------------------------------------------


class Scans(nn.Module):
    def forward(self, x):
        def step(total, row):
            total = total + torch.lgamma(row.abs() + 1)
            return total.clone(), torch.special.bessel_j0(total)

        return scan(step, torch.zeros_like(x[0]), x)


class Branches(nn.Module):
    def forward(self, x):
        def inner(x):
            return torch.cond(
                x.sum() > 10, lambda x: torch.special.bessel_j1(x), lambda x: x.sin(), (x,)
            )

        chosen = torch.cond(x.sum() > 0, inner, lambda x: torch.lgamma(x.abs() + 1), (x,))
        return chosen, torch.special.bessel_j0(x)


class Loops(nn.Module):
    def forward(self, x):
        return torch.while_loop(
            lambda i, x: (i < 3) & (x.sum() < 100),
            lambda i, x: (i + 1, x + torch.lgamma(x.abs() + 1)),
            (torch.tensor(0), x),
        )


def batches(*shape, sizes=(5, 3, 8)):
    return [(some(size, *shape),) for size in sizes]


COMPLEX = ["linalg_inv", "linalg_multi_dot", "linalg_solve", "linalg_svdvals"]
# The examples, whether their first dimension has a name, what runs in torch (a set of
# some of it), tolerances.
MODULES = {
    Probes: (
        lambda: batches(4, sizes=(4, 4)),
        None,
        {"aten.inverse", "aten.linalg_svd", "aten.kthvalue"},
        {},
    ),
    KalmanStep: (
        lambda: [(some(n, 4), torch.eye(4).repeat(n, 1, 1), some(n, 2)) for n in (3, 2, 7)],
        BATCH,
        ["aten.inverse"],
        {},
    ),
    MedianPool: (lambda: batches(1, 9, 9), BATCH, ["aten.median.dim"], {}),
    Sizes: (lambda: batches(6), BATCH, ["aten.lgamma"], {}),
    InPlace: (lambda: batches(4), BATCH, ["aten.lgamma"], {}),
    Shared: (lambda: batches(4, sizes=(3, 1)), BATCH, ["aten.special_i0e"], {}),
    Layers: (lambda: batches(3, 6, 6), BATCH, [], {}),
    Recurrent: (lambda: batches(5, 3, sizes=(2, 2)), None, ["aten.special_i1"], {}),
    FakeQuantized: (lambda: [(some(3, 4),), (some(3, 4) * 5,)], None, set(), {}),
    Signals: (lambda: batches(32, sizes=(2, 4)), BATCH, set(), {"atol": 1e-4}),
    Roots: (
        lambda: batches(4, sizes=(3, 5)),
        BATCH,
        {"aten.linalg_eigvals"},
        {"rtol": 1e-3, "atol": 1e-3},
    ),
    Mixed: (
        lambda: [(some(4, 4), some(4, 4)) for _ in range(2)],
        None,
        {f"aten.{name}" for name in COMPLEX},
        {"rtol": 1e-2, "atol": 1e-3},
    ),
    Scans: (lambda: batches(3, sizes=(5, 5)), None, ["aten.lgamma", BESSEL], {}),
    Branches: (
        lambda: [(torch.full((3, 4), 2.0),), (torch.full((2, 4), 0.1),), (-some(5, 4).abs(),)],
        BATCH,
        ["aten.lgamma", BESSEL, "aten.special_bessel_j1"],
        {},
    ),
    Loops: (lambda: [(some(3),), (some(3) * 30,)], None, ["aten.lgamma"], {}),
}


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_it_agrees_with_torch(exported, module):
    make_examples, named, expected, tolerances = MODULES[module]
    examples = make_examples()
    shapes = None if named is None else (named,) * len(examples[0])
    filled = exported(module(), *examples, dynamic_shapes=shapes, **tolerances)
    assert filled == expected if isinstance(expected, list) else expected <= set(filled)


# ---- inputs that are results -------------------------------------------------------------------


class Returns(nn.Module):
    def forward(self, x, y):
        return x, y + 1, y


@pytest.mark.parametrize(
    ("options", "inputs", "outputs"),
    [
        ({}, ["x", "y"], ["x_out", "add", "y_out"]),
        # The second one's own name is taken.
        ({"input_names": ["y"]}, ["y", "y_orig"], ["x", "add", "y_out"]),
        (
            {"input_names": ["x", "y"], "output_names": ["same"]},
            ["x", "y"],
            ["same", "add", "y_out"],
        ),
        ({"output_names": ["x"]}, ["x_orig", "y"], ["x", "add", "y_out"]),
    ],
)
def test_an_input_that_is_a_result_has_its_own_name(options, inputs, outputs):
    x, y = some(2), some(2)
    model = pyopnb.torch.export(Returns().eval(), (x, y), **options)
    assert [entry.name for entry in model.graph.input] == inputs
    assert [entry.name for entry in model.graph.output] == outputs
    got = pyopnb.Session(model).run(None, dict(zip(inputs, (x.numpy(), y.numpy()), strict=True)))
    for result, expected in zip(got, (x, y + 1, y), strict=True):
        assert (result == expected.numpy()).all()


def test_weights_that_the_exporter_transposes_have_their_names():
    module = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 8), nn.Linear(8, 4, bias=False))
    model = pyopnb.torch.export(module.eval(), (some(2, 5, 4),))
    arrays = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    assert {name.removesuffix(".T") for name in arrays} == set(module.state_dict())
    for name, weight in module.state_dict().items():
        array = arrays[name] if name in arrays else arrays[f"{name}.T"].T
        assert (array == weight.numpy()).all()
    x = some(2, 5, 4)
    (result,) = pyopnb.Session(model)(x).values()
    torch.testing.assert_close(torch.from_numpy(result), module(x).detach())


class ReturnsNumbers(nn.Module):
    def forward(self, x):
        return x + 1, x.shape[1], 0.5, None, True


@pytest.mark.parametrize("sizes", [None, ({0: "batch"},)])
def test_numbers_that_forward_returns_are_outputs(sizes):
    model = pyopnb.torch.export(ReturnsNumbers().eval(), (torch.ones(2, 3),), dynamic_shapes=sizes)
    results = pyopnb.Session(model)(x=torch.zeros(2, 3))
    assert [result.dtype for result in results] == [np.float32, np.int64, np.float32, bool]
    assert [result.tolist() for result in results[1:]] == [3, 0.5, True]


class Rotates(nn.Module):
    def forward(self, x, cosines, sines, places):
        return torch.onnx.ops.rotary_embedding(x, cosines, sines, places)


def test_an_operator_of_torch_onnx_ops_has_its_opset(exported):
    def arguments(batch, time):
        places = torch.arange(time).expand(batch, time).contiguous()
        return torch.randn(batch, 4, time, 8), torch.randn(9, 4), torch.randn(9, 4), places

    sizes = ({0: "batch", 2: "time"}, None, None, {0: "batch", 1: "time"})
    examples = [arguments(2, 3), arguments(3, 5)]
    assert exported(Rotates(), *examples, dynamic_shapes=sizes) == []


class Experts(nn.Module):
    def __init__(self):
        super().__init__()
        self.weights = nn.Parameter(some(3, 4, 5))

    def forward(self, x, experts):
        counts = torch.histc(experts.float(), bins=3, min=0, max=2)
        ends = torch.cumsum(counts, 0, dtype=torch.int32)
        return torch.ops.transformers.grouped_mm_fallback(x, self.weights, ends)


def test_a_mixture_of_experts_is_written_in_onnx(exported):
    importlib.import_module("transformers.integrations.moe")
    examples = []
    # An expert may get no rows, and the last rows may be no expert's.
    for experts in ([0, 0, 2, 2, 2], [1, 1, 1, 2, 7, 8], [9, 9]):
        examples.append((some(len(experts), 4), torch.tensor(experts)))
    assert exported(Experts(), *examples, dynamic_shapes=({0: "rows"}, {0: "rows"})) == []
