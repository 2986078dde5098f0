"""Modules of every kind that users write: each agrees with torch at several sizes, or is refused with the line and the reason.

The tolerance is that of `exported`: 1e-4 of each number and 1e-5, unless a test says another.
"""

import re

import pytest
import torch
from torch import nn
from torch._higher_order_ops import scan

import pyopnb
import pyopnb.torch

BATCH = {0: "batch"}


def some(*shape):
    return torch.randn(*shape)


# ---- control flow ------------------------------------------------------------------------------------------------------------


class Scans(nn.Module):
    def forward(self, x):
        def step(total, row):
            total = total * 0.5 + row
            return total.clone(), total.exp()

        return scan(step, torch.zeros_like(x[0]), x)


class ScansWithHole(nn.Module):
    def forward(self, x):
        def step(total, row):
            total = total + torch.lgamma(row.abs() + 1)
            return total.clone(), torch.special.bessel_j0(total)

        return scan(step, torch.zeros_like(x[0]), x)


class Nested(nn.Module):
    def forward(self, x):
        def inner(x):
            return torch.cond(
                x.sum() > 10, lambda x: torch.special.bessel_j1(x), lambda x: x.sin(), (x,)
            )

        return torch.cond(x.sum() > 0, inner, lambda x: torch.lgamma(x.abs() + 1), (x,))


class LoopsWithHole(nn.Module):
    def forward(self, x):
        return torch.while_loop(
            lambda i, x: (i < 3) & (x.sum() < 100),
            lambda i, x: (i + 1, x + torch.lgamma(x.abs() + 1)),
            (torch.tensor(0), x),
        )


def test_a_scan(exported):
    assert exported(Scans(), (some(5, 3),), (some(5, 3),)) == []


def test_holes_in_a_scan(exported):
    assert exported(ScansWithHole(), (some(5, 3),), (some(5, 3),)) == [
        "aten.lgamma",
        "aten.special_bessel_j0",
    ]


def test_holes_in_branches_of_branches(exported):
    large, small = torch.full((3, 4), 2.0), torch.full((3, 4), 0.1)
    assert exported(Nested(), (large,), (small,), (-small,)) == [
        "aten.lgamma",
        "aten.special_bessel_j1",
    ]


def test_holes_in_a_loop(exported):
    assert exported(LoopsWithHole(), (some(3),), (some(3) * 30,)) == ["aten.lgamma"]


# ---- numbers -----------------------------------------------------------------------------------------------------------------


class Roots(nn.Module):
    """The roots of polynomials: complex numbers inside, real ones outside."""

    def forward(self, coefficients):
        n = coefficients.shape[1]
        companion = torch.diag_embed(torch.ones(n - 1), -1).expand(coefficients.shape[0], n, n)
        companion = torch.cat([companion[:, :, :-1], -coefficients.flip(1).unsqueeze(2)], 2)
        roots = torch.linalg.eigvals(companion)
        return roots.abs().sort(1).values, roots.real.sum(1), (roots * roots.conj()).real.sum(1)


class Hilbert(nn.Module):
    def forward(self, x):
        spectrum = torch.fft.fft(x)
        kept = torch.zeros(32)
        kept[0], kept[1:16], kept[16] = 1, 2, 1
        analytic = torch.fft.ifft(spectrum * kept)
        return analytic.abs(), torch.polar(analytic.abs(), analytic.angle()).imag


