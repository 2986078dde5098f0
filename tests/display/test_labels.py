"""Words of pictures: in all drawings, from the smallest to an absurd size, none covers another and none is cut."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import pyopnb
import pyopnb.training.view  # it registers itself
from pyopnb.display.svg.text_width import text_width
from pyopnb.training.diff import TrainingDiff
from pyopnb.training.record import TrainingRecord

RNG = np.random.default_rng(6)
LONG = "a_name_that_somebody_exports/with/many/parts/" * 40
SVG = "{http://www.w3.org/2000/svg}"
Box = tuple[float, float, float, float, str]


def labels(svg: str) -> Iterator[Box]:
    """The boxes of all words: left, top, right, bottom."""
    root = ElementTree.fromstring(svg)
    rules = dict(re.findall(r"\.(t\d+)\{([^}]*)\}", svg))
    definitions = {one.get("id"): one for one in root.iter(f"{SVG}g") if one.get("id")}
    yield from _labels(root, 0, 0, rules, definitions)


def _labels(element: Any, x: float, y: float, rules: Any, definitions: Any) -> Iterator[Box]:
    for child in element:
        if child.tag == f"{SVG}defs":
            continue
        at = re.fullmatch(r"translate\(([-\d.]+),([-\d.]+)\)", child.get("transform", ""))
        if child.tag == f"{SVG}use":
            dx, dy = float(child.get("x", 0)), float(child.get("y", 0))
            drawn = definitions[child.get("href").removeprefix("#")]
            yield from _labels(drawn, x + dx, y + dy, rules, definitions)
        elif child.tag == f"{SVG}text":
            yield _box(child, x, y, rules[child.get("class")])
        elif at:
            dx, dy = map(float, at.groups())
            yield from _labels(child, x + dx, y + dy, rules, definitions)
        else:
            yield from _labels(child, x, y, rules, definitions)


def _box(text: Any, x: float, y: float, rule: str) -> Box:
    size = float(re.search(r"font-size:([\d.]+)px", rule)[1])
    # Widths are estimated rather too large, and letters are not as high as their font.
    width = text_width(text.text or "", size, bold="font-weight" in rule)
    left, baseline = x + float(text.get("x", 0)), y + float(text.get("y", 0))
    if "text-anchor:middle" in rule:
        left -= width / 2
    elif "text-anchor:end" in rule:
        left -= width
    return left, baseline - 0.7 * size, left + width, baseline + 0.15 * size, text.text


def check(svg: str) -> None:
    """No word leaves the picture or touches another."""
    width, height = map(float, re.search(r'width="(\d+)" height="(\d+)"', svg).groups())
    # Left to right, so that only neighbors have to be compared.
    boxes = sorted(labels(svg))
    assert boxes
    for left, top, right, bottom, text in boxes:
        assert left >= -1 and right <= width + 1, (text, left, right, width)
        assert top >= -1 and bottom <= height + 1, (text, top, bottom, height)
    for number, (_, top, right, bottom, text) in enumerate(boxes):
        for other in itertools.islice(boxes, number + 1, None):
            if other[0] >= right - 0.5:
                break
            assert other[1] >= bottom - 0.5 or other[3] <= top + 0.5, (text, other)


ARRAYS = {
    "five numbers": RNG.random(5),
    "few numbers": RNG.standard_normal(32) * 1e-7,
    "a curve": np.sin(np.arange(64)),
    "constant": np.full(50, 1234567.875),
    "huge": np.array([0, 1e300] * 20),
    "nearly equal": 1e9 + RNG.random(40),
    "a million": RNG.standard_normal(10**6).cumsum(),
    "with NaN and infinities": np.where(np.arange(9999) % 7, np.nan, np.inf),
    "channels": RNG.random((4000, 8)),
    "integers": np.array([-(2**63), 2**63 - 1] * 30),
    "a matrix": RNG.random((20, 30)),
    "thin": RNG.random((40, 3000)),
    "one column": RNG.random((17, 17, 1)),
    "a stack": RNG.random((2000, 20, 20)),
    "many axes": RNG.random((3, 2, 5, 2, 18, 18)),
    "a picture": RNG.random((3, 2000, 3000), np.float32),
    "bools": RNG.random((30, 30)) > 0.5,
    "an outlier": np.where(np.eye(100, k=3) > 0, 1e30, RNG.random((100, 100))),
    "complex": RNG.random((30, 40)) * 1j,
}


@pytest.mark.parametrize("what", list(ARRAYS))
@pytest.mark.parametrize("name", ["", LONG])
def test_arrays(what: str, name: str) -> None:
    check(pyopnb.show(ARRAYS[what], name=name).svg)


@pytest.mark.parametrize("shape", [(2,), (21,), (64,), (100_000,), (30, 40), (3, 5, 7, 30)])
@pytest.mark.parametrize("size", [1e-9, 1.0, 1e30])
def test_diffs_of_arrays(shape: tuple[int, ...], size: float) -> None:
    b = RNG.standard_normal(shape)
    check(pyopnb.show(pyopnb.diff(b + size * RNG.random(shape), b * (1 + size))).svg)


def chain(count: int, name: str) -> Any:
    lines = [f"t{n + 1} = Relu(t{n})" for n in range(count)]
    model = pyopnb.parse(f"(float[N] t0) => (float[N] t{count}) {{ {' '.join(lines)} }}")
    for node in model.graph.node:
        node.name = name + node.name
    return model


@pytest.mark.parametrize("count", [1, 10, 100])
@pytest.mark.parametrize("name", ["", LONG])
def test_models(count: int, name: str) -> None:
    model = chain(count, name)
    colors = {f"t{number + 1}": 10.0 ** (number % 30 - 15) for number in range(count)}
    marks = dict.fromkeys([f"t{number + 1}" for number in range(0, count, 3)], LONG)
    for options in ({}, {"colors": colors, "legend": LONG, "marks": marks, "unit": "s"}):
        check(pyopnb.show(model, **options).svg)


@pytest.mark.parametrize("count", [1, 10, 100])
@pytest.mark.parametrize("name", ["", LONG])
def test_diffs_of_models(count: int, name: str) -> None:
    a, b = chain(count, name), chain(count + 1, name)
    b.graph.node[0].op_type = "Abs"
    check(pyopnb.show(pyopnb.diff(a, b)).svg)


MODEL = "(float[N] x) => (float[N] y) { a = Abs(x)  y = Sqrt(a) }"


@pytest.fixture(scope="module")
def session() -> Any:
    return pyopnb.Session(pyopnb.parse(MODEL))


def test_runs(session: Any) -> None:
    x = np.linspace(-1, 1, 100).astype(np.float32)
    trace = session.trace(x=x, times=True)
    for found in (trace, pyopnb.profile(session, {"x": x}, runs=3)):
        check(pyopnb.show(found).svg)
        assert found.plot().axes
    check(pyopnb.show(pyopnb.diff(trace, session.trace(x=x + np.float32(0.1)))).svg)


@pytest.mark.parametrize("count", [2, 9, 300])
@pytest.mark.parametrize("length", [1, 50])
def test_sweeps(session: Any, count: int, length: int) -> None:
    found = pyopnb.sweep(session, x=[np.full(length, n, np.float32) for n in range(count)])
    check(pyopnb.show(found).svg)


@pytest.mark.parametrize("steps", [1, 2, 60, 20_000])
@pytest.mark.parametrize("metric", ["loss", LONG])
@pytest.mark.parametrize("size", [1e-12, 1.0, 1e12])
def test_trainings(steps: int, metric: str, size: float) -> None:
    losses = tuple((size * RNG.random(steps)).tolist())
    scores = tuple((step, size / step) for step in range(1, steps + 1, 50))
    marks = tuple((step, f"version {step} of {LONG}") for step in range(1, steps, 200))
    a = TrainingRecord("SGD()", metric, losses, losses, scores, marks)
    b = TrainingRecord("Adam()", "loss", losses[:3], losses[:3], scores[:1])
    for log in (None, True, False):
        for smooth in (None, 1, steps):
            found = TrainingDiff(a, b, pyopnb.diff(1.0, 2.0))
            check(pyopnb.show(found, log=log, smooth=smooth).svg)
