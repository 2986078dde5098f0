"""A diff of few numbers as a table, and one of arrays with one axis as curves."""

from __future__ import annotations

import math

import numpy as np

from pyopnb.common import Table
from pyopnb.diffs import array_diffs
from pyopnb.display.array_look import Limits
from pyopnb.display.svg.chart import Chart
from pyopnb.display.svg.line_chart import line_chart
from pyopnb.engine import TensorType

__all__ = ["curve_charts", "pairs_table"]

_SIZE, _DIFFERENCE_SIZE = (480, 160), (480, 90)


def pairs_table(part: array_diffs.Part, pairs: array_diffs.Pairs, labels: tuple[str, str]) -> str:
    """Write the few numbers of both as a table, and mark the ones outside the tolerance."""
    sizes = [size for size in TensorType.read(part.a).shape or () if isinstance(size, int)]
    rows = []
    for number, position in enumerate(pairs.positions):
        index = tuple(int(at) for at in np.unravel_index(position, sizes)) if sizes else ()
        difference = pairs.difference[number]
        mark = away = ""
        if difference is None:
            mark = "✗"
        elif difference:
            away = array_diffs.format_number(difference)
            # For complex numbers the tolerance is a part of the modulus.
            allowed = part.floor + part.rtol * abs(complex(_plain(pairs.b[number])))
            mark = "✗"
            if abs(difference) <= allowed < math.inf:
                mark = "≈"
        rows.append((mark, array_diffs.format_index(index), pairs.a[number], pairs.b[number], away))
    return Table(("", "index", *labels, "a-b"), rows)._repr_html_()


def _plain(text: str) -> str:
    """Write bools as numbers."""
    return {"True": "1", "False": "0"}.get(text, text)


def curve_charts(
    pairs: array_diffs.Pairs,
    labels: tuple[str, str],
    axis: Limits | None = None,
    errors: Limits | None = None,
) -> list[Chart]:
    """Draw both curves over each other, and their difference below; nothing for few numbers.

    Parameters
    ----------
    axis, errors : (float, float), optional
        The ends of the two upright axes.
    """
    if len(pairs.positions) <= array_diffs.FEW:
        return []
    # b is the reference; a has the color that a curve has alone.
    a, b = labels
    curves = {
        a: [float(_plain(text)) for text in pairs.a],
        b: [float(_plain(text)) for text in pairs.b],
    }
    both = line_chart(
        pairs.positions, curves, "a and b", label="index", limits=axis, dashed=(b,), size=_SIZE
    )
    marks: list[tuple[float, str]] = []
    difference = []
    for position, away in zip(pairs.positions, pairs.difference, strict=True):
        difference.append(math.nan if away is None else away)
        if away is None and not marks:
            # A gap alone would not be seen.
            marks.append((position, f"NaN on one side at {position:,}"))
    errors_chart = line_chart(
        pairs.positions,
        {"a-b": difference},
        "a-b",
        label="index",
        marks=marks,
        limits=errors,
        size=_DIFFERENCE_SIZE,
    )
    return [both, errors_chart]
