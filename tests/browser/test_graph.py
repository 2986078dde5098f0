"""Pictures of graphs that answer to the mouse and the keyboard, in a page and in JupyterLab, and stay pictures without trust."""

from __future__ import annotations

import numpy as np
import pytest
from lab import new_context, tab, write_notebook
from onnx import numpy_helper
from playwright.sync_api import expect
from transformer import transformer

import pyopnb

HOSTILE = "</script><img src=x onerror=alert(1)>\"'&<b>"
MODEL = "net (float[N,3] x) => (float[N,3] y) { a = Abs(x)  b = Neg(a)  y = Add(b, a) }"
BOXES = "svg > g, svg > use"


def traced():
    model = pyopnb.parse(MODEL)
    model.graph.node[1].name = HOSTILE
    for node in model.graph.node:
        for names in (node.input, node.output):
            for place, name in enumerate(names):
                names[place] = HOSTILE if name == "b" else name
    return pyopnb.Session(model).trace(x=np.float32([[1, -2, 3]]))


def differing_transformers():
    """Compare the runs of two transformers of 12 layers, of which one weight of the eighth differs."""
    one, other = transformer(blocks=12), transformer(blocks=12)
    weight = next(found for found in other.graph.initializer if found.name.startswith("b7."))
    changed = numpy_helper.to_array(weight) + np.float32(1)
    weight.CopyFrom(numpy_helper.from_array(changed, weight.name))
    x = np.random.default_rng(0).random((1, 4, 32), np.float32)
    return pyopnb.diff(pyopnb.trace(one, x=x), pyopnb.trace(other, x=x))


def write_files(root):
    view = pyopnb.show(traced())
    view.save(root / "trace.html")
    html = view._repr_html_()
    (root / "two.html").write_text(
        f"<!DOCTYPE html><meta charset=utf-8>{html}{html}", encoding="utf-8"
    )
    nodes = [f"t{n + 1} = LeakyRelu<alpha = 0.125>(t{n})" for n in range(60)]
    pyopnb.show(pyopnb.parse(f"(float[N] t0) => (float[N] t60) {{ {' '.join(nodes)} }}")).save(
        root / "long.html"
    )
    pyopnb.netron(traced()).save(root / "netron.html")
    write_notebook(
        root / "saved.ipynb", "trace", outputs={0: [{"text/html": html, "text/plain": "trace"}]}
    )
    layers = pyopnb.show(differing_transformers())
    layers.save(root / "layers.html")
    bundle = {"text/html": layers._repr_html_(), "text/plain": "diff"}
    write_notebook(root / "folded.ipynb", "layers", outputs={0: [bundle]})
    write_notebook(root / "live.ipynb", f"import numpy as np, pyopnb\nsession = pyopnb.Session(pyopnb.parse('{MODEL}'))",
                   "session.trace(x=np.float32([[1, -2, 3]]))")  # fmt: skip


@pytest.fixture(params=["light", pytest.param("dark", marks=pytest.mark.everywhere)])
def opened(request, chromium, server):
    """A function that opens a file that is no notebook, as a browser does from a disk."""
    with tab(new_context(chromium, dark=request.param == "dark"), server) as page:

        def open_file(name):
            page.page.goto((server.root / name).as_uri())
            expect(page.page.locator("svg").first).to_be_visible()
            return page

        yield open_file
        assert not page.console_errors, page.console_errors


def test_pointing_and_clicking_tell_what_a_box_is(opened, request):
    page = opened("trace.html")
    card = page.page.locator(".card")
    expect(card).to_be_hidden()
    page.page.locator(BOXES).nth(2).hover()
    expect(card).to_contain_text("Neg")
    expect(card).to_contain_text(f"{HOSTILE}: float32[1,3]  -3 … -1")
    expect(card).to_contain_text("µs")
    page.page.mouse.move(900, 700)
    expect(card).to_be_hidden()
    page.page.locator(BOXES).nth(1).click()
    page.page.mouse.move(900, 700)
    expect(card).to_contain_text("a: float32[1,3]  1 … 3")  # it stays
    page.screenshot(f"graph-card-{request.node.callspec.params['opened']}")
    page.page.keyboard.press("Escape")
    expect(card).to_be_hidden()
    expect(page.page.locator("img")).to_have_count(0)  # no name became an element


def test_a_box_leads_to_its_rows_and_a_row_to_its_box(opened, request):
    page = opened("trace.html")
    page.page.locator(BOXES).nth(2).click()
    page.page.locator(".card").get_by_role("button", name="tensors").click()
    row = page.page.locator("tr", has=page.page.locator("td", has_text=HOSTILE)).last
    expect(row).to_be_visible()  # in a table that was folded
    expect(row).to_be_in_viewport()
    page.screenshot(f"graph-row-{request.node.callspec.params['opened']}")
    page.page.locator("td", has_text="x").first.scroll_into_view_if_needed()
    row.locator("td").first.click()
    expect(page.page.locator(".card")).to_contain_text("Neg")
    expect(page.page.locator(BOXES).nth(2)).to_be_in_viewport()


