"""Profiles as graphs and tables."""

from __future__ import annotations

import re

import numpy as np
import pytest

import pyopnb
from pyopnb.traces.node_times import Profile


@pytest.fixture(scope="module")
def found() -> Profile:
    @pyopnb.pyop("profiles::Sorted")
    class Sorted:
        def compute(self, x):
            return np.sort(x)

    model = pyopnb.parse(
        "(float[N] x, bool c) => (float[N] y) { a = Exp(x)  i = If (c) <then_branch = yes () => (float[N] t) { t = profiles.Sorted(a) },"
        " else_branch = no () => (float[N] e) { e = Neg(a) }>  y = profiles.Sorted(i) }"
    )
    x = np.random.default_rng(0).standard_normal(20_000, np.float32)
    return pyopnb.profile(pyopnb.Session(model), x=x, c=True, runs=2, warmup=0)


def text_of(html: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", html))


def test_tables_and_a_graph_in_the_colors_of_times(found):
    view = pyopnb.show(found)
    text = text_of(view.body)
    assert "not attributed to a node" in text and "3 op types" in text and "<img" in view.body
    assert re.search(r"the whole run 100\.0 %", text)
    colors = {node.output[0]: color for node, _, color, _ in view.canvas.nodes}
    assert (
        set(colors) >= {"a", "i", "y"}
        and all(colors[name] for name in "aiy")
        and view.canvas.legend == "median time"
    )


def test_it_is_saved_as_a_page_and_a_picture(found, tmp_path):
    for name in ("x.html", "x.svg"):
        found.save(tmp_path / name)
        assert (tmp_path / name).stat().st_size > 2_000
    with pytest.raises(pyopnb.errors.InputError, match="save, Profile"):
        found.save(tmp_path / "x.json")
