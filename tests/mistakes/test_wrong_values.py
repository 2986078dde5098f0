"""Wrong values in every argument of public functions: what comes is a message of pyopnb's, or belongs to somebody else."""

from __future__ import annotations

import contextlib
import io
import warnings
from pathlib import Path
from traceback import walk_tb
from typing import Any

import numpy as np
import pytest
from wrong_values import WRONG, Call, calls, renewed

import pyopnb
from pyopnb.errors import Filled
from pyopnb.ops.module_files import save_module

OTHERS = {
    ("load_module", 0): SyntaxError,  # what the file raises, as itself
    ("Result[]", 0): IndexError,  # as any sequence; its text names the outputs
    ("Sweep.array", 0): IndexError,
    ("Sweep[]", 0): IndexError,
}
"""Exceptions that are not pyopnb's own, by function and argument."""

ELSEWHERE = {
    "reference": "onnx/reference/",  # documented: what ONNX's reference implementation raised, with a note
    "reference, Conv": "onnx/reference/",
}
"""Functions that hand on what another package raises, and where that is."""


def is_answer(call: Call, place: int | str, error: BaseException) -> bool:
    """Whether an exception tells the user what to do, or is one that is not ours to change."""
    if isinstance(error, pyopnb.PyopError):
        return error.expected is not None or error.next is not None or len(str(error)) > 30
    if type(error).__module__.startswith("onnxruntime"):
        return True  # the runtime's own words about a model or a kernel
    if type(error) is OTHERS.get((call.name, place)):
        return True
    deepest = [
        frame.f_code.co_filename.replace("\\", "/") for frame, _ in walk_tb(error.__traceback__)
    ][-1]
    return (
        call.name in ELSEWHERE
        and ELSEWHERE[call.name] in deepest
        and "reference implementation" in str(error.__notes__)
    )


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of its own: some of the wrong values are names of files."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def attempt(call: Call, place: int | str, value: Any) -> BaseException | None:
    try:
        with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            repr(call.with_value(place, value))
    except Exception as error:
        return error
    return None


def test_the_calls_work(here: Path) -> None:
    for call in calls(here):
        with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore", Filled)
            call.function(*call.positional, **call.named)
        renewed()


@pytest.mark.one_python
def test_wrong_values_are_answered(here: Path) -> None:
    raw, answered = [], 0
    for call in calls(here):
        for place in call.places():
            for name, value in WRONG.items():
                error = attempt(call, place, value() if name.endswith("generator") else value)
                renewed()
                answered += error is not None
                if error is not None and not is_answer(call, place, error):
                    raw.append(f"{call.name}, {place} = {name}: {type(error).__name__}: {error}")
    assert raw == []
    assert answered > 4000  # that something was tried


def test_a_raw_error_would_be_seen(here: Path) -> None:
    def raw(value: Any) -> Any:
        return value.split()

    error = attempt(Call("raw", raw, ("x",)), 0, 3)
    assert error is not None
    assert not is_answer(Call("raw", raw), 0, error)


X = np.float32([1, 2])


@pytest.mark.parametrize(
    ("attempted", "message"),
    [
        (lambda s, m: pyopnb.run("y", x=X), "model y failed. File doesn't exist. Try: a path from"),
        (lambda s, m: s.run_async(None, {}, print, None), r"expected x: float32\[N\], got nothing. Try: x=np.zeros"),
        (lambda s, m: s.run_async(None, None, print, None), r'feeds: expected a dict of name to array, got NoneType. Try: {"x":'),
        (lambda s, m: s.set_providers("x"), r"providers: expected a list of names, .*got str 'x'. Try: \['x'\]"),
        (lambda s, m: s.set_providers(["CPU"]), r"providers: expected some of .*got 'CPU'. Try: \['CPUExecutionProvider'\]"),
        (lambda s, m: pyopnb.node("Abs", 3, "y"), r'node, inputs: expected names, got int 3. Try: \["x"\]'),
        (lambda s, m: pyopnb.model(1, 2, 3), r"model, nodes: expected a list of nodes, got int 1. Try: \[pyopnb.node\("),
        (lambda s, m: pyopnb.save(m, 3), 'save, path: expected a path, got int 3. Try: "folder/file"'),
        (lambda s, m: save_module("f.py", ["a::B"]), r"save_module, ops: expected str, got list \['a::B'\]. Try: 'a::B'"),
        (lambda s, m: pyopnb.reference("Conv", X), r'expected 2 to 3 inputs \(X, W, B\), got 1. Try: pyopnb.reference\("::Conv", X, W\)'),
        (lambda s, m: pyopnb.reference("Cast", X), "reference of ::Cast, attr to: expected a value, as it has no default"),
        (lambda s, m: pyopnb.call("Cast", X, to=99), "call of Cast, attr to: expected the number of one of ONNX's dtypes, got 99. Try"),
        (lambda s, m: s(X)[7], r'result: expected one of 1 output \(y\), by name or by place, got int 7. Try: result\["y"\]'),
        (lambda s, m: s.run(None, {"x": X}, 3), "run, run_options: expected onnxruntime.RunOptions, or None, got int 3"),
    ],
)  # fmt: skip
def test_messages(attempted: Any, message: str) -> None:
    model = pyopnb.model(pyopnb.node("Abs", "x", "y"), {"x": "float32[N]"}, "y")
    with pytest.raises((pyopnb.PyopError, IndexError), match=message):
        attempted(pyopnb.Session(model), model)
