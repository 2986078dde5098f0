"""Sliders and boxes for attrs and feeds, and the result that follows."""

import re

import ipywidgets
import numpy as np
import pytest
from ipywidgets.embed import dependency_state

import pyopnb
from pyopnb.display.netron_page.assets import read_script
from pyopnb.notebook.live.pane import MIME

X = np.float32([-4, 0, 1, 8])


@pytest.fixture
def session(clip, redefine):
    redefine("np.clip(x, -self.limit, self.limit).astype(np.float32)")
    return clip.run("session")


def test_moving_a_slider_shows_the_result_and_builds_nothing(clip, session):
    inner = session._sess
    panel = clip.run("i = pyopnb.interact(session, x=x, limit=(0.5, 6.0))\ni")
    slider = panel.controls["limit"].widget
    assert isinstance(slider, ipywidgets.FloatSlider) and (
        slider.min,
        slider.max,
        slider.value,
    ) == (0.5, 6.0, 2.0)
    assert panel.result["y"].tolist() == [-2, 0, 1, 2]
    clip.run("i.controls['limit'].widget.value = 3.0")
    assert panel.result["y"].tolist() == [-3, 0, 1, 3]
    assert "version 2" in clip.text and clip.updates == 1
    assert session._sess is inner and panel.session._sess is inner
    assert panel.session.attrs == {"y": {"limit": 3.0}}


def test_all_controls_begin_at_one_place_behind_the_longest_name(clip, session):
    panel = clip.run('pyopnb.interact(session, x=x, **{"SoftClip.limit": (0.5, 6.0)})')
    widths = {control.widget.style.description_width for control in panel.controls.values()}
    assert widths == {f"{len('SoftClip.limit')}ch"}


def test_the_session_that_others_watch_is_left_alone(clip, session):
    clip.run("w = pyopnb.watch(session, x=x)\nw")
    panel = clip.run("i = pyopnb.interact(session, x=x, limit=(0.5, 6.0))\ni")
    clip.run("i.set(limit=3.0)")
    assert panel.result["y"].tolist() == [-3, 0, 1, 3]
    # A browser adds up the steps to the place.
    panel.controls["limit"].widget.value = 3.3000000000000003
    assert panel.call == "session.set_attrs(limit=3.3)"
    assert session.attrs == {"y": {"limit": 2.0}} and clip.run("w").runs == 1


def test_the_saved_notebook_has_values_and_result_without_widgets(clip, session):
    """A widget's MIME type would make front ends say "model not found", and nbconvert embed sliders that move nothing."""
    clip.run("pyopnb.interact(session, x=x, limit=(0.5, 6.0))")
    saved = list(clip.places.values())[-1]
    assert set(saved) == {MIME, "text/html", "text/plain"} and f"'{MIME}'" in read_script(
        "extension"
    )
    assert "not live: run this cell" in saved["text/html"]
    assert ">limit<" in saved["text/html"] and ">2</td>" in saved["text/html"]


def test_where_there_can_be_no_extension_the_widget_is_shown(clip, session):
    clip.shell.user_ns["__vsc_ipynb_file__"] = "a.ipynb"
    try:
        clip.run("i = pyopnb.interact(session, x=x, limit=(0.5, 6.0))\ni")
        shown = list(clip.places.values())[-1]
        assert (
            "application/vnd.jupyter.widget-view+json" in shown
            and "not live: run this cell" in shown["text/html"]
        )
        clip.run("i.set(limit=3.0)")  # the widget's own state changes; the output around it stays
        assert clip.updates == 0
        assert "limit = 3" in clip.run("i").widget.children[-1].outputs[0]["data"]["text/html"]
    finally:
        del clip.shell.user_ns["__vsc_ipynb_file__"]


def test_a_page_that_opens_later_gets_the_state_that_the_kernel_holds(clip, session):
    panel = clip.run("i = pyopnb.interact(session, x=x, limit=(0.5, 6.0))\ni")
    clip.run("i.set(limit=3.0)")
    view = list(clip.places.values())[-1][MIME]
    states = dependency_state(panel.widget)
    assert view["model_id"] in states
    kept = [state["state"] for state in states.values()]
    (outputs,) = [state["outputs"] for state in kept if "outputs" in state]
    (slider,) = [state["value"] for state in kept if "readout_format" in state]
    assert slider == 3.0 and "limit = 3" in outputs[0]["data"]["text/html"]


