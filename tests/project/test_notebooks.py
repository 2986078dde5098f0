"""Every notebook runs from top to bottom, in the pages of docs/ as well, and is saved without what a run leaves in it."""

from pathlib import Path

import nbformat
import pytest
from limits import LIMIT
from nbclient import NotebookClient

FOLDER = Path(__file__).parents[2] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def code_cells(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def tags(cell):
    return cell.metadata.get("tags", [])


def test_there_are_notebooks():
    assert NOTEBOOKS


@pytest.mark.in_docs
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_runs(path):
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=int(LIMIT), kernel_name="python3", resources={"metadata": {"path": str(FOLDER)}}).execute()
    raised = [cell.source for cell in code_cells(notebook) if any(output.output_type == "error" for output in cell.outputs)]
    assert raised == [cell.source for cell in code_cells(notebook) if "raises-exception" in tags(cell)]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_is_stripped(path):
    notebook = nbformat.read(path, as_version=4)
    ran = [cell.id for cell in notebook.cells if cell.cell_type == "code" and (cell.outputs or cell.execution_count)]
    assert not ran, "saved with outputs; type: jupyter nbconvert --clear-output --inplace notebooks/*.ipynb"
    assert "widgets" not in notebook.metadata, "saved with the state of its widgets; clear it in JupyterLab's Kernel menu"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_ends_with_a_check_that_its_reader_does_not_see(path):
    heading, last = nbformat.read(path, as_version=4).cells[-2:]
    assert last.cell_type == "code"
    assert "assert" in last.source, "a notebook claims things, and its last cell checks them"
    assert last.metadata.get("jupyter") == {"source_hidden": True}, "folded in JupyterLab"
    assert tags(heading) == tags(last) == ["remove-cell"], "left out of the pages"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_is_a_story(path):
    scaffolding = ("try:", "except ", "raise ", "assert_", "warnings.", "print(error")
    told = [cell.source for cell in code_cells(nbformat.read(path, as_version=4))[:-1]]
    found = [
        (text, source)
        for source in told
        for text in scaffolding
        for line in source.splitlines()
        if line.strip().startswith(text)
    ]
    assert not found, "an error that is shown is a cell tagged raises-exception; what checks the notebook is its last cell"
