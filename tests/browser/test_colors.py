"""The colors of Python in ``%%pyop`` cells of JupyterLab, and of exported HTML with the setting that the documentation names."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from lab import write_notebook

BODY = 'class Twice:\n    """Doc."""\n\n    def compute(self, x):\n        return x * 2  # comment'
REFERENCE = Path(__file__).parents[2] / "docs" / "reference" / "magics.md"


def write_files(root):
    write_notebook(
        root / "cells.ipynb",
        f"%%pyop -d lab\n{BODY}",
        f"# comment\n{BODY}",
        f"%%pyop --run -d ai.onnx.ml\n{BODY}",
    )


def highlighted(path, *options):
    """The first cell of a notebook as nbconvert shows it."""
    command = [sys.executable, "-m", "nbconvert", "--to", "html", "--stdout", *options, path.name]
    page = subprocess.run(
        command, cwd=path.parent, capture_output=True, text=True, check=True
    ).stdout
    return re.search(r'<div class="highlight[^"]*">.*?</div>', page, re.DOTALL)[0]


@pytest.mark.everywhere  # three runs of nbconvert, and no browser
def test_exported_html_has_pythons_colors_with_the_documented_setting(tmp_path):
    write_files(tmp_path)
    path = tmp_path / "cells.ipynb"
    command = re.search(r"^jupyter nbconvert .*$", REFERENCE.read_text(), re.MULTILINE)[0]
    options = [word for word in shlex.split(command) if "Preprocessor" in word]
    assert len(options) == 1
    assert '<span class="k">class</span>' in highlighted(path, *options)
    # When this fails, nbconvert colors such cells by itself, and the page of the
    # documentation can go.
    assert '<span class="k">class</span>' not in highlighted(path)
    notebook = nbformat.read(path, 4)
    notebook.cells[0].metadata["magics_language"] = "python"
    nbformat.write(notebook, path)
    assert '<span class="k">class</span>' in highlighted(path)


def test_jupyterlab_has_pythons_colors(page):
    page.open_notebook("cells.ipynb")
    spans = "[...line.querySelectorAll('span')].map(span => [span.className, span.textContent])"

    def tokens(number):
        return (
            page.cell(number)
            .locator(".cm-line")
            .evaluate_all(f"lines => lines.slice(1).map(line => {spans})")
        )

    # CodeMirror parses while the page is idle, and colors what it has parsed by then.
    words = [
        ["class", "Twice"],
        ['"""Doc."""'],
        [],
        ["def", "compute", "(", ",", ")"],
        ["return", "*", "2", "# comment"],
    ]
    page.expect(lambda: [[text for _, text in line] for line in tokens(1)], words)
    assert all(name for line in tokens(1) for name, _ in line)
    page.expect(lambda: tokens(0), tokens(1))
    page.expect(lambda: tokens(2), tokens(1))
