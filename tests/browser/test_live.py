"""Live outputs in the browser: what looks live is live, and what cannot be says so."""

from __future__ import annotations

import re
import subprocess
import sys

import nbformat
import pytest
from lab import new_context, tab, write_notebook
from playwright.sync_api import expect
from test_notebook import LIVE, MOVED, OP, OPS, SLOWER, WATCH, WATCHED

NOT_LIVE = "not live: run this cell"
BROKEN = re.compile("model not found|Error displaying|Loading widget")


def write_files(root):
    names = ("reload", "restart", "twice", "other", "export", "closed", "seven")
    for name in names:  # each test has a kernel of its own
        write_notebook(root / f"{name}.ipynb", *LIVE)
    waiting = "[__import__('time').sleep(0.05) for _ in iter(lambda: __import__('os').path.exists('go'), True)]"
    sleeping = OP.format(f"({waiting}, x)[1]")
    write_notebook(
        root / "panel.ipynb", *LIVE[: OPS + 2], "%pyop panel", OP.format("x / zero"), WATCH
    )
    write_notebook(root / "slow.ipynb", *LIVE[:OPS], sleeping, *LIVE[OPS + 1 :], "'free'")


def visible(locator):
    return locator.locator("visible=true")


def assert_live(page, value, *texts):
    """Slider and picture show one value, nothing says otherwise, and the watch is also live."""
    shown = page.output(MOVED)
    expect(shown.get_by_role("slider")).to_have_attribute("aria-valuenow", f"{value:.1f}")
    expect(shown.get_by_text(f"limit = {value} ·")).to_be_visible()
    for text in texts:
        expect(shown).to_contain_text(text)
    for number in (WATCHED, MOVED):
        expect(page.output(number).get_by_text(NOT_LIVE)).to_have_count(0)
        expect(page.output(number)).not_to_contain_text(BROKEN, use_inner_text=True)


def assert_kept(page, *texts):
    """What a file gets, and a page without the kernel shows, comes by another message than for the widget."""
    assert page.eventually(lambda: all(text in page.html(MOVED) for text in texts)), page.html(
        MOVED
    )


def assert_not_live(page, value):
    shown = page.output(MOVED)
    expect(visible(shown.get_by_text(f"limit = {value} ·"))).to_have_count(1)
    expect(shown.get_by_role("slider")).to_have_count(0)  # that can be seen
    for number in (WATCHED, MOVED):
        expect(page.output(number).get_by_text(NOT_LIVE)).to_be_visible()
        expect(page.output(number)).not_to_contain_text(
            BROKEN, use_inner_text=True
        )  # the text that can be seen
    assert page.blank() == []


def test_after_a_reload_sliders_and_pictures_follow_again(page, server):
    page.open_notebook("reload.ipynb")
    page.run_all()
    assert_live(page, 2)
    page.output(MOVED).get_by_role("slider").press("ArrowRight")
    assert_live(page, 2.1, "-16.78")
    page.screenshot("live-interact")
    assert_kept(page, "limit = 2.1 ·")
    page.save()
    page.output(MOVED).get_by_role("slider").press(
        "ArrowRight"
    )  # the kernel knows it, and the file does not
    assert_live(page, 2.2)

    page.open_notebook("reload.ipynb")
    assert_live(page, 2.2)
    page.output(MOVED).get_by_role("slider").press("ArrowRight")
    assert_live(page, 2.3)
    page.edit(OPS, OP.format(SLOWER))
    page.run(OPS)
    for number in (WATCHED, MOVED):
        expect(page.output(number)).to_contain_text("SoftClip version 2")
    expect(page.output(WATCHED)).to_contain_text(
        re.compile("against the previous run.*✗ different")
    )
    page.screenshot("live-reloaded")

    assert_kept(page, "limit = 2.3 ·", "version 2")
    page.save()

    saved = nbformat.read(server.root / "reload.ipynb", as_version=4)
    (output,) = saved.cells[MOVED].outputs
    assert (
        "limit = 2.3 ·" in output["data"]["text/html"]
        and "version 2" in output["data"]["text/html"]
    )
    assert not any(
        "widget-view" in kind
        for cell in saved.cells
        for one in cell.get("outputs", ())
        for kind in one.get("data", ())
    )


@pytest.mark.everywhere  # a reload asks for the same state
def test_two_tabs_follow_each_other(page, chromium, server):
    page.open_notebook("twice.ipynb")
    page.run_all()
    page.save()
    with tab(new_context(chromium), server) as second:
        second.open_notebook("twice.ipynb")
        assert_live(second, 2)
        second.output(MOVED).get_by_role("slider").press("ArrowRight")
        assert_live(second, 2.1)
        assert_live(page, 2.1)
        page.output(MOVED).get_by_role("slider").press("ArrowRight")
        assert_live(page, 2.2)
        assert_live(second, 2.2)


def test_after_a_restart_it_says_that_it_is_not_live(page):
    page.open_notebook("restart.ipynb")
    page.run_all()
    page.output(MOVED).get_by_role("slider").press("ArrowRight")
    assert_live(page, 2.1)
    assert_kept(page, "limit = 2.1 ·")
    page.restart()
    assert_not_live(page, 2.1)
    page.screenshot("live-restarted")
    page.save()
    page.open_notebook("restart.ipynb")  # with the new kernel
    assert_not_live(page, 2.1)
    page.run_all()
    assert_live(page, 2)
    assert_kept(page, "limit = 2 ·")
    page.shut_down()
    assert_not_live(page, 2)
    page.theme("JupyterLab Dark")
    page.screenshot("live-dark")
    page.theme("JupyterLab Light")
    # ipywidgets logs a model that it looked for, at some time after that; users do not see it.
    page.console_errors[:] = [
        error for error in page.console_errors if "widget model not found" not in error
    ]


