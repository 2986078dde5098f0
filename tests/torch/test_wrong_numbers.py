"""Ops that the exporter writes, and that come out wrong or cannot run, are run by torch: the model is never silently wrong."""

import itertools
import subprocess
import sys
import textwrap
import warnings

import numpy as np
import pytest
import torch
from torch import nn

import pyopnb
import pyopnb.torch
from pyopnb.torch import exporter
from pyopnb.torch.example import example_of
from pyopnb.torch.mend import mend
from pyopnb.torch.program import calls_in, capture


class Whole(nn.Module):
    """ONNX Runtime multiplies no whole numbers by Gemm, and has no MaxPool of them."""

    def forward(self, x, weight):
        y = nn.functional.linear(x, weight, weight[0]) - 1
        return nn.functional.max_pool2d(y.view(1, 1, 2, 2), 2) + y.sum()


@pytest.fixture(scope="module")
def whole():
    """Export a model with two ops at fault, and keep the report; each trial is an export of its own."""
    example = torch.arange(4).view(2, 2)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = pyopnb.torch.export(Whole().eval(), (example, example))
    (report,) = [
        entry.message for entry in caught if isinstance(entry.message, pyopnb.torch.StandIns)
    ]
    feeds = [entry.name for entry in model.graph.input]
    result = pyopnb.run(model, dict.fromkeys(feeds, example.numpy()))[0]
    return report, result, Whole()(example, example).numpy()


def test_an_op_without_a_kernel_runs_in_torch(whole):
    report, result, expected = whole
    assert {hole.op for hole in report.holes} == {
        "torch.ops.aten.linear.default",
        "torch.ops.aten.max_pool2d.default",
    }
    assert result.dtype == expected.dtype
    np.testing.assert_array_equal(result, expected)


class Normalized(nn.Module):
    """By the statistics of the batch, where the exporter takes the running ones. Torch writes to these."""

    def forward(self, x, mean, variance):
        return nn.functional.batch_norm(x.exp(), mean, variance, training=True).tanh()


def test_an_op_with_other_numbers_runs_in_torch(exported):
    mean, variance = torch.zeros(3), torch.ones(3)
    assert exported(
        Normalized(), (torch.randn(4, 3), mean, variance), (torch.randn(4, 3), mean, variance)
    ) == ["aten.batch_norm"]
    assert (mean.tolist(), variance.tolist()) == ([0, 0, 0], [1, 1, 1])


@pytest.mark.parametrize(
    ("wrong", "values"),
    [
        (torch.special.log_ndtr, [-21.0, -15.0, -2.0, 3.0]),
        (torch.special.erfcx, [50.0, 12.0, 9.5, 1.0]),
    ],
)
def test_an_op_with_other_numbers_is_found_beside_one_without_form(exported, wrong, values):
    class Both(nn.Module):
        def forward(self, x):
            return wrong(x), torch.lgamma(x)

    filled = exported(Both(), (torch.randn(4),), (torch.tensor(values),))
    assert filled == ["aten.lgamma", f"aten.{wrong.__name__}"]


NUMBERS = [0.0, 0.1, 0.3, 0.5, 1.0, 1.5, 3.0, 7.0, 6.2831855, 5e7, 1e10, 1e18, 1e30, float("inf")]
NUMBERS = torch.tensor([*NUMBERS, *(-number for number in NUMBERS), float("nan")])


class Divisions(nn.Module):
    def forward(self, a, b):
        rounded = torch.div(a, b, rounding_mode="floor")
        return a // b, a % b, torch.fmod(a, b), rounded, a // 0.1, a % 3, 1 // b


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_floats_are_divided_by_the_exact_rest(exported, dtype):
    pairs = torch.cartesian_prod(NUMBERS, NUMBERS).to(dtype).T.contiguous()
    example = torch.randn(*pairs.shape).to(dtype)
    assert exported(Divisions(), tuple(example), tuple(pairs), rtol=0, atol=0) == []


class Bounded(nn.Module):
    def forward(self, a):
        bounds = a.clamp(min=0.1), a.clamp(max=2), a.clamp_min(1), a.clamp_max(1), a.clamp(-1, 2)
        return *bounds, a.sign(), nn.functional.logsigmoid(a)


def test_forms_are_right_where_floats_end(exported):
    assert exported(Bounded(), (torch.randn(len(NUMBERS)),), (NUMBERS,)) == []


