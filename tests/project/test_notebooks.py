"""Every notebook runs from top to bottom, in the pages of docs/ as well, and is saved without what a run leaves in it.

Those that need a framework run where that is: in docs/, which has scikit-learn and
Dask, and in tests/torch.
"""

import pytest
from limits import LIMIT
from nbclient import NotebookClient
from tutorials import (
    CLAIMS,
    FOLDER,
    PATHS,
    assert_raised_as_told,
    door,
    read,
    tags,
    with_claims,
)


def test_each_notebook_has_a_lane():
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
    for cell in notebook.cells:
        assert not cell.get("outputs") and not cell.get("execution_count"), (
            "type: jupyter nbconvert --clear-output --inplace notebooks/*.ipynb"
        )
    assert "widgets" not in notebook.metadata, "clear the widgets in JupyterLab's Kernel menu"


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_what_a_notebook_claims_is_checked(path):
    claims, last = CLAIMS / f"{path.stem}.py", read(path).cells[-1]
    if claims.exists():
        assert "assert" in claims.read_text(encoding="utf-8")
    else:
        assert "assert" in last.source and tags(last) == ["remove-cell"], f"write {claims}"
