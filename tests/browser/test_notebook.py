"""A notebook in the browser: the tutorial, live outputs, the debugger, completion, and the saved notebook."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import nbformat
import pytest
from lab import write_notebook
from playwright.sync_api import expect

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"

SETUP = """\
%load_ext pyopnb
import numpy as np
import pyopnb"""
OP = """\
%%pyop -d demo
class SoftClip:
    def __init__(self, limit: float = 1.0):
        self.limit = limit

    def compute(self, x):
        clipped = {}
        return clipped.astype(np.float32)"""
TANH = "self.limit * np.tanh(x / self.limit)"
SLOWER = "x / (1 + np.abs(x) / self.limit)"
FLAT = "np.clip(x, -self.limit, self.limit)"

MODEL = """\
model = pyopnb.parse("(float[N] x) => (float[N] y) { a = Abs(x)  b = demo.SoftClip<limit = 2.0>(a)  c = Neg(b)  y = Mul(c, a) }")
session = pyopnb.Session(model)
x = np.float32([-0.5, 1, -8])"""
WATCH = "w = pyopnb.watch(session, x=x)\nw"
INTERACT = "i = pyopnb.interact(session, x=x, limit=(0.5, 6.5, 0.1))\ni"
LIVE = (SETUP, OP.format(TANH), MODEL, WATCH, INTERACT)
OPS, WATCHED, MOVED = 1, 3, 4

SHOWN = (
    "pyopnb.show(model)",
    "before = session.trace(x=x)\nbefore",
    OP.format(SLOWER),
    "pyopnb.diff(before, session.trace(x=x))",
    "pyopnb.netron(model)",
)
DIFF = 8
TYPO = "AttributeError: 'SoftClip' object has no attribute 'limits'"  # which the first tutorial makes on purpose
MORE = (
    "pyopnb.diff(model, pyopnb.parse('(float[N] x) => (float[N] y) { a = Abs(x)  b = Relu(a)  y = Mul(b, a) }'))",
    "pyopnb.diff(session(x=x), session(x=x * 2))",
    "pyopnb.sweep(session, x=x, limit=np.linspace(1, 6, 4))",
    "%pyop history SoftClip",
)
SPLIT = """\
area => {
    const split = [];
    area.querySelectorAll('details').forEach(fold => { fold.open = true });
    const texts = document.createTreeWalker(area, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
        for (const word of texts.currentNode.data.matchAll(/[\\p{L}\\p{N}_]+/gu)) {
            const range = document.createRange();
            range.setStart(texts.currentNode, word.index);
            range.setEnd(texts.currentNode, word.index + word[0].length);
            const lines = [...range.getClientRects()].filter(({width}) => width).map(({top}) => Math.round(top));
            if (new Set(lines).size > 1) {
                split.push(word[0]);
            }
        }
    }
    return split;
}"""  # the words of an output that begin on one line and end on another
NODES = 6  # Netron draws inputs and outputs as nodes too


def write_files(root):
    for name in ("first", "notebook7"):  # two copies, because a kernel outlives its page
        shutil.copy(NOTEBOOKS / "00_first_op.ipynb", root / f"{name}.ipynb")
    for name in ("watch", "debugger"):
        write_notebook(root / f"{name}.ipynb", *LIVE)
    for name in ("saved", "live7"):
        write_notebook(root / f"{name}.ipynb", *LIVE, *SHOWN)
    write_notebook(root / "narrow.ipynb", *LIVE, *SHOWN[:-1], *MORE)


def test_the_first_tutorial_runs_and_options_are_completed(page):
    page.open_notebook("first.ipynb")
    page.run_all()
    page.expect(page.errors, [TYPO])
    page.screenshot("notebook-tutorial")

    page.command("notebook:insert-cell-below")
    page.command("notebook:enter-edit-mode")
    editor = page.page.locator(".jp-Notebook .jp-Cell.jp-mod-active .cm-content")
    expect(editor).to_be_focused()
    page.page.keyboard.type("%%pyop --")
    expect(editor).to_have_text("%%pyop --")
    page.page.keyboard.press("Tab")
    offered = page.page.locator(".jp-Completer-item .jp-Completer-match")
    expect(offered.filter(has_text=re.compile("^--domain$"))).to_be_visible()
    expect(offered.filter(has_text=re.compile("^--run$"))).to_be_visible()
    names = offered.all_inner_texts()
    assert all(name.startswith("--") and name[2:].islower() for name in names), (
        names
    )  # no Python names
    page.screenshot("notebook-completion")


def test_a_watch_follows_an_edit_shows_what_it_raises_and_ends_with_its_cell(page):
    page.open_notebook("watch.ipynb")
    page.command("application:toggle-left-area")
    page.run_all()
    watched = page.output(WATCHED)
    expect(watched).to_contain_text("SoftClip version 1")
    expect(watched).to_contain_text("-15.99")
    count = page.count(WATCHED)

    page.edit(OPS, OP.format(SLOWER))
    page.run(OPS)
    expect(watched).to_contain_text("SoftClip version 2")
    expect(watched).to_contain_text("-12.8")
    expect(watched).to_contain_text(re.compile("against the previous run.*✗ different"))
    assert page.count(WATCHED) == count  # its own cell was not run
    page.theme("JupyterLab Dark")
    watched.locator("svg, img, table").first.scroll_into_view_if_needed()
    assert page.blank() == []
    page.screenshot("notebook-watch-dark")
    page.theme("JupyterLab Light")

    page.edit(OPS, OP.format("x / self.limits"))
    page.run(OPS)
    expect(watched.get_by_role("alert")).to_contain_text("has no attribute 'limits'")
    expect(page.output(OPS)).to_contain_text("version 3")
    expect(page.output(OPS)).not_to_contain_text("AttributeError")
    page.expect(page.errors, [])
    page.screenshot("notebook-watch-error")

    page.choose(WATCHED)
    page.command("notebook:delete-cell")
    page.edit(WATCHED, "w.closed")  # the request names the cells that were deleted
    page.run(WATCHED)
    expect(page.output(WATCHED)).to_contain_text("True")


@pytest.mark.everywhere  # 15 s, and no part of the page is ours
def test_a_breakpoint_in_the_cell_stops_a_run_of_onnx_runtime(page):
    page.open_notebook("debugger.ipynb")
    for number in range(WATCHED):
        page.run(number)
    page.page.locator(".jp-DebuggerBugButton").click()
    gutter = page.cell(OPS).locator(".cm-gutter.cm-breakpoint-gutter .cm-gutterElement")
    gutter.nth(8).click()  # the first is a spacer
    expect(page.page.locator(".jp-DebuggerBreakpoint")).to_have_count(1)

    page.choose(WATCHED)
    page.start("notebook:run-cell")
    frames = page.page.locator(".jp-DebuggerCallstackFrame")
    expect(frames.first).to_contain_text("compute")
    expect(frames.first).to_contain_text("Cell [2]:8")
    expect(frames.nth(1)).to_contain_text(
        "call_runtime"
    )  # the session's call of onnxruntime, whose own frames are C++
    expect(page.page.locator(".jp-DebuggerVariables")).to_contain_text("clipped")
    expect(page.output(WATCHED)).not_to_contain_text("-15.99")
    page.screenshot("notebook-debugger")
    page.start("debugger:continue")
    expect(page.output(WATCHED)).to_contain_text("-15.99")


def test_a_saved_notebook_shows_everything_without_a_kernel(page, server):
    page.open_notebook("saved.ipynb")
    page.command("application:toggle-left-area")
    page.run_all()
    page.expect(page.errors, [])
    for number in (WATCHED, MOVED):
        assert page.eventually(lambda number=number: "SoftClip version 2" in page.html(number))
    page.excerpt("readme-diff", DIFF, 1190, 622)
    page.save()
    page.shut_down()
    changed = nbformat.read(server.root / "saved.ipynb", as_version=4)
    changed.cells.append(nbformat.v4.new_code_cell("'changes the signature'"))
    nbformat.write(changed, server.root / "untrusted.ipynb")

    for name, dark, trusted in (("saved", True, True), ("untrusted", False, False)):
        page.open_notebook(f"{name}.ipynb", kernel=False)
        page.expect(lambda: page.trusted(MOVED), trusted)
        if dark:
            page.theme("JupyterLab Dark")
        for number in (WATCHED, MOVED):
            expect(page.output(number).get_by_text("not live: run this cell")).to_be_visible()
        assert page.blank() == []
        for number in (MOVED + 1, MOVED + 2, DIFF):
            expect(page.output(number).locator("svg" if trusted else "img").first).to_be_visible()
        page.output(DIFF + 1).scroll_into_view_if_needed()
        page.netron(page.output(DIFF + 1), NODES)
        for number in (WATCHED, DIFF, DIFF + 1):
            page.cell(number).evaluate("cell => cell.scrollIntoView({block: 'start'})")
            page.screenshot(f"notebook-{name}-{number}")


@pytest.mark.everywhere  # 20 s: the same notebook as in JupyterLab, in another shell of its parts
def test_notebook_7(page):
    page.open_in_notebook("notebook7.ipynb")
    page.run_all()
    page.expect(page.errors, [TYPO])
    page.open_in_notebook("live7.ipynb")
    page.run_all()
    page.expect(page.errors, [])
    expect(page.output(WATCHED)).to_contain_text("SoftClip version 2")
    expect(page.output(MOVED).get_by_role("slider")).to_be_visible()
    page.output(DIFF + 1).scroll_into_view_if_needed()
    page.netron(page.output(DIFF + 1), NODES)
    page.screenshot("notebook-7")
    # An error of Notebook's own, for every notebook that it opens.
    ours = [
        error
        for error in page.console_errors
        if "reading 'schema'" not in error or "/static/notebook/" not in error
    ]
    page.console_errors[:] = ours
