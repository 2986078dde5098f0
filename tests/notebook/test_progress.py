"""A bar in a cell's output, and its text."""

from __future__ import annotations

import numpy as np
from IPython.utils.capture import capture_output

import pyopnb
from pyopnb.notebook.progress import progress_bar
from pyopnb.ops import progress


def test_the_bar_of_a_trace(bare):
    bare.run_line_magic("load_ext", "pyopnb")
    model = pyopnb.model([pyopnb.node("Exp", "x", "e"), pyopnb.node("Neg", "e", "y")], {"x": "float32[2]"}, "y")
    with capture_output() as seen:
        pyopnb.trace(model, np.float32([0, 1]), progress=True)
    first, last = seen.outputs[0], seen.outputs[-1]
    assert first.data["text/html"].startswith('<progress value="1" max="2" aria-label="1 of 2 tensors"></progress>')
    assert last.data["text/plain"] == "2 of 2 tensors" and "<progress" in last.data["text/html"]
    bare.run_line_magic("unload_ext", "pyopnb")
    assert isinstance(progress.bar(), progress.Throttled)
    assert progress._make_bar == []


def test_without_a_shell_it_is_text(monkeypatch, capsys):
    monkeypatch.setattr("IPython.core.getipython.get_ipython", lambda: None)
    bar = progress_bar("tensors")
    bar(1, 2)
    bar(2, 2)
    assert "2 of 2 tensors" in capsys.readouterr().err
