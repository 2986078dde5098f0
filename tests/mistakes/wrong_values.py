"""Calls of public functions that work, and values that are wrong in nearly every argument of them.

Not here: what needs a notebook (interact, watch), and check_grad, cpp_op, forms, grad and train.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime

import pyopnb
from pyopnb.ops.module_files import load_module, save_module
from pyopnb.ops.registry import Registry
from pyopnb.ops.types import tensor_type

__all__ = ["WRONG", "Call", "Half", "calls", "renewed"]


class Opaque:
    """Nothing that anybody expects."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        pass

    def __repr__(self) -> str:
        return "Opaque()"


WRONG: dict[str, Any] = {
    "None": None,
    "3": 3,
    "True": True,
    "nan": float("nan"),
    "1j": 1j,
    "'x'": "x",
    "''": "",
    "'a lone surrogate'": "\ud800",
    "b'x'": b"x",
    "[]": [],
    "[None]": [None],
    "[[1], [1, 2]]": [[1], [1, 2]],
    "{}": {},
    "{3: 4}": {3: 4},
    "{'x': None}": {"x": None},
    "object": Opaque(),
    "a class": Opaque,
    "a function": lambda *args, **kwargs: None,
    "an array": np.arange(3.0),
    "an array of objects": np.array([None, "x"], object),
    "an array of dates": np.array(["2020-01-01"], "datetime64[D]"),
    "a path that is not there": Path("not", "there.onnx"),
    "a folder": Path(os.sep),
    "an empty model": onnx.ModelProto(),
    "a model without nodes": onnx.ModelProto(graph=onnx.GraphProto()),
    "a node": onnx.NodeProto(),
    "a tensor": onnx.TensorProto(),
    "a generator": lambda: (each for each in ()),
    "a set": {1},
    "a huge int": 10**30,
    "an OrtValue": onnxruntime.OrtValue.ortvalue_from_numpy(np.float32([1])),
}


@dataclass(frozen=True)
class Call:
    """A call that works; each of its arguments is replaced in turn."""

    name: str
    function: Callable[..., Any]
    positional: tuple[Any, ...] = ()
    named: dict[str, Any] = field(default_factory=dict)
    free: tuple[str, ...] = ()
    """Arguments that may be left out, which `named` does not give."""

    def places(self) -> Iterator[int | str]:
        """Its arguments: positions and names."""
        yield from range(len(self.positional))
        yield from self.named
        yield from self.free

    def with_value(self, place: int | str, value: Any) -> Any:
        """Make the call with one argument replaced."""
        positional, named = list(self.positional), dict(self.named)
        if isinstance(place, int):
            positional[place] = value
        else:
            named[place] = value
        return self.function(*positional, **named)


class Half:
    """An op to call."""

    def __init__(self, by: float = 2.0) -> None:
        self.by = by

    def compute(self, x: "float32[N]") -> "float32[N]":
        return x / np.float32(self.by)


def renewed() -> None:
    """Define the op again where a call removed it."""
    if "wrong::Half" not in pyopnb.registry:
        pyopnb.pyop("wrong::Half")(Half)