class Echo(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("window", torch.hann_window(16))

    def forward(self, x):
        frames = torch.stft(x, 16, 4, window=self.window, return_complex=True)
        quiet = torch.where(frames.abs() > 1, frames, frames * 0.1)
        return torch.istft(quiet, 16, 4, window=self.window, length=64)


class Mixed(nn.Module):
    """Complex numbers go into calls that torch makes: of both dtypes, conjugated, beside real ones and in a list."""

    def forward(self, x, y):
        spectrum = torch.fft.fft(x)
        solved = torch.linalg.solve(spectrum.mH, torch.complex(y, y))
        both = torch.linalg.multi_dot(
            [torch.linalg.inv(spectrum.conj()), solved, solved.double().to(torch.complex64)]
        )
        return torch.linalg.svdvals(both), torch.view_as_real(
            torch.linalg.inv(torch.view_as_complex(torch.stack([x, y], -1)))
        )


class Distributions(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.eye(3) + 0.1)

    def forward(self, x):
        normal = torch.distributions.MultivariateNormal(
            torch.zeros(3), scale_tril=self.scale.tril(), validate_args=False
        )
        gamma = torch.distributions.Gamma(torch.tensor(2.0), torch.tensor(3.0), validate_args=False)
        return normal.log_prob(x), gamma.log_prob(x.abs() + 0.1)


class LeastSquares(nn.Module):
    def forward(self, a, b):
        q, r = torch.linalg.qr(a)
        x = torch.linalg.solve_triangular(r, q.mT @ b, upper=True)
        return (
            x,
            torch.linalg.matrix_norm(a @ x - b),
            torch.linalg.slogdet(a.mT @ a).logabsdet,
            torch.linalg.pinv(a) @ b,
        )


class Images(nn.Module):
    def forward(self, x):
        turned = torch.tensor([[0.8, -0.6, 0.0], [0.6, 0.8, 0.0]]).expand(x.shape[0], 2, 3)
        grid = nn.functional.affine_grid(turned, [x.shape[0], 2, 8, 8], align_corners=False)
        patches = nn.functional.unfold(x, 3, padding=1)
        return (
            nn.functional.grid_sample(x, grid, align_corners=False),
            nn.functional.fold(patches, (8, 8), 3, padding=1),
            nn.functional.interpolate(x, scale_factor=2, mode="bicubic", align_corners=False),
            nn.functional.pixel_unshuffle(x, 2),
        )


def test_roots_of_polynomials(exported):
    filled = exported(
        Roots(), (some(3, 4),), (some(5, 4),), dynamic_shapes=(BATCH,), rtol=1e-3, atol=1e-3
    )
    assert "aten.linalg_eigvals" in filled


def test_an_analytic_signal(exported):
    exported(Hilbert(), (some(3, 32),), (some(5, 32),), dynamic_shapes=(BATCH,), atol=1e-4)


@pytest.mark.everywhere  # 8 s; spectra and complex numbers inside a module are in test_modules
def test_calls_that_take_complex_numbers(exported):
    filled = exported(
        Mixed(), (some(4, 4), some(4, 4)), (some(4, 4), some(4, 4)), rtol=1e-2, atol=1e-3
    )
    assert {
        "aten.linalg_inv",
        "aten.linalg_solve",
        "aten.linalg_multi_dot",
        "aten.linalg_svdvals",
    } <= set(filled)
    assert "aten.view_as_real" not in filled


@pytest.mark.everywhere  # 9 s for stft and istft; other transforms and complex numbers are in the tests above
def test_echo(exported):
    exported(Echo(), (some(2, 64),), (some(2, 64),), atol=1e-4)


@pytest.mark.everywhere  # its calls are among those of the twelve ops and of least squares
def test_distributions(exported):
    exported(Distributions(), (some(3, 3),), (some(5, 3),), dynamic_shapes=(BATCH,))


def test_least_squares(exported):
    sizes = [(some(n, 6, 3), some(n, 6, 1)) for n in (3, 5)]
    assert "aten.linalg_qr" in exported(
        LeastSquares(), *sizes, dynamic_shapes=(BATCH, BATCH), rtol=1e-3, atol=1e-4
    )


@pytest.mark.everywhere  # the exporter has all of its calls
def test_images(exported):
    exported(Images(), (some(3, 2, 8, 8),), (some(2, 2, 8, 8),), dynamic_shapes=(BATCH,), atol=1e-4)


# ---- modules with state ------------------------------------------------------------------------------------------------------


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.gru = (
            nn.LSTM(3, 4, batch_first=True),
            nn.GRU(4, 2, bidirectional=True, batch_first=True),
        )

    def forward(self, x):
        y, (h, c) = self.lstm(x)
        return self.gru(y)[0], h + torch.special.i1(c)


class FakeQuantised(nn.Module):
    def __init__(self):
        super().__init__()
        self.line = nn.Linear(4, 3)

    def forward(self, x):
        x = torch.fake_quantize_per_tensor_affine(x, 0.05, 3, -128, 127)
        return self.line(x)


class Shared(nn.Module):
    """One layer called three times, whose weight another layer has as well."""

    def __init__(self):
        super().__init__()
        self.layer, self.back = nn.Linear(4, 4), nn.Linear(4, 4, bias=False)
        self.back.weight = self.layer.weight

    def forward(self, x):
        for _ in range(3):
            x = torch.special.i0e(self.layer(x))
        return self.back(x)


def test_recurrent_layers(exported):
    assert exported(Recurrent(), (some(2, 5, 3),), (some(2, 5, 3),)) == ["aten.special_i1"]


def test_fake_quantised_layers(exported):
    exported(FakeQuantised(), (some(3, 4),), (some(3, 4) * 5,))


def test_a_layer_that_is_called_again(exported):
    assert exported(Shared(), (some(3, 4),), (some(1, 4),), dynamic_shapes=(BATCH,)) == [
        "aten.special_i0e"
    ]


# ---- refused -----------------------------------------------------------------------------------------------------------------


class RunningMean(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(3))

    def forward(self, x):
        self.mean.copy_(0.9 * self.mean + 0.1 * x.mean(0))
        return x - self.mean


class DropsOut(nn.Module):
    def forward(self, x):
        return nn.functional.dropout(x, 0.5, training=True)


class Samples(nn.Module):
    def forward(self, x):
        return torch.multinomial(x.softmax(-1), 2)


class Sparse(nn.Module):
    def forward(self, x):
        return x.to_sparse()


@pytest.mark.parametrize(
    ("module", "line", "reason"),
    [
        (
            RunningMean,
            "self.mean.copy_(0.9 * self.mean + 0.1 * x.mean(0))",
            "a forward that does not change its module",
        ),
        (DropsOut, "return nn.functional.dropout(x, 0.5, training=True)", "got random numbers"),
        (Samples, "return torch.multinomial(x.softmax(-1), 2)", "got random numbers"),
        (Sparse, "return x.to_sparse()", "expected a"),
    ],
)
def test_refused_with_the_line(module, line, reason):
    with pytest.raises(pyopnb.errors.ModelError) as caught:
        pyopnb.torch.export(module().eval(), (torch.ones(2, 3),))
    assert re.search(rf"test_more_modules\.py:\d+, `{re.escape(line)}`", str(caught.value))
    assert reason in str(caught.value)


# ---- inputs that are results -------------------------------------------------------------------------------------------------


class Returns(nn.Module):
    def forward(self, x, y):
        return x, y + 1, y


@pytest.mark.parametrize(
    ("options", "inputs", "outputs"),
    [
        ({}, ["x", "y"], ["x_out", "add", "y_out"]),
        (
            {"input_names": ["y"]},
            ["y", "y_orig"],
            ["x", "add", "y_out"],
        ),  # the second one's own name is taken
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
    assert all(
        (mine == theirs.numpy()).all() for mine, theirs in zip(got, (x, y + 1, y), strict=True)
    )
