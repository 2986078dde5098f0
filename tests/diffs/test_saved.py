"""Saved diffs of every kind: they read back as written, and broken ones are refused."""

from __future__ import annotations

import copy
import json
import math
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_ops import soft_clip_source

import pyopnb
from pyopnb.diffs.arrays.stats import ArrayStats
from pyopnb.errors import InputError

pytestmark = pytest.mark.one_python  # of our own reading and writing

NET = "(float[N,3] x) => (float[N,3] z) { y = %s(x)  z = Abs(y) }"
KINDS = ["arrays", "traces", "models", "ops", "profiles"]


@cache
def diffs() -> dict[str, Any]:
    """Make a diff of each kind, with numbers in it that JSON does not have."""
    random = np.random.default_rng(0)
    a = random.normal(size=(9, 7, 3)).astype(np.float32)
    b = a + random.normal(size=a.shape).astype(np.float32) * 1e-3
    b[0, 0, 0], b[1, 1, 1], b[2, 2, 2] = np.nan, 0, np.inf
    texts = [np.array([text], object) for text in "xy"]
    arrays = pyopnb.diff(
        {"a": a, "i": np.arange(9), "s": texts[0], "n": np.uint64([2**64 - 1])},
        {"a": b, "i": np.arange(1, 10), "s": texts[1], "n": np.uint64([0])},
    )
    log = pyopnb.parse("(float[N] x) => (float[N] y) { a = Log(x)  y = Neg(a) }")
    runs = [pyopnb.trace(log, x=np.float32(x)) for x in ([0, -1, 1], [0, 1, 1])]
    versions = []
    for source in (soft_clip_source("x"), soft_clip_source("-x").replace("1.0", "2.0")):
        names: dict[str, Any] = {}
        exec(source, names)
        version = pyopnb.registry.define(names["SoftClip"], "demo::SoftClip", source=source)
        versions.append(version)
    nets = [pyopnb.parse(NET % op) for op in ("Sin", "Tanh")]
    x = np.ones((2, 3), np.float32)
    profiles = [pyopnb.profile(pyopnb.Session(net), x=x, runs=2, warmup=0) for net in nets]
    return {
        "arrays": arrays,
        "traces": pyopnb.diff(*runs),
        "models": pyopnb.diff(*nets),
        "ops": pyopnb.diff(*versions),
        "profiles": pyopnb.diff(*profiles),
    }


def read(kind: str, document: Any) -> Any:
    text = document if isinstance(document, str) else json.dumps(document)
    return type(diffs()[kind]).from_json(text)


def paths(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """List the places in a JSON document."""
    items: Any = ()
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    return [at, *(path for key, inner in items for path in paths(inner, (*at, key)))]


def value_at(document: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        document = document[key]
    return document


def put(document: Any, path: tuple[Any, ...], value: Any) -> Any:
    document = copy.deepcopy(document)
    value_at(document, path[:-1])[path[-1]] = value
    return document


@pytest.mark.parametrize("kind", KINDS)
def test_json_is_strict_and_reads_back(kind: str) -> None:
    found = diffs()[kind]
    held = json.loads(found.to_json(), parse_constant=lambda name: pytest.fail(name))
    assert held["version"] == 1 and held["format"].startswith("pyopnb.")
    again = read(kind, found.to_json())
    assert again == found and str(again) == str(found) and again.to_json() == found.to_json()


def test_all_numbers_are_saved() -> None:
    parts = json.loads(diffs()["arrays"].to_json())["parts"]
    assert parts[0]["facts"].keys() == ArrayStats.__dataclass_fields__.keys()
    assert parts[3]["facts"]["largest"] == 2**64 - 1
    assert parts[3]["facts"]["snr"] == "-Infinity"
    traces = diffs()["traces"]
    assert read("traces", traces.to_json()).steps[0].accumulated == math.inf


@pytest.mark.parametrize("kind", KINDS)
def test_a_document_of_another_shape_is_refused(kind: str) -> None:
    """A text is no list of its letters, and no number is a text."""
    document = json.loads(diffs()[kind].to_json())
    refused = 0
    for path in paths(document):
        if isinstance(value_at(document, path), list):
            refused += 1
            with pytest.raises(
                InputError, match=r"from_json: expected .*got (Type|Value|Key)Error"
            ):
                read(kind, put(document, path, "x" * 10_000))
    assert refused
    for changes in ({"format": "x"}, {"version": 2}):
        with pytest.raises(InputError, match="from_json: expected"):
            read(kind, document | changes)


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("ops", {"source": [3]}),
        ("ops", {"same_code": "yes"}),
        ("models", {"changes": [{}]}),
        ("models", {"nodes": [1]}),
        ("profiles", {"nodes": [{}]}),
        ("traces", {"tensors": []}),
        ("traces", {"runs": "many"}),
        ("traces", {"steps": [{}]}),
    ],
)
def test_fields_that_do_not_fit_are_refused(kind: str, changes: dict[str, Any]) -> None:
    document = json.loads(diffs()[kind].to_json())
    with pytest.raises(InputError, match="from_json: expected"):
        read(kind, document | changes)


@pytest.mark.parametrize("corner", [[-1.0, 1.0], [0, 1.0], [1.0, -1.0], ["NaN", 1.0]])
def test_corners_are_above_zero(corner: list[Any]) -> None:
    document = json.loads(diffs()["arrays"].to_json())
    damaged = put(document, ("parts", 0, "facts", "frontier", "corners"), [corner])
    with pytest.raises(InputError, match=r"Diff.from_json: .*got ValueError: corners"):
        read("arrays", damaged)


@settings(max_examples=60)
@given(st.sampled_from(KINDS), st.data())
def test_damaged_json_is_refused_or_read(kind: str, data: st.DataObject) -> None:
    text = diffs()[kind].to_json()
    place = data.draw(st.integers(0, len(text) - 1))
    typed = data.draw(st.sampled_from(["", '"', "0", "null", "{", "]", "-", "x"]))
    try:
        again = read(kind, text[:place] + typed + text[place + 1 :])
    except InputError:
        return
    assert isinstance(str(again), str)
