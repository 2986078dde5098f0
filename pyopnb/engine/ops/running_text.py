"""Tell whether the function or class that runs was made from a text.

A file can change while its module stays as it was imported, `linecache` can keep the old text,
and tools such as ``%autoreload`` replace the code of a class. So a text counts only if it compiles
to the very code that runs, apart from line numbers, and has the same plain defaults.
"""

from __future__ import annotations

import ast
import inspect
import linecache
import os
import sys
import tokenize
from collections.abc import Iterator, Mapping
from functools import cached_property, lru_cache
from types import CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple

from pyopnb.engine.ops.op_schema import same_value

__all__ = [
    "CodeText",
    "ModuleText",
    "functions_of",
    "is_text_of",
    "module_text",
    "stale_name",
    "texts_of",
]

_MISSING = object()
_VARIABLE_ARGUMENTS = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS
_PLAIN = (int, float, complex, str, bytes, bool, type(None), tuple)


class CodeText(NamedTuple):
    """The text of a file or cell; a cell's text is in memory, and under a name of its own."""

    text: str
    is_cell: bool


def texts_of(file: str, namespace: Mapping[str, Any]) -> Iterator[CodeText]:
    """Yield the texts that the code of a file may have been compiled from, newest first.

    Parameters
    ----------
    namespace : mapping
        The globals of the code; a module in a zip archive has its loader there.
    """
    # The file itself, because linecache does not notice every change.
    if os.path.exists(file):
        try:
            with tokenize.open(file) as stream:
                yield CodeText(stream.read(), is_cell=False)
        except (OSError, SyntaxError, UnicodeDecodeError):
            pass  # it is no text, or unreadable; an earlier one may be known
    else:
        spec: Any = namespace.get("__spec__")
        read = getattr(getattr(spec, "loader", None), "get_source", None)
        if read is not None and spec.origin == file:
            try:
                text = read(spec.name)
            except (ImportError, OSError):  # the archive is gone
                text = None
            if text is not None:
                yield CodeText(text, is_cell=False)
    entry = linecache.cache.get(file)
    if entry is not None and len(entry) == 4:  # else it was never read
        in_memory = entry[1] is None and not os.path.exists(file)
        yield CodeText("".join(entry[2]), is_cell=in_memory)
    elif not os.path.exists(file):
        # doctest knows its examples under names that it gives to linecache when asked.
        lines = linecache.getlines(file, dict(namespace))
        if lines:
            yield CodeText("".join(lines), is_cell=True)


def functions_of(attribute: object) -> list[FunctionType]:
    """List the functions of a class's attribute: a method, or the parts of a property."""
    candidates = [getattr(attribute, name, None) for name in ("__func__", "func", "fset", "fdel")]
    found = []
    for candidate in (attribute, getattr(attribute, "fget", None), *candidates):
        if callable(candidate):
            candidate = inspect.unwrap(candidate)
        if isinstance(candidate, FunctionType) and candidate not in found:
            found.append(candidate)
    return found


@lru_cache(maxsize=8)  # a file that defines many ops is compiled once
def module_text(text: str) -> ModuleText | None:
    """Compile a text; return None where it is no Python."""
    try:
        return ModuleText(text)
    except (SyntaxError, ValueError):
        return None


