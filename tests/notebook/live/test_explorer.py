"""Sliders for the leading axes of an array."""

import ipywidgets
import numpy as np
import pytest

import pyopnb
from pyopnb.notebook.live.pane import MIME


def content(explorer):
    return explorer.widget.children[-1].outputs[0]["data"]


def test_sliders_choose_the_slice_and_a_saved_notebook_has_all(clip):
    clip.run("t = np.arange(2 * 3 * 20 * 20.0).reshape(2, 3, 20, 20) - 600")
    explorer = clip.run("e = pyopnb.interact(t)\ne")
    sliders = {
        name: (widget.min, widget.max)
        for name, widget in explorer.controls.items()
        if isinstance(widget, ipywidgets.IntSlider)
    }
    assert sliders == {"axis 0": (0, 1), "axis 1": (0, 2)}
    first = content(explorer)
    assert first["text/plain"].startswith("[0,0]: float64[20,20]  -600 … -201")
    clip.run("e.controls['axis 0'].value = 1; e.controls['axis 1'].value = 2")
    second = content(explorer)
    assert explorer.index == (1, 2) and second["text/plain"].startswith("[1,2]: float64[20,20]")
    assert repr(explorer) == second["text/plain"] and first["text/html"] != second["text/html"]
    clip.run("e.controls['log'].value = True; e.controls['colors'].value = 'gray'")
    clip.run("e.controls['origin'].value = 'lower'")
    assert "row 0" not in second["text/html"] and content(explorer) != second
    saved = list(clip.places.values())[-1]
    assert set(saved) == {MIME, "text/html", "text/plain"}
    assert saved["text/plain"].startswith("float64[2,3,20,20]") and clip.updates == 0


@pytest.mark.parametrize("shape", [(), (5,), (4, 4), (0, 3, 3), (2, 20, 20, 3), (1, 1, 1, 1, 40)])
def test_arrays_without_leading_axes_have_no_slider(clip, shape):
    explorer = clip.run(f"pyopnb.interact(np.zeros({shape}))")
    axes = [name for name in explorer.controls if name.startswith("axis")]
    assert len(axes) == {(2, 20, 20, 3): 1, (1, 1, 1, 1, 40): 3}.get(shape, 0)
    assert content(explorer)["text/plain"]


def test_what_only_a_session_takes_is_refused(clip):
    with pytest.raises(pyopnb.errors.InputError, match="expected one array, got 1 more"):
        pyopnb.interact(np.ones((2, 3, 4)), colors="gray")