def test_the_reference_that_is_pinned(clip, session):
    panel = clip.run("i = pyopnb.interact(session, x=x, limit=(0.5, 6.0))\ni")
    clip.run("i.pin()")
    assert panel.diff.verdict == "bit-identical"
    clip.run("i.set(limit=6.0)")
    assert (
        panel.diff.verdict == "different"
        and "against the reference<" in clip.html
        and "✗ different" in clip.html
    )
    assert panel.reference["y"].tolist() == [-2, 0, 1, 2]


def test_controls_follow_the_schema(page):
    page.run(
        """
        %%pyop -q -d demo
        from typing import Literal
        class Many:
            def __init__(self, n: int = 2, f: float = 0.5, mode: Literal["sum", "mean"] = "sum", on: bool = True,
                         axes: list[int] = [0, 1], text: str = "a", weights: np.ndarray = np.ones(2)):
                self.said = (n, f, mode, on, axes, text)
            def compute(self, x):
                return x
        """.replace("\n        ", "\n").lstrip()
    )
    page.run(
        's = pyopnb.Session(pyopnb.model([pyopnb.node("demo::Many", "x", "y")], {"x": "float32[N]"}, "y"))'
    )
    panel = page.run("i = pyopnb.interact(s, x=np.float32([1]))\ni")
    kinds = {name: type(control.widget).__name__ for name, control in panel.controls.items()}
    assert kinds == {
        "n": "IntSlider",
        "f": "FloatSlider",
        "mode": "Dropdown",
        "on": "Checkbox",
        "axes": "Text",
        "text": "Text",
    }
    assert panel.values == {
        "n": 2,
        "f": 0.5,
        "mode": "sum",
        "on": True,
        "axes": [0, 1],
        "text": "a",
    }
    panel.set(axes="[1, 2, 3]", mode=1, on=False)
    assert panel.error is None and panel.session.attrs["y"]["axes"] == [1, 2, 3]
    assert (
        panel.controls["mode"].text == "mean"
        and panel.values["mode"] == "mean"
        and panel.session.attrs["y"]["on"] is False
    )
    panel.set(axes="[1, ")
    assert "expected a list, got [1, . Try: [1, 2, 3]" in str(panel.error)
    panel.set(axes="[1]")
    assert panel.error is None


def test_numbers_without_a_range_get_sliders(page):
    """They keep the number's sign, as a size below zero fails, and reach values that are set from Python."""
    page.run(
        """
        %%pyop -q -d demo
        class Numbers:
            def __init__(self, n: int = 2, f: float = 0.5, zero: float = 0.0, minus: int = -3, far: float = float("inf"), seed: int = 2**60):
                self.all = n, f, zero, minus, far, seed
            def compute(self, x, k, u):
                return np.float32([*self.all, k.item(), u.item()])
        """.replace("\n        ", "\n").lstrip()
    )
    page.run('n = pyopnb.node("demo::Numbers", ["x", "k", "u"], "y")')
    page.run(
        's = pyopnb.Session(pyopnb.model([n], {"x": "float32[N]", "k": "float32[]", "u": "uint8[]"}, {"y": "float32[N]"}))'
    )
    panel = page.run("i = pyopnb.interact(s, x=np.float32([1]), k=4.0, u=100)\ni")

    widgets = {name: control.widget for name, control in panel.controls.items()}
    ranges = {
        name: (widgets[name].min, widgets[name].max) for name in ("n", "f", "zero", "minus", "k")
    }
    assert ranges == {"n": (1, 6), "f": (0, 1.5), "zero": (0, 1), "minus": (-9, 0), "k": (0, 12)}
    assert isinstance(widgets["far"], ipywidgets.FloatText) and isinstance(
        widgets["seed"], ipywidgets.IntText
    )
    assert (widgets["u"].min, widgets["u"].max) == (1, 255), "what a uint8 holds"
    assert panel.result["y"].tolist() == [2, 0.5, 0, -3, np.inf, 2**60, 4, 100]
    panel.set(n=50, f=-7.25)
    assert (
        panel.values["n"] == 50
        and panel.values["f"] == -7.25
        and panel.result["y"].tolist()[:2] == [50, -7.25]
    )