class ModuleText:
    """The text of a module, its tree, and the code that it compiles to."""

    def __init__(self, text: str) -> None:
        self.lines = text.splitlines(keepends=True)
        self.tree = ast.parse(text)
        self._codes = _codes_of(text)

    @cached_property
    def _written_anew(self) -> list[CodeType]:
        # IPython compiles the text that ast.unparse writes for a single function.
        tree = _WithoutImports().visit(ast.parse("".join(self.lines)))
        return _codes_of(ast.unparse(tree))

    def _lines_of_code(self, code: CodeType) -> set[int]:
        """Return the first lines of the definitions that compile to a code."""
        found = {own.co_firstlineno for own in self._codes if same_code(code, own)}
        if not found and len(self._written_anew) == len(self._codes):
            for own, anew in zip(self._codes, self._written_anew, strict=True):
                if same_code(code, anew):
                    found.add(own.co_firstlineno)
        return found

    def statement_of(self, function: FunctionType) -> ast.stmt | None:
        """Find the statement that made a function: its ``def``, or the one with a lambda."""
        lines = self._lines_of_code(function.__code__)
        for statement in reversed(self.tree.body):
            for node in ast.walk(statement):
                if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
                    continue
                if _first_line(node) in lines and _same_defaults(function, node.args):
                    return statement if isinstance(node, ast.Lambda) else node
        return None

    def class_of(self, cls: type) -> ast.ClassDef | None:
        """Find the statement that made a class."""
        found = [
            node
            for name, node in _classes(self.tree, "")
            if name == cls.__qualname__ and self.made(node, cls)
        ]
        return found[-1] if found else None

    def made(self, node: ast.ClassDef, cls: type) -> bool:
        own = vars(cls)
        if not _may_be_bases(node, cls):
            return False
        definitions, literals = _members(node, self.tree)
        mentioned = {getattr(part, "name", getattr(part, "id", "")) for part in ast.walk(node)}
        for name, nodes in definitions.items():
            attribute = own.get(_mangled(name, cls), _MISSING)
            if attribute is _MISSING:
                return False
            for function in functions_of(attribute):
                # A decorator can put its own function in place of the method.
                if function.__name__ == name and not self._is_one_of(function, nodes):
                    return False
        for name, value in literals.items():
            actual = own.get(_mangled(name, cls), _MISSING)
            if isinstance(actual, _PLAIN) and not _is_same(actual, value):
                return False
        if "__init__" not in definitions and not _has_defaults(cls, node, literals):
            return False
        for name, attribute in own.items():
            is_own = any(
                function.__qualname__ == f"{cls.__qualname__}.{name}"
                # Others were made for it, as in named tuples and dataclasses.
                and function.__globals__.get("__name__") in (cls.__module__, "__main__")
                and function.__code__.co_filename != "<string>"
                for function in functions_of(attribute)
            )
            if is_own and name not in mentioned:
                return False
        return True

    def _is_one_of(self, function: FunctionType, nodes: list[Any]) -> bool:
        lines = self._lines_of_code(function.__code__)
        return any(
            _first_line(node) in lines and _same_defaults(function, node.args) for node in nodes
        )

    def text_of(self, node: ast.stmt) -> str:
        """Return the lines of a function or class, with its decorators and comments."""
        return "".join(inspect.getblock(self.lines[_first_line(node) - 1 :]))

    def literal(self, name: str) -> Any:
        """Return the plain value that the module gives a name; one that tells nothing if none."""
        values = []
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store):
                values.append(node)
        _, literals = _members(self.tree, self.tree)
        is_only_one = len(values) == 1 and name in literals
        return literals[name] if is_only_one else _MISSING


class _WithoutImports(ast.NodeTransformer):
    """Takes out the imports of a module, by which Python chooses between two kinds of calls."""

    def visit_Import(self, node: Any) -> ast.Pass:
        return ast.Pass()

    def visit_ImportFrom(self, node: Any) -> Any:
        return node if node.module == "__future__" else ast.Pass()

    def visit_FunctionDef(self, node: Any) -> Any:
        return node

    visit_AsyncFunctionDef = visit_ClassDef = visit_FunctionDef  # noqa: N815  # as ast has it


def is_text_of(cls: type, text: str, namespace: Mapping[str, Any]) -> bool | None:
    """Tell whether a class was made from a text by itself, without the rest of its file.

    None is returned where the text has no class statement of that name.

    Parameters
    ----------
    namespace : mapping
        The globals of its methods.
    """
    plain = module_text(text)
    if plain is None or not any(_statements_of(cls, plain)):
        return None
    names = {node.id for node in ast.walk(plain.tree) if isinstance(node, ast.Name)}
    known = {name: namespace[name] for name in names if name in namespace}
    modules = {name for name, value in known.items() if isinstance(value, ModuleType)}
    home = namespace.get("__name__")
    foreign = {n for n, value in known.items() if getattr(value, "__module__", home) != home}
    # Python compiles calls of imported names in another way.
    for imported in (set(), modules, modules | foreign, set(known)):
        imports = f"\nimport {', '.join(sorted(imported))}\n" if imported else ""
        module = module_text(text + imports) or plain
        if any(module.made(node, cls) for node in _statements_of(cls, module)):
            return True
    return False


def _statements_of(cls: type, module: ModuleText) -> Iterator[ast.ClassDef]:
    for node in module.tree.body:
        if isinstance(node, ast.ClassDef) and node.name == cls.__name__:
            yield node