class Near(nn.Module):
    def forward(self, a):
        loss = nn.functional.soft_margin_loss(a, torch.ones_like(a), reduction="none")
        return torch.log1p(a), torch.expm1(a), loss


@pytest.mark.parametrize(("dtype", "rtol"), [(torch.float32, 1e-6), (torch.float64, 1e-14)])
def test_logarithms_near_one_keep_all_digits(exported, dtype, rtol):
    small = torch.tensor([1e-10, -1e-10, 1e-7, -3e-7, 1e-40, 1e-4, -0.4, 0.99, -1.01, 15, -15])
    numbers = torch.cat([small, NUMBERS]).to(dtype)
    example = torch.randn(len(numbers), dtype=dtype)
    assert exported(Near(), (example,), (numbers,), rtol=rtol, atol=0) == []


@pytest.mark.parametrize("wrong", [torch.logaddexp2, torch.atan2, torch.xlogy])
def test_a_form_is_judged_where_floats_end_and_not_on_the_example(exported, wrong):
    class Deep(nn.Module):
        def forward(self, a, b):
            return wrong(a.tanh(), b.relu())

    class Alone(nn.Module):
        def forward(self, a, b):
            return wrong(a, b)

    pairs = torch.cartesian_prod(NUMBERS, NUMBERS).T.contiguous()
    example = torch.rand(*pairs.shape) + 1
    for filled in (
        exported(Deep(), tuple(example)),
        exported(Alone(), tuple(example), tuple(pairs)),
    ):
        assert any(name.startswith(f"aten.{wrong.__name__}") for name in filled)


@pytest.mark.parametrize("length", [3, 4])
def test_a_scan_is_judged_whatever_the_example(exported, length):
    class Scan(nn.Module):
        def forward(self, a):
            return torch.logcumsumexp(a, 1)

    examples = [(torch.randn(5, length),), (torch.randn(5, length) * 200,)]
    assert exported(Scan(), *examples) == ["aten.logcumsumexp"]


class Extremes(nn.Module):
    def forward(self, a):
        rows = a.amax(1), a.amin((0, 2)), *a.max(1), *a.min(2), a.argmax(1), a.argmin(0), a.argmax()
        norms = a.norm(float("inf"), 1), a.logsumexp((0, 1, 2)), a.logsumexp(1)
        return *rows, *norms, *a[0].aminmax(dim=1)


class Pools(nn.Module):
    def forward(self, a):
        pool = nn.functional.max_pool2d
        pooled = pool(a, 2), pool(a, 3, 2, 1, ceil_mode=True), nn.functional.max_pool1d(a, 3, 2, 1)
        boxes = nn.functional.max_pool3d(a[None], 2, return_indices=True)
        adaptive = nn.functional.adaptive_max_pool2d(a, 2)
        return *pooled, *pool(a, 3, 2, 1, return_indices=True), *boxes, adaptive


def with_nan(dtype=torch.float32):
    """Yield arrays with one NaN, with some beside infinities, and of -inf with and without one."""
    for place in (0, 1, 40, 95):
        drawn = torch.randn(4, 4, 6)
        drawn.view(-1)[place] = float("nan")
        yield (drawn.to(dtype),)
    special = torch.tensor([float("nan"), float("inf"), float("-inf"), 1.0, -1.0])
    yield (special[torch.arange(96) * 7 % 11 % 5].reshape(4, 4, 6).to(dtype),)
    nothing = torch.full((4, 4, 6), float("-inf"))
    yield (nothing.to(dtype),)
    yield (nothing.index_put([torch.tensor([1])] * 3, torch.tensor(float("nan"))).to(dtype),)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
@pytest.mark.parametrize("module", [Extremes(), Pools()], ids=["extremes", "pools"])
def test_extremes_follow_nan(exported, module, dtype):
    examples = (torch.randn(4, 4, 6).to(dtype),), *with_nan(dtype)
    rounding = {"rtol": 1e-2} if dtype == torch.float16 else {}
    filled = exported(module, *examples, **rounding)
    assert filled == [] or dtype == torch.float16


