"""The tutorials: their cells, what they need beside the package's own dependencies, and how one is run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat

FOLDER = Path(__file__).parents[2] / "notebooks"
PATHS = sorted(FOLDER.glob("*.ipynb"))
CLAIMS = Path(__file__).parents[1] / "claims"
"""A file for each notebook: asserts about the values that its cells leave."""


def read(path: Path) -> Any:
    return nbformat.read(path, as_version=4)


def with_claims(path: Path) -> Any:
    """Read a notebook, with its claims as a last cell, so that a run of it also checks these."""
    notebook = read(path)
    claims = CLAIMS / f"{path.stem}.py"
    if claims.exists():
        notebook.cells.append(nbformat.v4.new_code_cell(claims.read_text(encoding="utf-8")))
    return notebook


def code_cells(notebook: Any) -> list[Any]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def tags(cell: Any) -> list[str]:
    return cell.metadata.get("tags", [])


def door(path: Path) -> str | None:
    """The framework that a notebook needs and not each lane has: ``torch``, ``sklearn`` or ``dask``."""
    text = "\n".join(cell.source for cell in code_cells(read(path)))
    used = {"torch": "pyopnb.torch", "sklearn": "pyopnb.sklearn", "dask": "dask.distributed"}
    return next((name for name, sign in used.items() if sign in text), None)


def assert_raised_as_told(notebook: Any) -> None:
    """Of an executed notebook: only the cells that are to show an error have one."""
    raised = [
        cell.source
        for cell in code_cells(notebook)
        if any(output.output_type == "error" for output in cell.outputs)
    ]
    assert raised == [
        cell.source for cell in code_cells(notebook) if "raises-exception" in tags(cell)
    ]
