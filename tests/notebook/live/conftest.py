"""Cells whose outputs are inspected as a front end receives them."""

from __future__ import annotations

from textwrap import dedent

import pytest
from IPython.utils.capture import capture_output
from small_ops import soft_clip_cell

import pyopnb
from pyopnb.notebook.live import cells


class Page:
    """What a notebook would show: the outputs by display id."""

    def __init__(self, shell):
        self.shell, self.places, self.updates = shell, {}, 0

    def run(self, cell, ok=True):
        with capture_output() as captured:
            result = self.shell.run_cell(dedent(cell), store_history=True)
        assert result.success is ok, captured.stdout
        for output in captured.outputs:
            self.take(output.data, output.transient, output.update)
        assert "Error in callback" not in captured.stdout
        return result.result

    def take(self, data, transient, update):
        name = (transient or {}).get("display_id", f"fixed {len(self.places)}")
        self.updates += bool(update)
        self.places[name] = data

    @property
    def text(self):
        return list(self.places.values())[-1]["text/plain"]

    @property
    def html(self):
        return list(self.places.values())[-1]["text/html"]


@pytest.fixture(autouse=True)
def patience(monkeypatch):
    """A cell waits for its runs, however slow the machine is."""
    monkeypatch.setattr(cells, "PATIENCE", 60.0)


@pytest.fixture
def page(shell):
    page = Page(shell)
    page.run("import time, numpy as np, pyopnb")
    return page


@pytest.fixture
def clip(page):
    page.run(soft_clip_cell("np.float32(self.limit) * np.tanh(x / np.float32(self.limit))"))
    page.run(
        """
        model = pyopnb.model([pyopnb.node("demo::SoftClip", "x", "y", limit=2.0)], {"x": "float32[N]"}, "y")
        session = pyopnb.Session(model)
        x = np.float32([-4, 0, 1, 8])
        """
    )
    return page


@pytest.fixture
def redefine(page):
    return lambda body, ok=True: page.run(soft_clip_cell(body), ok)


@pytest.fixture
def listeners():
    return lambda: len(pyopnb.registry._listeners)
