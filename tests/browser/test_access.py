"""axe-core finds no serious fault in outputs, in the panel and in the first tutorial, in light and dark."""

from __future__ import annotations

import shutil

import pytest
from axe_playwright_python.sync_playwright import Axe
from lab import write_notebook
from test_notebook import LIVE, MORE, NOTEBOOKS, SHOWN, TYPO

OUTPUTS = (*LIVE, *SHOWN[:-1], *MORE, "%pyop panel")
# Text without HTML, such as a traceback, has the colors of JupyterLab.
SHOWN_IN = ".jp-Notebook .jp-OutputArea-output:not(.jp-RenderedText)"


def write_files(root):
    write_notebook(root / "outputs.ipynb", *OUTPUTS)
    shutil.copy(NOTEBOOKS / "00_first_op.ipynb", root / "tutorial.ipynb")


@pytest.fixture
def tall(page):
    """A window in which JupyterLab draws every cell."""
    page.page.set_viewport_size({"width": 1280, "height": 7000})
    return page


def faults(page):
    """What axe-core finds serious in the outputs, as a rule and an element each."""
    found = Axe().run(page.page, SHOWN_IN, {}).response
    passed = {rule["id"]: len(rule["nodes"]) for rule in found["passes"]}
    assert passed["color-contrast"] > 50  # or nothing was looked at
    return [
        f"{rule['id']}: {node['html'][:300]} {node['failureSummary']}"
        for rule in found["violations"]
        if rule["impact"] in ("serious", "critical")
        for node in rule["nodes"]
    ]


@pytest.mark.parametrize(("name", "errors"), [("outputs", []), ("tutorial", [TYPO])])
def test_no_output_has_a_serious_fault(tall, name, errors):
    tall.open_notebook(f"{name}.ipynb")
    # JupyterLab gives the page no height, and axe-core looks at nothing that overflows.
    tall.page.add_style_tag(content="body { height: 100vh }")
    tall.run_all()
    tall.expect(tall.errors, errors)
    folds = "folds => folds.forEach(fold => { fold.open = true })"
    for theme in ("Light", "Dark"):
        tall.theme(f"JupyterLab {theme}")
        tall.page.locator(f"{SHOWN_IN} details").evaluate_all(folds)
        tall.screenshot(f"access-{name}-{theme}")
        assert faults(tall) == []
    tall.theme("JupyterLab Light")