def stale_name(module: ModuleType, name: str) -> str | None:
    """Find a name that an import in another process would give another value than here, or None.

    Parameters
    ----------
    name : str
        The imported name. Names that it uses from other files of the user are also searched.

    Returns
    -------
    str or None
        ``module.name``, where the file was edited since it was imported, or the value was set.
    """
    seen: set[tuple[int, str]] = set()
    pending = [(vars(module), name)]
    while pending:
        namespace, name = pending.pop()
        value = namespace.get(name, _MISSING)
        if (id(namespace), name) in seen or value is _MISSING:
            continue
        seen.add((id(namespace), name))
        if isinstance(value, (FunctionType, type)):
            value = inspect.unwrap(value)
            home = vars(sys.modules.get(value.__module__ or "", sys))
            text = _text_of_module(home)
            statement: Any = None
            if text is not None and "<locals>" not in value.__qualname__:
                is_class = isinstance(value, type)
                statement = text.class_of(value) if is_class else text.statement_of(value)
                if statement is None:
                    return f"{home['__name__']}.{name}"
                pending += _used_names(statement, home)
        elif isinstance(value, _PLAIN):
            text = _text_of_module(namespace)
            if text is not None and not _is_same(value, text.literal(name)):
                return f"{namespace['__name__']}.{name}"
    return None


def _text_of_module(namespace: Mapping[str, Any]) -> ModuleText | None:
    """Read the file of a module again, if it is the user's own and not of an installed package."""
    import sysconfig  # only needed to write a module

    file = namespace.get("__file__")
    package = str(namespace.get("__name__")).partition(".")[0]
    if not isinstance(file, str) or package == __name__.partition(".")[0]:
        return None
    installed = [
        sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")
    ]
    if "-packages" in file or any(file.startswith(folder) for folder in installed):
        return None
    found = next((entry for entry in texts_of(file, namespace) if not entry.is_cell), None)
    return None if found is None else module_text(found.text)


def _used_names(statement: ast.stmt, namespace: dict[str, Any]) -> list[tuple[Any, str]]:
    """List the names of a module, and of modules that it imports, that a statement uses."""
    used: list[tuple[Any, str]] = []
    for node in ast.walk(statement):
        if isinstance(node, ast.Name):
            used.append((namespace, node.id))
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            module = namespace.get(node.value.id)
            if isinstance(module, ModuleType):
                used.append((vars(module), node.attr))
    return used


def _may_be_bases(node: ast.ClassDef, cls: type) -> bool:
    """Tell whether a class can have the bases of a text, as far as these are names."""
    if not all(isinstance(base, (ast.Name, ast.Attribute)) for base in node.bases):
        return True
    namespace = vars(sys.modules.get(cls.__module__, sys))
    names = [ast.unparse(base) for base in node.bases if ast.unparse(base) != "object"]
    bases = [base for base in cls.__bases__ if base is not object]
    if len(names) != len(bases):
        return False
    for name, base in zip(names, bases, strict=True):
        named = namespace.get(name)
        if isinstance(named, type) and named.__name__ != base.__name__:
            return False
    return True


def _codes_of(text: str) -> list[CodeType]:
    # Cells can await.
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    return list(_inner_codes(compile(text, "<text>", "exec", flags, dont_inherit=True)))


