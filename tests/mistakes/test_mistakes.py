"""The table of mistakes: each is typed in a shell, its message is read, and its advice is typed as it stands there."""

from __future__ import annotations

import shlex
import warnings
from collections.abc import Callable
from pathlib import Path

import in_lines
import in_models
import in_onnx_cells
import in_pyop_cells
import in_refused_models
import in_runs
import in_training
import pytest
from IPython.core.error import UsageError
from IPython.utils.capture import capture_output
from mistake import Mistake

import pyopnb
from pyopnb.__main__ import main

PARTS = (in_pyop_cells, in_onnx_cells, in_models, in_refused_models, in_runs, in_training, in_lines)
TABLE = [row for part in PARTS for row in part.MISTAKES]
# What is wrong in the text of a class, each Python says in its own words; the other
# messages are pyopnb's.
PARAMETERS = [
    pytest.param(
        row,
        id=row.name,
        marks=pytest.mark.pythons if part is in_pyop_cells else pytest.mark.libraries,
    )
    for part in PARTS
    for row in part.MISTAKES
]
PACKAGE = str(Path(pyopnb.__file__).parent)
COMMAND = "!python -m pyopnb "

Type = Callable[[str], tuple[bool, str]]


@pytest.fixture
def type_(run, tmp_path, monkeypatch) -> Type:
    """Type a cell: whether it ran without an error, and what a user reads below it, without the traceback's frames."""
    monkeypatch.chdir(tmp_path)

    def type_(cell: str) -> tuple[bool, str]:
        if cell.startswith(COMMAND):
            with capture_output() as shown, warnings.catch_warnings():
                warnings.simplefilter("default")
                code = main(shlex.split(cell.removeprefix(COMMAND)))
            return code == 0, shown.stdout + shown.stderr
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            ran = run(cell)
        said = [f"{each.category.__name__}: {each.message}" for each in warned]
        error = ran.error
        assert PACKAGE not in ran.out, ran.out
        if error is None or isinstance(error, UsageError):
            return error is None, "\n".join([*said, ran.out, ran.err])
        return False, "\n".join(
            [*said, f"{type(error).__name__}: {error}", *getattr(error, "__notes__", ())]
        )

    assert type_("import numpy as np\nimport onnx\nimport pyopnb")[0]
    return type_


@pytest.mark.parametrize("row", PARAMETERS)
def test_the_message_says_what_is_wrong_and_its_advice_works(
    row: Mistake, type_: Type, shell
) -> None:
    shown = []
    for cell in row.cells():
        ran, text = type_(cell)
        shown.append(text)
        if not ran:
            break
    message = "\n".join(shown)
    for piece in row.says:
        assert piece in message, message
    for cell in row.corrected(message):
        ran, text = type_(cell)
        assert ran, f"{cell}\n{text}\nafter\n{message}"
    assert eval(row.proof, shell.user_ns), f"{row.proof}\nafter\n{message}"


def test_names_are_unique() -> None:
    assert len({row.name for row in TABLE}) == len(TABLE)
