"""Each verdict has a bad op that fails it, and only it; good ops of many kinds pass all."""

from __future__ import annotations

import re
import sys
import time
import warnings
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from small_ops import SoftClip

import pyopnb
from pyopnb.testing.readiness import CheckReport

X = np.float32([[-1, 2, -3], [4, -5, 6]])
KEPT: list[Any] = []


def check_class(cls: type, *examples: Any, name: str = "t::Op", **attrs: Any) -> CheckReport:
    pyopnb.registry.define(cls, name)
    return pyopnb.check(name, examples=examples, **attrs)


# ---- bad ops -----------------------------------------------------------------------------------------------------------------


# fmt: off
class OtherDtype:
    def compute(self, x): return x.astype(np.float64)

class OtherCount:
    def compute(self, x) -> ("float32[N,M]", "float32[N,M]"): return x

class OtherRank:
    def compute(self, x: "float32[N,M]") -> "float32[N]": return x

class OtherSize:
    def compute(self, x: "float32[N,M]") -> "float32[N,4]": return x

class MissingAttr:
    def __init__(self, limit: float): ...
    def compute(self, x): return x

class Raises:
    def compute(self, x): raise OSError("no disk")

class Exits:
    def compute(self, x): raise SystemExit(3)

class InferRaises:
    def infer(self, x): raise KeyError("rank")
    def compute(self, x): return x

class Unreadable:
    def compute(self, x):
        class Strange(Exception):
            def __str__(self): raise ValueError

        raise Strange

class OneSize:
    def infer(self, x): return x.like(shape=(2, 3))
    def compute(self, x): return x

class NoSymbols:
    def infer(self, x): return x.like(shape=(x.shape[0] + 0, 3))
    def compute(self, x): return x[:, :3]

class SymbolOfTwoSizes:
    def compute(self, a: "float32[N]", b: "float32[N]"): return a + b

class Writes:
    def compute(self, x):
        x += 8
        return x

class Keeps:
    """It keeps what no copy can be made for, once it is past the first calls."""
    def __init__(self): self.calls = 0
    def compute(self, x):
        self.calls += 1
        if self.calls > 1:
            KEPT.append(memoryview(x))
        return x * 2

class Counts:
    def __init__(self): self.calls = 0
    def compute(self, x):
        self.calls += 1
        return x + np.float32(self.calls)

class Random:
    def compute(self, x): return x + np.random.default_rng().random(x.shape, np.float32)

class Shared:
    def compute(self, x):
        self.x = x.copy()
        time.sleep(0.0005)
        return self.x * 2

class NoEmpty:
    def compute(self, x: "float32[N,3]"): return x / x[0]

class EmptyChangesDtype:
    def compute(self, x: "float32[N,3]"): return np.array([row * np.float32(2) for row in x]).reshape(x.shape)

class Writeable:
    def compute(self, x): return x * np.float32(2 if x.flags.writeable else 3)

class Cancels:
    def compute(self, x): return x + x.dtype.type(4096) - x.dtype.type(4096)

class Overflows:
    def compute(self, x): return np.log(np.exp(x) + 1)

class Celu:
    """Not the Celu of ONNX."""
    def compute(self, x): return np.where(x > 0, x, x * x)

class LRN:
    """The sum runs over as many channels as there are batches: the mistake of onnx 1.23.2's reference."""
    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0):
        self.size, self.alpha, self.beta, self.bias = size, alpha, beta, bias
    def compute(self, x: "float32[N,C,H,W]"):
        squares = np.zeros_like(x)
        before = (self.size - 1) // 2
        for c in range(min(x.shape[:2])):
            squares[:, c] = (x[:, max(0, c - before) : c + self.size - before] ** 2).sum(axis=1)
        return (x / (self.bias + self.alpha / self.size * squares) ** self.beta).astype(x.dtype)
# fmt: on