def test_boxes_are_reached_and_told_by_keyboard(opened):
    page = opened("trace.html")
    page.page.locator(".view").focus()
    names = []
    for _ in range(3):
        page.page.keyboard.press("Tab")
        names.append(
            page.page.evaluate("document.activeElement.shadowRoot.activeElement.ariaLabel")
        )
    assert names[1:] == ["Abs", "Neg"]
    outline = "getComputedStyle(document.activeElement.shadowRoot.activeElement).outlineStyle"
    assert page.page.evaluate(outline) == "solid"
    page.page.keyboard.press("Enter")
    expect(page.page.locator(".card")).to_contain_text("Neg")
    page.page.keyboard.press("Escape")
    expect(page.page.locator(".card")).to_be_hidden()
    back = "document.activeElement.shadowRoot.activeElement.ariaLabel"
    assert page.page.evaluate(back) == "Neg"


def test_zoom_and_drag(opened):
    page = opened("long.html")
    view, picture = page.page.locator(".view"), page.page.locator(".view svg")
    before = picture.bounding_box()
    box = view.bounding_box()
    page.page.mouse.move(box["x"] + 50, box["y"] + 300)
    page.page.keyboard.down("Control")
    page.page.mouse.wheel(0, -300)
    page.page.keyboard.up("Control")
    assert page.eventually(lambda: picture.bounding_box()["width"] > 2 * before["width"])
    top = view.evaluate("view => view.scrollTop")  # which was set in the same turn
    page.page.mouse.down()
    page.page.mouse.move(box["x"] + 60, box["y"] + 100, steps=5)
    page.page.mouse.up()
    assert page.eventually(lambda: abs(view.evaluate("view => view.scrollTop") - top - 200) < 3)
    expect(page.page.locator(".card")).to_be_hidden()  # that was no click
    view.focus()
    page.page.keyboard.press("0")
    assert page.eventually(lambda: picture.bounding_box()["height"] <= box["height"] + 1)
    page.page.get_by_role("button", name="zoom in").click()
    assert page.eventually(lambda: picture.bounding_box()["height"] > 1.2 * box["height"])


def test_without_trust_the_picture_is_an_image(page):
    page.open_notebook("saved.ipynb", kernel=False)
    expect(page.output(0).locator("img")).to_have_count(1)
    assert page.blank() == []
    assert not page.trusted(0)
    expect(page.output(0).locator(".pyopnb-output svg")).to_have_count(0)
    page.screenshot("graph-untrusted")


def test_a_diff_of_runs_opens_on_its_origin_and_its_groups_open_by_click_and_key(opened):
    page = opened("layers.html")
    origin = page.page.locator(BOXES, has_text="origin").first
    box = origin.bounding_box()
    assert box["y"] > 0 and box["y"] + box["height"] < 700
    page.page.get_by_title("show it in the picture").first.click()
    expect(page.page.locator(".card").first).to_contain_text("origin")
    page.page.keyboard.press("Escape")
    page.page.locator("summary", has_text="the whole graph").click()
    group = page.page.locator(BOXES, has_text="× 7").last
    inner = page.page.locator("summary", has_text="× 7").locator("..")
    group.click()
    expect(inner).to_have_attribute("open", "")
    page.page.keyboard.press("Enter")  # the line above it has the focus
    expect(inner).not_to_have_attribute("open", "")
    group.focus()
    page.page.keyboard.press("Enter")
    expect(inner).to_have_attribute("open", "")
    page.screenshot("graph-layers")


def test_without_trust_groups_open_and_close_by_keyboard(page):
    page.open_notebook("folded.ipynb", kernel=False)
    output = page.output(0)
    assert not page.trusted(0)
    # The origin is drawn first, and all else is folded.
    assert output.locator("img").first.bounding_box()["height"] < 700
    for words, pictures in (("the whole graph", 2), ("× 7", 3)):
        summary = output.locator("summary", has_text=words).first
        summary.focus()
        page.page.keyboard.press("Enter")
        expect(output.locator("img:visible")).to_have_count(pictures)
    page.page.keyboard.press("Enter")
    expect(output.locator("img:visible")).to_have_count(2)
    page.screenshot("graph-layers-untrusted")


def test_in_a_notebook_that_was_run_it_answers(page):
    page.open_notebook("live.ipynb")
    page.run_all()
    output = page.output(1)
    output.locator(BOXES).nth(2).click()
    expect(output.locator(".card")).to_contain_text("b: float32[1,3]")
    page.theme("JupyterLab Dark")
    color = page.page.locator(".jp-RenderedHTML").first.evaluate(
        "area => getComputedStyle(area).color"
    )
    expect(output.locator("svg text").first).to_have_css("fill", color)
    page.screenshot("graph-live-dark")
    output.locator(".card").get_by_role("button", name="tensors").click()
    expect(output.locator("tr[data-pyopnb]").last).to_be_visible()
