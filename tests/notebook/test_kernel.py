"""In a real kernel, a cell that fails stops the notebook, for people and for programs."""

from __future__ import annotations

import warnings
from pathlib import Path

import nbformat
import pytest
from limits import LIMIT
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

import pyopnb

ROOT = Path(pyopnb.__file__).parents[1]
GOOD = "%%pyop -d demo\nclass Twice:\n    def compute(self, x):\n        return x * 2\nTwice().compute(21)"
FAILING = {
    "schema": (
        "%%pyop\nclass Wrong:\n    def compute(self, x=3): ...\n",
        "DefinitionError: class Wrong, compute, input x",
    ),
    "usage": ("%%pyop --nope\nclass Wrong:\n    def compute(self, x): ...\n", "UsageError"),
    "body": (
        "%%pyop\nclass Wrong:\n    limit = 1 / 0\n    def compute(self, x): ...\n",
        "ZeroDivisionError",
    ),
}


@pytest.fixture(scope="module")
def kernel():
    """A client whose kernel has run the good cell; cells are run in it one at a time."""
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(text) for text in ("%load_ext pyopnb", GOOD)]
    )
    client = NotebookClient(
        notebook,
        timeout=int(LIMIT),
        kernel_name="python3",
        resources={"metadata": {"path": str(ROOT)}},
    )
    with warnings.catch_warnings():
        warnings.simplefilter("default")  # for files that the client itself leaves open
        with client.setup_kernel():
            for at, cell in enumerate(list(notebook.cells)):
                client.execute_cell(cell, at)
            yield client


def run(client, text):
    cell = nbformat.v4.new_code_cell(text)
    client.nb.cells.append(cell)
    client.execute_cell(cell, len(client.nb.cells) - 1)
    return cell.outputs


def test_a_good_cell(kernel):
    stream, value = kernel.nb.cells[1].outputs
    assert stream["text"] == "demo::Twice, version 1: (x)\n"
    assert value["data"]["text/plain"] == "42"


@pytest.mark.parametrize("kind", FAILING)
def test_a_failing_cell_stops_the_notebook(kernel, kind):
    cell, text = FAILING[kind]
    with pytest.raises(CellExecutionError, match=text):
        run(kernel, cell)