def _inner_codes(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _inner_codes(constant)


def _first_line(node: Any) -> int:
    lines: list[int] = [decorator.lineno for decorator in getattr(node, "decorator_list", ())]
    return int(min([node.lineno, *lines]))


def _has_defaults(cls: type, node: ast.ClassDef, literals: Mapping[str, Any]) -> bool:
    """Tell whether the constructor that was made for a class, as of a dataclass, has its values."""
    constructor = vars(cls).get("__init__")
    if not isinstance(constructor, FunctionType):
        return True
    fields: dict[str, Any] | None = vars(cls).get("__dataclass_fields__")
    for statement in node.body:
        if fields is None:
            break
        if isinstance(statement, ast.AnnAssign) and ast.unparse(statement.target) not in fields:
            return False
    for name, parameter in inspect.signature(constructor).parameters.items():
        is_plain = isinstance(parameter.default, _PLAIN)
        if is_plain and not _is_same(parameter.default, literals.get(name, _MISSING)):
            return False
    return True


def _classes(node: ast.AST, prefix: str) -> Iterator[tuple[str, ast.ClassDef]]:
    """Yield the classes of a tree with their qualified names."""
    for child in ast.iter_child_nodes(node):
        inner = prefix
        if isinstance(child, ast.ClassDef):
            yield f"{prefix}{child.name}", child
            inner = f"{prefix}{child.name}."
        elif isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
            inner = f"{prefix}{child.name}.<locals>."
        yield from _classes(child, inner)


def _mangled(name: str, cls: type) -> str:
    is_private = name.startswith("__") and not name.endswith("__")
    return f"_{cls.__name__.lstrip('_')}{name}" if is_private else name


def _members(node: Any, tree: ast.Module) -> tuple[dict[str, list[Any]], dict[str, Any]]:
    """List the functions that a class or module defines, and its plain values, by name."""
    definitions: dict[str, list[Any]] = {}
    literals: dict[str, Any] = {}
    for statement in node.body:
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
            definitions.setdefault(statement.name, []).append(statement)
            literals.pop(statement.name, None)
            continue
        targets = getattr(statement, "targets", [getattr(statement, "target", None)])
        for target in targets:
            if isinstance(target, ast.Name):
                definitions.pop(target.id, None)
                literals.pop(target.id, None)
                if isinstance(statement, (ast.Assign, ast.AnnAssign)):
                    value = _literal(statement.value)
                    if value is not _MISSING:
                        literals[target.id] = value
    # ``SoftClip.limit = 3`` below the class counts more than a line inside it.
    for statement in tree.body:
        for target in getattr(statement, "targets", ()):
            if isinstance(target, ast.Attribute) and ast.unparse(target.value) == getattr(
                node, "name", ""
            ):
                definitions.pop(target.attr, None)
                literals.pop(target.attr, None)
    return definitions, literals


def _literal(node: ast.expr | None) -> Any:
    try:
        return _MISSING if node is None else ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return _MISSING


def _is_same(actual: Any, value: Any) -> bool:
    return value is _MISSING or same_value(actual, value)


def _same_defaults(function: FunctionType, arguments: ast.arguments) -> bool:
    """Compare the defaults of a function with the defaults in a text, as far as they are plain."""
    actual = function.__defaults__ or ()
    if len(actual) != len(arguments.defaults):
        return False
    by_name = function.__kwdefaults__ or {}
    pairs = list(zip(actual, arguments.defaults, strict=True))
    for argument, node in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        if (argument.arg in by_name) is not (node is not None):
            return False
        if node is not None:
            pairs.append((by_name[argument.arg], node))
    return all(_is_same(value, _literal(node)) for value, node in pairs)


def same_code(a: CodeType, b: CodeType) -> bool:
    """Compare two codes without their files and lines, and without documentation."""
    if a.co_name != b.co_name:
        return False
    # pytest compiles another form of a function with assert, which no text has.
    if any(name.startswith("@py") for name in a.co_varnames):
        return True
    same = (
        a.co_code == b.co_code
        and a.co_names == b.co_names
        and a.co_varnames == b.co_varnames
        and a.co_freevars == b.co_freevars
        and a.co_cellvars == b.co_cellvars
        and a.co_argcount == b.co_argcount
        and a.co_posonlyargcount == b.co_posonlyargcount
        and a.co_kwonlyargcount == b.co_kwonlyargcount
        and a.co_flags & _VARIABLE_ARGUMENTS == b.co_flags & _VARIABLE_ARGUMENTS
        and len(a.co_consts) == len(b.co_consts)
    )
    if not same:
        return False
    documented = _is_documented(a) and _is_documented(b)
    return all(map(_same_constant, a.co_consts[documented:], b.co_consts[documented:]))


def _is_documented(code: CodeType) -> bool:
    """Tell whether the first constant of a code is its documentation."""
    if code.co_name.startswith("<") or not code.co_consts:
        return False
    flag = 0x4000000  # CO_HAS_DOCSTRING, new in 3.13: before, no other text came first
    is_marked = sys.version_info < (3, 13) or bool(code.co_flags & flag)
    return is_marked and isinstance(code.co_consts[0], str)


def _same_constant(a: object, b: object) -> bool:
    if isinstance(a, CodeType) and isinstance(b, CodeType):
        return same_code(a, b)
    return same_value(a, b)
