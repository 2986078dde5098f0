"""The text of ops that stands by itself: the classes, and whatever their names need.

A class of a notebook cell uses what other cells have imported and defined. Here its free names are followed: what a fresh
process can import becomes an import, a function, class or constant of the notebook comes along as text, and what can do
neither is named. Nothing is guessed: a text that misses a name is not made.
"""

from __future__ import annotations
import __future__

import ast
import builtins
import inspect
import linecache
import symtable
import sys
import textwrap
import types
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pyopnb.ops.errors import DefinitionError, sanitize
from pyopnb.ops.registry import Version, pyop, registry
from pyopnb.ops.schema import same_value

__all__ = ["free_names", "source_closure"]

_OF_EVERY_MODULE = {"__name__", "__file__", "__doc__", "__builtins__", "__annotations__", "__debug__", "__spec__"}
_LONGEST_CONSTANT = 20_000  # characters of a value that is written out
_NOWHERE = object()


def source_closure(versions: Sequence[Version]) -> str:
    """The text of a module that defines these ops, each under its name.

    Raises
    ------
    DefinitionError
        The text of a class is not known, or of something that it uses, or one name means two things.
    """
    text = _Text({})
    for version in versions:
        text.names.setdefault(version.cls, []).append(version)
    text.bind("pyopnb", sys.modules["pyopnb"], "the line that defines it")
    text.imports["import pyopnb"] = None
    for version in versions:
        text.add_op(version)
    if text.lacking:
        what = [f"{sanitize(name, 40)} ({why})" for name, why in text.lacking.items()]
        several = "" if len(what) <= 8 else f" and {len(what) - 8} more"
        raise DefinitionError(
            f"op {', '.join(version.op for version in versions[:4])}",
            expected="a class whose every name can be imported or has a text",
            got=", ".join(what[:8]) + several,
            next="import or define it in the op's own cell",
        )
    made = str(text)
    if unbound := [name for name in free_names(made) if not hasattr(builtins, name) and name not in _OF_EVERY_MODULE]:
        raise AssertionError(f"names that nothing binds: {unbound}")
    return made


def free_names(text: str) -> list[str]:
    """The names that a module's text uses and does not bind, in their order."""
    top = symtable.symtable(text, "<op>", "exec")
    bound = {s.get_name() for s in top.get_symbols() if s.is_assigned() or s.is_imported() or s.is_namespace()}
    names: dict[str, None] = {}
    ahead = [top]
    while ahead:
        table = ahead.pop(0)
        used = [s.get_name() for s in table.get_symbols() if s.is_referenced() and s.is_global()]
        names.update(dict.fromkeys(name for name in used if name not in bound))
        ahead += table.get_children()
    return list(names)


@dataclass(frozen=True)
class _Place:
    """Where a text stood: the namespace that its names were looked up in, and its whole cell or file."""

    namespace: Mapping[str, Any]
    text: str

    def statements(self) -> list[ast.stmt]:
        try:
            return ast.parse(self.text).body
        except SyntaxError:  # an indented class, or a cell of another language
            return []