BAD = [
    (OtherDtype, X, "schema", r"output 0: expected float32\[\.\.\.\], got float64\[2,3\]; without a hint .*\. Try: return np\.asarray\(y"),
    (OtherCount, X, "schema", "outputs: expected 2, as compute's hint says, got 1"),
    (OtherRank, X, "schema", r"output 0: expected float32\[2\], as the hint of compute says, got float32\[2,3\] for inputs float32\[2,3\]"),
    (OtherSize, X, "schema", r"expected float32\[2,4\]"),
    (MissingAttr, X, "schema", "attr limit: expected a value of kind float"),
    (Raises, X, "schema", r"OSError: no disk \(in compute, line \d+: def compute"),
    (Exits, X, "schema", r"SystemExit: 3 \(in compute"),
    (InferRaises, X, "schema", r"KeyError: 'rank'(?s:.)*\(in infer"),
    (Unreadable, X, "schema", r"Strange: <exception str\(\) failed>"),
    (SymbolOfTwoSizes, (X[0], X[0, :1]), "inputs_unmodified", r"input b: expected float32\[N\], with one size for each symbol, got float32\[1\]"),
    (OneSize, X, "shapes", r"expected float32\[2,3\], as infer says, got float32\["),
    (NoSymbols, X, "shapes", r"TypeError: (?s:.)*\(in infer"),
    (Writes, X, "inputs_unmodified", r"compute writes into input x: \[0,0\] is 7.0 instead of -1.0.*Try: x = x.copy\(\), or copy_inputs = True"),
    (Keeps, X, "inputs_unmodified", "compute kept input x, or a view of it"),
    (Counts, X, "repeatable", r"the second call of one instance: output 0: \[0,0\] is 1.0 instead of 0.0 \(6 of 6 elements differ\)\. Try: keep nothing"),
    (Random, X, "repeatable", "the first call of another instance"),
    (Shared, X, "threads", "with 8 threads at once: output 0.*Try: keep what compute calculates in local variables"),
    (NoEmpty, X, "empty", r"inputs float32\[0,3\]: IndexError: .*Try: let compute work without elements"),
    (EmptyChangesDtype, X, "empty", r"expected float32\[\.\.\.\].*got float64\[0,3\]"),
    (Writeable, X, "runtime", r"output 0: \[\d,\d\] is -?[\d.]+ instead of -?[\d.]+.*read-only and contiguous"),
    (Cancels, X, "precision", r"float\d+: [\d.e+]+ units in the last place from the same op in float64, at most 64 expected: \[\d,\d\] is"),
    (Overflows, np.float32([100, 1]), "precision", r"float32: inf units.*\[0\] is inf instead of 100.0"),
    (Celu, X, "operator", r"against the ONNX Runtime kernel of Celu: output 0: \[\d,\d\] is -?[\d.]+ instead of"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("cls", "example", "test", "message"), BAD, ids=[row[0].__name__ for row in BAD]
)
def test_a_bad_op_fails_one_test_and_no_other(
    cls: type, example: Any, test: str, message: str
) -> None:
    report = check_class(cls, example, name=f"t::{cls.__name__}")
    assert [verdict.name for verdict in report.failures] == [test], report
    assert re.search(message, report[test].text), report[test].text
    assert not report
    assert f"not ready for use: {test}" in repr(report)
    KEPT.clear()


def test_every_test_has_a_bad_op() -> None:
    assert {row[2] for row in BAD} == set(check_class(Raises, X))


class Sinh:
    """Not the Sinh of ONNX, of which the runtime has no kernel of bfloat16."""

    def compute(self, x):
        return x


def test_the_reference_serves_where_the_runtime_has_no_kernel() -> None:
    report = check_class(Sinh, X.astype(ml_dtypes.bfloat16), name="t::Sinh")
    assert "against the ONNX reference implementation of Sinh" in report["operator"].text


def test_a_wrong_lrn_is_found() -> None:
    x = np.random.default_rng(0).normal(size=(2, 5, 3, 3)).astype(np.float32)
    report = check_class(LRN, x, name="t::LRN", size=3, alpha=0.5)
    assert re.search(r"\[0,2,|\[1,2,|,4,", report["operator"].text)
    square = np.random.default_rng(0).normal(size=(5, 5, 3, 3)).astype(np.float32)
    assert check_class(LRN, square, name="t::LRN", size=3, alpha=0.5)["operator"].outcome == "pass"


# ---- good ops ----------------------------------------------------------------------------------------------------------------


# fmt: off
class MatMul:
    def compute(self, a: "float32[N,K]", b: "float32[K,M]") -> "float32[N,M]": return a @ b

class Halve:
    def infer(self, x): return [x.like(shape=(x.shape[0], None))] * 2
    def compute(self, x):
        if x.ndim != 2:
            raise ValueError(f"x has {x.ndim} dimensions instead of 2")
        half = x.shape[1] // 2
        return x[:, :half], x[:, half:]

class Bias:
    def compute(self, x, b=None): return x if b is None else x + b

class Sum:
    def compute(self, *xs): return np.sum(np.stack(xs), axis=0, dtype=xs[0].dtype)

class Upper:
    def compute(self, s: "string[N]") -> "string[N]": return np.array([t.upper() for t in s], object)

class Shape:
    def compute(self, x) -> "int64[K]": return np.array(x.shape, np.int64)

class InPlace:
    copy_inputs = True
    def compute(self, x):
        x *= 2
        return x

class Serial:
    serial = True
    def compute(self, x):
        self.x = x
        return self.x * 2

class Remembers:
    def compute(self, x):
        self.last = x
        return x * 2

class Constant:
    def __init__(self, value: np.ndarray, name: str = "n", op: int = 1, inputs: list[int] = (1,)): self.value = value
    def compute(self) -> "float32[2]": return self.value

class Halves:
    def compute(self, x: "bfloat16[N]") -> "bfloat16[N]": return (x.astype(np.float32) / 2).astype(x.dtype)

class NaNs:
    def compute(self, x): return x * np.float32(np.nan)

class LeakyRelu:
    def __init__(self, alpha: float = 0.01): self.alpha = alpha
    def compute(self, x): return np.where(x < 0, x * x.dtype.type(self.alpha), x)
# fmt: on

GOOD = [
    (SoftClip, [X], {"limit": 2.0}),
    (SoftClip, [], {}),
    (SoftClip, [X, X[:1], (X, {"limit": 0.5}), np.float64([1e300, 0])], {}),
    (MatMul, [(X, X.T.copy())], {}),
    (MatMul, [], {}),
    (Halve, [X], {}),
    (Bias, [X, (X, X[0]), (X, None)], {}),
    (Sum, [(X, X, X)], {}),
    (Sum, [], {}),
    (Upper, [np.array(["a", "é"])], {}),
    (Upper, [], {}),
    (Shape, [X, np.array(True)], {}),
    (InPlace, [X], {}),
    (Serial, [X], {}),
    (Remembers, [X], {}),
    (Constant, [()], {"value": np.float32([1, 2])}),
    (Halves, [], {}),
    (NaNs, [X], {}),
    (LeakyRelu, [X, (X, {"alpha": 0.5})], {}),
    (LeakyRelu, [X.astype(np.float16), X.astype(ml_dtypes.bfloat16)], {}),
]


@pytest.mark.parametrize(
    ("cls", "examples", "attrs"), GOOD, ids=[f"{n}-{row[0].__name__}" for n, row in enumerate(GOOD)]
)
def test_a_good_op_passes_all(cls: type, examples: list[Any], attrs: dict[str, Any]) -> None:
    report = check_class(cls, *examples, name=f"t::{cls.__name__}", **attrs)
    assert report, report
    assert report.ok
    assert report["runtime"].outcome == "pass"
    is_operator = cls in (MatMul, Sum, Shape, LeakyRelu, Constant)
    assert (report["operator"].outcome == "pass") == is_operator, report


# ---- verdicts ----------------------------------------------------------------------------------------------------------------


def test_examples_that_are_no_arrays() -> None:
    pyopnb.registry.define(SoftClip, "t::Op")
    with pytest.raises(
        pyopnb.errors.InputError, match="example 1, input 0: expected an array of a dtype of ONNX"
    ):
        pyopnb.check("t::Op", X, examples=[iter([1, 2])])
    with pytest.raises(pyopnb.errors.InputError, match="example 0, input 0"):
        pyopnb.check("t::Op", np.array(["2020-01-01"], "datetime64[D]"))
    with pytest.raises(pyopnb.errors.UnknownName, match="Try: t::Op"):
        pyopnb.check("t::Opp")


def test_inputs_are_given_as_to_call() -> None:
    pyopnb.registry.define(MatMul, "t::MatMul")
    assert pyopnb.check("t::MatMul", X, X.T).examples == ("(float32[2,3], float32[3,2])",)
    assert len(pyopnb.check("t::MatMul", X, X.T, examples=[(X.T, X)]).examples) == 2
    lists = pyopnb.check("t::MatMul", [[1.0, 2.0]], [[1.0], [2.0]])
    assert lists.examples == ("(float64[1,2], float64[2,1])",)
    for inputs in ((X,), (X, X, X)):
        message = rf"example 0: expected inputs \(a: .*, b: .*\), got {len(inputs)}"
        with pytest.raises(pyopnb.errors.InputError, match=message):
            pyopnb.check("t::MatMul", *inputs)


def test_an_interrupt_is_no_verdict() -> None:
    class Interrupted:
        def compute(self, x): raise KeyboardInterrupt  # fmt: skip

    with pytest.raises(KeyboardInterrupt):
        check_class(Interrupted, X)


def test_html_is_escaped() -> None:
    class Bad:
        def compute(self, x): raise OSError("<script>\n\x1b[31m")  # fmt: skip

    shown = check_class(Bad, X)._repr_html_()
    assert "<script>" not in shown
    assert "\x1b" not in shown
    assert "&lt;script&gt;" in shown


def test_nothing_of_the_process_stays_changed() -> None:
    def state() -> tuple[Any, ...]:
        return sys.getswitchinterval(), list(warnings.filters), np.geterr()

    before = state()
    check_class(SoftClip, X)
    assert state() == before
    assert [op.name for op in pyopnb.registry] == ["t::Op"]


class Rows:
    def compute(self, table: "float32[N,M]", numbers: "int64[K]"):
        return table[numbers]


def test_rows_that_an_empty_table_lacks_are_a_wrong_input() -> None:
    pyopnb.registry.define(Rows, "demo::Rows")
    verdict = pyopnb.check("demo::Rows", X, np.int64([1, 0]))["empty"]
    assert verdict.ok and "refuses clearly 1 of 3" in verdict.text
