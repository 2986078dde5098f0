"""Modules that torch's exporter does not take: each runs in ONNX Runtime at several sizes, and agrees with torch.

The tolerance is that of `exported`: 1e-4 of each number and 1e-5, unless a test says another.
"""

import pytest
import torch
from torch import nn


def some(*shape):
    return torch.randn(*shape)


def batches(*shapes, sizes=(5, 3, 8)):
    """Arguments of these shapes for each size of the batch, which is the first dimension."""
    return [tuple(some(size, *shape) for shape in shapes) for size in sizes]


class Probes(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("edges", torch.linspace(-2, 2, 9))

    def forward(self, x):
        square = x @ x.mT + torch.eye(4)
        u, s, v = torch.linalg.svd(x, full_matrices=False)
        w, q = torch.linalg.eigh(square)
        return (
            torch.inverse(square) + x,
            u @ torch.diag_embed(s) @ v,
            (q * w.unsqueeze(-2)) @ q.mT,
            torch.cdist(x, x * 2).relu(),
            torch.special.bessel_j0(x) + torch.special.i0e(x) + torch.lgamma(x.abs() + 1),
            torch.linalg.solve(square, x),
            torch.histc(x, 5, -2, 2),
            torch.searchsorted(self.edges, x).float(),
            torch.median(x, 1).values + torch.kthvalue(x, 2, 1).values,
            torch.cummax(x, 1).values,
            torch.matrix_exp(x),
            torch.igamma(x.abs() + 0.1, x.abs() + 0.5),
        )


def test_twelve_ops_that_the_exporter_lacks(exported):
    filled = exported(Probes(), (some(4, 4),), (some(4, 4),))
    assert {
        "aten.inverse",
        "aten.linalg_svd",
        "aten.linalg_eigh",
        "aten.special_bessel_j0",
        "aten.kthvalue",
    } <= set(filled)


class GaussianProcess(nn.Module):
    def __init__(self):
        super().__init__()
        self.x, self.y = nn.Parameter(some(20, 3)), nn.Parameter(some(20, 1))

    def kernel(self, a, b):
        return torch.exp(-(torch.cdist(a, b) ** 2) / 2)

    def forward(self, x):
        factor = torch.linalg.cholesky(self.kernel(self.x, self.x) + 0.1 * torch.eye(20))
        return self.kernel(x, self.x) @ torch.cholesky_solve(self.y, factor)


class KalmanStep(nn.Module):
    def __init__(self):
        super().__init__()
        self.move, self.see = (
            nn.Parameter(torch.eye(4) + 0.1 * some(4, 4)),
            nn.Parameter(some(2, 4)),
        )
        self.register_buffer("noise", 0.1 * torch.eye(2))

    def forward(self, x, p, z):
        x, p = x @ self.move.T, self.move @ p @ self.move.T + 0.01 * torch.eye(4)
        gain = p @ self.see.T @ torch.inverse(self.see @ p @ self.see.T + self.noise)
        return x + ((z - x @ self.see.T).unsqueeze(1) @ gain.mT).squeeze(1), p - gain @ self.see @ p


class Spline(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("grid", torch.linspace(-2, 2, 9))
        self.values, self.line = nn.Parameter(some(9)), nn.Linear(5, 6)

    def forward(self, x):
        h = self.line(x).clamp(-1.99, 1.99)
        i = torch.searchsorted(self.grid, h).clamp(1, 8)
        t = (h - self.grid[i - 1]) / (self.grid[i] - self.grid[i - 1])
        return self.values[i - 1] * (1 - t) + self.values[i] * t


class Whiten(nn.Module):
    def forward(self, x):
        x = x - x.mean(0)
        w, v = torch.linalg.eigh(x.T @ x / x.shape[0] + 1e-3 * torch.eye(x.shape[1]))
        return x @ (v * w.rsqrt()) @ v.T


class NegativeBinomial(nn.Module):
    def __init__(self):
        super().__init__()
        self.line = nn.Linear(4, 2)

    def forward(self, x):
        a, b = nn.functional.softplus(self.line(x)).unbind(-1)
        return (
            torch.lgamma(3.0 + a)
            - torch.lgamma(a)
            + a * torch.log(a / (a + b))
            + 3.0 * torch.log(b / (a + b))
        )


class Neighbours(nn.Module):
    def __init__(self):
        super().__init__()
        self.line = nn.Linear(6, 8)

    def forward(self, x):
        i = torch.cdist(x, x).topk(3, largest=False).indices
        near = torch.gather(
            x.unsqueeze(1).expand(-1, x.shape[1], -1, -1),
            2,
            i.unsqueeze(-1).expand(-1, -1, -1, x.shape[-1]),
        )
        return self.line(torch.cat([near - x.unsqueeze(2), near], -1)).amax(2)


class MedianPool(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3)

    def forward(self, x):
        return self.conv(x).flatten(2).median(-1).values


BATCH = {0: "batch"}
SEVEN = {  # with all that is filled, or a set of what is among it
    "gaussian process": (GaussianProcess, lambda: batches((3,)), {"aten.cholesky_solve"}, 1e-4),
    "Kalman step": (
        KalmanStep,
        lambda: [(some(n, 4), torch.eye(4).repeat(n, 1, 1), some(n, 2)) for n in (3, 2, 7)],
        ["aten.inverse"],
        1e-5,
    ),
    "spline": (Spline, lambda: batches((5,)), ["aten.searchsorted.Tensor"], 1e-5),
    "whiten": (Whiten, lambda: batches((4,), sizes=(30, 40)), {"aten.linalg_eigh"}, 1e-3),
    "negative binomial": (NegativeBinomial, lambda: batches((4,)), ["aten.lgamma"], 1e-5),
    "neighbours": (Neighbours, lambda: batches((10, 3)), set(), 1e-5),
    "median pool": (MedianPool, lambda: batches((1, 9, 9)), ["aten.median.dim"], 1e-5),
}
# The others' exports take 5 to 20 s each, and their ops are among the twelve or in the tests below.
SHORT = ("Kalman step", "median pool")


@pytest.mark.parametrize(
    "name",
    [name if name in SHORT else pytest.param(name, marks=pytest.mark.everywhere) for name in SEVEN],
)
def test_seven_modules_with_a_batch_of_any_size(exported, name):
    module, examples, filled, atol = SEVEN[name]
    given = examples()
    found = exported(module(), *given, dynamic_shapes=(BATCH,) * len(given[0]), atol=atol)
    assert found == filled if isinstance(filled, list) else filled <= set(found)


class Linalg(nn.Module):
    def forward(self, x):
        square = x @ x.mT + torch.eye(4)
        q, r = torch.linalg.qr(x)
        lower = torch.linalg.cholesky(square)
        return (
            torch.linalg.pinv(x),
            q @ r,
            torch.linalg.eigvalsh(square),
            torch.linalg.slogdet(square).logabsdet,
            torch.linalg.solve_triangular(lower, x, upper=False),
            torch.linalg.matrix_power(x, 3),
            torch.linalg.matrix_norm(x, ord="nuc"),
            torch.linalg.multi_dot([x[0], x[1], x[0]]),
            torch.linalg.eigvals(square).abs().sort(-1).values,
        )


class Special(nn.Module):
    def forward(self, x):
        positive = x.abs() + 0.5
        return (
            torch.digamma(positive),
            torch.polygamma(2, positive),
            torch.special.erfcx(x),
            torch.special.ndtri(torch.sigmoid(x)),
            torch.special.zeta(positive + 1, positive),
            torch.special.i1(x),
            torch.special.entr(positive),
            torch.special.sinc(x),
            torch.special.xlog1py(x, positive),
            torch.special.chebyshev_polynomial_t(x.clamp(-1, 1), 3),
            torch.special.log_ndtr(x),
            torch.nextafter(x, positive),
        )


class Signals(nn.Module):
    def forward(self, x):
        spectrum = torch.fft.fft(x)
        frames = torch.stft(x, 16, hop_length=8, window=torch.hann_window(16), return_complex=True)
        return (
            torch.fft.irfft(torch.fft.rfft(x) * 0.5, n=32),
            spectrum.abs(),
            torch.fft.ifft(spectrum).real,
            torch.view_as_real(torch.fft.fftshift(spectrum, dim=-1)),
            frames.abs(),
            torch.fft.fft2(x.reshape(-1, 4, 8)).abs(),
            torch.cumulative_trapezoid(x),
            torch.nn.functional.conv1d(x.unsqueeze(1), torch.ones(1, 1, 3)).squeeze(1),
        )


@pytest.mark.everywhere  # all but Cholesky's and the nuclear norm is in test_least_squares and test_roots_of_polynomials
def test_linear_algebra(exported):
    exported(Linalg(), *batches((4, 4)), dynamic_shapes=({0: "batch"},), rtol=1e-3, atol=1e-3)


@pytest.mark.everywhere  # 7 s, and test_twelve_ops_that_the_exporter_lacks has some of each library
def test_special_functions(exported):
    exported(Special(), *batches((6,)), dynamic_shapes=({0: "batch"},))


def test_spectra_and_complex_numbers_inside(exported):
    exported(Signals(), *batches((32,), sizes=(2, 4)), dynamic_shapes=({0: "batch"},), atol=1e-4)


class Order(nn.Module):
    def forward(self, x):
        return (
            torch.mode((x * 2).round(), 1).values,
            torch.kthvalue(x, x.shape[1] // 2, 1).values,
            torch.logcumsumexp(x, 1),
            torch.quantile(x, 0.3, dim=1),
            torch.bucketize(x, torch.tensor([-1.0, 0.0, 1.0]), right=True),
            torch.cummin(x, 1).indices,
        )


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


class Loops(nn.Module):
    def forward(self, x):
        return torch.while_loop(
            lambda i, x: i < 3, lambda i, x: (i + 1, x.exp()), (torch.tensor(0), x)
        )


class Lists(nn.Module):
    def forward(self, x, y):
        grid = torch.cartesian_prod(x[:, 0], y[:, 0])
        parts = torch.tensor_split(x, 3, dim=1)
        return (
            grid,
            torch.block_diag(x, y),
            parts[0] + parts[2],
            *torch._foreach_lgamma([x.abs() + 1, y.abs() + 1]),
            torch.linalg.multi_dot([x, y.mT, x]),
        )


class Dtypes(nn.Module):
    def forward(self, x):
        double, whole = x.double(), (x * 10).long()
        return (
            torch.lgamma(double.abs() + 0.1) * 0.1,
            torch.polygamma(1, double.abs() + 1e-300 + 0.1),
            torch.gcd(whole, whole + 6),
            torch.lcm(whole, whole + 6),
            torch.special.i0(x.half().float()).half(),
            torch.isin(whole, torch.tensor([1, 2, 3])),
            torch.ldexp(x, whole % 3),
            torch.heaviside(x, torch.tensor(0.5)),
            torch.signbit(x),
            torch.frexp(x).exponent,
        )


@pytest.mark.everywhere  # 7 s; the twelve ops and the seven modules have such calls, and a batch of any size
def test_order(exported):
    filled = exported(Order(), *batches((6,)), dynamic_shapes=({0: "batch"},))
    assert {"aten.mode", "aten.kthvalue"} <= set(filled)


def test_sizes_that_depend_on_the_data(exported):
    assert exported(Sizes(), *batches((6,)), dynamic_shapes=({0: "batch"},)) == ["aten.lgamma"]


def test_a_loop(exported):
    exported(Loops(), (some(3) * 0.1,), (some(3) * 0.1,))


def test_lists_of_tensors_and_several_outputs(exported):
    assert "lgamma" in " ".join(
        exported(Lists(), (some(5, 6), some(5, 6)), (some(5, 6), some(5, 6)))
    )


@pytest.mark.everywhere  # 18 s; test_op_db and test_wrong_numbers have ops of integers, halves and doubles
def test_every_dtype_comes_back(exported):
    exported(Dtypes(), *batches((6,)), dynamic_shapes=({0: "batch"},), rtol=1e-4)


class Branches(nn.Module):
    def forward(self, x):
        def small(x):
            return torch.special.bessel_j1(x) + torch.special.bessel_j0(x)

        def large(x):
            return torch.lgamma(x.abs()) * 2

        return torch.cond(x.sum() > 0, large, small, (x,)), torch.special.bessel_j0(x)


def test_holes_in_the_branches_of_cond(exported):
    positive, negative = some(3, 4).abs(), -some(3, 4).abs()
    filled = exported(
        Branches(), (positive,), (negative,), (positive[:2],), dynamic_shapes=({0: "batch"},)
    )
    assert filled == ["aten.lgamma", "aten.special_bessel_j0", "aten.special_bessel_j1"]


class InPlace(nn.Module):
    def forward(self, x):
        x.mul_(2).add_(1)
        y = torch.zeros_like(x)
        y[:, 0] = torch.lgamma(x[:, 0].abs() + 1)
        y[:, 1:].copy_(x[:, 1:])
        return y, x.clamp_(min=0)


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.out = nn.Embedding(7, 4), nn.Linear(4, 7, bias=False)
        self.out.weight = self.embed.weight

    def forward(self, i):
        return self.out(torch.special.bessel_j0(self.embed(i)))


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


def test_writing_in_place(exported):
    assert exported(InPlace(), *batches((4,)), dynamic_shapes=({0: "batch"},)) == ["aten.lgamma"]


def test_tied_weights(exported):
    assert exported(Tied(), (torch.arange(5),), (torch.arange(2),), dynamic_shapes=({0: "n"},)) == [
        "aten.special_bessel_j0"
    ]


def test_a_module_without_holes(exported):
    assert exported(Layers(), *batches((3, 6, 6)), dynamic_shapes=({0: "batch"},)) == []