@dataclass
class _Text:
    """A module that is being put together."""

    names: dict[type, list[Version]]
    imports: dict[str, None] = field(default_factory=dict)
    definitions: dict[str, str] = field(default_factory=dict)
    bound: dict[str, Any] = field(default_factory=dict)
    lacking: dict[str, str] = field(default_factory=dict)
    annotations: bool = False

    def __str__(self) -> str:
        future = ["from __future__ import annotations\n"] if self.annotations else []
        imports = sorted(self.imports, key=lambda line: (line.startswith("from"), line))
        # Functions and classes stand apart, constants together.
        parts, block = ["\n".join([*future, *imports])], ""
        for definition in self.definitions.values():
            if definition.startswith(("def ", "class ", "@", "async ")):
                parts += [block, definition]
                block = ""
            else:
                block = f"{block}\n{definition}" if block else definition
        return "\n\n\n".join(part for part in [*parts, block] if part) + "\n"

    def bind(self, name: str, value: Any, why: str) -> bool:
        """Whether the name is new; what it means must be the same everywhere."""
        there = self.bound.get(name, _NOWHERE)
        if there is _NOWHERE:
            self.bound[name] = value
            return True
        if there is not value and not same_value(there, value):
            self.lacking[name] = f"means two things, one of them in {why}"
        return False

    # ---- classes of ops ------------------------------------------------------------------------------------------------------

    def add_op(self, version: Version) -> None:
        cls = version.cls
        if not self.bind(cls.__name__, cls, version.op):
            return
        if version.source is None:
            self.lacking[cls.__name__] = "its source is not known: define it in a %%pyop cell, or in a file with @pyopnb.pyop"
            return
        self._add_class(cls, version.source)

    def _add_class(self, cls: type, source: str) -> None:
        source = textwrap.dedent(source)
        node = _class_in(source, cls)
        if isinstance(node, str):
            self.lacking[cls.__name__] = node
            return
        place = _Place(_namespace(cls), _around(cls, source))
        lines = source.split("\n")
        decorators: list[str] = []
        ours = [f"@pyopnb.pyop({', '.join(_arguments(version))})" for version in self.names.get(cls, [])]
        for decorator in node.decorator_list:
            if _value_of(decorator.func if isinstance(decorator, ast.Call) else decorator, place.namespace) is not pyop:
                decorators.append(f"@{ast.get_source_segment(source, decorator)}")
        body = textwrap.dedent("\n".join(lines[node.lineno - 1 : node.end_lineno]))
        self._add(cls.__name__, "\n".join([*ours, *decorators, body]), place)
        self.annotations |= any(_postponed(function) for function in _functions(cls))

    # ---- what they use -------------------------------------------------------------------------------------------------------

    def _add(self, name: str, text: str, place: _Place) -> None:
        for used in free_names(text):
            self._follow(used, text, place)
        self.definitions[name] = text

    def _follow(self, name: str, user: str, place: _Place) -> None:
        value = place.namespace.get(name, _NOWHERE)
        if name in _OF_EVERY_MODULE or (name == "pyopnb" and value is _NOWHERE):
            return
        if value is _NOWHERE:
            if not hasattr(builtins, name):
                self.lacking[name] = "is not defined"
            return
        if isinstance(value, types.ModuleType):
            self._import_submodules(name, value, user)
        if not self.bind(name, value, sanitize(user.splitlines()[0], 60)):
            return
        line = _import_line(name, value, place)
        if line is not None:
            self.imports[line] = None
        elif isinstance(value, types.ModuleType):
            self.lacking[name] = f"the module {sanitize(value.__name__)}, which a fresh process cannot import"
        elif not self._add_definition(name, value) and not self._add_constant(name, value, place):
            kind = "class" if isinstance(value, type) else type(value).__name__
            self.lacking[name] = f"{_article(kind)} whose text is not known"

    def _import_submodules(self, name: str, module: types.ModuleType, user: str) -> None:
        """``import scipy as sp`` does not import ``sp.special``."""
        for node in ast.walk(ast.parse(user)):
            chain = _chain(node) if isinstance(node, ast.Attribute) else []
            if chain[:1] != [name]:
                continue
            value: Any = module
            for part in chain[1:]:
                inner = getattr(value, part, None)
                if not isinstance(inner, types.ModuleType) or inner.__name__ != f"{value.__name__}.{part}":
                    break
                imports_itself = "__getattr__" in vars(value) and part in getattr(value, "__all__", ())  # as numpy and scipy
                if _importable(inner.__name__) and not imports_itself:
                    root = inner.__name__.partition(".")[0]
                    self.bind(root, sys.modules[root], f"import {inner.__name__}")
                    self.imports[f"import {inner.__name__}"] = None
                value = inner

    def _add_definition(self, name: str, value: Any) -> bool:
        """A function or class of the notebook, as text."""
        if isinstance(value, type) and value.__name__ == name:
            version = next((v for op in registry for v in op.versions if v.cls is value and v.source is not None), None)
            if version is not None:
                self._add_class(value, version.source or "")
                return True
        for function in _functions(value):
            if "<locals>" in function.__qualname__:
                self.lacking[name] = "is defined in a function, whose names may be part of it"
                return True
            text = "".join(linecache.getlines(function.__code__.co_filename))
            place = _Place(function.__globals__, text)
            statement = _statement_at(place, function.__code__.co_firstlineno)
            if statement is not None and name in _names_bound(statement):
                self._add(name, _text_of(text, statement), place)
                self.annotations |= _postponed(function)
                return True
        return False

    def _add_constant(self, name: str, value: Any, place: _Place) -> bool:
        """A value of the notebook: as it was written in the op's own cell, or as it is now."""
        written = next((s for s in reversed(place.statements()) if name in _names_bound(s)), None)
        literal = _literal(name, value)
        if literal is not None and written is not None and _says(written, value):
            literal = _text_of(place.text, written)
        if literal is not None:
            self.definitions[name] = literal
        elif isinstance(value, (np.ndarray, np.generic)) and (array := _array(value)) is not None:
            self.bind("np", np, f"{name} = np.array(…)")
            self.imports["import numpy as np"] = None
            self.definitions[name] = f"{name} = {array}"
        elif written is not None:
            self._add(name, _text_of(place.text, written), place)
        else:
            return False
        return True


