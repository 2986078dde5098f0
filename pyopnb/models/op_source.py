"""Write ops as a module that defines them, with their classes and all that these use.

The rule for each global name that a class uses, directly or through a function or class:

1. A module, or an object that an importable module has under a name, becomes an import.
2. A function or class of the notebook comes along as text, if its text is known.
3. A plain constant is written with its current value: numbers, strings, bytes, None, lists, tuples,
   dicts and sets of these, and NumPy arrays of up to `_LONGEST_CONSTANT` characters.

Anything else is refused by name, so that the module never lacks a name in a fresh process.
"""

from __future__ import annotations
import __future__

import ast
import builtins
import inspect
import os
import sys
import textwrap
import types
from collections import ChainMap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pyopnb.common import sanitize
from pyopnb.engine import Version, class_texts, op_run, op_schema, pyop, registry, running_text
from pyopnb.errors import DefinitionError

__all__ = ["free_names", "source_closure"]

_PLAIN_TYPES = (int, float, complex, str, bytes, bool, type(None), list, tuple, dict, set)
_LONGEST_CONSTANT = 20_000  # characters
_MAX_LISTED = 8  # names in a refusal
_IN_FUNCTION = "is defined in a function, whose names may be part of it"
_NO_TEXT = "whose text is not known"
_STALE = "is not what its file or cell says now"
_MISSING = object()


def source_closure(versions: Sequence[Version]) -> str:
    """Write the text of a module that defines ops when it is imported.

    Raises
    ------
    DefinitionError
        A name that an op uses is neither an import, a function or class with a known text, nor a
        plain constant; or it means different things in two ops.
    """
    if len(versions) == 1 and hasattr(versions[0].cls, "_module_source"):
        return str(versions[0].cls._module_source(versions[0]))
    module = _ModuleText(versions)
    for version in versions:
        module.add_op(version)
    if module.refused:
        next_ = "import it in the op's cell, or make it inside the class"
        if _STALE in module.refused.values():
            next_ = "importlib.reload of its module, or run its cell again, and save then"
        reasons = [f"{sanitize(name, 40)} ({why})" for name, why in module.refused.items()]
        more = f" and {len(reasons) - _MAX_LISTED} more" if len(reasons) > _MAX_LISTED else ""
        raise DefinitionError(
            f"op {', '.join(version.op for version in versions[:4])}",
            expected=(
                "a class that uses only imports, plain constants, and functions and classes "
                "whose text is known"
            ),
            got=", ".join(reasons[:_MAX_LISTED]) + more,
            next=next_,
        )
    return str(module)


def free_names(text: str) -> list[str]:
    """List the names that a module's text uses and does not bind.

    Returns
    -------
    list of str
        Each once, outer scopes first.
    """
    import symtable  # only needed to write a module

    module = symtable.symtable(text, "<op>", "exec")
    bound = set()
    for symbol in module.get_symbols():
        if symbol.is_assigned() or symbol.is_imported() or symbol.is_namespace():
            bound.add(symbol.get_name())
    names: dict[str, None] = {}
    tables = [module]
    for table in tables:
        for symbol in table.get_symbols():
            if symbol.is_referenced() and symbol.is_global() and symbol.get_name() not in bound:
                names[symbol.get_name()] = None
        tables += table.get_children()
    return list(names)


@dataclass(frozen=True)
class _Scope:
    """The globals that the names of a definition are looked up in, and the text around it."""

    namespace: Mapping[str, Any]
    text: str


def _statements(text: str) -> list[ast.stmt]:
    try:
        return ast.parse(text).body
    except SyntaxError:  # an indented class, or a cell of another language
        return []


def _target(statement: ast.stmt) -> str:
    """Return the name that an assignment binds."""
    return ast.unparse(statement.targets[0]) if isinstance(statement, ast.Assign) else ""


