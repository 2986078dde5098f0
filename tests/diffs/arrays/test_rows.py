"""Rows in another order, and rows that only pad."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pyopnb
from pyopnb import diff
from pyopnb.errors import InputError

RNG = np.random.default_rng(8)
BOXES = RNG.random((6, 4)).astype(np.float32) * 100
SCORES = RNG.random(6).astype(np.float32)
LABELS = np.int64([3, 1, 1, 2, 0, 7])
TABLE = {"boxes": BOXES, "scores": SCORES, "labels": LABELS}
ORDER = [3, 1, 5, 0, 2, 4]


def turned(**changed: Any) -> dict[str, np.ndarray]:
    return {name: array[ORDER] for name, array in {**TABLE, **changed}.items()}


def test_rows_in_another_order_are_the_same() -> None:
    assert diff(BOXES, BOXES[ORDER]).verdict == "different"
    assert diff(BOXES, BOXES[ORDER], rows="set").verdict == "bit-identical"
    assert diff(turned(), TABLE, rows="set").verdict == "bit-identical"
    assert diff(BOXES[None], BOXES[ORDER][None], rows="set").verdict == "bit-identical"
    near = BOXES[ORDER] * np.float32(1 + 1e-6)
    assert diff(near, BOXES, rows="set").verdict == "close"


def test_the_diff_says_how_many_rows_are_elsewhere() -> None:
    padded = np.concatenate([BOXES[ORDER], np.zeros((4, 4), np.float32)])
    found = diff(padded, BOXES, rows="set")
    assert found.rows == "in another order, 5 of 6 moved; 4 of padding left out"
    assert str(found).splitlines()[1] == f"rows: {found.rows}"
    assert f"rows: {found.rows}" in found._repr_html_()
    assert type(found).from_json(found.to_json()) == found
    assert found.judged(rtol=0).rows == found.rows
    swapped = BOXES[[1, 0, 2, 3, 4, 5]]
    assert diff(swapped, BOXES, rows="set").rows == "in another order, 2 of 6 moved"
    wrong = {**turned(), "labels": LABELS}
    assert "rows: in another order, 5 of 6 moved" in str(diff(wrong, TABLE, rows="set"))
    # Equal rows are not moved, and without the order of rows there is nothing to say.
    for same in (BOXES, np.ones((3, 2)), np.zeros((0, 2))):
        assert diff(same, same, rows="set").rows == "" == diff(same, same).rows


def test_the_rows_of_several_arrays_belong_together() -> None:
    # Each array alone has the same rows.
    other = {**TABLE, "labels": LABELS[ORDER]}
    found = diff(other, TABLE, rows="set")
    assert [part.verdict for part in found.parts] == ["bit-identical", "bit-identical", "different"]


def test_a_row_that_differs_is_named() -> None:
    boxes = BOXES.copy()
    boxes[2, 1] += 1
    found = diff(turned(boxes=boxes), TABLE, rows="set")
    assert found.verdict == "different"
    assert found.parts[0].facts.worst[0].index == (2, 1)


@pytest.mark.parametrize("filler", [0, -1, np.nan])
def test_padding_is_left_out(filler: float) -> None:
    padding = np.full((4, 4), filler, np.float32)
    padded = np.concatenate([BOXES[ORDER], padding])
    for sides in ((padded, BOXES), (BOXES, padded)):
        assert diff(*sides, rows="set").verdict == "bit-identical"
    assert diff(padded, padded[::-1], rows="set").verdict == "bit-identical"


def test_a_row_more_is_no_padding() -> None:
    more = np.concatenate([BOXES, np.float32([[1, 2, 3, 4]])])
    assert diff(more, BOXES, rows="set").verdict == "incomparable"
    assert diff(np.float32([1, 2, 0.5]), np.float32([2, 1]), rows="set").verdict == "incomparable"
    assert diff(np.float32([1, 2, 0]), np.float32([2, 1]), rows="set").verdict == "bit-identical"


@pytest.mark.parametrize(
    "array",
    [
        np.array(["a", "b", "b"], object),
        np.float32([np.nan, np.inf, -np.inf]),
        np.uint8([0, 200, 255]),
        np.int64([2**62, -(2**62), 0]),
        np.complex64([1j, 1, 2]),
        np.array([True, False, True]),
        np.zeros((0, 4), np.float32),
        np.float16([1, 2, 3]),
    ],
)
def test_every_dtype(array: np.ndarray) -> None:
    assert diff(array[::-1], array, rows="set").verdict == "bit-identical"
    wrong = {"O": np.array(["a", "b", "c"], object)}.get(array.dtype.kind, array[:1].repeat(3, 0))
    if len(array):
        assert not diff(wrong, array, rows="set").ok


@pytest.mark.parametrize(
    ("sides", "rows", "message"),
    [
        ((BOXES, BOXES), "bag", "diff, rows: expected \"set\", got 'bag'"),
        ((np.float32(1), np.float32(1)), "set", "diff, a, rows: expected arrays with equally many"),
        (({"x": BOXES, "y": SCORES[:2]}, TABLE), "set", "diff, a, rows: expected arrays with"),
    ],
)
def test_what_is_refused(sides: Any, rows: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        diff(*sides, rows=rows)


def test_models_and_runs_have_no_rows() -> None:
    model = pyopnb.parse("(float[N] x) => (float[N] y) { y = Abs(x) }")
    run = pyopnb.trace(model, x=SCORES)
    for sides in ((model, model), (run, run), (run, {"y": SCORES})):
        with pytest.raises(InputError, match="rows: expected"):
            diff(*sides, rows="set")
