"""Every notebook runs from top to bottom, in the pages of docs/ as well, and is saved without what a run leaves in it.

Those that need a framework run where that is: in docs/, which has scikit-learn's door and Dask, and in tests/torch.
"""

import re

import pytest
from limits import LIMIT
from nbclient import NotebookClient
from tutorials import (
    CLAIMS,
    FOLDER,
    PATHS,
    assert_raised_as_told,
    code_cells,
    door,
    read,
    tags,
    with_claims,
)


def test_there_are_notebooks():
    assert PATHS


def test_notebooks_of_doors_are_told_by_what_they_use():
    assert [path.stem[:2] for path in PATHS if door(path) is None] == [
        *(f"{number:02}" for number in range(9)),
        "14",
        "15",
        "17",
        "18",
    ]
    assert {door(path) for path in PATHS} == {None, "torch", "sklearn", "dask"}


@pytest.mark.in_docs
@pytest.mark.parametrize(
    "path", [path for path in PATHS if door(path) is None], ids=lambda path: path.stem
)
def test_notebook_runs(path):
    notebook = with_claims(path)
    NotebookClient(
        notebook,
        timeout=int(LIMIT),
        kernel_name="python3",
        resources={"metadata": {"path": str(FOLDER)}},
    ).execute()
    assert_raised_as_told(notebook)


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_notebook_is_stripped(path):
    notebook = read(path)
    ran = [
        cell.id
        for cell in notebook.cells
        if cell.cell_type == "code" and (cell.outputs or cell.execution_count)
    ]
    assert not ran, (
        "saved with outputs; type: jupyter nbconvert --clear-output --inplace notebooks/*.ipynb"
    )
    assert "widgets" not in notebook.metadata, (
        "saved with the state of its widgets; clear it in JupyterLab's Kernel menu"
    )


def is_folded(cell):
    return cell.metadata.get("jupyter") == {"source_hidden": True} and tags(cell) == ["remove-cell"]


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_what_a_notebook_claims_is_checked(path):
    claims = CLAIMS / f"{path.stem}.py"
    last = read(path).cells[-1]
    if claims.exists():
        assert not any(is_folded(cell) for cell in code_cells(read(path)))
        assert "assert" in claims.read_text(encoding="utf-8")
    else:
        assert is_folded(last) and "assert" in last.source, f"write its asserts to {claims}"


@pytest.mark.parametrize("path", sorted(CLAIMS.glob("*.py")), ids=lambda path: path.stem)
def test_notebook_ends_with_a_sentence_and_links(path):
    last = read(FOLDER / f"{path.stem}.ipynb").cells[-1]
    assert last.cell_type == "markdown"
    targets = re.findall(r"\]\((\d\d_\w+\.ipynb)\)", last.source)
    assert targets and all((FOLDER / target).exists() for target in targets)


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_notebook_is_a_story(path):
    scaffolding = ("try:", "except ", "raise ", "assert_", "warnings.", "print(error")
    told = [cell.source for cell in code_cells(read(path)) if not is_folded(cell)]
    found = [
        (text, source)
        for source in told
        for text in scaffolding
        for line in source.splitlines()
        if line.strip().startswith(text)
    ]
    assert not found, (
        "an error that is shown is a cell tagged raises-exception; what checks the notebook is in tests/claims"
    )
