"""Whether the installed onnxruntime gives each run a logger of its own: under ``ORT_PARALLEL``, calls find their run by it.

It does, in every version that was looked at, and nothing promises it. So before the first such session is built, a run in
another one of the same session says whether it still does.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import onnx
import onnxruntime
from onnx import ModelProto

from pyopnb.models.io import read_model
from pyopnb.ops.errors import RunRefused
from pyopnb.runtime import _bridge
from pyopnb.runtime.built import CPU, Built, Recipe
from pyopnb.runtime.plan import Plan
from pyopnb.runtime.trace.select import NamedTensor, named_tensors
from pyopnb.runtime.trace.taps import Sink, insert_taps, make_taps

__all__ = ["check_run_loggers"]

_MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
probe (bool c, float[1] x) => (float[1] y) {
    a = Abs(x)
    b = If (c) <then_branch = t () => (float[1] u) { u = Neg(a) }, else_branch = e () => (float[1] v) { v = Exp(a) }>
    y = Neg(b)
}
"""


class _Probe(Sink):
    """Notes the logger of each call in a run, and in a second run inside its first call."""

    def __init__(self) -> None:
        super().__init__(keeps=False, sums=False)
        self.loggers: list[list[int]] = [[], []]
        self._inside = False
        model = onnx.parser.parse_model(_MODEL)
        source = read_model(model)
        self._built: Built = Recipe(None, [CPU], None, {}, frozenset()).build(source, prepare=self._prepare)

    def _prepare(self, plan: Plan, proto: ModelProto) -> None:
        tensors = named_tensors(proto, bodies=True)
        plan.nodes += (taps := make_taps(tensors, self))
        insert_taps(tensors, taps)

    def take(self, tensor: NamedTensor, array: np.ndarray) -> None:
        self.loggers[self._inside].append(_bridge.logger())
        if not self._inside and len(self.loggers[0]) == 1:
            self._inside = True
            self.run()
            self._inside = False

    def run(self) -> None:
        feeds = {"c": np.array(True), "x": np.ones(1, np.float32)}
        self._built.call(self._built.runtime.run, (["y"], feeds), feeds)


@cache
def check_run_loggers() -> None:
    """Raise where calls under ``ORT_PARALLEL`` would not find their run.

    Raises
    ------
    RunRefused
        Calls of one run have several loggers, or two runs at once have the same.
    """
    probe = _Probe()
    probe.run()
    outer, inner = map(set, probe.loggers)
    if len(outer) != 1 or len(inner) != 1 or outer == inner:
        raise RunRefused(
            "session with ExecutionMode.ORT_PARALLEL",
            expected="an onnxruntime in which each run has a logger of its own, by which an op's call finds its run",
            got=f"onnxruntime {onnxruntime.__version__}, in which runs have other loggers or share them",
            next="pyopnb.Session(model), without options.execution_mode = ORT_PARALLEL",
        )