@pytest.mark.parametrize(
    ("make", "options"),
    [
        *itertools.product((nn.LSTM, nn.GRU), ({}, {"bidirectional": True, "num_layers": 2})),
        (nn.LSTM, {"bias": False}),
        (nn.RNN, {"nonlinearity": "relu"}),
    ],
)
def test_sequences_follow_nan(exported, make, options):
    class Reads(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = make(4, 5, **options)

        def forward(self, x, *states):
            outputs, last = self.layer(x, states if len(states) > 1 else states[0])
            return (outputs, *last) if isinstance(last, tuple) else (outputs, last)

    count = 4 if "num_layers" in options else 1
    example = (
        torch.randn(3, 2, 4),
        *(torch.randn(count, 2, 5) for _ in range(1 + (make is nn.LSTM))),
    )
    examples = [example]
    for number, value in itertools.product(range(len(example)), (float("nan"), float("inf"))):
        changed = [tensor.clone() for tensor in example]
        changed[number].view(-1)[changed[number].numel() // 2] = value
        examples.append(tuple(changed))
    two = example[0].clone()
    two[1, 0, :2] = torch.tensor([float("inf"), float("-inf")])
    assert exported(Reads(), *examples, (two, *example[1:])) == []


def test_gelu_of_infinity_is_what_torch_computes(exported):
    """Torch has NaN for -inf, and with oneDNN for inf as well."""

    class Gelu(nn.Module):
        def forward(self, a):
            return nn.functional.gelu(a), nn.functional.gelu(a, approximate="tanh")

    ends = torch.tensor([float("inf"), float("-inf"), float("nan"), 3e38, -3e38, 0.5])
    with torch.backends.mkldnn.flags(enabled=False, allow_tf32=None):
        assert exported(Gelu(), (torch.randn(6),), (ends,)) == []


class Anything(nn.Module):
    def forward(self, a):
        return a.any(), a.any(0), (a > 1).any(1, keepdim=True), a.any((0, 1))


class Sliding(nn.Module):
    """Keeps the last seven positions of a cache, or fewer while there are no more."""

    def forward(self, x, past):
        present = torch.cat([past, x], 2)[:, :, -7:]
        return x + present.mean(2, keepdim=True), present


def test_sizes_that_hold_for_the_example_only_are_not_declared(exported):
    sizes = {0: "batch", 2: "new"}, {0: "batch", 2: "past"}
    x, past = torch.randn(2, 2, 3, 8), torch.randn(2, 2, 9, 8)
    model = pyopnb.torch.export(Sliding().eval(), (x, past), dynamic_shapes=sizes)
    dims = [info.type.tensor_type.shape.dim for info in model.graph.output]
    declared = [[dim.dim_param or dim.dim_value or None for dim in row] for row in dims]
    assert declared == [["batch", 2, "new", 8], ["batch", 2, None, 8]]
    short = past[:, :, :1]
    assert exported(Sliding(), (x, past), (x, short), dynamic_shapes=sizes) == []


def test_nothing_is_not_anything(exported):
    sizes = {"dynamic_shapes": ({0: "n"},)}
    examples = [(torch.zeros(3, 2),), (torch.eye(2) * 2,), (torch.zeros(0, 2),)]
    assert exported(Anything(), *examples, **sizes) == []


class Loss(nn.Module):
    def forward(self, a):
        return nn.functional.mse_loss(a, 2 * a)


def test_the_loss_of_nothing_is_nan(exported):
    examples = [(torch.ones(5, 3),), (torch.zeros(0, 3),)]
    assert exported(Loss(), *examples, dynamic_shapes=({0: "n"},)) == []


class CrossEntropy(nn.Module):
    def forward(self, a, kinds):
        entropy = nn.functional.cross_entropy
        return [entropy(a, kinds, reduction=name) for name in ("mean", "sum", "none")]


def test_the_cross_entropy_of_nothing(exported):
    examples = [(torch.randn(n, 3), torch.arange(n) % 3) for n in (5, 1, 0)]
    sizes = {"dynamic_shapes": ({0: "n"}, {0: "n"})}
    assert exported(CrossEntropy(), *examples, **sizes) == []


def test_the_warning_says_what_was_wrong(whole):
    report, _, _ = whole
    pool, linear = report.holes
    assert (pool.op, linear.op) == (
        "torch.ops.aten.max_pool2d.default",
        "torch.ops.aten.linear.default",
    )
    assert (
        "got X is int64; the operator takes int8, uint8, float16, float32, float64" in pool.reason
    )
    assert "there are kernels for float32" in linear.reason
    assert linear.line.endswith("`y = nn.functional.linear(x, weight, weight[0]) - 1`")


class Steps(nn.Module):
    def forward(self, x):
        for _ in range(2):
            x = (x.exp() - x.sin()).tanh() * x.cos()
        return x.sqrt()


def captured(module, args):
    return capture(example_of(module, args, None, None))


@pytest.mark.parametrize(
    "wrong", [{"tanh"}, {"sqrt"}, {"exp"}, {"sin", "cos"}, {"exp", "sqrt"}, {"mul"}]
)
def test_only_what_is_at_fault_goes_to_torch(wrong):
    program = captured(Steps().eval(), (torch.ones(2),))
    tried = []

    def fault():
        names = {node.target._schema.name.removeprefix("aten::") for node in calls_in(program)}
        tried.append(names)
        return ", ".join(sorted(names & wrong)) or None

    holes = mend(program, "first", fault)
    assert {hole.target._schema.name.removeprefix("aten::") for hole in holes} == wrong
    assert len(holes) == sum(2 - (name == "sqrt") for name in wrong)
    assert {hole.reason for hole in holes} <= {*wrong, "first"}
    assert len(tried) <= 1 + 4 * len(wrong)


def test_a_program_that_nothing_mends_stays_as_it_is():
    program = captured(Steps().eval(), (torch.ones(2),))
    before = str(program.graph)
    assert mend(program, "wrong", lambda: "still wrong") == []
    assert str(program.graph) == before


class Spectra(nn.Module):
    def forward(self, x):
        return torch.view_as_real((torch.fft.fft(x).conj() * 2 + 1).sum(-1).exp())


@pytest.mark.parametrize("wrong", ["mul", "sum", "exp"])
def test_complex_calls_that_torch_does_not_keep_are_left_as_they_were(wrong):
    program = captured(Spectra().eval(), (torch.ones(2),))
    before = [(str(node.target), list(map(str, node.args))) for node in calls_in(program)]

    def fault():
        program.graph.lint()
        names = {node.target._schema.name.removeprefix("aten::") for node in calls_in(program)}
        return "wrong" if wrong in names else None

    (hole,) = mend(program, "wrong", fault)
    after = [(str(node.target), list(map(str, node.args))) for node in calls_in(program)]
    place = [target for target, _ in before].index(str(hole.target))
    source = before[place][1][0]
    assert after[place] == ("aten.resolve_conj.default", [source])
    assert after[place + 1][0] == "aten.view_as_real.default"
    assert after[place + 2][0].startswith("pyopnb.")
    assert [target for target, _ in after[:place] + after[place + 3 :]] == [
        target for target, _ in before[:place] + before[place + 1 :]
    ]
    program.graph_module.recompile()
    x = torch.randn(2)
    # A captured program returns a list.
    torch.testing.assert_close(program.module()(x), [Spectra()(x)])


class BakesItsMean(nn.Module):
    """The mean leaves torch, so that the exporter makes the mean of the example a constant."""

    def forward(self, x):
        with torch.no_grad():
            mean = (
                torch.tensor(x.detach().sum().tolist()) if not torch.compiler.is_exporting() else 10
            )
        return x * mean


def stays_in_torch(module, *examples, **options):
    """Export a module that is a part in torch as a whole, compare it on examples, and return the reason."""
    with pytest.warns(pyopnb.torch.StandIns) as caught:
        model = pyopnb.torch.export(module.eval(), examples[:1], **options)
    session = pyopnb.Session(model)
    for x in examples:
        np.testing.assert_array_equal(session(x=x.numpy())[0], module(x).numpy())
    (hole,) = caught[0].message.holes
    return hole.reason


def test_a_constant_of_the_example_is_found():
    x = torch.arange(1.0, 5.0)
    assert "with the example times 1.01" in stays_in_torch(BakesItsMean(), x, x * 3)


class Grows(nn.Module):
    """Its weight is a plain attribute, of which torch.export does not say that it changes."""

    def __init__(self):
        super().__init__()
        self.weight = torch.ones(3)

    def forward(self, x):
        self.weight = self.weight * 3
        return x + self.weight


def test_a_module_that_remembers_its_calls_is_refused():
    with pytest.raises(pyopnb.errors.ModelError, match="a forward that remembers earlier calls"):
        pyopnb.torch.export(Grows().eval(), (torch.ones(3),))


class Doubles(nn.Module):
    """Right at numbers like the example's, and wrong below 0."""

    def forward(self, x):
        return x * 2 if not torch.compiler.is_exporting() else x.abs() * 2


class Divides(nn.Module):
    def forward(self, x):
        if torch.compiler.is_exporting():
            return torch.div(x, 4, rounding_mode="trunc")
        return torch.div(x, 4, rounding_mode="floor")


@pytest.mark.parametrize(
    ("module", "x"),
    [(Doubles(), torch.rand(5) + 1), (Divides(), torch.tensor([4, 9, 30]))],
)
def test_what_differs_at_values_that_the_example_does_not_have_stays_in_torch(module, x):
    assert "the exporter's model is not right for module" in stays_in_torch(module, x, -x)


class Sizes(nn.Module):
    """Right at the sizes up to 7."""

    def forward(self, x):
        if torch.compiler.is_exporting():
            return x + torch.arange(1, 8)[: x.shape[0]].sum()
        return x + torch.arange(1, len(x) + 1).sum()


def test_what_is_wrong_at_another_size_stays_in_torch_where_the_size_has_a_name():
    examples = [torch.ones(size) for size in (6, 9, 1)]
    reason = stays_in_torch(Sizes(), *examples, dynamic_shapes=({0: "n"},))
    assert "x, axis 0, cannot change: with sizes" in reason
    within = {0: torch.export.Dim("n", min=2, max=7)}
    pyopnb.torch.export(Sizes().eval(), (torch.ones(6),), dynamic_shapes=(within,))


class Tiny(nn.Module):
    """Rounding in other orders, infinities and inputs that torch refuses are no wrong numbers."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(32, 64), nn.ELU(), nn.MaxPool1d(2), nn.LayerNorm(32), nn.Linear(32, 4)
        )

    def forward(self, x, p):
        y = torch.softmax(self.net(x), -1)
        return y, nn.functional.binary_cross_entropy(p, p.round()), (y - 0.5).sum().sqrt()


class Attention(nn.Module):
    """A row without keys is 0 in torch; a softmax has NaN there, or the average of all values."""

    def forward(self, x, mask):
        return nn.functional.scaled_dot_product_attention(x, x, x, mask)


def masks(none):
    """A mask of each dtype with some keys, and one whose first row has none."""
    some = torch.ones(3, 3, dtype=torch.bool).tril()
    if none is not False:
        some = torch.zeros(3, 3).masked_fill(~some, none)
    without_keys = some.clone()
    without_keys[0] = none
    return some, without_keys


@pytest.mark.parametrize("none", [False, float("-inf")])
def test_attention_without_keys_is_zero(exported, none):
    some, without_keys = masks(none)
    x = torch.randn(2, 2, 3, 4)
    assert (Attention()(x, without_keys)[:, :, 0] == 0).all()
    unknown = x.clone()
    unknown[1, 0, 2, 1] = float("nan")
    examples = (x, some), (x, without_keys), (unknown, some)
    assert exported(Attention(), *examples, dynamic_shapes=({0: "n"}, None)) == []


@pytest.mark.parametrize("none", [False, float("-inf")])
def test_masks_that_leave_nothing_are_compared(exported, none, monkeypatch):
    some, without_keys = masks(none)
    x = torch.randn(2, 2, 3, 4)
    monkeypatch.setattr(exporter, "zero_masked_rows", lambda program: None)
    filled = exported(Attention(), (x, some), (x, without_keys))
    assert filled == ["aten.scaled_dot_product_attention"]


def test_a_mask_for_which_torch_has_no_numbers_is_left_out(exported):
    layer = nn.TransformerDecoderLayer(4, 2, 8, 0.0, batch_first=True, norm_first=True)
    x, padding = torch.randn(2, 3, 4), torch.zeros(2, 3, dtype=torch.bool)
    padding[:, 2] = True
    example = x, x, None, None, padding, padding
    session = pyopnb.Session(pyopnb.torch.export(layer.eval(), example))
    feeds = zip((e.name for e in session.get_inputs()), (x, x, padding, padding), strict=True)
    got = session.run(None, {name: value.numpy() for name, value in feeds})[0]
    with torch.no_grad():
        np.testing.assert_allclose(got, layer(*example), atol=1e-5)


def test_what_kernels_round_is_not_called_wrong(exported):
    assert exported(Tiny(), (torch.randn(3, 32), torch.rand(5))) == []


class Weighted(nn.Module):
    def forward(self, a, b, c):
        return a * 2 + b * 3 + c["c"] * 5


def test_the_same_tensor_given_twice():
    ones = torch.ones(3)
    model = pyopnb.torch.export(Weighted().eval(), (ones, ones), {"c": {"c": ones}})
    feeds = {entry.name: np.float32([n, n, n]) for n, entry in enumerate(model.graph.input, 1)}
    assert pyopnb.run(model, **feeds)[0].tolist() == [23, 23, 23]


class Probability(nn.Module):
    def forward(self, p, q):
        return nn.functional.binary_cross_entropy(p, q), torch.where(p == 1, p, p.log1p())


def test_arguments_that_cannot_be_larger(exported):
    ones = torch.ones(3)
    assert exported(Probability(), (ones, ones), (ones / 2, ones / 4)) == []


def test_a_saved_model_has_its_ops_of_torch(tmp_path):
    class Solve(nn.Module):
        def forward(self, x):
            return torch.linalg.inv(x) + torch.lgamma(x)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pyopnb.torch.StandIns)
        model = pyopnb.torch.export(Solve().eval(), (torch.eye(2) * 2 + 1,), input_names=["x"])
    path = tmp_path / "solve.onnx"
    kept = pyopnb.save(model, path)
    assert sorted(op.name for op in kept) == ["torch.aten::lgamma", "torch.aten::linalg_inv"]
    assert "    target = torch.ops.aten.lgamma.default\n" in next(
        op.source for op in kept if op.name == "torch.aten::lgamma"
    )
    code = f"""
        import sys, numpy as np, pyopnb
        try:
            pyopnb.Session({str(path)!r})
        except pyopnb.errors.UnknownName as error:
            print(error)
        assert "torch" not in sys.modules
        loaded = pyopnb.load({str(path)!r}, ops=["torch.aten::lgamma", "torch.aten::linalg_inv"])
        print(pyopnb.run(loaded.model, x=np.float32([[3, 1], [1, 3]]))[0].tolist())
    """
    ran = subprocess.run(
        [sys.executable, "-P", "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        check=True,
    )
    said, numbers = ran.stdout.strip().split("\n")
    assert (
        "pyopnb.load shows its source, which the model keeps; then pyopnb.load(…, ops=['torch.aten::"
        in said
    )
    expected = Solve()(torch.tensor([[3.0, 1.0], [1.0, 3.0]])).numpy()
    np.testing.assert_allclose(np.array(eval(numbers)), expected, rtol=1e-5)


def test_code_that_is_not_torchs_gets_no_zeros_for_an_example_of_no_rows():
    seen = []

    @torch.library.custom_op("walk::count", mutates_args=())
    def count(parts: torch.Tensor) -> torch.Tensor:
        seen.extend(parts.tolist())
        return parts * 1

    @count.register_fake
    def _(parts):
        return torch.empty_like(parts)

    class Net(torch.nn.Module):
        def forward(self, x, parts):
            return x * 2, count(parts) + 1

    sizes = ({0: torch.export.Dim.AUTO}, {0: torch.export.Dim.AUTO})
    with pytest.warns(pyopnb.torch.StandIns):
        pyopnb.torch.export(Net().eval(), (torch.ones(1), torch.ones(0)), dynamic_shapes=sizes)
    assert 0.0 not in seen


@pytest.mark.parametrize("library", ["walk", "torchvision"])
def test_code_that_is_not_torchs_sees_no_values_but_the_users(library):
    """It may be C++ that divides by its arguments, or reads an image by its number."""
    seen = []

    @torch.library.custom_op(f"{library}::divide", mutates_args=())
    def divide(x: torch.Tensor, parts: torch.Tensor) -> torch.Tensor:
        seen.append((x.dtype, parts.item(), bool((x != 0).all())))
        return x / parts

    @divide.register_fake
    def _(x, parts):
        return torch.empty_like(x)

    class Net(torch.nn.Module):
        def forward(self, x, parts):
            return divide(x, parts) + 1

    x, parts = torch.arange(1.0, 7.0).reshape(2, 3), torch.tensor([2.0])
    sizes = {"x": {0: torch.export.Dim.DYNAMIC}, "parts": None}
    with pytest.warns(pyopnb.torch.StandIns):
        model = pyopnb.torch.export(Net().eval(), (x, parts), dynamic_shapes=sizes)
    assert set(seen) == {(torch.float32, 2.0, True)}
    larger = torch.arange(1.0, 13.0).reshape(4, 3)
    feeds = dict(zip([info.name for info in model.graph.input], (larger, parts), strict=True))
    (result,) = pyopnb.Session(model)(**feeds).values()
    np.testing.assert_allclose(result, (larger / 2 + 1).numpy())
