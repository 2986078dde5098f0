"""What is public is so on purpose, and says what it is."""

import ast
import inspect
import re
from itertools import pairwise
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
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                files_by_name.setdefault(node.name, []).append(path.relative_to(package).as_posix())
    assert {name: files for name, files in files_by_name.items() if len(files) > 1} == {}


def says_only_a_type(docstring):
    """The entries of numpydoc sections without a sentence below them: ``x : int``."""
    found = []
    for section in re.findall(
        r"^(?:Parameters|Returns|Yields)\n-+\n((?:.+\n?)+)", docstring, re.MULTILINE
    ):
        lines = [*section.splitlines(), ""]
        for line, following in pairwise(lines):
            if not line.startswith(" ") and not following.startswith(" "):
                found.append(line)
    return found


def test_entries_without_a_sentence_are_seen():
    docstring = "Do it.\n\nParameters\n----------\nx : int\ny : int\n    In bytes.\n\nReturns\n-------\nstr\n"
    assert says_only_a_type(docstring) == ["x : int", "str"]


def test_docstrings_say_more_than_the_annotations():
    wrong = []
    package = Path(pyopnb.__file__).parent
    for path in sorted(package.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.FunctionDef):
                continue
            hints = {
                arg.arg: arg.annotation
                for arg in [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            }
            for entry in says_only_a_type(ast.get_docstring(node) or ""):
                names, _, type_ = entry.partition(" : ")
                annotations = (
                    [hints.get(name) for name in names.split(", ")] if type_ else [node.returns]
                )
                # Where the annotation is Any, or a str that has few values, the type is news.
                if (
                    all(hint and ast.unparse(hint) not in ("Any", "object") for hint in annotations)
                    and "{" not in type_
                ):
                    wrong.append(f"{path.relative_to(package)}:{node.lineno} {node.name}: {entry}")
    assert wrong == []
