"""The time of ``show`` of a model, with all its HTML: at most 60 ms for 300 nodes, and 1 s for 3,000."""

from __future__ import annotations

import random
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
from table import Row, milli, timed

sys.path.append(str(Path(__file__).parents[1] / "networks"))
from transformer import transformer

import pyopnb


def far_readers(count: int) -> onnx.ModelProto:
    """Make a model whose nodes read the one before them and three anywhere above."""
    chance = random.Random(0)
    names = ["x"]
    nodes = []
    for number in range(count):
        read = dict.fromkeys([names[-1], *chance.choices(names, k=3)])
        names.append(f"y{number}")
        nodes.append(onnx.helper.make_node("Sum", list(read), names[-1:]))
    ends = [onnx.helper.make_tensor_value_info(name, 1, [3]) for name in (names[0], names[-1])]
    graph = onnx.helper.make_graph(nodes, "far_readers", ends[:1], ends[1:])
    opset = onnx.helper.make_opsetid("", 17)
    return onnx.helper.make_model(graph, opset_imports=[opset], ir_version=8)


def rows() -> Iterator[Row]:
    for blocks, repeats, bar in ((1, 20, None), (10, 20, 60.0), (100, 3, 1000.0)):
        model = transformer(blocks=blocks)
        pyopnb.show(model)  # the first call imports the display
        best = timed({"show": lambda m=model: pyopnb.show(m)}, repeats)["show"]
        size = f"{len(pyopnb.show(model).body) / 1000:.0f} KB of HTML"
        yield Row(
            f"show, {30 * blocks:,} nodes of a transformer, milliseconds",
            milli(best),
            size,
            best * 1e3,
            bar,
        )
    for blocks in (32, 100):
        trace = pyopnb.Session(transformer(blocks=blocks)).trace(x=np.ones((1, 4, 32), np.float32))
        best = timed({"show": lambda t=trace: pyopnb.show(t)}, 3)["show"]
        size = f"{len(pyopnb.show(trace).body) / 1000:.0f} KB of HTML"
        yield Row(
            f"show, a trace of {30 * blocks:,} nodes, milliseconds",
            milli(best),
            size,
            best * 1e3,
            1000.0,
        )
    view = pyopnb.show(transformer(blocks=11))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "network.png"
        best = timed({"save": lambda: view.save(path)}, 3)["save"]
        size = f"{path.stat().st_size / 1000:.0f} KB"
    yield Row("save a PNG of 330 nodes, milliseconds", milli(best), size, best * 1e3, 2000.0)
    tangled = pyopnb.show(far_readers(3000))
    seconds = timed({"draw": tangled.draw}, 1)["draw"]
    yield Row(
        "draw 3,000 nodes that read far ones, milliseconds",
        milli(seconds),
        "",
        seconds * 1e3,
        5000.0,
    )
