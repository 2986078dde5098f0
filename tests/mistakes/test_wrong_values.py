"""Wrong values in every argument of public functions: what comes is a message of pyopnb's, or belongs to somebody else."""

from __future__ import annotations

import contextlib
import io
import warnings
from pathlib import Path
from traceback import walk_tb
from typing import Any

import pytest
from wrong_values import WRONG, Call, calls, renewed

import pyopnb
from pyopnb.errors import Filled

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