@pytest.mark.everywhere  # a restart leaves the same behind
def test_a_closed_output_keeps_its_last_state(page):
    page.open_notebook("closed.ipynb")
    page.run_all()
    page.output(MOVED).get_by_role("slider").press("ArrowRight")
    assert_live(page, 2.1)
    page.save()
    page.open_notebook("closed.ipynb")
    assert_live(page, 2.1)
    page.edit(0, "i.close(); w.close()")
    page.run(0)
    assert_not_live(page, 2.1)
    expect(page.output(MOVED)).to_contain_text("ended")


def test_without_the_extension_it_says_so_and_the_widget_is_at_hand(page, server):
    with server.without("pyopnb-netron"):
        page.open_notebook("other.ipynb")
    page.run_all()
    assert_not_live(page, 2)
    page.edit(MOVED, "i = pyopnb.interact(session, x=x, limit=(0.5, 6.5, 0.1))\ni.widget")
    page.run(MOVED)
    shown = page.output(MOVED)
    shown.get_by_role("slider").press("ArrowRight")
    expect(shown).to_contain_text("limit = 2.1")
    page.screenshot("live-without")


def test_a_long_run_leaves_the_cell_free_and_can_be_stopped(page, server):
    page.open_notebook("slow.ipynb")
    page.run_all()
    free = page.output(MOVED + 1)
    expect(free).to_contain_text("free")
    watched = page.output(WATCHED)
    expect(watched.get_by_text("running since")).to_be_visible()  # … while other cells have run
    page.screenshot("live-running")
    (server.root / "go").touch()
    expect(watched.get_by_text("SoftClip version 1")).to_be_visible()
    expect(watched.get_by_role("alert")).to_have_count(0)
    page.edit(OPS, OP.format("x / nothing"))
    page.run(OPS)
    expect(watched.get_by_role("alert")).to_contain_text("NameError")
    expect(watched).to_contain_text("the last result without an error")
    page.screenshot("live-error")
    page.edit(
        OPS, OP.format("(lambda: [__import__('time').sleep(0.01) for _ in range(100_000)])() or x")
    )
    page.run(OPS)
    expect(watched.get_by_text("running since")).to_be_visible()
    visible(watched.get_by_role("button", name="Stop")).click()
    expect(watched).to_contain_text("stopped after")
    page.screenshot("live-stopped")


@pytest.mark.everywhere  # 17 s: the text of the page is also held without a browser
@pytest.mark.parametrize("execute", [False, pytest.param(True, marks=pytest.mark.everywhere)])
def test_exported_html_says_that_it_is_not_live(page, chromium, server, execute):
    source = server.root / "export.ipynb"
    if not execute:
        page.open_notebook("export.ipynb")
        page.run_all()
        assert_kept(page, "limit = 2 ·")
        page.save()
    arguments = ["--execute"] * execute + [
        "--to",
        "html",
        "--output",
        f"exported-{execute}.html",
        str(source),
    ]
    subprocess.run([sys.executable, "-m", "nbconvert", *arguments], check=True, capture_output=True)
    context = chromium.new_context(offline=True)
    try:
        sheet = context.new_page()
        sheet.goto((server.root / f"exported-{execute}.html").as_uri())
        expect(sheet.get_by_text(NOT_LIVE)).to_have_count(2)
        expect(sheet.get_by_text("limit = 2 ·")).to_be_visible()
        expect(sheet.locator("body")).not_to_contain_text(BROKEN, use_inner_text=True)
        sheet.screenshot(path=f"build/screenshots/live-export-{execute}.png", full_page=True)
    finally:
        context.close()


def test_a_panel_follows_and_its_buttons_work_also_beside_the_notebook(page, server):
    page.open_notebook("panel.ipynb")
    page.run_all()
    panel = page.output(3)
    for text in ("demo::SoftClip, version 2", "name 'zero' is not defined", "Watch"):
        expect(panel).to_contain_text(text)
    check = panel.get_by_role("button", name="check")
    check.click()
    expect(panel).to_contain_text("inputs_unmodified")
    check.click(button="right")
    page.page.get_by_text("Create New View for Cell Output").click()
    beside = page.page.locator(".jp-LinkedOutputView")
    beside.get_by_role("button", name="roll back").click()
    for view in (beside, panel):
        expect(view).to_contain_text("demo::SoftClip, version 3")
    page.screenshot("panel")


def test_the_palette_and_the_launcher_open_the_panel(page, server):
    write_notebook(server.root / "ops.ipynb", *LIVE[: OPS + 1])
    page.open_notebook("ops.ipynb")
    page.run_all()
    page.command("apputils:activate-command-palette")
    page.page.keyboard.type("pyopnb")
    page.page.get_by_text("pyopnb: open the panel").click()
    for text in ("demo::SoftClip, version 1", "no variable is a session"):
        expect(page.output(OPS + 1)).to_contain_text(text)
    page.expect(page.never_run, [])
    page.screenshot("panel-palette")

    page.save()
    page.command("application:close-all")
    page.page.get_by_text("Ops of pyopnb").click()
    expect(page.output(1)).to_contain_text("no op is defined")
    page.screenshot("panel-launcher")
