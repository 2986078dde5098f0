"""Every public function that takes a model, each as a function of a ModelProto and of a folder to write to.

Both the bombs and the fuzzed models go through all of them: what is added to pyopnb and takes a
model is added here.
"""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from onnx import ModelProto

import pyopnb
from pyopnb.__main__ import main

__all__ = ["TAKERS", "VIEWERS", "feeds_of", "prepare"]


def feeds_of(model: ModelProto) -> dict[str, Any]:
    """Zeros for the inputs, as far as these say what they take; what they do not is made up."""
    given = {t.name for t in model.graph.initializer}
    feeds = {}
    for info in model.graph.input:
        if info.name in given or not isinstance(info.name, str):
            continue
        tensor = info.type.tensor_type
        sizes = [d.dim_value if 0 < d.dim_value < 5 else 2 for d in tensor.shape.dim][:4]
        feeds[info.name] = np.zeros(
            sizes, {7: np.int64, 9: np.bool_, 11: np.float64}.get(tensor.elem_type, np.float32)
        )
    return feeds


def _display(thing: Any) -> None:
    repr(thing), str(thing)
    for name in ("_repr_html_", "_repr_mimebundle_"):
        if hasattr(thing, name):
            getattr(thing, name)()


def _first(model: ModelProto) -> Any:
    return model.graph.node[0] if model.graph.node else "nothing"


def _twin(model: ModelProto) -> ModelProto:
    twin = ModelProto()
    twin.CopyFrom(model)
    if twin.graph.node:
        twin.graph.node[0].op_type = "Sign"
    return twin


def _command(*words: str) -> Callable[[ModelProto, Path], None]:
    def run(model: ModelProto, folder: Path) -> None:
        path = folder / "m.onnx"
        path.write_bytes(model.SerializeToString())
        with (
            contextlib.redirect_stdout(io.StringIO()),
            contextlib.redirect_stderr(io.StringIO()) as told,
        ):
            try:
                code = main([word.format(path=path, folder=folder) for word in words])
            except SystemExit as end:
                code = end.code
        assert code in (None, 0, 1, 2), code
        assert "Traceback" not in told.getvalue(), told.getvalue()

    return run


def _save(model: ModelProto, folder: Path) -> None:
    pyopnb.save(model, folder / "saved.onnx")
    _display(pyopnb.load(folder / "saved.onnx"))


def _trace(model: ModelProto, folder: Path) -> None:
    trace = pyopnb.trace(model, **feeds_of(model))
    _display(trace), _display(pyopnb.show(trace))


VIEWERS: dict[str, Callable[[ModelProto, Path], Any]] = {
    "show": lambda model, folder: _display(pyopnb.show(model)),
    "show bytes": lambda model, folder: _display(pyopnb.show(model.SerializeToString())),
    "netron": lambda model, folder: _display(pyopnb.netron(model)),
    "diff": lambda model, folder: _display(pyopnb.diff(model, _twin(model))),
    "text": lambda model, folder: pyopnb.text(model),
}
"""Those that only show: they show a bomb as well, without what would set it off."""

TAKERS: dict[str, Callable[[ModelProto, Path], Any]] = {
    **VIEWERS,
    "load": lambda model, folder: _display(pyopnb.load(model)),
    "load bytes": lambda model, folder: _display(pyopnb.load(model.SerializeToString())),
    "save": _save,
    "missing": lambda model, folder: _display(pyopnb.missing(model)),
    "skeleton": lambda model, folder: pyopnb.skeleton(model, _first(model)),
    "fill": lambda model, folder: pyopnb.fill(model, [_first(model)]),
    "replace": lambda model, folder: pyopnb.replace(model, _first(model), "taker::Any"),
    "wrap": lambda model, folder: pyopnb.wrap(model, _first(model), print),
    "session": lambda model, folder: _display(pyopnb.Session(model)),
    "session fill": lambda model, folder: pyopnb.Session(model.SerializeToString(), fill=True),
    "run": lambda model, folder: _display(pyopnb.run(model, **feeds_of(model))),
    "trace": _trace,
    "trace reference": lambda model, folder: _display(
        pyopnb.trace(model, on="reference", **feeds_of(model))
    ),
    "first divergence": lambda model, folder: _display(
        pyopnb.first_divergence(model, _twin(model), feeds_of(model))
    ),
    "command show": _command("show", "{path}", "--save", "{folder}/shown.html"),
    "command missing": _command("missing", "{path}"),
}


class _Any:
    def __init__(self, **attrs: Any) -> None: ...

    def compute(self, *inputs: Any) -> Any:
        return inputs[0] if inputs else 0


def prepare() -> None:
    """Define the op that they put into models; for the start of a script."""
    pyopnb.registry.define(_Any, "taker::Any")
    warnings.simplefilter("ignore")
