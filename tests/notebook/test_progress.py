"""A bar in a cell's output, and its text."""

from __future__ import annotations

import time

import numpy as np
from IPython.utils.capture import capture_output

import pyopnb
from pyopnb.common import progress
from pyopnb.notebook.progress import progress_bar


def test_the_bar_of_a_cell(bare):
    bare.run_line_magic("load_ext", "pyopnb")
    with capture_output() as seen:
        bar = progress.bar("tensors")
        bar(1, 2)
        bar(2, 2)
    first, last = seen.outputs[0], seen.outputs[-1]
    assert first.data["text/html"].startswith(
        '<progress value="1" max="2" aria-label="1 of 2 tensors"></progress>'
    )
    assert last.data["text/plain"] == "2 of 2 tensors" and "<progress" in last.data["text/html"]
    bare.run_line_magic("unload_ext", "pyopnb")
    assert isinstance(progress.bar(), progress.Throttled)
    assert progress._make_bar == []


def test_without_a_shell_it_is_text(monkeypatch, capsys):
    monkeypatch.setattr("IPython.core.getipython.get_ipython", lambda: None)
    bar = progress_bar("tensors", time.monotonic())
    bar(1, 2)
    bar(2, 2)
    assert "2 of 2 tensors" in capsys.readouterr().err


def test_the_curve_of_a_training_is_one_output_that_ends_complete(bare):
    bare.run_line_magic("load_ext", "pyopnb")
    nodes = [pyopnb.node("Mul", "x w", "p"), pyopnb.node("ReduceMean", "p", "loss", keepdims=0)]
    model = pyopnb.model(nodes, {"x": "float32[N]"}, "loss", initializers={"w": np.float32([1])})
    with capture_output() as seen:
        result = pyopnb.train(
            model,
            {"x": np.ones(8, np.float32)},
            loss="loss",
            batch_size=2,
            optimizer=pyopnb.training.SGD(0.1),
        )
    assert len({output.transient["display_id"] for output in seen.outputs}) == 1
    assert [output.update for output in seen.outputs] == [False, *[True] * (len(seen.outputs) - 1)]
    last = seen.outputs[-1].data
    assert last["text/plain"].startswith("4 steps, 1 of 1 epoch, training loss 1 → 0.7, ")
    assert 'src="data:image/svg+xml;base64,' in last["text/html"]
    with capture_output() as seen:
        bare.display_formatter.format(result)
    assert not seen.outputs, "as the last expression of the same cell it repeats nothing"
    bare.execution_count += 1
    with capture_output() as seen:
        bare.display_formatter.format(result)
    assert seen.outputs[0].data["text/html"] == last["text/html"]
    bare.run_line_magic("unload_ext", "pyopnb")
    assert progress._make_panel == []
