"""The ONNX node tests, run: what `tests/onnx_reference/test_fill.py` asserts and ``tests/benchmarks/bench_fill.py`` prints.

A case counts as passed where the model loads, runs on every data set of the case, and each result
has the expected dtype and shape, and values within the tolerances of the case.
"""

from __future__ import annotations

import inspect
import warnings
import zlib
from collections import Counter
from dataclasses import dataclass
from functools import cache

import numpy as np
import onnx
import onnxruntime
from onnx import AttributeProto, TensorProto, numpy_helper
from onnx.backend.test.case.node import collect_testcases

import pyopnb
from pyopnb.engine.ops.dtypes import DTYPES, dtype
from pyopnb.engine.runtime.ortvalues import from_ortvalue, texts_to_ortvalue, to_ortvalue
from pyopnb.models.support.missing import missing
from pyopnb.onnx_reference.filling import Filled, fill

__all__ = [
    "EXCEPTIONS",
    "NO_REFERENCE",
    "WRITTEN_FOR",
    "cases",
    "filled",
    "outcome",
    "plainly",
    "report",
    "run",
    "sample",
]

_DRAWN = ("test_bernoulli", "test_training_dropout")
"""Beginnings of the names of cases whose values are drawn: others are right as well, and dtype and shape are compared."""

WRITTEN_FOR = ("1.23.2", "1.32.0")
"""The versions of onnx, whose cases these are, and of onnxruntime."""

_OTHER = "the runtime has a kernel, which gives other values than the case allows"
_REFUSED = "the runtime has a kernel, which refuses what this node has"

EXCEPTIONS: dict[str, str] = {
    **dict.fromkeys(
        (
            "test_attention_4d_causal_fp16",
            "test_attention_4d_with_past_and_present_qk_matmul_bias_3d_mask_causal",
            "test_attention_4d_with_past_and_present_qk_matmul_bias_4d_mask_causal",
            "test_dft",
            "test_dft_axis",
            "test_dft_axis_opset19",
            "test_dft_inverse",
            "test_dft_inverse_opset19",
            "test_dft_irfft",
            "test_dft_irfft_opset19",
            "test_dft_opset19",
            "test_dft_rfft",
            "test_dft_rfft_opset19",
            "test_maxunpool_export_with_output_shape",
            "test_resize_downsample_scales_cubic_align_corners",
            "test_resize_downsample_scales_linear_align_corners",
            "test_stft",
            "test_stft_with_window",
        ),
        _OTHER,
    ),
    **dict.fromkeys(
        (
            "test_attention_4d_diff_heads_mask4d_padded_kv",
            "test_convinteger_with_padding",
            "test_reduce_max_empty_set_bool",
        ),
        _REFUSED,
    ),
}
"""The cases that fail after `fill`, each with its reason. They pass where the caller asks for the reference: ``fill(model, nodes=…)``."""

NO_REFERENCE = {"test_scan_sum", "test_scatter_with_axis", "test_scatter_without_axis"}
"""The ONNX reference gave up the old Scatter, and its Scan 8 does not leave out the input that the node leaves out."""

_CARRIED_BY_NUMPY = {
    row.name for row in DTYPES if row.numpy.isbuiltin == 1 and row.name != "string"
}


@cache
def cases():
    """All node tests by name; expanded function bodies are cases of their own."""
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore"
        )  # some ONNX cases compute with infinities and warn while they are made
        made = collect_testcases(
            *[None] * bool(inspect.signature(collect_testcases).parameters)
        )  # onnx 1.19 wants an op type
    return {case.name: case for case in made}


@cache
def sample():
    """A quarter of the cases, the same in each run: of every operator and every dtype one, all that are peculiar, and one in eight."""
    seen: set[str] = set()
    chosen = {}
    for name, case in cases().items():
        traits = _traits(case.model)
        if (
            name in EXCEPTIONS
            or _peculiar(case.model)
            or not traits <= seen
            or zlib.crc32(name.encode()) % 8 == 0
        ):
            chosen[name] = case
            seen |= traits
    return chosen