def _arguments(version: Version) -> Iterator[str]:
    yield _quoted(version.op)
    if version.opset != 1:
        yield f"opset={version.opset}"
    served = registry.modules_of(version.op)
    if served:
        yield f"module={_quoted(served[-1])}"


def _quoted(text: str) -> str:
    return f'"{text}"' if text.isprintable() and not set(text) & set('"\\') else repr(text)


def _functions(value: Any) -> Iterator[types.FunctionType]:
    """The functions that are the value, or that a class defines itself."""
    for item in vars(value).values() if isinstance(value, type) else [value]:
        item = getattr(item, "__func__", getattr(item, "fget", item))  # class and static methods, properties
        item = inspect.unwrap(item) if callable(item) else item
        if isinstance(item, types.FunctionType):
            own = not isinstance(value, type) or item.__qualname__.startswith(f"{value.__qualname__}.")
            if own:
                yield item


def _namespace(cls: type) -> Mapping[str, Any]:
    for base in cls.__mro__[:-1]:  # a class without a method of its own stands beside the first that has one
        for function in _functions(base):
            if base is cls or not _importable(base.__module__):
                return function.__globals__
    return vars(sys.modules.get(cls.__module__, sys.modules["__main__"]))


def _postponed(function: types.FunctionType) -> bool:
    flags = function.__code__.co_flags
    return bool(function.__annotations__) and bool(flags & __future__.annotations.compiler_flag)


def _around(cls: type, source: str) -> str:
    """The whole file or cell that the source is from; the source itself where that has changed since."""
    for function in _functions(cls):
        text = "".join(linecache.getlines(function.__code__.co_filename))
        if source.strip() in text:
            return text
    return source


def _class_in(text: str, cls: type) -> ast.ClassDef | str:
    """The class's statement in its source, or why there is none."""
    if "<locals>" in cls.__qualname__:
        return "is defined in a function, whose names may be part of it"
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return "its source is no Python by itself"
    found = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and node.name == cls.__name__]
    if not found:
        return "its source does not have the class"
    if len(found) > 1 and any(node not in tree.body for node in found):
        return "its source has the class more than once"
    return found[-1]


def _chain(node: ast.AST) -> list[str]:
    """``a.b.c`` as its names; nothing for another expression."""
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.insert(0, node.attr)
        node = node.value
    return [node.id, *names] if isinstance(node, ast.Name) else []


def _value_of(node: ast.AST, namespace: Mapping[str, Any]) -> Any:
    """What ``a.b`` stands for; only names of modules are looked into."""
    chain = _chain(node)
    value = namespace.get(chain[0], _NOWHERE) if chain else _NOWHERE
    for name in chain[1:]:
        value = getattr(value, name, _NOWHERE) if isinstance(value, types.ModuleType) else _NOWHERE
    return value


# ---- imports -----------------------------------------------------------------------------------------------------------------