def calls(folder: Path) -> list[Call]:
    """A call of each public function and method."""
    pyopnb.pyop("wrong::Half")(Half)
    x = np.float32([1, 2, 3])
    model = pyopnb.model(
        [pyopnb.node("wrong::Half", "x", "h"), pyopnb.node("Abs", "h", "y", "abs")],
        {"x": "float32[N]"},
        "y",
    )
    session = pyopnb.Session(model)
    result, trace = session(x=x), session.trace(x=x)
    written = pyopnb.text(model)
    saved, module = folder / "saved.onnx", folder / "saved.py"
    kept = pyopnb.save(model, saved)
    save_module(module, "wrong::Half")
    binding = session.io_binding()
    binding.bind_cpu_input("x", x)
    binding.bind_output("y")
    value = onnxruntime.OrtValue.ortvalue_from_numpy(x)
    sweep = pyopnb.sweep(session, x=x, by=[1.0, 2.0])
    profile = pyopnb.profile(session, x, runs=1, warmup=0)
    into = Registry()

    def ran_async(*arguments: Any) -> None:
        session.run_async(*arguments)

    return [
        Call("node", pyopnb.node, ("Abs", "x", "y"), {"name": "n", "alpha": 1.0}),
        Call(
            "model",
            pyopnb.model,
            ([pyopnb.node("Abs", "x", "y")], {"x": "float32[N]"}, "y"),
            {"initializers": {"w": x}, "functions": (), "opset": 17, "name": "g"},
        ),
        Call(
            "model, values",
            lambda value, other, array: pyopnb.model(
                [pyopnb.node("Abs", "x", "y")],
                {"x": value},
                {"y": other},
                initializers={"w": array},
            ),
            ("float32[N]", "float32[N]", x),
        ),
        Call("parse", pyopnb.parse, (written,), {"name": "g"}),
        Call(
            "text",
            pyopnb.text,
            (model,),
            {"most": 100, "drop": ("metadata",)},
        ),
        Call("load", pyopnb.load, (saved,), {"ops": ["wrong::Half"], "base_dir": folder}),
        Call(
            "save",
            pyopnb.save,
            (model, folder / "again.onnx"),
            {"external_data": True, "base_dir": folder},
        ),
        Call("load_module", load_module, (module,)),
        Call(
            "save_module",
            save_module,
            (folder / "again.py", "wrong::Half"),
            {"overwrite": True},
        ),
        Call("missing", pyopnb.missing, (model,)),
        Call("fill", pyopnb.fill, (model,), {"nodes": "abs", "base_dir": folder}),
        Call("replace", pyopnb.replace, (model, "abs", "wrong::Half"), {"base_dir": folder}),
        Call("wrap", pyopnb.wrap, (model, "abs", lambda seen: None), {"base_dir": folder}),
        Call("skeleton", pyopnb.skeleton, (model, "abs"), {"base_dir": folder}),
        Call("run", pyopnb.run, (model, x), {"fill": False}),
        Call("run, named", pyopnb.run, (model,), {"x": x}),
        Call(
            "trace",
            pyopnb.trace,
            (model, x),
            {
                "on": "onnxruntime",
                "only": "y",
                "level": "all",
                "bodies": False,
                "check": True,
                "times": True,
                "optimised": True,
                "progress": False,
                "base_dir": folder,
                "fill": False,
            },
        ),
        Call(
            "trace, reference",
            pyopnb.trace,
            (model, x),
            {"on": "reference", "only": "y", "level": "all", "times": True, "progress": False},
        ),
        Call("call", pyopnb.call, ("wrong::Half", x), {"by": 2.0, "outputs": 1, "opset": 1}),
        Call("call, Cast", pyopnb.call, ("Cast", x), {"to": 1, "outputs": 1, "opset": 17}),
        Call("check", pyopnb.check, ("wrong::Half", x), {"examples": [(x,)], "by": 2.0}),
        Call("reference", pyopnb.reference, ("Abs", x), {"opset": 17, "outputs": 1}),
        Call(
            "reference, Conv",
            pyopnb.reference,
            ("Conv", np.ones((1, 1, 3, 3), "f"), np.ones((1, 1, 2, 2), "f")),
            {"pads": [0, 0, 0, 0]},
        ),
        Call("diff", pyopnb.diff, (x, x + 1), {"rtol": 1e-3, "atol": 1e-3, "stol": 1e-3}),
        Call("diff, models", pyopnb.diff, (model, model)),
        Call("diff, traces", pyopnb.diff, (trace, trace), {"rtol": 1e-3}),
        Call("diff, results", pyopnb.diff, (result, result)),
        Call(
            "first_divergence",
            pyopnb.first_divergence,
            (model, model, {"x": x}),
            {
                "rtol": 1e-3,
                "atol": 1e-3,
                "stol": 1e-3,
                "on": "onnxruntime",
                "optimised": True,
                "at_once": 8,
            },
        ),
        Call(
            "lower",
            pyopnb.lower,
            ("wrong::Half", x),
            {"examples": [(x,)], "opset": 17, "finite": True, "strict": True, "by": 2.0},
        ),
        Call("lower, model", pyopnb.lower, (model, {"x": x})),
        Call("sweep", pyopnb.sweep, (session,), {"x": x, "by": [1.0, 2.0]}),
        Call("show", pyopnb.show, (model,)),
        Call("show, trace", pyopnb.show, (trace,)),
        Call("show, array", pyopnb.show, (x,)),
        Call("netron", pyopnb.netron, (model,), {"name": "n", "height": 200, "embed": True}),
        Call("tensor_type", tensor_type, ("float32[N]",)),
        Call(
            "pyop",
            lambda name, cls, **named: pyopnb.pyop(name, **named)(cls),
            ("wrong::Other", Half),
            {"opset": 1, "module": "wrong_module", "into": into},
        ),
        Call(
            "Session",
            pyopnb.Session,
            (model, onnxruntime.SessionOptions(), ["CPUExecutionProvider"], [{}]),
            {"modules": (), "base_dir": folder, "fill": False},
        ),
        Call("Session()", session.__call__, (x,)),
        Call("Session.run", session.run, (["y"], {"x": x}, onnxruntime.RunOptions())),
        Call("Session.run, feed", lambda x: session.run(None, {"x": x}), (x,)),
        Call(
            "Session.run_async",
            ran_async,
            (["y"], {"x": x}, lambda values, data, error: None, None, onnxruntime.RunOptions()),
        ),
        Call(
            "Session.run_with_ort_values",
            session.run_with_ort_values,
            (["y"], {"x": value}, onnxruntime.RunOptions()),
        ),
        Call(
            "Session.run_with_iobinding",
            session.run_with_iobinding,
            (binding, onnxruntime.RunOptions()),
        ),
        Call(
            "Session.trace",
            session.trace,
            (x,),
            {"only": "y", "level": "all", "times": True, "progress": False},
        ),
        Call(
            "Session.set_providers",
            lambda *given: pyopnb.Session(model).set_providers(*given),
            (["CPUExecutionProvider"], [{}]),
        ),
        Call("Session.set_attrs", session.set_attrs, ("h",), {"by": 2.0}),
        Call("Session.with_attrs", session.with_attrs, ("h",), {"by": 2.0}),
        Call("Result", pyopnb.Result, ({"y": x},)),
        Call("Result[]", result.__getitem__, ("y",)),
        Call("Trace[]", trace.__getitem__, ("y",)),
        Call("profile", pyopnb.profile, (session, x), {"runs": 2, "warmup": 0}),
        Call("Profile.to_chrome", profile.to_chrome, (folder / "trace.json",), {"runs": "median"}),
        Call("Profile.table", profile.table, (), {"most": 3}),
        Call("Profile[]", profile.__getitem__, ("y",)),
        Call("Sweep.array", sweep.array, ("y",)),
        Call("Sweep.table", sweep.table, (), {"most": 3}),
        Call("Sweep[]", sweep.__getitem__, (0,)),
        Call("Loaded.state", pyopnb.load(saved).state, (kept[0],)),
        Call("TensorType", pyopnb.TensorType, (None, None)),
        Call("registry[]", pyopnb.registry.__getitem__, ("wrong::Half",)),
        Call("registry in", pyopnb.registry.__contains__, ("wrong::Half",)),
        Call("registry.history", pyopnb.registry.history, ("wrong::Half",)),
        Call(
            "registry.rollback",
            lambda name, number: pyopnb.registry.rollback(name, number),
            ("wrong::Half", 1),
        ),
        Call("registry.modules_of", pyopnb.registry.modules_of, ("wrong::Half",)),
        Call("registry.remove", pyopnb.registry.remove, ("wrong::Half",)),
        Call("registry.save", pyopnb.registry.save, (folder / "registry.html",)),
        Call(
            "registry.define",
            into.define,
            (Half, "wrong::Third"),
            {"opset": 1, "module": "m", "source": "class Half: pass", "restored": 1},
        ),
        Call(
            "registry.subscribe",
            into.subscribe,
            (lambda version: None,),
            {"removed": lambda name: None},
        ),
    ]
