"""Pictures of arrays tell their numbers, slices follow sliders, and tables can be copied."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from lab import new_context, tab, write_notebook
from playwright.sync_api import expect

import pyopnb
from pyopnb.common import Table

CELL = """import numpy as np, pyopnb
%load_ext pyopnb
explorer = pyopnb.interact(np.arange(2 * 3 * 20 * 20.0).reshape(2, 3, 20, 20))
explorer"""


def write_files(root):
    exact = np.arange(800.0).reshape(20, 40) - 400
    pyopnb.show(exact).save(root / "exact.html")
    pyopnb.show(exact, origin="lower").save(root / "lower.html")
    # So many numbers are read off their colors.
    pyopnb.show(np.linspace(-1, 1, 256 * 256).reshape(256, 256)[:, ::-1]).save(root / "large.html")
    write_notebook(root / "slices.ipynb", CELL)
    table = Table(("op", "nodes"), [('a, "b"', "2"), ("Clip", "3")])
    write_notebook(root / "table.ipynb", "table", outputs={0: [{"text/html": table._repr_html_()}]})


def told(page, image, x, y):
    """What is told where the mouse is, as parts of the heat map at the upper left."""
    image.hover(position={"x": 8 + x, "y": 8 + y})
    tip = page.locator(".pyopnb-array [role=status]")
    expect(tip).to_be_visible()
    return tip.text_content()


@pytest.mark.parametrize(
    ("name", "texts"),
    [
        ("exact", ["[0,0] -400", "[19,39] 399"]),
        ("lower", ["[19,0] 360", "[0,39] -361"]),
        ("large", ["[1,1] ≈ -0.98", "[254,254] ≈ 0.98"]),
    ],
)
def test_the_number_under_the_mouse(chromium, server, name, texts):
    with tab(new_context(chromium), server) as opened:
        opened.page.goto((server.root / f"{name}.html").as_uri())
        image = opened.page.locator(".pyopnb-array img")
        width, height = (240, 120) if name != "large" else (256, 256)
        seen = [told(opened.page, image, 1, 1), told(opened.page, image, width - 2, height - 2)]
        assert seen == texts
        opened.page.mouse.move(600, 600)
        expect(opened.page.locator(".pyopnb-array [role=status]")).to_be_hidden()
        assert not opened.console_errors


def test_sliders_lead_through_the_slices(page):
    page.open_notebook("slices.ipynb")
    page.run_all()
    output = page.output(0)
    sliders = output.get_by_role("slider")
    expect(sliders).to_have_count(2)
    sliders.nth(1).press("ArrowRight")
    expect(output).to_contain_text("[0,1]: float64[20,20]  400 … 799")
    image = output.locator(".pyopnb-array img")
    assert told(page.page, image, 1, 1) == "[0,0] 400"
    page.screenshot("array-slices")
    page.theme("JupyterLab Dark")
    expect(image).to_have_css("color-scheme", "dark")
    page.screenshot("array-slices-dark")
    page.theme("JupyterLab Light")
    page.save()
    page.shut_down()
    page.open_notebook("slices.ipynb", kernel=False)
    expect(page.output(0)).to_contain_text("float64[2,3,20,20]")


def test_a_table_of_an_untrusted_notebook_can_be_copied_and_saved(chromium, server):
    context = new_context(chromium)
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    with tab(context, server) as page:
        page.open_notebook("table.ipynb", kernel=False)
        output = page.output(0)
        output.get_by_role("button", name="copy the table").click()
        read = "navigator.clipboard.readText()"
        page.expect(lambda: page.page.evaluate(read), 'op\tnodes\na, "b"\t2\nClip\t3')
        with page.page.expect_download() as download:
            output.get_by_role("button", name="save the table as CSV").click()
        saved = Path(download.value.path()).read_text("utf-8")
        assert saved == 'op,nodes\n"a, ""b""",2\nClip,3\n'
    context.close()
