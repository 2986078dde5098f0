"""Netron in JupyterLab, under a base URL and a token, with every other origin out of reach."""

from __future__ import annotations

import re

import pytest
from lab import write_notebook
from playwright.sync_api import expect

import pyopnb

MODEL = "(float[N,3] x) => (float[N,3] y) { a = Abs(x)  b = demo.SoftClip<limit = 2.0>(a)  c = Neg(b)  y = Add(c, a) }"
NODES = 6  # Netron draws inputs and outputs as nodes too

OP = """\
import pyopnb
@pyopnb.pyop("demo::SoftClip")
class SoftClip:
    "Clip x smoothly to a limit."
    def __init__(self, limit: float = 1.0):
        self.limit = limit
    def compute(self, x: "float32[N,3]") -> "float32[N,3]":
        return x
"""
LIVE = (
    "%load_ext pyopnb",
    OP,
    f'model = pyopnb.parse("{MODEL}")\nview = pyopnb.netron(model, name="live")',
    """\
@view.on_select
def clicked(node):
    print("clicked", node.op_type, node is view.selected, any(node is n for n in model.graph.node))
    if node.op_type == "Neg":
        1 / 0
view""",
)

COLORED = (
    """\
import numpy as np, pyopnb
before = pyopnb.parse("(float[N,3] x) => (float[N,3] y) { a = Abs(x)  b = Neg(a)  y = Add(b, a) }")
after = pyopnb.parse("(float[N,3] x) => (float[N,3] y) { a = Abs(x)  b = Exp(a)  y = Add(b, a) }")
x = np.float32([[1, -2, 3]])""",
    "pyopnb.netron(pyopnb.Session(before).trace(x=x))",
    "pyopnb.netron(pyopnb.diff(before, after))",
    "pyopnb.netron(pyopnb.diff(pyopnb.Session(before).trace(x=x), pyopnb.Session(after).trace(x=x)))",
)


def write_files(root):
    exec(OP, {})
    model = pyopnb.parse(MODEL)
    (root / "demo.onnx").write_bytes(model.SerializeToString())
    (root / "no.onnx").write_bytes(b"\x08\x0dthis is no model")
    write_notebook(root / "live.ipynb", *LIVE)
    write_notebook(root / "colored.ipynb", *COLORED)
    saved = pyopnb.netron(model, name="</script>'\"<b>saved")._repr_mimebundle_()
    write_notebook(root / "saved.ipynb", "view  # nothing was run here", outputs={0: [saved]})


def click(frame, kind):
    frame.locator("g.node").get_by_text(kind, exact=True).click()


def test_live_output_clicks_and_themes(page):
    page.open_notebook("live.ipynb")
    page.run_all()
    frame = page.netron(page.output(3), NODES)
    page.screenshot("netron-live")

    click(frame, "Add")
    expect(page.output(3)).to_contain_text("clicked Add True True")
    click(frame, "SoftClip")
    expect(page.output(3)).to_contain_text("clicked SoftClip True True")
    expect(page.output(3)).not_to_contain_text("clicked Add")  # only the last click's output stays
    frame.locator("#sidebar-closebutton").click()
    click(frame, "Neg")
    expect(page.output(3)).to_contain_text("ZeroDivisionError")
    expect(page.output(3)).not_to_contain_text("pyopnb/display/netron")
    page.output(3).get_by_text("ZeroDivisionError").last.scroll_into_view_if_needed()
    page.screenshot("netron-exception")

    page.theme("JupyterLab Dark")
    expect(frame.locator("html")).to_have_css("color-scheme", "dark")
    expect(frame.locator("g.node")).to_have_count(NODES)
    page.screenshot("netron-dark")
    page.theme("JupyterLab Light")
    expect(frame.locator("html")).to_have_css("color-scheme", "light")


def test_saved_notebook_that_nobody_trusts_has_netron_without_a_kernel(page):
    kernels = page.kernels()
    page.open_notebook("saved.ipynb", kernel=False)
    frame = page.netron(page.output(0), NODES)
    assert not page.trusted(0)
    click(frame, "Neg")  # without a kernel, nothing receives it
    expect(frame.locator("#sidebar")).to_contain_text("Neg")
    expect(page.output(0)).to_contain_text("</script>'\"<b>saved: 4 nodes")
    assert page.kernels() == kernels
    page.screenshot("netron-saved-untrusted")


def test_without_the_extension_a_saved_notebook_has_the_picture(page, server):
    with server.without("pyopnb-netron"):
        page.open_notebook("saved.ipynb", kernel=False)
    expect(page.output(0)).to_contain_text("</script>'\"<b>saved: 4 nodes")
    expect(page.output(0).locator("img")).to_be_visible()
    assert not page.trusted(0)
    expect(page.output(0).locator("iframe")).to_have_count(0)
    page.screenshot("netron-picture-untrusted")


def test_a_file_opens_from_the_file_browser(page, server):
    page.go(f"lab/tree/{server.folder}")
    expect(page.page.locator(".jp-DirListing-item")).to_have_count(
        len(list(server.root.glob("[!.]*")))
    )  # none moves any more
    page.page.locator(".jp-DirListing-item", has_text="demo.onnx").dblclick()
    document = page.page.locator(".jp-MimeDocument")
    frame = page.netron(document, NODES)
    click(frame, "Add")
    frame.get_by_title("Show Definition").click()
    expect(frame.locator("#sidebar")).to_contain_text("Performs element-wise binary addition")
    page.screenshot("netron-file")


@pytest.mark.everywhere  # test_graph.py has the ones of a trace
def test_traces_and_diffs_have_their_colors(page):
    page.open_notebook("colored.ipynb")
    page.run_all()
    page.expect(page.errors, [])
    for theme in ("Light", "Dark"):
        page.theme(f"JupyterLab {theme}")
        for number, node, told in (
            (1, "Neg", "µs"),
            (2, "Exp", "Neg → Exp"),
            (3, "Exp", "✗ origin"),
        ):
            page.cell(number).evaluate("cell => cell.scrollIntoView({block: 'start'})")
            frame = page.netron(page.output(number), 5)
            drawn = frame.locator("g.node", has=page.page.get_by_text(node, exact=True))
            expect(drawn.locator(".node-item-type path")).to_have_attribute(
                "style", re.compile("fill: rgb")
            )
            expect(drawn.locator(":scope > title")).to_have_text(re.compile(re.escape(told)))
            if number > 1:  # what did not change has none of Netron's own colors either
                same = frame.locator("g.node", has=page.page.get_by_text("Abs", exact=True))
                expect(same.locator(".node-item-type path")).to_have_css(
                    "fill", "rgb(117, 123, 130)"
                )
            page.screenshot(f"netron-colored-{number}-{theme.lower()}")
    expect(frame.locator("#pyopnb-legend")).to_contain_text("largest |a-b|")
