"""The panel of ops and what uses them."""

import gc
import re
import sys
import weakref

import pytest

from pyopnb import registry
from pyopnb.notebook.live.pane import MIME

HALF = "np.float32(self.limit) * x / 2"
WRONG = "x / zero"


class Seen:
    """What a panel shows, read from its tree of widgets."""

    def __init__(self, panel):
        self.panel = panel

    @property
    def rows(self):
        return self.panel.widget.children[0].children

    @property
    def heads(self):
        htmls = [self.html(number) for number in range(len(self.rows))]
        return [re.search("<summary>(.*?)</summary>", html)[1] for html in htmls]

    def html(self, number=0):
        return self.rows[number].children[-1].outputs[0]["data"]["text/html"]

    @property
    def uses(self):
        return self.panel.widget.children[-1].outputs[0]["data"]["text/html"]

    def click(self, label, number=0):
        buttons = {button.description: button for button in self.rows[number].children[:-1]}
        buttons[label].click()


@pytest.fixture
def seen(clip, monkeypatch):
    # Another test may have left an error of an op of the same name.
    monkeypatch.delattr(sys, "last_value", raising=False)
    return Seen(clip.run("%pyop panel"))


def test_the_ops_and_what_uses_them(clip, seen):
    saved = list(clip.places.values())[-1]
    assert set(saved) == {MIME, "text/html", "text/plain"}
    assert "demo::SoftClip" in saved["text/html"] and "session" in saved["text/plain"]
    assert seen.heads == ["demo::SoftClip, version 1: (x)&lt;limit: float = 1.0&gt;"]
    assert "tanh" in seen.html()
    assert "last error" not in seen.html()
    assert ">Session<" in seen.uses and "demo::SoftClip" in seen.uses
    assert ">Watch<" not in seen.uses
    clip.run("w = pyopnb.watch(session, x=x)")
    assert ">Watch<" in seen.uses
    clip.run("w.close(); other = session")
    assert ">Watch<" not in seen.uses


def test_it_follows_definitions_in_cells_and_elsewhere(clip, seen, redefine):
    row = seen.rows[0]
    redefine(HALF)
    assert "version 2" in seen.heads[0] and "x / 2" in seen.html()
    registry.rollback("demo::SoftClip")
    assert "version 3" in seen.heads[0] and "tanh" in seen.html()
    clip.run("%%pyop -d demo\nclass Another:\n    def compute(self, x): return x")
    assert len(seen.heads) == 2 and seen.heads[0].startswith("demo::Another")
    # The row stays, and with it what is unfolded.
    assert seen.rows[1] is row
    registry.remove("demo::SoftClip")
    assert len(seen.heads) == 1 and row.comm is None
    registry.remove("demo::Another")
    assert seen.rows == () and repr(seen.panel).startswith("no op is defined")
    assert "no op is defined" in seen.uses


def test_a_cell_that_changes_nothing_prints_nothing(clip, seen):
    updates = clip.updates
    clip.run("1 + 1")
    assert clip.updates == updates
    clip.run("another = pyopnb.Session(model)")
    assert clip.updates == updates + 1 and "another" in clip.text and "another" in seen.uses


def test_a_click_rolls_back_and_one_checks(clip, seen, redefine):
    redefine(HALF)
    seen.click("roll back")
    assert registry["demo::SoftClip"].current.restored == 1
    assert "version 3" in seen.heads[0] and "restores" in seen.html()
    seen.click("check")
    assert "demo::SoftClip, version 3" in seen.html() and "inputs_unmodified" in seen.html()


def test_a_click_that_cannot_work_says_so(clip, seen):
    seen.click("roll back")
    assert "expected two versions, got one. Try: edit its class" in seen.html()
    assert "version 1" in seen.heads[0]


@pytest.mark.parametrize("where", ["cell", "watch"])
def test_the_last_error_of_an_op(clip, seen, redefine, where):
    if where == "watch":
        clip.run("w = pyopnb.watch(session, x=x)")
    redefine(WRONG)
    if where != "watch":
        clip.run("session(x=x)", ok=False)
    assert "last error" in seen.html() and "name &#x27;zero&#x27; is not defined" in seen.html()
    assert "(demo::SoftClip), version 2, with x: float32[4]" in seen.html()


@pytest.mark.parametrize("made", ["watch", "interact"])
def test_a_version_without_an_attr_of_the_model_is_the_last_error(clip, seen, made):
    shown = clip.run(f"shown = pyopnb.{made}(session, x=x)\nshown")
    clip.run("%%pyop -d demo\nclass SoftClip:\n    def compute(self, x): return x")
    assert "attr limit: expected no attrs, got limit" in str(shown.error)
    assert "last error" in seen.html() and "attr limit: expected no attrs" in seen.html()
    clip.run("%pyop rollback SoftClip")
    assert shown.error is None


def test_a_panel_ends_with_its_cell_and_is_collected(clip, listeners):
    gc.collect()
    before = listeners()
    reference = weakref.ref(clip.run("%pyop panel"))
    assert listeners() == before + 1
    clip.run("%pyop panel")
    assert listeners() == before + 1
    clip.run("%unload_ext pyopnb\n%load_ext pyopnb")
    clip.shell.reset(new_session=False)
    clip.shell.displayhook.flush()
    gc.collect()
    assert reference() is None and listeners() == before
