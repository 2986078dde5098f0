"""Show the notebooks on torch in pages that are built without torch.

`nox -s torch` executes these notebooks and leaves copies in build/notebooks. A page shows the
copy if it has the same cells as the notebook now. Without such a copy the cells are shown without
outputs, and the page says so.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

__all__ = ["NOTE", "needs_torch", "with_claims", "with_outputs", "with_page_links"]

NOTE = """```{note}
This notebook needs torch, which these pages were built without: its cells are shown without \
outputs.
`nox -s torch docs` executes it and builds the pages again.
```"""

# Jupyter follows the path of a file, and a page is found by its own.
_NOTEBOOK = re.compile(r"\[([^\[\]]+)\]\((\d\d_\w+)\.ipynb\)")
_PAGE = re.compile(r"\]\(\.\./docs/([\w/]+\.md)")


def needs_torch(text: str) -> bool:
    """Tell whether a notebook uses pyopnb.torch."""
    return any(
        "pyopnb.torch" in "".join(cell["source"])
        for cell in json.loads(text)["cells"]
        if cell["cell_type"] == "code"
    )


def with_outputs(text: str, copy: Path) -> str:
    """Return a notebook's executed copy if it has the same cells, else the notebook with a note."""
    notebook = json.loads(text)
    if copy.exists():
        executed = copy.read_text(encoding="utf-8")
        if _sources(json.loads(executed)) == _sources(notebook):
            return executed
    heading, *rest = notebook["cells"]
    note = {"cell_type": "markdown", "id": "not-executed", "metadata": {}, "source": NOTE}
    return json.dumps(notebook | {"cells": [heading, note, *rest]})


def with_claims(text: str, claims: Path) -> str:
    """Append the checks of a notebook's claims as a last cell, which runs and is not shown."""
    notebook = json.loads(text)
    if claims.exists():
        cell = {
            "cell_type": "code",
            "id": "claims",
            "execution_count": None,
            "metadata": {"tags": ["remove-cell"]},
            "outputs": [],
            "source": claims.read_text(encoding="utf-8"),
        }
        notebook["cells"].append(cell)
    return json.dumps(notebook)


def with_page_links(text: str) -> str:
    """Return the text of a notebook whose links to files of the repository lead to their pages."""
    return _PAGE.sub(r"](/\1", _NOTEBOOK.sub(r"{doc}`\1 </tutorials/\2>`", text))


def _lines(cell: dict[str, Any]) -> list[str]:
    return "".join(cell["source"]).splitlines()


def _sources(notebook: dict[str, Any]) -> list[list[str]]:
    return [_lines(cell) for cell in notebook["cells"]]