class _ModuleText:
    """A module that is being put together, a name at a time."""

    def __init__(self, versions: Sequence[Version]) -> None:
        self.refused: dict[str, str] = {}
        self._versions_by_class: dict[type, list[Version]] = {}
        for version in versions:
            self._versions_by_class.setdefault(op_run.written_class(version.cls), []).append(
                version
            )
        self._imports = {"import pyopnb"}
        self._definitions: dict[str, str] = {}
        self._values: dict[str, Any] = {"pyopnb": sys.modules["pyopnb"]}
        self._postpones_annotations = False

    def __str__(self) -> str:
        # As isort has it: plain imports first.
        lines = sorted(self._imports, key=lambda line: (line.startswith("from"), line))
        if self._postpones_annotations:
            lines.insert(0, "from __future__ import annotations\n")
        text = "\n".join(lines)
        was_constant = False
        for definition in self._definitions.values():
            # Functions and classes have blank lines between them, constants have none.
            is_constant = not definition.startswith(
                ("def ", "class ", "@", "async ", "#", "pyopnb.")
            )
            text += "\n" if is_constant and was_constant else "\n\n\n"
            text += definition
            was_constant = is_constant
        return f"{text}\n"

    def add_op(self, version: Version) -> None:
        """Add the class of an op, and all that it uses."""
        cls = op_run.written_class(version.cls)
        if hasattr(cls, "_module_source"):
            self._add_module(version, str(cls._module_source(version)))
        elif hasattr(cls, "_function_now"):
            self._add_decorated(version, cls._function_now())
        elif self._bind(cls.__name__, cls, version.op):
            if version.source is None:
                self.refused[cls.__name__] = (
                    "its source is not known: define it in a %%pyop cell, "
                    "or in a file with @pyopnb.pyop"
                )
            else:
                self._add_class(cls.__name__, cls, version.source)

    def _add_decorated(self, version: Version, function: Any) -> None:
        """Add the function that its decorator made the op of, unless another one runs by now."""
        name = getattr(function, "__name__", type(function).__name__)
        is_function = isinstance(function, types.FunctionType)
        text = class_texts.function_source(function) if is_function else None
        if text is None or not text.startswith("@") or text not in (version.source or ""):
            self.refused[name] = "not the function under its decorator"
        elif self._bind(name, function, version.op):
            self._add_function(name, function)

    def _add_module(self, version: Version, text: str) -> None:
        """Add the module text that a class writes itself, with its imports at the top."""
        definitions = []
        for statement in _statements(text):
            source = ast.get_source_segment(text, statement) or ""
            if isinstance(statement, (ast.Import, ast.ImportFrom)):
                self._imports.add(source)
                continue
            if isinstance(statement, ast.ClassDef):
                self._bind(statement.name, version.cls, version.op)
                for decorator in statement.decorator_list:
                    definitions.append(f"@{ast.get_source_segment(text, decorator)}")
            definitions.append(source)
        self._definitions[version.op] = "\n".join(definitions)

    def _bind(self, name: str, value: Any, user: str) -> bool:
        """Bind a name, tell whether it is new, and refuse it if another object has it."""
        if name not in self._values:
            self._values[name] = value
            return True
        bound = self._values[name]
        if bound is not value and not op_schema.same_value(bound, value):
            first_line = sanitize(user.splitlines()[0], 60)
            self.refused[name] = f"means two things, one of them in {first_line}"
        return False

    def _add_name(self, name: str, user: str, scope: _Scope) -> None:
        """Add the object of a name that the text of ``user`` uses."""
        if name.startswith("__"):
            return  # every module has its own
        if name not in scope.namespace:
            if not hasattr(builtins, name) and name != "pyopnb":
                self.refused[name] = "is not defined"
            return
        value = scope.namespace[name]
        if isinstance(value, types.ModuleType):
            self._add_module_import(name, value, user)
            return
        if not self._bind(name, value, user):
            return
        line = _import_line(name, value, scope)
        if line is not None:
            self._imports.add(line)
            _, home, _, original, *_ = line.split()
            self._refuse_stale(sys.modules[home], original)
        elif isinstance(value, type):
            # The methods of a dataclass may all be made for it, and then name no file. Its text is
            # looked for beside its user.
            self._add_class(name, value, _known_source(value) or scope.text)
        elif isinstance(value, types.FunctionType):
            self._add_function(name, value)
        else:
            self._add_constant(name, value)

    def _add_module_import(self, name: str, module: types.ModuleType, user: str) -> None:
        """Import a module, and the submodules that a text uses."""
        # After ``import PIL`` alone there is no ``PIL.Image``, unless another cell imported it.
        for node in ast.walk(ast.parse(user)):
            dotted = ast.unparse(node) if isinstance(node, ast.Attribute) else ""
            if dotted.startswith(f"{name}."):
                submodule = f"{module.__name__}{dotted.removeprefix(name)}"
                self._refuse_stale(module, dotted.removeprefix(f"{name}."))
                if class_texts.is_importable(submodule) and not _imports_itself(submodule):
                    self._imports.add(f"import {submodule}")
        if not self._bind(name, module, user):
            return
        home = module.__name__
        # A module that was made in the notebook, or put in place of another, is in no file.
        if not class_texts.is_importable(home) or sys.modules[home] is not module:
            self.refused[name] = f"the module {sanitize(home)}, which a fresh process cannot import"
        else:
            self._imports.add(f"import {home}" if home == name else f"import {home} as {name}")

    def _refuse_stale(self, module: types.ModuleType, name: str) -> None:
        """Refuse an import that finds something else in a fresh process."""
        stale = running_text.stale_name(module, name)
        if stale is not None:
            self.refused[stale] = _STALE

    def _add_constant(self, name: str, value: Any) -> None:
        is_array = isinstance(value, (np.ndarray, np.generic))
        text = _array_constant(value) if is_array else _constant(value)
        if text is None or len(text) > _LONGEST_CONSTANT:
            self.refused[name] = f"of type {type(value).__name__}, not a plain constant"
            return
        if is_array:
            self._bind("np", np, f"{name} = {text}")
            self._imports.add("import numpy as np")
        self._definitions[name] = f"{name} = {text}"

    def _add_class(self, name: str, cls: type, source: str) -> None:
        # Its methods can use variables of that function, which no text shows.
        if "<locals>" in cls.__qualname__:
            self.refused[name] = _IN_FUNCTION
            return
        source = textwrap.dedent(source)
        definition = None
        for statement in _statements(source):
            if isinstance(statement, ast.ClassDef) and statement.name == name:
                definition = statement
        # Its methods know the globals of the cell or file that it was written in.
        functions = list(_functions(cls))
        namespace = _namespace(cls, functions)
        lines = source.split("\n")
        own = "\n".join(lines[definition.lineno - 1 : definition.end_lineno]) if definition else ""
        if definition is None:
            self.refused[name] = f"a class {_NO_TEXT}"
            return
        if not running_text.is_text_of(cls, own, namespace):
            self.refused[name] = _STALE
            return
        scope = _Scope(namespace, _surrounding_text(functions, source))
        # The op's names replace the decorator, which may have taken them from elsewhere.
        decorators = [_decorator(version) for version in self._versions_by_class.get(cls, ())]
        for decorator in definition.decorator_list:
            if not _is_pyop(decorator, scope.namespace):
                decorators.append(f"@{ast.get_source_segment(source, decorator)}")
        self._add_text(name, "\n".join([*decorators, own]), scope, functions)

    def _add_function(self, name: str, function: types.FunctionType) -> None:
        """Add a function that a statement ``def name`` or ``name = lambda`` made."""
        if "<locals>" in function.__qualname__:
            self.refused[name] = _IN_FUNCTION
            return
        text = (class_texts.function_source(inspect.unwrap(function)) or "").rstrip()
        bound = [getattr(s, "name", None) or _target(s) for s in _statements(text)]
        if bound == [name]:
            scope = _Scope(function.__globals__, _file_text(function))
            self._add_text(name, text, scope, [function])
        else:
            is_stale = os.path.exists(function.__code__.co_filename)
            self.refused[name] = _STALE if is_stale else f"a function {_NO_TEXT}"

    def _add_text(
        self, name: str, text: str, scope: _Scope, functions: Sequence[types.FunctionType]
    ) -> None:
        """Add a definition after the names that it uses."""
        # A name that leads back to this definition is bound already, so this ends.
        for used in free_names(text):
            self._add_name(used, text, scope)
        self._definitions[name] = text
        flag = __future__.annotations.compiler_flag
        for function in functions:
            if function.__annotations__ and function.__code__.co_flags & flag:
                self._postpones_annotations = True