def test_scalar_feeds(page):
    page.run("""
        model = pyopnb.parse("m (float[N] x, float k, bool[1] on) => (float[N] y) { a = Mul(x, k) \\n b = Cast<to = 1>(on) \\n y = Mul(a, b) }")
        s = pyopnb.Session(model)
        """)
    panel = page.run("i = pyopnb.interact(s, np.float32([1, 2]), k=(0.0, 10.0, 0.5), on=True)\ni")
    assert panel.result["y"].tolist() == [5, 10]
    panel.set(k=1.5)
    assert panel.result["y"].tolist() == [1.5, 3]
    panel.set(on=False)
    assert panel.result["y"].tolist() == [0, 0]


def test_an_error_is_shown_and_the_next_value_runs(clip, session, redefine):
    redefine("x[:int(self.limit)] / (1 if self.limit < 3 else nothing)")
    panel = clip.run("i = pyopnb.interact(session, x=x, limit=(0.5, 6.0))\ni")
    clip.run("i.set(limit=4.0)")
    assert isinstance(panel.error, NameError) and "NameError" in clip.html
    clip.run("i.set(limit=2.0)")
    assert panel.error is None and panel.result["y"].tolist() == [-4, 0]


def test_two_ops_with_one_attr_are_told_apart(page):
    page.run(
        "%%pyop -q -d demo\nclass A:\n    def __init__(self, k: float = 1.0): self.k = np.float32(k)\n    def compute(self, x): return x * self.k\nclass B(A):\n    def compute(self, x): return x + self.k"
    )
    page.run(
        's = pyopnb.Session(pyopnb.model([pyopnb.node("demo::A", "x", "a"), pyopnb.node("demo::B", "a", "y")], {"x": "float32[N]"}, "y"))'
    )
    with pytest.raises(pyopnb.errors.InputError, match=re.escape("got k. Try: ")):
        page.run("s") and pyopnb.interact(page.run("s"), x=X, k=2.0)
    panel = page.run(
        'i = pyopnb.interact(s, x=np.float32([1]), **{"A.k": (0.0, 4.0), "y.k": 10.0})\ni'
    )
    assert panel.result["y"].tolist() == [12] or panel.result["y"].tolist() == [11]
    panel.set(**{"A.k": 3.0})
    assert panel.result["y"].tolist() == [13]


@pytest.mark.parametrize(
    ("ends", "value"),
    [
        ((0.1, 5.0), 2.0),
        ((0.0, 360.0), 225.0),
        ((0.0, 1.0), 1 / 3),
        ((-1e-6, 1e-6), 3e-7),
        ((0.0, 1e9), 12.5),
    ],
)
def test_no_value_lies_between_two_steps_of_a_slider(clip, session, ends, value):
    """A browser moves such a value to the next step, and sends it back as if a user had moved the slider."""
    panel = pyopnb.interact(session, x=X, limit=ends)
    slider = panel.controls["limit"].widget

    def off_the_grid():
        places = (slider.value - slider.min) / slider.step
        return abs(places - round(places)) * slider.step

    assert off_the_grid() <= 1e-6 * slider.step
    before = slider.step
    panel.set(limit=value)
    assert slider.value == value and slider.step <= before
    assert off_the_grid() <= max(1e-6 * before, 1e-9 * abs(value))


def test_the_call_sets_what_the_controls_chose(clip, session):
    panel = clip.run("i = pyopnb.interact(session, x=x, limit=(0.5, 6.0))\ni")
    clip.run("i.set(limit=3.5)")
    assert panel.call == "session.set_attrs(limit=3.5)"
    assert f'<code class="pyopnb-copy">{panel.call}</code>' in clip.html
    clip.run(panel.call)
    assert session.attrs == {"y": {"limit": 3.5}}
    name = "y.limit"
    panel = clip.run(f'i = pyopnb.interact(session, x=x, **{{"{name}": (0.5, 6.0)}})\ni')
    assert panel.call == "session.set_attrs('y', limit=3.5)"
    clip.run(panel.call.replace("3.5", "2.5"))
    assert session.attrs == {"y": {"limit": 2.5}}
