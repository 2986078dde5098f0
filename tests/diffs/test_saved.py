"""Saved diffs: what is read is what was written, and what somebody broke is refused."""

from __future__ import annotations

import copy
import json
from functools import cache
from typing import Any

import numpy as np
import pytest

import pyopnb
from pyopnb.__main__ import main
from pyopnb.diffs.arrays.stats import ArrayStats

_NET = """(float[N,3] x) => (float[N,3] z) { y = %s(x)  z = Abs(y) }"""


@cache
def saved() -> tuple[tuple[type, str], ...]:
    """A diff of each kind, as JSON."""
    random = np.random.default_rng(0)
    a = random.normal(size=(9, 7, 3)).astype(np.float32)
    b = a + random.normal(size=a.shape).astype(np.float32) * 1e-3
    b[0, 0, 0], b[1, 1, 1], b[2, 2, 2] = np.nan, 0, np.inf
    arrays = pyopnb.diff(
        {"a": a, "i": np.arange(9), "s": np.array(["x"], object)},
        {"a": b, "i": np.arange(1, 10), "s": np.array(["y"], object)},
    )
    one, other = (pyopnb.parse(_NET % op) for op in ("Sin", "Tanh"))
    traces = pyopnb.diff(
        *(pyopnb.trace(model, x=np.ones((2, 3), np.float32)) for model in (one, other))
    )
    models = pyopnb.diff(one, other)
    return tuple((type(found), found.to_json()) for found in (arrays, traces, models))


def paths(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    return [at, *(path for key, inner in items for path in paths(inner, (*at, key)))]


def put(document: Any, path: tuple[Any, ...], value: Any) -> Any:
    document = copy.deepcopy(document)
    at = document
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    return document


@pytest.mark.parametrize("corner", [[-1.0, 1.0], [0, 1.0], [1.0, -1.0], ["NaN", 1.0]])
def test_corners_are_above_zero(
    corner: list[Any], tmp_path: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    kind, text = saved()[0]
    damaged = json.dumps(
        put(json.loads(text), ("parts", 0, "facts", "frontier", "corners"), [corner])
    )
    with pytest.raises(
        pyopnb.errors.InputError,
        match=r"Diff.from_json: expected what to_json wrote, got ValueError: corners",
    ):
        kind.from_json(damaged)
    (tmp_path / "diff.json").write_text(damaged)
    assert main(["diff", str(tmp_path / "diff.json")]) == 2
    assert "Diff.from_json: expected what to_json wrote" in capsys.readouterr().err


def test_a_text_is_no_list_of_its_letters() -> None:
    refused = 0
    for kind, text in saved():
        document = json.loads(text)
        for path in paths(document):
            at = document
            for key in path:
                at = at[key]
            if isinstance(at, list):
                refused += 1
                with pytest.raises(
                    pyopnb.errors.InputError,
                    match="expected what to_json wrote, got (TypeError|ValueError|KeyError)",
                ):
                    kind.from_json(json.dumps(put(document, path, "x" * 10_000)))
    assert refused > 40


def test_all_facts_are_saved() -> None:
    kind, text = saved()[0]
    facts = json.loads(text)["parts"][0]["facts"]
    assert facts.keys() == ArrayStats.__dataclass_fields__.keys()
    for part in kind.from_json(text).parts:
        again = kind.from_json(text)
        assert part in again.parts
    assert kind.from_json(text).to_json() == text
