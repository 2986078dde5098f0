"""Ops of a file whose classes were changed in place become new versions.

The IPython ``%autoreload`` replaces the code of a class and runs no decorator, and other tools do
the same. It does so before each cell; the syntax trees of cells are transformed after that, so this
is looked at there, and not in the runs of sessions.
"""

from __future__ import annotations
import __future__

import ast
import copy
import os
import sys
import textwrap
from types import CodeType, FunctionType, ModuleType
from typing import Any

from pyopnb.common import sanitize
from pyopnb.engine import Version, class_texts, op_names, op_run, op_schema, registry, running_text
from pyopnb.errors import PyopError

__all__ = ["PatchedOps"]


class PatchedOps(ast.NodeTransformer):
    """Defines the ops again whose classes have changed."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._looks: dict[str, _Look] = {}
        for op in registry:
            self._note(op.current)
        # At their definitions, because the next cell may already find the class changed.
        self.close = registry.subscribe(self._note)

    def _note(self, version: Version) -> None:
        is_ours = version.cls.__module__.startswith("pyopnb.")  # as the catalog's are
        if version.gradient_of is None and not is_ours and _file_of(version.cls) is not None:
            self._looks[version.op] = _Look(version)

    def visit(self, tree: ast.AST) -> ast.AST:
        """Look at the classes before a cell runs; its tree stays as it is."""
        for name, look in list(self._looks.items()):
            op = registry.find(*op_names.split_name(name))
            if op is None or op.current is not look.version:
                del self._looks[name]
                continue
            try:
                look.follow(self._reloads)
            except PyopError as error:
                _report(look.version, f"{type(error).__name__}: {error}")
            except Exception as error:  # of the user's class, and no reason to stop the cell
                _report(look.version, f"{type(error).__name__}: {sanitize(error)}")
        return tree

    @property
    def _reloads(self) -> bool:
        loaded = self._shell.extension_manager.loaded
        return any(name.endswith("autoreload") for name in loaded)


def _report(version: Version, text: str) -> None:
    file = sanitize(os.path.basename(_file_of(version.cls) or ""))
    text = f"{file} was edited, but {version.op} could not be defined again.\n{text}"
    print(text, file=sys.stderr)


class _Look:
    """The state of a version's class and its file when they were last looked at."""

    def __init__(self, version: Version) -> None:
        self.version = version
        self._cls = cls = op_run.written_class(version.cls)
        self._module = _module_of(cls)
        self._parts, self._state = _parts(cls), _file_state(cls)

    def follow(self, reloads: bool) -> None:
        """Define the op again if its class was changed in place."""
        # Each `%pyop load` makes a module of the file's name, and earlier classes keep theirs.
        if self._module is not sys.modules.get(self._cls.__module__):
            return
        version, cls, before, state = self.version, self._cls, self._parts, self._state
        self._parts, self._state = _parts(cls), _file_state(cls)
        if _is_same(before, self._parts) and state == self._state:
            return
        _mend(cls)
        self._parts = _parts(cls)
        source = class_texts.class_source(cls)
        is_edited = source is not None and source != version.source
        if _has_new_code(before, self._parts) or (is_edited and not _is_same(before, self._parts)):
            new = registry.define(self._cls, version.op, opset=version.opset, source=source)
            print(repr(new))
        elif reloads and state != self._state and not _is_applied(version.source, source):
            module, file = cls.__module__, os.path.basename(_file_of(cls) or "")
            print(
                f"{file} was edited, and %autoreload did not apply all of it to {version.op}. "
                f"Try: import importlib, {module}; importlib.reload({module})",
                file=sys.stderr,
            )


def _module_of(cls: type) -> ModuleType | None:
    """Return the module that made a class; None if another one has its name by now."""
    module = sys.modules.get(cls.__module__)
    own = [
        function.__globals__
        for attribute in vars(cls).values()
        for function in running_text.functions_of(attribute)
        if function.__globals__.get("__name__") == cls.__module__
    ]
    if module is None or not own or any(namespace is vars(module) for namespace in own):
        return module
    return None


def _file_of(cls: type) -> str | None:
    """Return the file of an imported class; None for a class from a cell."""
    file = getattr(sys.modules.get(cls.__module__), "__file__", None)
    return file if isinstance(file, str) and os.path.exists(file) else None


def _file_state(cls: type) -> tuple[int, int] | None:
    try:
        status = os.stat(_file_of(cls) or "")
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size


# ---- the parts of a class ------------------------------------------------------------------------

_Parts = dict[tuple[type, str], tuple[Any, ...]]


