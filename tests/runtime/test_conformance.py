"""ONNX's own node tests, each node replaced by an op whose ``compute`` asks ONNX's reference implementation.

What is proved is the way of the tensors: dtypes, shapes, attrs, optional ports and bodies go through ONNX Runtime into
``compute`` and back without a change. ``python -m tests.runtime.test_conformance`` prints the counts and the exceptions.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import node_tests
import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto, TypeProto, numpy_helper
from onnx.backend.test.case.test_case import TestCase
from onnx.reference import ReferenceEvaluator

import pyopnb
from pyopnb.ops.dtypes import dtype

DOMAIN = "conformance"

NO_REFERENCE = "ONNX's reference does not have this operator any more"

DRAWN = ("test_bernoulli", "test_bernoulli_double", "test_bernoulli_seed")
"""ONNX's reference draws other random numbers than the expectation, and now and then the same: dtype and shape are compared."""

WRITTEN_FOR = "1.23.2"
"""The version of onnx whose cases these are."""

EXCEPTIONS: dict[str, str] = {
    "test_scan_sum": "ONNX's reference of Scan 8 does not leave out the input that the node leaves out",
    "test_scatter_with_axis": NO_REFERENCE,
    "test_scatter_without_axis": NO_REFERENCE,
}
"""The cases that fail, each with its reason. None is pyopnb's: `through_reference` fails as well."""


# ---- the cases ---------------------------------------------------------------------------------------------------------------


def carried(every: Mapping[str, TestCase]) -> dict[str, TestCase]:
    """The node tests of one node whose tensors a custom op can carry, by name."""
    return {
        name: case
        for name, case in every.items()
        if len(case.model.graph.node) == 1 and _carried(case.model)
    }


def _carried(model: ModelProto) -> bool:
    types = [info.type for info in [*model.graph.input, *model.graph.output]]
    return all(
        kind.HasField("tensor_type") and dtype(kind.tensor_type.elem_type).carried for kind in types
    )


def tensors_of(case: TestCase, which: int) -> list[np.ndarray]:
    """The feeds (0) or the expected results (1) of a case; those that NumPy has no dtype for stand in it as TensorProtos."""
    return [
        numpy_helper.to_array(t) if isinstance(t, TensorProto) else np.asarray(t)
        for t in case.data_sets[0][which]
    ]


def dtypes_of(case: TestCase) -> list[str]:
    """The dtypes that occur in a case, each once."""
    infos = [*case.model.graph.input, *case.model.graph.output]
    return sorted({dtype(info.type.tensor_type.elem_type).name for info in infos})


# ---- one case ----------------------------------------------------------------------------------------------------------------


def through_pyopnb(case: TestCase) -> list[Any]:
    """The results of the case with its node run by an op."""
    model = ModelProto()
    model.CopyFrom(case.model)
    model.ir_version = min(model.ir_version, pyopnb.models.ort_capabilities.newest_ir_version())
    model.opset_import[0].version = min(
        model.opset_import[0].version, pyopnb.models.ort_capabilities.newest_opset()
    )
    (node,) = model.graph.node
    node.domain = DOMAIN
    pyopnb.registry.define(_standing_in(case), f"{DOMAIN}::{node.op_type}")
    names = [info.name for info in model.graph.input]
    return list(pyopnb.Session(model)(**dict(zip(names, tensors_of(case, 0), strict=True))))


def _standing_in(case: TestCase) -> type:
    original = case.model

    class StandIn:
        def __init__(self, **attrs: Any) -> None:
            (node,) = original.graph.node
            alone = ModelProto()
            alone.CopyFrom(original)
            alone.graph.node[0].CopyFrom(
                pyopnb.node(
                    f"{node.domain}::{node.op_type}", node.input, node.output, node.name, **attrs
                )
            )
            self.names = list(node.input)
            self.given = list(node.output)
            self.reference = ReferenceEvaluator(alone)

        def compute(self, *inputs: Any) -> Any:
            feeds = {name: value for name, value in zip(self.names, inputs, strict=False) if name}
            results = dict(
                zip(self.reference.output_names, _quietly(self.reference, feeds), strict=True)
            )
            values = tuple(results.get(name) for name in self.given)
            return values if len(values) > 1 else values[0]

    return StandIn