# ---- classes and functions -----------------------------------------------------------------------


def _known_source(cls: type) -> str | None:
    """Return the text of a class, from the op that it defines or else from its file."""
    for op in registry:
        for version in op.versions:
            if version.cls is cls and version.source:
                return version.source
    return class_texts.class_source(cls)


def _decorator(version: Version) -> str:
    arguments = [_quote(version.op)]
    if version.opset != 1:
        arguments.append(f"opset={version.opset}")
    modules = registry.modules_of(version.op)
    # The decorator takes one module: the one that was named last.
    if modules:
        arguments.append(f"module={_quote(modules[-1])}")
    return f"@pyopnb.pyop({', '.join(arguments)})"


def _quote(text: str) -> str:
    return repr(text) if '"' in text or "\\" in text else f'"{text}"'


def _is_pyop(decorator: ast.expr, namespace: Mapping[str, Any]) -> bool:
    """Tell whether a decorator is ``@pyop``, however it was imported."""
    if isinstance(decorator, ast.Call):
        decorator = decorator.func
    if isinstance(decorator, ast.Attribute) and isinstance(decorator.value, ast.Name):
        return getattr(namespace.get(decorator.value.id), decorator.attr, None) is pyop
    return isinstance(decorator, ast.Name) and namespace.get(decorator.id) is pyop


