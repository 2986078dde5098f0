"""The notebooks on torch run from top to bottom; the pages of docs/ show what they gave, as it is left in build/ here."""

import os
import sys
from pathlib import Path

import nbformat
import pytest
from limits import LIMIT
from nbclient import NotebookClient
from nbclient.util import run_sync
from nbformat.v4 import new_code_cell, new_notebook
from tutorials import FOLDER, PATHS, assert_raised_as_told, code_cells, door, read, with_claims

EXECUTED = Path(__file__).parents[2] / "build" / "notebooks"
FORGET = "import pyopnb\n\npyopnb.registry.clear()\n%unload_ext pyopnb\n%reset -f"


@pytest.fixture(scope="module")
def execute(tmp_path_factory):
    """Runs a notebook. One kernel serves all of them, as torch takes longer to import than they take to run."""
    runner = NotebookClient(
        new_notebook(),
        timeout=int(LIMIT),
        kernel_name="python3",
        resources={"metadata": {"path": str(FOLDER)}},
    )

    def execute(notebook):
        runner.nb = notebook
        runner.execute(reset_kc=False, cleanup_kc=False)

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(
            "TORCH_EXTENSIONS_DIR", str(tmp_path_factory.mktemp("extensions"))
        )  # what is compiled, each time
        patch.setenv(
            "PATH", str(Path(sys.executable).parent), prepend=os.pathsep
        )  # for ninja, which is beside this Python
        yield execute
    runner.kc.stop_channels()
    run_sync(runner.km.shutdown_kernel)(now=True)


def drop_log(notebook):
    """Drop what torch writes into its log of torchvision, which this lane does not have."""
    for cell in code_cells(notebook):
        for output in cell.outputs:
            if output.get("name") == "stderr":
                output.text = "".join(
                    line
                    for line in output.text.splitlines(True)
                    if "torchvision is not installed" not in line
                )
        cell.outputs = [
            output for output in cell.outputs if output.get("name") != "stderr" or output.text
        ]


@pytest.mark.parametrize(
    "path", [path for path in PATHS if door(path) == "torch"], ids=lambda path: path.stem
)
def test_notebook_runs(path, execute):
    notebook = with_claims(path)
    execute(notebook)
    assert_raised_as_told(notebook)
    drop_log(notebook)
    # The pages show what the reader of the notebook runs.
    notebook.cells = notebook.cells[: len(read(path).cells)]
    EXECUTED.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, EXECUTED / path.name)
    execute(new_notebook(cells=[new_code_cell(FORGET)]))