def _traits(model):
    """The operator of a model of one node, and the dtypes at its ends."""
    kinds = [_element(info.type) for info in [*model.graph.input, *model.graph.output]]
    operator = {
        f"{node.domain}::{node.op_type}" for node in model.graph.node if len(model.graph.node) == 1
    }
    return operator | {kind.name for kind in kinds if kind}


def _peculiar(model):
    """Whether it has a body, or strings or anything but tensors at its ends."""
    ends = [*model.graph.input, *model.graph.output]
    kinds = [info.type.tensor_type.elem_type for info in ends if info.type.HasField("tensor_type")]
    bodies = {AttributeProto.GRAPH, AttributeProto.GRAPHS}
    has_body = any(
        attribute.type in bodies for node in model.graph.node for attribute in node.attribute
    )
    return has_body or TensorProto.STRING in kinds or len(kinds) < len(ends)


def plainly(model, feeds):
    """The results of plain onnxruntime."""
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), _quiet(), ["CPUExecutionProvider"], enable_fallback=0
    )
    return run(session, model, feeds)


def _quiet():
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    return options


def run(session, model, feeds):
    """Run a session on anything that a case feeds: dtypes that NumPy lacks, strings, sequences, optionals left out."""
    run = onnxruntime.RunOptions()
    run.log_severity_level = 4
    kinds = {info.name: _element(info.type) for info in [*model.graph.input, *model.graph.output]}
    given = {name: _fed(value, kinds[name]) for name, value in feeds.items() if value is not None}
    names = [info.name for info in model.graph.output]
    if all(
        kinds[name] is None or kinds[name].name in _CARRIED_BY_NUMPY | {"string"} for name in names
    ):
        return onnxruntime.InferenceSession.run(session, names, given, run)
    values = {
        n: v if isinstance(v, onnxruntime.OrtValue) else _as_ortvalue(v) for n, v in given.items()
    }
    got = onnxruntime.InferenceSession.run_with_ort_values(session, names, values, run)
    return [from_ortvalue(value, kinds[name]) for name, value in zip(names, got, strict=True)]


def _as_ortvalue(array):
    return (
        texts_to_ortvalue(array)
        if array.dtype.kind in "OUT"
        else onnxruntime.OrtValue.ortvalue_from_numpy(array)
    )


def _element(kind):
    """The dtype of a tensor or an optional tensor; None for anything else."""
    kind = kind.optional_type.elem_type if kind.HasField("optional_type") else kind
    return dtype(kind.tensor_type.elem_type) if kind.HasField("tensor_type") else None


def _fed(value, kind):
    if kind is None or isinstance(value, list) or kind.name in _CARRIED_BY_NUMPY | {"string"}:
        return value
    return to_ortvalue(value, kind)


def can_be_an_op(model):
    """Whether the model is one node with nothing at its ends that a custom op cannot have."""
    kinds = [
        _element(info.type)
        for info in [*model.graph.input, *model.graph.output]
        if info.type.HasField("tensor_type")
    ]
    ends = len(model.graph.input) + len(model.graph.output)
    return len(model.graph.node) == 1 and len(kinds) == ends and all(kind.carried for kind in kinds)


def data_sets(case):
    """Feeds by name and expected results, for each data set of a case."""
    names = [info.name for info in case.model.graph.input]
    return [
        (dict(zip(names, map(_value, given), strict=True)), list(map(_value, expected)))
        for given, expected in case.data_sets
    ]


def _value(value):
    """Arrays as they are; without a NumPy dtype, the case has a TensorProto."""
    if isinstance(value, TensorProto):
        return numpy_helper.to_array(value)
    if value is None or isinstance(value, (np.ndarray, dict)):
        return value
    return list(map(_value, value)) if isinstance(value, (list, tuple)) else np.asarray(value)