def through_reference(case: TestCase) -> list[Any]:
    """The results of ONNX's reference implementation alone."""
    names = [info.name for info in case.model.graph.input]
    return _quietly(
        ReferenceEvaluator(case.model), dict(zip(names, tensors_of(case, 0), strict=True))
    )


def _quietly(reference: ReferenceEvaluator, feeds: dict[str, Any]) -> list[Any]:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return list(reference.run(None, feeds))


def difference(case: TestCase, results: Sequence[Any]) -> str | None:
    """What is wrong with these results; None where they are those of the case."""
    expected = tensors_of(case, 1)
    if len(results) != len(expected):
        return f"{len(results)} results, expected {len(expected)}"
    for info, got, want in zip(case.model.graph.output, results, expected, strict=True):
        wrong = _unlike(case, info.type, got, want)
        if wrong:
            return f"output {info.name}: {wrong}"
    return None


def _unlike(case: TestCase, declared: TypeProto, got: Any, want: np.ndarray) -> str | None:
    if not isinstance(got, (np.ndarray, np.generic)):
        return f"a {type(got).__name__}"
    row = dtype(declared.tensor_type.elem_type)
    if dtype(got.dtype) is not row:
        return f"dtype {got.dtype}, expected {row}"
    if got.shape != want.shape:
        return f"shape {got.shape}, expected {want.shape}"
    if case.name in DRAWN:
        return None
    if row.name == "string":
        return (
            None if got.astype(object).tolist() == want.astype(object).tolist() else "other strings"
        )
    wide = np.float64 if got.dtype.kind in "fV" else got.dtype
    if not np.allclose(
        got.astype(wide), want.astype(wide), rtol=case.rtol, atol=case.atol, equal_nan=True
    ):
        return "other values"
    return None


def outcome(case: TestCase, way: Any) -> str | None:
    """What went wrong on one way; None where nothing did."""
    try:
        return difference(case, way(case))
    except (
        Exception
    ) as error:  # any exception at all is a failure of the case, and is told in the table
        return f"{type(error).__name__}: {error}"


# ---- the table ---------------------------------------------------------------------------------------------------------------


def report(cases: Mapping[str, TestCase]) -> tuple[dict[str, str], str]:
    """The cases that fail with what went wrong, and the table to print."""
    failures: dict[str, str] = {}
    passed: Counter[str] = Counter()
    total: Counter[str] = Counter()
    for name, case in cases.items():
        wrong = outcome(case, through_pyopnb)
        total.update(dtypes_of(case))
        if wrong:
            failures[name] = wrong
        else:
            passed.update(dtypes_of(case))
    lines = [
        f"{len(cases) - len(failures)} of {len(cases)} cases pass",
        "",
        "dtype            passed  of",
    ]
    lines += [
        f"{name:16} {passed[name]:6} {total[name]:4}"
        for name in sorted(total, key=lambda n: -total[n])
    ]
    lines += ["", f"random, compared by dtype and shape only: {', '.join(DRAWN)}", "", "exceptions"]
    for name, wrong in sorted(failures.items()):
        lines.append(
            f"  {name}: {EXCEPTIONS.get(name, 'NOT LISTED')}: {wrong.splitlines()[0][:100]}"
        )
    return failures, "\n".join(lines)


@pytest.mark.one_python
def test_each_case_passes_unless_it_is_listed(node_tests: dict[str, TestCase]) -> None:
    cases = carried(node_tests)
    failures, table = report(cases)
    print(table)
    passing = [name for name in failures if outcome(cases[name], through_reference) is None]
    assert passing == []  # what fails here fails in the reference itself
    if onnx.__version__ == WRITTEN_FOR:  # other versions have other cases and other mistakes
        assert len(cases) - len(failures) >= (1375 if len(node_tests) > 1500 else 325)
        assert sorted(failures) == sorted(EXCEPTIONS.keys() & cases.keys())


if __name__ == "__main__":
    print(report(carried(node_tests.cases()))[1])
