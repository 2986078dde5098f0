"""ONNX's own operators, lowered from the NumPy of their reference implementation."""

from __future__ import annotations

import pytest
from reference_ops import outcomes, report

LEAST = 60
"""Operators that become others and pass all of their node tests."""


@pytest.mark.everywhere
def test_most_references_become_other_operators_and_none_gives_a_wrong_number():
    found = outcomes()
    print(report(found))
    assert sum(outcome.whole for outcome in found.values()) >= LEAST
    wrong = {
        case: why
        for outcome in found.values()
        for case, why in outcome.failed.items()
        if "Not equal to tolerance" in why
    }
    assert not wrong