def outcome(case, way):
    """What went wrong on one way; None where nothing did."""
    for feeds, expected in data_sets(case):
        try:
            got = way(case.model, feeds)
        except (
            Exception
        ) as error:  # any exception at all is a failure of the case, and is in the table
            return f"{type(error).__name__}: {error}"
        if len(got) != len(expected):
            return f"{len(got)} results, expected {len(expected)}"
        for info, result, want in zip(case.model.graph.output, got, expected, strict=True):
            if wrong := unlike(case, result, want):
                return f"output {info.name}: {wrong}"
    return None


def unlike(case, got, want):
    """How a result differs from the expected one."""
    if want is None or got is None:
        return None if want is got else f"{type(got).__name__}, expected {type(want).__name__}"
    if isinstance(want, dict):
        return None if got == want else "another map"
    if isinstance(want, list):
        if not isinstance(got, list) or len(got) != len(want):
            return f"{type(got).__name__} of {len(got)}, expected a list of {len(want)}"
        return next(
            filter(None, (unlike(case, g, w) for g, w in zip(got, want, strict=True))), None
        )
    if not isinstance(got, (np.ndarray, np.generic)):
        return f"a {type(got).__name__}"
    if dtype(got.dtype) is not dtype(want.dtype):
        return f"dtype {got.dtype}, expected {want.dtype}"
    if got.shape != want.shape:
        return f"shape {got.shape}, expected {want.shape}"
    if case.name.startswith(_DRAWN):
        return None
    if got.dtype.kind in "OUT":
        return (
            None if got.astype(object).tolist() == want.astype(object).tolist() else "other strings"
        )
    wide = np.float64 if got.dtype.kind in "fV" else got.dtype
    if not np.allclose(
        got.astype(wide), want.astype(wide), rtol=case.rtol, atol=case.atol, equal_nan=True
    ):
        return "other values"
    return None


def filled(model, feeds, nodes=()):
    """The results of the model after `fill`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Filled)
        whole = fill(model, nodes)
    return run(pyopnb.Session(whole), whole, feeds)


def _untouched(model):
    """Whether `fill` leaves a model as it is, and what happens with it is what happens without."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Filled)
        return bool(fill(model) == model)


@dataclass(frozen=True)
class Report:
    """What went wrong with each case; None where nothing did."""

    plain: dict[str, str | None]
    filled: dict[str, str | None]

    @property
    def worse(self) -> list[str]:
        """The cases that pass without `fill` alone."""
        return [name for name, wrong in self.filled.items() if wrong and self.plain[name] is None]

    def __str__(self) -> str:
        lines = [
            f"{len(self.plain)} node tests of onnx {onnx.__version__} on onnxruntime {onnxruntime.__version__}"
        ]
        for title, wrong in (("plain onnxruntime", self.plain), ("with fill", self.filled)):
            lines += ["", f"{title}: {sum(text is None for text in wrong.values())} load and pass"]
            reasons = Counter(self._reason(name, text) for name, text in wrong.items() if text)
            lines += [f"  {count:4} {reason}" for reason, count in reasons.most_common()]
        lines += ["", "what fails with fill"]
        lines += [
            f"  {n}: {EXCEPTIONS.get(n, 'NOT LISTED')}: {_brief(text)}"
            for n, text in sorted(self.filled.items())
            if text
        ]
        return "\n".join(lines)

    def _reason(self, name: str, text: str) -> str:
        if name in EXCEPTIONS:
            return EXCEPTIONS[name]
        kinds = [row.kind for row in missing(cases()[name].model)]
        return kinds[0] if kinds else "IR version too new" if "IR version" in text else _brief(text)


def _brief(text):
    return " ".join(text.replace("[ONNXRuntimeError] : ", "").split())[:100]


def report(chosen):
    """Run each of the cases without and with `fill`."""
    plain = {name: outcome(case, plainly) for name, case in chosen.items()}
    after = {
        name: plain[name] if _untouched(case.model) else outcome(case, filled)
        for name, case in chosen.items()
    }
    return Report(plain, after)


if __name__ == "__main__":
    print(report(cases()))
