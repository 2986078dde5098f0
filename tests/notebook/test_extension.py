"""Loading and unloading: nothing twice, nothing left behind."""

from __future__ import annotations

import re
import warnings

import numpy as np
from IPython.utils.capture import capture_output

import pyopnb


def parts(shell):
    """Everything that an extension could have put into a shell."""
    formatter = shell.display_formatter.ipython_display_formatter
    html = shell.display_formatter.formatters["text/html"]
    return {
        "input": list(shell.input_transformers_cleanup),
        "ast": list(shell.ast_transformers),
        "matchers": list(shell.Completer.custom_matchers),
        "configurables": list(shell.configurables),
        "line magics": sorted(shell.magics_manager.magics["line"]),
        "cell magics": sorted(shell.magics_manager.magics["cell"]),
        "displayed": sorted(map(str, [*formatter.deferred_printers, *formatter.type_printers])),
        "drawn": sorted(map(str, [*html.deferred_printers, *html.type_printers])),
        "registry": sorted(shell.magics_manager.registry),
    }


def counts(shell):
    return {name: len(there) for name, there in parts(shell).items()}


def test_unload_leaves_nothing(bare):
    bare.run_line_magic("load_ext", "pyopnb")  # IPython itself registers %load_ext only now
    bare.run_line_magic("unload_ext", "pyopnb")
    before = parts(bare)
    bare.run_line_magic("load_ext", "pyopnb")
    added = {name: len(now) - len(before[name]) for name, now in parts(bare).items()}
    once, thrice = (
        ("input", "matchers", "line magics", "displayed", "drawn"),
        ("configurables", "cell magics", "registry"),
    )
    # One transformer of syntax trees for cells with ops, and one that looks at ops of files.
    assert added == {"ast": 2} | dict.fromkeys(once, 1) | dict.fromkeys(thrice, 3)
    bare.run_line_magic("unload_ext", "pyopnb")
    assert parts(bare) == before


def test_reloading_inserts_nothing_twice(shell):
    once = counts(shell)
    for _ in range(3):
        shell.run_line_magic("reload_ext", "pyopnb")
    assert counts(shell) == once


def test_load_and_unload_are_idempotent(bare):
    before = parts(bare)
    pyopnb.load_ipython_extension(bare)
    once = counts(bare)
    pyopnb.load_ipython_extension(bare)
    assert counts(bare) == once
    pyopnb.unload_ipython_extension(bare)
    pyopnb.unload_ipython_extension(bare)
    assert parts(bare) == before


def test_a_lowered_function_is_displayed_with_its_source(shell, define):
    define("%%pyop demo::Half\nclass Half:\n    def compute(self, x):\n        return x / 2\n")
    function = pyopnb.lower("demo::Half", np.float32([1, 2]))
    data, _ = shell.display_formatter.format(function)
    assert "return x / 2" in data["text/html"]
    assert ">Div</td>" in data["text/html"]


def test_warnings_of_pyopnb_are_plain_text_with_their_cell(bare):
    bare.run_line_magic("load_ext", "pyopnb")
    with capture_output() as seen:
        bare.run_cell(
            "import warnings, pyopnb\n"
            "from pyopnb.errors import SessionRebuilt, StayedInPython, VersionsLowered\n"
            "node = pyopnb.node('ThresholdedRelu', 'x', 'y', alpha=2.0)\n"
            "with warnings.catch_warnings():\n"
            "    warnings.simplefilter('always')\n"
            "    warnings.warn('session rebuilt: x', SessionRebuilt)\n"
            "    pyopnb.fill(pyopnb.model(node, {'x': 'float64[N]'}, {'y': 'float64[N]'}))\n"
            "    warnings.warn(StayedInPython({'node y': 'a loop'}))\n"
            "    warnings.warn('opset 30 as 28', VersionsLowered)\n"
        )
    for line in (
        r"session rebuilt: x \(Cell In\[\d+\], line 6\)",
        r"1 Python node, run by the [\w ]+ \(Cell In\[\d+\], line 7\):\n  the node of output 'y'",
        r"1 Python node left in the model \(Cell In\[\d+\], line 8\):\n  node y: a loop",
        r"opset 30 as 28 \(Cell In\[\d+\], line 9\)",
    ):
        assert re.search(line, seen.stdout), seen.stdout
    assert not seen.stderr and "Warning" not in seen.stdout
    bare.run_line_magic("unload_ext", "pyopnb")
    assert not hasattr(warnings.showwarning, "replaced")
