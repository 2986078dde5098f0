"""The stub of the native module and the module itself name the same things."""

import ast
from pathlib import Path

from pyopnb.diffs import arrays
from pyopnb.diffs.arrays import _stats


def test_the_stub_names_what_the_module_has():
    stub = ast.parse((Path(arrays.__file__).parent / "_stats.pyi").read_text())
    classes = [node for node in stub.body if isinstance(node, ast.ClassDef)]
    assert {node.name for node in classes} == {
        name for name in vars(_stats) if not name.startswith("_")
    }
    for node in classes:
        methods = {inner.name for inner in node.body if isinstance(inner, ast.FunctionDef)} - {
            "__init__"
        }
        assert methods == {
            name for name in vars(getattr(_stats, node.name)) if not name.startswith("_")
        }
