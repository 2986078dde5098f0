"""`pyopnb.grad` of ONNX's own node tests: each gradient is right or refused."""

import importlib
import re
import warnings
from collections import Counter
from importlib.metadata import version
from pathlib import Path

import onnx.backend.test.case.node as node_cases
import pytest
from node_gradients import OUTCOMES, outcome, survey
from node_tests import cases
from onnx_ad.rules import REVERSE

SAMPLE = (
    *(
        "affinegrid",
        "clip",
        "cumsum",
        "gelu",
        "gemm",
        "groupnormalization",
        "lpnormalization",
        "maxpool",
        "onehot",
        "pow",
    ),
    *("rangeop", "softplus", "where"),
)
"""Modules of onnx: to make the tests of all of them takes longer than to judge these."""
EACH = 2


def sample(modules, each=EACH):
    """Some tests of some operators, not those written out as functions."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some of ONNX's cases divide by zero while they are made
        for module in modules:
            importlib.import_module(f"{node_cases.__name__}.{module}")
    found = {}
    for module in modules:
        start = {
            "affinegrid": "affine_grid",
            "groupnormalization": "group_normalization",
            "rangeop": "range",
        }.get(module, module)
        cases = [
            case for case in node_cases._NodeTestCases if case.name.startswith(f"test_{start}")
        ]
        assert cases, module
        chosen = [case for case in cases if "_expanded" not in case.name][:each]
        found.update({case.name: case for case in chosen})
    return found


def test_a_sample():
    found = survey(sample(SAMPLE))
    assert not {name: rows for name, rows in found.items() if outcome(rows) == "wrong"}
    right = [name for name, rows in found.items() if outcome(rows) == "right"]
    assert len(right) >= 15, found


def test_a_gradient_that_is_wrong_is_found(monkeypatch):
    rule = REVERSE["Softplus"]

    def twice(ctx, node, grads):
        return [ctx.b.op("Add", [grad, grad]) for grad in rule(ctx, node, grads)]

    monkeypatch.setitem(REVERSE, "Softplus", twice)
    found = survey(sample(["softplus"]))
    assert found
    assert {outcome(rows) for rows in found.values()} == {"wrong"}


def test_kinks_are_no_derivatives_and_a_refusal_is_told():
    found = survey(sample(["det", "maxunpool", "onehot", "spacetodepth"], 10))
    refused = {
        "test_det_2d",
        "test_maxunpool_export_with_output_shape",
        "test_spacetodepth_crd_mode_example",
    }
    assert {name: outcome(found[name]) for name in refused & set(found)} == dict.fromkeys(
        refused & set(found), "refused"
    )
    values = {row.input: row.outcome for row in found["test_onehot_with_axis"]}
    assert values["values"] == "refused"


@pytest.mark.everywhere  # many minutes
@pytest.mark.one_python
def test_all_of_them():
    """None is wrong, and with the versions that the page names the counts are the page's."""
    found = survey(cases())
    counts = Counter(outcome(rows) for rows in found.values())
    assert not counts["wrong"], {
        name: rows for name, rows in found.items() if outcome(rows) == "wrong"
    }
    page = (Path(__file__).parents[2] / "docs/how_to/gradients.md").read_text()
    named = dict(re.findall(r"(onnx|onnx-ad|onnxruntime|NumPy) (\d+\.\d+\.\d+)", page))
    assert len(named) == 4
    if all(version(package.lower()) == number for package, number in named.items()):
        told = {kind: int(count) for kind, count in re.findall(r"\| ([a-z ]+) \| (\d+) \|", page)}
        assert told == {kind: counts[kind] for kind in OUTCOMES}