def _importable(module: str) -> bool:
    """Whether a fresh process can import it: the notebook itself, and modules made for cells, it cannot."""
    there = sys.modules.get(module)
    return there is not None and module != "__main__" and getattr(there, "__spec__", None) is not None


def _import_line(name: str, value: Any, place: _Place) -> str | None:
    if isinstance(value, types.ModuleType):
        own = value.__name__
        if not _importable(own) or sys.modules[own] is not value:
            return None
        return f"import {own}" if own == name else f"import {own} as {name}"
    home = place.namespace.get("__name__")
    candidates = [getattr(value, "__module__", None), type(value).__module__, type(value).__module__.partition(".")[0]]
    known = [(m, n) for m in candidates for n in (getattr(value, "__name__", name), name)]
    for module, original in [*_written_imports(name, place), *known]:
        if not isinstance(module, str) or not isinstance(original, str) or module in (home, "builtins"):
            continue
        if not _importable(module) or vars(sys.modules[module]).get(original, _NOWHERE) is not value:
            continue
        if isinstance(value, (int, float, complex, str, bytes, type(None))) and not _written_imports(name, place):
            continue  # small numbers are one object wherever they are
        return f"from {module} import {original}" + ("" if original == name else f" as {name}")
    return None


def _written_imports(name: str, place: _Place) -> list[tuple[str, str]]:
    """Module and name of the cell's own ``from … import`` of that name."""
    return [
        (statement.module, alias.name)
        for statement in place.statements()
        if isinstance(statement, ast.ImportFrom) and statement.module and not statement.level
        for alias in statement.names
        if (alias.asname or alias.name) == name
    ]


# ---- definitions and constants -----------------------------------------------------------------------------------------------


def _statement_at(place: _Place, line: int) -> ast.stmt | None:
    """The outermost statement that stands at that line."""
    return next((s for s in place.statements() if _first_line(s) <= line <= (s.end_lineno or s.lineno)), None)


def _first_line(statement: ast.stmt) -> int:
    decorators: list[ast.expr] = getattr(statement, "decorator_list", [])
    return min([statement.lineno, *(decorator.lineno for decorator in decorators)])


def _text_of(text: str, statement: ast.stmt) -> str:
    """The statement's lines, decorators included."""
    return "\n".join(text.split("\n")[_first_line(statement) - 1 : statement.end_lineno])


def _names_bound(statement: ast.stmt) -> list[str]:
    match statement:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return [name]
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr()):
            return [name]
    return []


def _literal(name: str, value: Any) -> str | None:
    text = None
    if type(value) in (int, float, complex, str, bytes, bool, type(None), list, tuple, dict, set) and _is_plain(value):
        text = f"{name} = {value!r}"
    if type(value) is float and value - value != 0:
        text = f'{name} = float("{value}")'
    return text if text is not None and len(text) <= _LONGEST_CONSTANT else None


def _is_plain(value: Any) -> bool:
    """Whether its repr, read again, is the same value."""
    try:
        return len(repr(value)) <= _LONGEST_CONSTANT and bool(same_value(ast.literal_eval(repr(value)), value))
    except (ValueError, SyntaxError, RecursionError):
        return False


def _says(statement: ast.stmt, value: Any) -> bool:
    """Whether an assignment writes out the very value."""
    try:
        return bool(same_value(ast.literal_eval(getattr(statement, "value", None) or ast.Constant(...)), value))
    except (ValueError, TypeError):
        return False


def _array(value: np.ndarray | np.generic) -> str | None:
    if value.dtype.kind not in "biuf" or not hasattr(np, value.dtype.name) or value.size > _LONGEST_CONSTANT:
        return None
    if not np.isfinite(value).all():
        return None
    text = f'np.array({value.tolist()!r}, dtype="{value.dtype.name}")'
    text += f".reshape({value.shape!r})" if value.size == 0 and value.ndim > 1 else ""
    text += "[()]" if isinstance(value, np.generic) else ""
    return text if len(text) <= _LONGEST_CONSTANT else None


def _article(noun: str) -> str:
    return f"{'an' if noun[:1].lower() in 'aeiou' else 'a'} {noun}"
