"""From a redefinition to the next result, in a model of 1 MB and in one of 500 MB: nothing may depend on the weights."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
from table import Row, milli

import pyopnb

WIDTH = 1024
TIMES = 60
SOURCE = """
class Scale:
    def __init__(self, by: float = 1.0):
        self.by = by
    def compute(self, x: "float32[N,M]") -> "float32[N,M]":
        return x * np.float32(self.by + {version})
"""


def redefine(version: int) -> None:
    """What a %%pyop cell does: run the class statement, put the class into the registry with its text."""
    text = SOURCE.format(version=version)
    namespace = {"np": np}
    exec(text, namespace)
    pyopnb.registry.define(namespace["Scale"], "bench::Scale", source=text)


def model(folder: Path, megabytes: int) -> Path:
    """A table of that size, of which a run looks at one row."""
    data = np.random.default_rng(0).random((megabytes * 2**20 // 4 // WIDTH, WIDTH), np.float32)
    data.tofile(folder / f"{megabytes}.bin")
    nodes = [
        pyopnb.node("Gather", "weights i", "row"),
        pyopnb.node("bench::Scale", "row", "y", by=2.0),
    ]
    made = pyopnb.model(nodes, {"i": "int64[N]"}, "y", initializers={"weights": data[:1]})
    (weights,) = made.graph.initializer
    weights.ClearField("raw_data")
    weights.dims[0] = len(data)
    weights.data_location = onnx.TensorProto.EXTERNAL
    weights.external_data.add(key="location", value=f"{megabytes}.bin")
    path = folder / f"{megabytes}.onnx"
    onnx.save(made, path)
    return path


def seconds_on_top(path: Path) -> float:
    """Median of redefinition and run, less the median of a run."""
    redefine(0)
    session, feeds = pyopnb.Session(path), {"i": np.zeros(1, np.int64)}
    first = session.run(None, feeds)[0]
    alone, both = [], []
    for version in range(1, TIMES):
        begin = time.perf_counter()
        session.run(None, feeds)
        middle = time.perf_counter()
        redefine(version)
        last = session.run(None, feeds)[0]
        alone.append(middle - begin)
        both.append(time.perf_counter() - middle)
        np.testing.assert_allclose(last * 2, first * (2 + version), rtol=1e-5)
    return statistics.median(both) - statistics.median(alone)


def rows() -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as folder:
        small = seconds_on_top(model(Path(folder), 1))
        large = seconds_on_top(model(Path(folder), 500))
    what = "ms from redefinition to next result, on top of the run, {}"
    yield Row(what.format("1 MB"), milli(small), "", small * 1e3, 1)
    yield Row(what.format("500 MB"), milli(large), f"{milli(small)} with 1 MB", large * 1e3, 1)
