"""Sequences, maps and results, walked through in pairs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pyopnb
from pyopnb import diff
from pyopnb.diffs.arrays.diff import Diff
from pyopnb.diffs.arrays.parts import named
from pyopnb.diffs.tolerances import DEFAULT, SCALED, Tolerances

ONE, TWO = np.float32([1, 2]), np.float32([1, 3])


def found(a: Any, b: Any, **tolerances: Any) -> list[tuple[str, str]]:
    return [(part.name, part.verdict) for part in diff(a, b, **tolerances).parts]


def test_paths() -> None:
    a = {"y": ONE, "out": [ONE, {"k": ONE, 3: None}]}
    b = {"out": [ONE, {"k": TWO, 3: None}], "y": ONE}
    assert found(a, b) == [
        ("y", "bit-identical"),
        ("out[0]", "bit-identical"),
        ("out[1]['k']", "different"),
        ("out[1][3]", "bit-identical"),
    ]
    assert diff(a, b).worst.path == ("out", 1, "k")


def test_results_by_name() -> None:
    a, b = pyopnb.Result({"y": ONE, "z": TWO}), pyopnb.Result({"z": TWO, "y": ONE})
    assert diff(a, b).verdict == "bit-identical"
    assert diff(a, {"y": ONE, "z": TWO}).verdict == "bit-identical"
    assert found(a, pyopnb.Result({"y": ONE, "w": TWO})) == [
        ("y", "bit-identical"),
        ("z", "incomparable"),
        ("w", "incomparable"),
    ]
    assert "only in b: float32[2]" in str(diff(a, pyopnb.Result({"y": ONE, "w": TWO})))


def test_what_is_missing_at_the_end() -> None:
    assert found([ONE], [ONE, TWO]) == [("[0]", "bit-identical"), ("[1]", "incomparable")]
    assert found({}, {}) == [("", "bit-identical")]
    assert found({}, {"y": ONE}) == [("y", "incomparable")]
    assert found([None], [ONE]) == [("[0]", "incomparable")]


def test_a_value_that_holds_itself() -> None:
    around: list[Any] = []
    around.append(around)
    assert diff(around, around).verdict == "incomparable"


@pytest.mark.parametrize("other", [object(), {1, 2}, lambda: 0, [ONE, object()]])
def test_what_is_no_value_of_a_model(other: Any) -> None:
    with pytest.raises(pyopnb.errors.InputError, match="diff, a.*expected an array"):
        diff(other, [ONE, ONE])


@pytest.mark.parametrize("wrong", [-1.0, float("nan"), float("inf"), "1"])
@pytest.mark.parametrize("name", ["rtol", "atol"])
def test_tolerances_that_are_none(name: str, wrong: Any) -> None:
    with pytest.raises(pyopnb.errors.InputError, match=f"diff, {name}"):
        diff(ONE, ONE, **{name: wrong})
    with pytest.raises(pyopnb.errors.InputError):
        diff(ONE, ONE).judged(**{name: wrong})


def test_tolerance_of_each_dtype() -> None:
    exact = (0.0, 0.0, 0.0)
    assert DEFAULT.of("bfloat16") == (1.6e-2, 1e-5, 0.0)
    assert DEFAULT.of("float8_e5m2") == DEFAULT.of("int64") == exact
    assert Tolerances(0.25).of("float8_e5m2") == (0.25, 0.0, 0.0)
    assert Tolerances(1, 1, 1).of("string") == SCALED.of("int8") == exact
    assert SCALED.of("float16") == (1e-3, 1e-5, 1e-3)
    assert Tolerances(stol=0.5).of("float16") == (0.0, 0.0, 0.5)
    assert Tolerances(0.5, stol=True).of("float16") == (0.5, 0.0, 1e-3)
    assert found({"y": ONE, "n": np.int64([5])}, {"y": TWO, "n": np.int64([6])}, rtol=1.0) == [
        ("y", "close"),
        ("n", "different"),
    ]


def test_hostile_names() -> None:
    for name in ("<script>", '"\n\x1b[31m', "n" * 10_000):
        made = diff({name: ONE}, {name: TWO})
        assert len(str(made)) < 2000 and "\x1b" not in str(made)
        assert "<script>" not in made._repr_html_()
        assert Diff.from_json(made.to_json()) == made
    assert named(("n\x00", "'")) == 'n\\x00["\'"]'
