"""A notebook as its user meets it: the tutorial, outputs that live, the debugger, completion, and what stays when it is saved."""

from __future__ import annotations

import shutil
from pathlib import Path

import nbformat
import pytest
from lab import lab, tab, write_notebook
from playwright.sync_api import expect

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"

SETUP = """\
%load_ext pyopnb
import numpy as np
import pyopnb
"""
OP = """\
%%pyop -d demo
class SoftClip:
    def __init__(self, limit: float = 1.0):
        self.limit = limit

    def compute(self, x):
        bent = {}
        return bent.astype(np.float32)
"""
TANH = "self.limit * np.tanh(x / self.limit)"
SLOWER = "x / (1 + np.abs(x) / self.limit)"
FLAT = "np.clip(x, -self.limit, self.limit)"

MODEL = """\
model = pyopnb.parse("(float[N] x) => (float[N] y) { a = Abs(x)  y = demo.SoftClip<limit = 2.0>(a) }")
session = pyopnb.Session(model)
x = np.float32([-0.5, 1, -8])
"""
WATCH = "w = pyopnb.watch(session, x=x)\nw"
INTERACT = "i = pyopnb.interact(session, x=x, limit=(0.5, 6.5))\ni"
LIVE = (SETUP, OP.format(TANH), MODEL, WATCH, INTERACT)
SHOWN = ("pyopnb.show(model)", "pyopnb.diff(session.trace(x=x), session.trace(x=2 * x))", "session.trace(x=x)")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    root = tmp_path_factory.mktemp("root")
    shutil.copy(NOTEBOOKS / "00_first_op.ipynb", root)
    for name in ("watch", "interact", "debugger"):
        write_notebook(root / f"{name}.ipynb", *LIVE)
    write_notebook(root / "saved.ipynb", *LIVE, *SHOWN)
    with lab(root, base_url="/user/alice/") as started:
        yield started


@pytest.fixture
def page(chromium, server):
    with tab(chromium, server) as opened:
        yield opened
        assert not opened.blocked, opened.blocked
        assert not opened.complaints, opened.complaints


def test_the_first_tutorial_runs_and_options_are_completed(page):
    page.open_notebook("00_first_op.ipynb")
    page.run_all()
    assert page.errors() == []
    assert page.never_run() == []
    page.screenshot("tutorial-00")

    page.command("notebook:insert-cell-below")
    page.page.keyboard.press("Enter")
    page.page.keyboard.type("%%pyop --d")
    page.page.keyboard.press("Tab")
    offered = page.page.locator(".jp-Completer-item")
    page.screenshot("completion")


def test_a_watch_follows_an_edit_and_shows_what_it_raises(page):
    page.open_notebook("watch.ipynb")
    page.run_all()
    watched, cell = page.output(3), page.output(1)
    expect(watched).to_contain_text("version 1")
    expect(watched).to_contain_text("1.9987")
    page.edit(1, OP.format(SLOWER))
    page.run(1)
    expect(watched).to_contain_text("version 2")
    page.screenshot("watch-edited")


def test_a_slider_moves_the_result(page):
    page.open_notebook("interact.ipynb")
    page.run_all()
    shown = page.output(4)
    handle = shown.locator(".noUi-handle")
    handle.press("ArrowRight")
    page.screenshot("interact")


def test_saved(page, server):
    page.open_notebook("saved.ipynb")
    page.run_all()
    page.screenshot("saved-live")
    page.save()
    page.shut_down()
    page.screenshot("saved-shut-down")
    page.open_notebook("saved.ipynb", kernel=False)
    print(page.trusted(5))
    page.screenshot("saved-trusted")
