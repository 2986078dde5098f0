"""What is public is so on purpose, and says what it is."""

import ast
import inspect
from pathlib import Path

import pytest

import pyopnb


def test_exported_names_are_there_and_described():
    for name in pyopnb.__all__:
        assert inspect.getdoc(getattr(pyopnb, name)), f"pyopnb.{name} has no docstring"


def test_a_misspelled_name_gets_the_python_message():
    with pytest.raises(AttributeError, match="module 'pyopnb' has no attribute 'sesion'"):
        pyopnb.sesion  # noqa: B018


def test_dir_holds_what_is_public():
    assert list(pyopnb.__all__) == sorted(set(pyopnb.__all__))
    assert set(dir(pyopnb)) == {*pyopnb.__all__, "__version__", *pyopnb._PACKAGES}
    for name in pyopnb._PACKAGES:
        assert getattr(pyopnb, name).__name__ == f"pyopnb.{name}"


def test_no_two_classes_have_one_name():
    files_by_name = {}
    package = Path(pyopnb.__file__).parent
    # An entry of the catalog is a cell of its own, and its class is named as the operator.
    entries = {path for path in package.glob("catalog/*/*.py") if path.parent.name != "cores"}
    for path in sorted(set(package.rglob("*.py")) - entries):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                files_by_name.setdefault(node.name, []).append(path.relative_to(package).as_posix())
    assert {name: files for name, files in files_by_name.items() if len(files) > 1} == {}
