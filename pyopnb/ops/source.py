"""Ops as a module that defines them: their classes, and what these use.

The rule for each global name that a class uses, directly or through a function or class that it uses:

1. A module, or what an importable module has under a name, becomes an import.
2. A function or class of the notebook comes along as text, if its own text is known and follows the same rule.
3. A plain constant is written with its current value: numbers, strings, bytes, None, lists, tuples, dicts and sets of these,
   and NumPy arrays of up to `_LONGEST_CONSTANT` characters.

Anything else is refused by name, so that the module never lacks a name in a fresh process.
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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pyopnb.errors import DefinitionError
from pyopnb.ops.definitions import class_source, pyop
from pyopnb.ops.messages import sanitize
from pyopnb.ops.op import Version
from pyopnb.ops.registry import registry
from pyopnb.ops.schema import same_value

__all__ = ["SourceClosure", "free_names", "is_importable", "portable_closure", "source_closure"]

_MODULE_NAMES = {
    "__name__",
    "__file__",
    "__doc__",
    "__builtins__",
    "__annotations__",
    "__debug__",
    "__spec__",
}
_LONGEST_CONSTANT = 20_000  # characters
_LISTED = 8  # names in a refusal
_IN_FUNCTION = "is defined in a function, whose names may be part of it"
_MISSING = object()


def source_closure(versions: Sequence[Version]) -> str:
    """Write the text of a module that defines ops when it is imported.

    Parameters
    ----------
    versions : sequence of Version

    Returns
    -------
    str

    Raises
    ------
    DefinitionError
        A name that an op uses is neither an import, a function or class with a known text, nor a plain constant; or it stands
        for different things in two ops.
    """
    if len(versions) == 1 and (own := getattr(versions[0].cls, "_module_source", None)) is not None:
        return str(
            own(versions[0])
        )  # a class that was made without a text, and knows how to write one
    module = _ModuleText(versions)
    module.add_ops(
        versions, "imports, functions and classes with a known text, and plain constants"
    )
    return str(module)


@dataclass(frozen=True)
class SourceClosure:
    """An op as the text of a module, with what no text can say.

    Attributes
    ----------
    text : str
        It defines the op once the module has the values.
    values : dict
        By the name of a global: what the op uses and is no plain constant.
    definitions : dict
        The classes and functions that the text defines, by name.
    """

    text: str
    values: Mapping[str, Any]
    definitions: Mapping[str, Any]


def portable_closure(version: Version) -> SourceClosure:
    """Collect what another process needs to define an op: `source_closure`, and values that are not constants.

    What the module of the class has itself comes along as well, even where that module can be imported.

    Parameters
    ----------
    version : Version

    Returns
    -------
    SourceClosure

    Raises
    ------
    DefinitionError
        The op uses a function or class whose text is not known, a module that cannot be imported, or a name without a value.
    """
    if (own := getattr(version.cls, "_module_source", None)) is not None:
        return SourceClosure(str(own(version)), {}, {})
    module = _ModuleText([version], carries=True)
    module.add_ops([version], "imports, functions and classes with a known text, and values")
    return SourceClosure(str(module), module.carried, module.defined)


def free_names(text: str) -> list[str]:
    """List the names that a module's text uses and does not bind.

    Parameters
    ----------
    text : str

    Returns
    -------
    list of str
        Each once, those of outer scopes first.
    """
    top = symtable.symtable(text, "<op>", "exec")
    bound = {
        s.get_name()
        for s in top.get_symbols()
        if s.is_assigned() or s.is_imported() or s.is_namespace()
    }
    names: dict[str, None] = {}
    tables = [top]
    for table in tables:
        used = (s.get_name() for s in table.get_symbols() if s.is_referenced() and s.is_global())
        names.update(dict.fromkeys(name for name in used if name not in bound))
        tables += table.get_children()
    return list(names)


@dataclass(frozen=True)
class _Scope:
    """Where a definition was written: the globals that its names are looked up in, and the text of its cell or file."""

    namespace: Mapping[str, Any]
    text: str

    def imports_of(self, name: str) -> Iterator[tuple[str, str]]:
        """Module and name of each ``from … import`` that binds the name."""
        for statement in _statements(self.text):
            if isinstance(statement, ast.ImportFrom) and statement.module and not statement.level:
                yield from (
                    (statement.module, a.name)
                    for a in statement.names
                    if (a.asname or a.name) == name
                )


def _statements(text: str) -> list[ast.stmt]:
    try:
        return ast.parse(text).body
    except SyntaxError:  # an indented class, or a cell of another language
        return []


class _ModuleText:
    """A module that is being put together."""

    def __init__(self, versions: Sequence[Version], *, carries: bool = False) -> None:
        self.refused: dict[str, str] = {}
        self.carried: dict[str, Any] = {}
        self._carries = carries
        self._ops: dict[type, list[Version]] = {}
        for version in versions:
            self._ops.setdefault(version.cls, []).append(version)
        self._imports = {"import pyopnb": None}
        self._definitions: dict[str, str] = {}
        self._values: dict[str, Any] = {"pyopnb": sys.modules["pyopnb"]}
        self._postponed_annotations = False

    def __str__(self) -> str:
        future = ["from __future__ import annotations\n"] if self._postponed_annotations else []
        imports = sorted(self._imports, key=lambda line: (line.startswith("from"), line))
        # Functions and classes stand apart, constants together.
        blocks, constants = ["\n".join([*future, *imports])], ""
        for definition in self._definitions.values():
            if definition.startswith(("def ", "class ", "@", "async ", "#", "pyopnb.")):
                blocks += [constants, definition]
                constants = ""
            else:
                constants = f"{constants}\n{definition}" if constants else definition
        return "\n\n\n".join(block for block in [*blocks, constants] if block) + "\n"

    @property
    def defined(self) -> dict[str, Any]:
        """List the classes and functions of the text."""
        known = {name: self._values[name] for name in self._definitions if name in self._values}
        return {
            name: value
            for name, value in known.items()
            if isinstance(value, (type, types.FunctionType))
        }

    def add_ops(self, versions: Sequence[Version], expected: str) -> None:
        """Add ops; raise where they use anything but what is expected."""
        for version in versions:
            self.add_op(version)
        if self.refused:
            reasons = [f"{sanitize(name, 40)} ({why})" for name, why in self.refused.items()]
            more = f" and {len(reasons) - _LISTED} more" if len(reasons) > _LISTED else ""
            raise DefinitionError(
                f"op {', '.join(version.op for version in versions[:4])}",
                expected=f"a class that uses {expected}",
                got=", ".join(reasons[:_LISTED]) + more,
                next="import it in the op's cell, or make it inside the class",
            )

    def add_op(self, version: Version) -> None:
        cls = version.cls
        if (own := getattr(cls, "_module_source", None)) is not None:
            self._add_module(version, str(own(version)))
            return
        if not self._bind(cls.__name__, cls, version.op):
            return
        if version.source is None:
            self.refused[cls.__name__] = (
                "its source is not known: define it in a %%pyop cell, or in a file with @pyopnb.pyop"
            )
        else:
            self._add_class(cls.__name__, cls, version.source)

    def _add_module(self, version: Version, text: str) -> None:
        """Add the text that a class writes itself: its imports, which come first, to those of all."""
        lines = text.rstrip("\n").split("\n")
        size = next(
            n for n, line in enumerate(lines) if line and not line.startswith(("import ", "from "))
        )
        self._imports.update(dict.fromkeys(filter(None, lines[:size])))
        classes = [node.name for node in _statements(text) if isinstance(node, ast.ClassDef)]
        if all([self._bind(name, version.cls, version.op) for name in classes]):
            self._definitions[version.op] = "\n".join(lines[size:])

    def _bind(self, name: str, value: Any, user: str) -> bool:
        """Bind a name and tell whether it is new; refuse one that already stands for another object."""
        known = self._values.get(name, _MISSING)
        if known is _MISSING:
            self._values[name] = value
        elif known is not value and not same_value(known, value):
            self.refused[name] = (
                f"means two things, one of them in {sanitize(user.splitlines()[0], 60)}"
            )
        return known is _MISSING

    def _add_name(self, name: str, user: str, scope: _Scope) -> None:
        """Add what a name stands for that the text of ``user`` uses."""
        value = scope.namespace.get(name, _MISSING)
        if name in _MODULE_NAMES or (
            value is _MISSING and (hasattr(builtins, name) or name == "pyopnb")
        ):
            return
        if value is _MISSING:
            self.refused[name] = "is not defined"
            return
        if isinstance(value, types.ModuleType):
            self._import_submodules(name, value, user)
        if not self._bind(name, value, user):
            return
        if (line := _import_line(name, value, scope)) is not None:
            self._imports[line] = None
        elif isinstance(value, types.ModuleType):
            self.refused[name] = (
                f"the module {sanitize(value.__name__)}, which a fresh process cannot import"
            )
        elif isinstance(value, type):
            versions = (v for op in registry for v in op.versions if v.cls is value)
            source = next((v.source for v in versions if v.source), None) or class_source(value)
            # The methods of a dataclass may all be made for it, and then name no file: it is looked for beside its user.
            self._add_class(name, value, source or scope.text)
        elif isinstance(value, types.FunctionType):
            self._add_function(name, value)
        elif (constant := _constant(value)) is not None:
            if isinstance(value, (np.ndarray, np.generic)):
                self._bind("np", np, f"{name} = {constant}")
                self._imports["import numpy as np"] = None
            self._definitions[name] = f"{name} = {constant}"
        elif self._carries:
            self.carried[name] = value
        else:
            self.refused[name] = f"of type {type(value).__name__}, not a plain constant"

    def _add_class(self, name: str, cls: type, source: str) -> None:
        source = textwrap.dedent(source)
        classes = [
            node
            for node in _statements(source)
            if isinstance(node, ast.ClassDef) and node.name == name
        ]
        if "<locals>" in cls.__qualname__ or not classes:
            self.refused[name] = (
                _IN_FUNCTION
                if "<locals>" in cls.__qualname__
                else "a class whose text is not known"
            )
            return
        node = classes[-1]
        scope = _Scope(_namespace(cls), _surrounding_text(cls, source))
        lines = [
            f"@pyopnb.pyop({', '.join(_pyop_arguments(version))})"
            for version in self._ops.get(cls, [])
        ]
        for decorator in node.decorator_list:
            if (
                _evaluate(
                    decorator.func if isinstance(decorator, ast.Call) else decorator,
                    scope.namespace,
                )
                is not pyop
            ):
                lines.append(f"@{ast.get_source_segment(source, decorator)}")
        lines += source.split("\n")[node.lineno - 1 : node.end_lineno]
        self._add_text(name, "\n".join(lines), scope, _functions(cls))

    def _add_function(self, name: str, function: types.FunctionType) -> None:
        """Add a function that a statement ``def name`` or ``name = lambda`` made."""
        if "<locals>" in function.__qualname__:
            self.refused[name] = _IN_FUNCTION
            return
        try:
            text = textwrap.dedent(inspect.getsource(inspect.unwrap(function))).rstrip()
        except (OSError, TypeError):
            text = ""
        match _statements(text):
            case [
                (
                    ast.FunctionDef(name=made)
                    | ast.AsyncFunctionDef(name=made)
                    | ast.Assign(targets=[ast.Name(id=made)])
                )
            ]:
                known = made == name
            case _:
                known = False
        if known:
            self._add_text(
                name, text, _Scope(function.__globals__, _file_text(function)), [function]
            )
        else:
            self.refused[name] = "a function whose text is not known"

    def _add_text(
        self, name: str, text: str, scope: _Scope, functions: Iterable[types.FunctionType]
    ) -> None:
        for used in free_names(text):
            self._add_name(used, text, scope)
        self._definitions[name] = text
        self._postponed_annotations |= any(map(_has_postponed_annotations, functions))

    def _import_submodules(self, name: str, module: types.ModuleType, user: str) -> None:
        """Import the submodules that a text uses: after ``import xml`` alone there is no ``xml.sax``."""
        for node in ast.walk(ast.parse(user)):
            parts = _dotted_name(node) if isinstance(node, ast.Attribute) else []
            value: Any = module
            for part in parts[1:] if parts[:1] == [name] else ():
                inner = getattr(value, part, None)
                if (
                    not isinstance(inner, types.ModuleType)
                    or inner.__name__ != f"{value.__name__}.{part}"
                ):
                    break
                imports_itself = "__getattr__" in vars(value) and part in getattr(
                    value, "__all__", ()
                )  # as numpy and scipy
                if is_importable(inner.__name__) and not imports_itself:
                    root = inner.__name__.partition(".")[0]
                    self._bind(root, sys.modules[root], f"import {inner.__name__}")
                    self._imports[f"import {inner.__name__}"] = None
                value = inner


def _pyop_arguments(version: Version) -> Iterator[str]:
    yield _quote(version.op)
    if version.opset != 1:
        yield f"opset={version.opset}"
    modules = registry.modules_of(version.op)
    if modules:
        yield f"module={_quote(modules[-1])}"


def _quote(text: str) -> str:
    return f'"{text}"' if text.isprintable() and not set(text) & set('"\\') else repr(text)


# ---- functions and classes ---------------------------------------------------------------------------------------------------


def _functions(value: type | types.FunctionType) -> Iterator[types.FunctionType]:
    """List a function, or the functions that a class itself defines."""
    for item in vars(value).values() if isinstance(value, type) else [value]:
        item = getattr(
            item, "__func__", getattr(item, "fget", item)
        )  # class and static methods, properties
        item = inspect.unwrap(item) if callable(item) else item
        if isinstance(item, types.FunctionType):
            own = not isinstance(value, type) or item.__qualname__.startswith(
                f"{value.__qualname__}."
            )
            if own:
                yield item


def _file_text(function: types.FunctionType) -> str:
    return "".join(linecache.getlines(function.__code__.co_filename))


def _has_postponed_annotations(function: types.FunctionType) -> bool:
    return bool(function.__annotations__) and bool(
        function.__code__.co_flags & __future__.annotations.compiler_flag
    )


def _namespace(cls: type) -> Mapping[str, Any]:
    for base in cls.__mro__[
        :-1
    ]:  # a class without a method of its own stands beside the first that has one
        for function in _functions(base):
            if base is cls or not is_importable(base.__module__):
                return function.__globals__
    return vars(sys.modules.get(cls.__module__, sys.modules["__main__"]))


def _surrounding_text(cls: type, source: str) -> str:
    """Return the file or cell that a source is from, or the source itself if the file has changed since."""
    return next(
        (text for text in map(_file_text, _functions(cls)) if source.strip() in text), source
    )


def _dotted_name(node: ast.AST) -> list[str]:
    """``a.b.c`` as its names; nothing for another expression."""
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.insert(0, node.attr)
        node = node.value
    return [node.id, *names] if isinstance(node, ast.Name) else []


def _evaluate(node: ast.AST, namespace: Mapping[str, Any]) -> Any:
    """Evaluate ``a.b``, looking only into modules."""
    first, *rest = _dotted_name(node) or [""]
    value = namespace.get(first, _MISSING)
    for name in rest:
        value = getattr(value, name, _MISSING) if isinstance(value, types.ModuleType) else _MISSING
    return value


# ---- imports and constants ---------------------------------------------------------------------------------------------------


def is_importable(module: str) -> bool:
    """Tell whether a fresh process can import a module: not the notebook itself, nor one made for a cell."""
    found = sys.modules.get(module)
    return (
        found is not None and module != "__main__" and getattr(found, "__spec__", None) is not None
    )


def _import_line(name: str, value: Any, scope: _Scope) -> str | None:
    if isinstance(value, types.ModuleType):
        own = value.__name__
        if not is_importable(own) or sys.modules[own] is not value:
            return None
        return f"import {own}" if own == name else f"import {own} as {name}"
    home = (getattr(value, "__module__", None), getattr(value, "__name__", name))
    for module, original in [*scope.imports_of(name), home]:
        if not isinstance(module, str) or module in ("builtins", scope.namespace.get("__name__")):
            continue
        if is_importable(module) and vars(sys.modules[module]).get(original, _MISSING) is value:
            return f"from {module} import {original}" + ("" if original == name else f" as {name}")
    return None


def _constant(value: Any) -> str | None:
    """Write a plain value as an expression; return None for any other value."""
    if isinstance(value, (np.ndarray, np.generic)):
        text = _array_constant(value)
    elif type(value) is float and value - value != 0:
        text = f'float("{value}")'
    else:
        text = (
            repr(value)
            if type(value)
            in (int, float, complex, str, bytes, bool, type(None), list, tuple, dict, set)
            else None
        )
        try:
            text = text if text is not None and same_value(ast.literal_eval(text), value) else None
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            text = None
    return text if text is not None and len(text) <= _LONGEST_CONSTANT else None


def _literal(value: Any) -> str | None:
    """Return the repr of a value if it reads back as the same value."""
    if type(value) not in (
        int,
        float,
        complex,
        str,
        bytes,
        bool,
        type(None),
        list,
        tuple,
        dict,
        set,
    ):
        return None
    try:
        text = repr(value)
        return (
            text
            if len(text) <= _LONGEST_CONSTANT and same_value(ast.literal_eval(text), value)
            else None
        )
    except (ValueError, SyntaxError, RecursionError):
        return None


def _array_constant(value: np.ndarray | np.generic) -> str | None:
    if (
        value.dtype.kind not in "biuf"
        or value.dtype.isbuiltin == 2
        or value.size > _LONGEST_CONSTANT
    ):
        return None
    if not np.isfinite(value).all():
        return None
    text = f'np.array({value.tolist()!r}, dtype="{value.dtype.name}")'
    text += f".reshape({value.shape!r})" if value.size == 0 and value.ndim > 1 else ""
    text += "[()]" if isinstance(value, np.generic) else ""
    return text if len(text) <= _LONGEST_CONSTANT else None
