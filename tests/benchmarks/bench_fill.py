"""How many of the ONNX node tests load and pass, without and with ``fill``: figures by reason, not seconds."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from table import Row

sys.path.append(str(Path(__file__).parent.parent / "onnx_reference"))

import node_tests

LEAST = 1700


def rows() -> Iterator[Row]:
    report = node_tests.report(node_tests.cases())
    plain, filled = (
        sum(wrong is None for wrong in way.values()) for way in (report.plain, report.filled)
    )
    yield Row(
        "ONNX's node tests that load and pass with fill",
        str(filled),
        f"{plain} plain onnxruntime",
        filled,
        LEAST,
        least=True,
    )
    yield Row(
        "… that pass without it and fail with it", str(len(report.worse)), "", len(report.worse), 0
    )
    print(f"\n{report}\n", file=sys.stderr)
