"""All benchmarks as one table, which results.csv keeps: ``python tests/benchmarks``. A missed bar says NO; nothing fails.

``python tests/benchmarks calls diff`` measures these themes alone, and keeps nothing.
"""

from __future__ import annotations

import platform
import sys
from importlib import import_module
from itertools import chain

import catalog_agreement
import numpy
import onnx
import onnxruntime
import onnxruntime_extensions
import results
import table

import pyopnb

THEMES = """
    import calls reload threads processes memory missing fill catalog growth lower compiled grad train diff
    show trace divergence large watch torch
"""

packages = (pyopnb, numpy, onnx, onnxruntime, onnxruntime_extensions)
versions = ", ".join(f"{package.__name__} {package.__version__}" for package in packages)
print(f"Python {platform.python_version()}, {versions}\n")
chosen = sys.argv[1:] or THEMES.split()
themes = [import_module(f"bench_{name}") for name in chosen]
rows = table.show(chain.from_iterable(theme.rows() for theme in themes))
if len(sys.argv) == 1:
    results.append(rows, results.machine())
    print(f"\nAppended to {results.RESULTS}")
    # After the rows are kept: it runs the tests of the catalog, and writes a table of its own.
    catalog_agreement.measure()
    print(f"\nWritten to {catalog_agreement.RESULTS}")
