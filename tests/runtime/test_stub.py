"""The stub of the native module and the module itself name the same things."""

import ast
from pathlib import Path

import pyopnb.engine.runtime
from pyopnb.engine.runtime import _bridge


def _stub():
    return ast.parse(
        (Path(pyopnb.engine.runtime.__file__).parent / "_bridge.pyi").read_text(encoding="utf-8")
    )


def test_the_stub_names_what_the_module_has():
    told = {node.name for node in _stub().body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    assert told == {name for name in vars(_bridge) if not name.startswith("_")}


def test_the_stubs_classes_have_what_the_modules_have():
    for node in _stub().body:
        if isinstance(node, ast.ClassDef):
            told = {inner.name for inner in node.body if isinstance(inner, ast.FunctionDef)}
            told |= {
                ast.unparse(inner.target) for inner in node.body if isinstance(inner, ast.AnnAssign)
            }
            there = {name for name in vars(getattr(_bridge, node.name)) if not name.startswith("_")}
            assert told - {"__init__"} == there
