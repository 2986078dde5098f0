"""What is public is so on purpose, and says what it is."""

import ast
import importlib.util
import inspect
import pkgutil
import re
from pathlib import Path

import pytest

import pyopnb


def is_operator(module):
    """Whether a module is a file of the catalogue, written as a cell; tests/catalog looks at those."""
    _, _, inside = module.partition("pyopnb.catalog.")
    return bool(inside) and inside != "index" and not inside.startswith("cores")


MODULES = sorted(
    found.name
    for found in pkgutil.walk_packages(pyopnb.__path__, "pyopnb.")
    if "._" not in found.name and not is_operator(found.name)
)


def defined(source):
    """Public names that a module's own statements define at its top level; imports are not among them."""
    names = set()
    for node in ast.parse(source).body:
        match node:
            case (
                ast.FunctionDef(name=name)
                | ast.AsyncFunctionDef(name=name)
                | ast.ClassDef(name=name)
            ):
                names.add(name)
            case ast.Assign(targets=targets):
                every = [
                    name
                    for target in targets
                    for name in ast.walk(target)
                    if isinstance(name, ast.Name)
                ]
                names |= {name.id for name in every if isinstance(name.ctx, ast.Store)}
            case ast.AnnAssign(target=ast.Name(id=name)):
                names.add(name)
    return {name for name in names if not name.startswith("_")}


def listed(source):
    """``__all__`` of a module, which may need a framework to be imported."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return ast.literal_eval(node.value)
    return []


def accidents(source, listed):
    return sorted(defined(source) - set(listed))


@pytest.mark.parametrize("name", pyopnb.__all__)
def test_exported_name_is_there_and_described(name):
    value = getattr(pyopnb, name)
    assert inspect.getdoc(value), f"pyopnb.{name} has no docstring"


def section(doc, title):
    """The lines of a numpydoc section, or None where the docstring has no such section."""
    found = re.search(
        rf"^{title}\n-{{{len(title)}}}\n(.+?)(?=\n\n\w[\w ]*\n-{{3,}}$|\Z)",
        inspect.cleandoc(doc),
        re.MULTILINE | re.DOTALL,
    )
    return found[1].splitlines() if found else None


def lacks_returns(function):
    """Whether a function returns something and its docstring has no section that says what."""
    returned = str(inspect.signature(function).return_annotation)
    doc = function.__doc__ or ""
    silent = returned in ("None", "NoReturn", "Never") or returned == str(inspect.Signature.empty)
    return not silent and section(doc, "Returns") is None and section(doc, "Yields") is None


def documented():
    """Read the names of pyopnb's functions and classes from the reference, those of the doors left out."""
    pages = Path(__file__).parents[2].joinpath("docs", "reference").glob("*.md")
    # Sections such as "What a diff holds" list plain records, whose fields speak for themselves.
    heads = [page.read_text(encoding="utf-8").split("\n## What")[0] for page in pages]
    text = "\n".join(heads)
    names = re.findall(r"^\.\. auto(?:class|function|data):: pyopnb\.([\w.]+)$", text, re.MULTILINE)
    return [
        name for name in names if name.split(".")[0] not in ("torch", "sklearn", "ortx", "training")
    ]


def public_functions():
    """``(name, function)`` of each documented function, and of each method that a class of ours gives to a documented class."""
    for name in documented():
        value = pkgutil.resolve_name(f"pyopnb.{name}")
        if inspect.isfunction(value):
            yield name, value
            continue
        cls = value if inspect.isclass(value) else type(value)
        methods = {
            key: method
            for base in reversed(cls.__mro__)
            if base.__module__.startswith("pyopnb.")
            for key, method in vars(base).items()
        }
        for key, method in sorted(methods.items()):
            function = method.__func__ if isinstance(method, classmethod | staticmethod) else method
            if not key.startswith("_") and inspect.isfunction(function):
                yield f"{name}.{key}", function


FUNCTIONS = dict(public_functions())


@pytest.mark.parametrize("name", FUNCTIONS)
def test_public_function_says_what_it_returns(name):
    function = FUNCTIONS[name]
    assert function.__doc__, f"pyopnb.{name} has no docstring"
    assert not lacks_returns(function), f"pyopnb.{name}: add a section Returns to its docstring"


def test_what_is_imported_at_first_use_is_exported():
    assert set(pyopnb._HOMES) <= set(pyopnb.__all__)
    with pytest.raises(AttributeError, match="module 'pyopnb' has no attribute 'sesion'"):
        pyopnb.sesion  # noqa: B018


def test_dir_holds_what_is_public():
    assert list(pyopnb.__all__) == sorted(set(pyopnb.__all__))
    rooms = {"catalog", "errors", "ortx", "sklearn", "testing", "torch", "training"}
    assert set(dir(pyopnb)) == {*pyopnb.__all__, "__version__", *rooms}


def test_modules_define_nothing_public_by_accident():
    found = {}
    for module in MODULES:
        source = Path(importlib.util.find_spec(module).origin).read_text(encoding="utf-8")
        if extra := accidents(source, listed(source)):
            found[module] = extra
    assert not found, "add them to __all__ of their module, or begin their names with an underscore"


def test_that_an_accident_is_seen():
    source = "import os\n__all__ = ['kept']\nLIMIT: int = 3\n_quiet, loud = 1, 2\nkept = 4\nclass Slip: ...\n"
    assert listed(source) == ["kept"]
    assert accidents(source, listed(source)) == ["LIMIT", "Slip", "loud"]


def test_no_two_classes_have_one_name():
    files_by_name = {}
    package = Path(pyopnb.__file__).parent
    # An entry of the catalogue is a cell of its own, and its class is named as the operator.
    entries = {path for path in package.glob("catalog/*/*.py") if path.parent.name != "cores"}
    for path in sorted(set(package.rglob("*.py")) - entries):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                files_by_name.setdefault(node.name, []).append(path.relative_to(package).as_posix())
    assert {name: files for name, files in files_by_name.items() if len(files) > 1} == {}