def _parts(cls: type) -> _Parts:
    """List the code, the defaults and the values of a class and its bases."""
    parts: _Parts = {}
    for owner in cls.__mro__:
        if owner.__module__ == "builtins":
            continue
        for name, value in list(vars(owner).items()):
            functions = running_text.functions_of(value)
            if functions:
                parts[owner, name] = tuple(
                    part
                    for function in functions
                    for part in (function.__code__, function.__defaults__, function.__kwdefaults__)
                )
            elif not name.startswith("__") or name == "__doc__":
                parts[owner, name] = (value,)
    return parts


def _is_same(before: _Parts, now: _Parts) -> bool:
    return before.keys() == now.keys() and all(
        len(old) == len(now[key]) and all(a is b for a, b in zip(old, now[key], strict=True))
        for key, old in before.items()
    )


def _has_new_code(before: _Parts, now: _Parts) -> bool:
    """Tell whether a function is new, gone or changed, and not only compiled again."""
    for key in before.keys() | now.keys():
        old, new = before.get(key, ()), now.get(key, ())
        codes = [part for part in (*old, *new) if isinstance(part, CodeType)]
        if not codes:
            continue
        if len(old) != len(new):
            return True
        for a, b in zip(old, new, strict=True):
            is_code = isinstance(a, CodeType) and isinstance(b, CodeType)
            if not (running_text.same_code(a, b) if is_code else op_schema.same_value(a, b)):
                return True
    return False


def _is_applied(old: str | None, new: str | None) -> bool:
    """Tell whether two texts of a class that runs differ in no decorator."""
    return new is not None and (old is None or _decorators(old) == _decorators(new))


def _decorators(text: str) -> list[str]:
    module = running_text.module_text(textwrap.dedent(text))
    statements = [] if module is None else module.tree.body
    first = next((node for node in statements if isinstance(node, ast.ClassDef)), None)
    return [] if first is None else [ast.unparse(node) for node in first.decorator_list]


# ---- left out by IPython -------------------------------------------------------------------------


def _mend(cls: type) -> None:
    """Give a class and its methods the texts and hints of the file, and the module's globals.

    IPython leaves the documentation of the class and the annotations of a method, and a method that
    is new gets a copy of the module's globals, which later changes do not reach.
    """
    module = sys.modules[cls.__module__]
    for attribute_name, attribute in list(vars(cls).items()):
        for function in running_text.functions_of(attribute):
            is_ours = function.__globals__.get("__name__") == module.__name__
            if is_ours and function.__globals__ is not vars(module):
                _set_globals(cls, attribute_name, attribute, function, vars(module))
    for text, _ in running_text.texts_of(_file_of(cls) or "", vars(module)):
        parsed = running_text.module_text(text)
        statement = None if parsed is None else parsed.class_of(cls)
        if statement is not None:
            document = ast.get_docstring(statement, clean=False)
            if document is not None:
                cls.__doc__ = document
            for node in statement.body:
                if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                    _set_annotations(vars(cls).get(node.name), node, vars(module))
            return


def _set_globals(
    cls: type, name: str, attribute: Any, function: FunctionType, namespace: dict[str, Any]
) -> None:
    if function.__closure__ or not isinstance(attribute, (FunctionType, staticmethod, classmethod)):
        return
    made = FunctionType(function.__code__, namespace, function.__name__, function.__defaults__)
    made.__kwdefaults__, made.__doc__ = function.__kwdefaults__, function.__doc__
    made.__annotations__ = function.__annotations__
    made.__qualname__, made.__module__ = f"{cls.__qualname__}.{name}", cls.__module__
    vars(made).update(vars(function))
    if isinstance(attribute, (staticmethod, classmethod)):
        setattr(cls, name, type(attribute)(made))
    else:
        setattr(cls, name, made)


def _set_annotations(attribute: Any, node: Any, namespace: dict[str, Any]) -> None:
    """Evaluate the annotations of a method as its file has them."""
    function = next(iter(running_text.functions_of(attribute)), None)
    if function is None or function.__name__ != node.name:
        return
    none = ast.Constant(None)
    arguments = copy.deepcopy(node.args)
    arguments.defaults = [none for _ in arguments.defaults]
    arguments.kw_defaults = [default and none for default in arguments.kw_defaults]
    stub = ast.FunctionDef(node.name, arguments, [ast.Pass()], [], node.returns)
    if sys.version_info >= (3, 12):
        stub.type_params = []
    flags = 0
    if namespace.get("annotations") is __future__.annotations:
        flags = __future__.annotations.compiler_flag
    tree = ast.fix_missing_locations(ast.Module([stub], []))
    made: dict[str, Any] = {}
    # The user's own annotations, which the module also evaluates when it is imported.
    exec(compile(tree, "<annotations>", "exec", flags, True), namespace, made)  # noqa: S102
    annotations = made[node.name].__annotations__
    if function.__annotations__ != annotations:
        function.__annotations__ = annotations