def _functions(cls: type) -> Iterator[types.FunctionType]:
    """Yield the functions that a class itself defines."""
    for attribute in vars(cls).values():
        for function in running_text.functions_of(attribute):
            if function.__qualname__.startswith(f"{cls.__qualname__}."):
                yield function


def _file_text(function: types.FunctionType) -> str:
    texts = running_text.texts_of(function.__code__.co_filename, function.__globals__)
    return next((entry.text for entry in texts), "")


def _namespace(cls: type, functions: Sequence[types.FunctionType]) -> Mapping[str, Any]:
    """Return the globals of a class's methods, or of its module where it has none."""
    if functions:
        return functions[0].__globals__
    # The cell of an op has a module of its own, and uses the names of the notebook.
    main = sys.modules["__main__"]
    return ChainMap(vars(sys.modules.get(cls.__module__, main)), vars(main))


def _surrounding_text(functions: Sequence[types.FunctionType], source: str) -> str:
    """Return the text of a source's file or cell, or the source itself if the file has changed."""
    for function in functions:
        text = _file_text(function)
        if source.strip() in text:
            return text
    return source


# ---- imports and constants -----------------------------------------------------------------------


def _imports_itself(submodule: str) -> bool:
    """Tell whether a package imports a submodule when it is first used, as numpy and scipy do."""
    package, _, name = submodule.rpartition(".")
    names = vars(sys.modules[package])
    is_lazy = "__getattr__" in names and name in names.get("__all__", ())
    return is_lazy or sys.modules[submodule].__name__ != submodule


def _import_line(name: str, value: Any, scope: _Scope) -> str | None:
    """Write the import that binds a name to a value; return None where no module has it."""
    homes: list[tuple[Any, str]] = []
    for statement in _statements(scope.text):
        if isinstance(statement, ast.ImportFrom) and statement.module and not statement.level:
            for alias in statement.names:
                if name == (alias.asname or alias.name):
                    homes.append((statement.module, alias.name))
    # The import that the user wrote comes first; else where the object says that it is from.
    homes.append((getattr(value, "__module__", None), getattr(value, "__name__", name)))
    for module, original in homes:
        if not isinstance(module, str) or module in ("builtins", scope.namespace.get("__name__")):
            continue
        if (
            class_texts.is_importable(module)
            and vars(sys.modules[module]).get(original, _MISSING) is value
        ):
            renamed = "" if original == name else f" as {name}"
            return f"from {module} import {original}{renamed}"
    return None


def _constant(value: Any) -> str | None:
    """Write a plain value as an expression; return None where it would not read back the same."""
    if type(value) is float and value - value != 0:  # infinities and NaN
        return f'float("{value}")'
    # The repr of a subclass can be anything.
    if type(value) not in _PLAIN_TYPES:
        return None
    text = repr(value)
    try:
        reads_back = op_schema.same_value(ast.literal_eval(text), value)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return None
    return text if reads_back else None


def _array_constant(array: np.ndarray | np.generic) -> str | None:
    """Write an array of numbers as an expression; return None for other arrays and large ones."""
    is_numeric = array.dtype.kind in "biuf" and array.dtype.isbuiltin != 2
    if not is_numeric or array.size > _LONGEST_CONSTANT or not np.isfinite(array).all():
        return None
    # tolist gives Python numbers, whose repr reads back exactly.
    text = f'np.array({array.tolist()!r}, dtype="{array.dtype.name}")'
    if array.size == 0 and array.ndim > 1:
        text += f".reshape({array.shape!r})"
    if isinstance(array, np.generic):
        text += "[()]"
    return text
