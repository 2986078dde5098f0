"""Ops in C++ as a library that plain ONNX Runtime loads, without pyopnb and without Python."""

from __future__ import annotations

import _ctypes
import ctypes
import functools
import json
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pyopnb.common import file_writes, sanitize
from pyopnb.compile.compiler import compiled
from pyopnb.compile.cpp import CppOp, entry_text
from pyopnb.compile.signature import ELEMENTS, CppAttr, CppPort
from pyopnb.engine import Version, check_arguments, dtype, find_op, op_schema
from pyopnb.errors import DefinitionError, InputError, ModelError

__all__ = ["write_library"]


@functools.partial(check_arguments, advice={"path": '"folder/ops.so"'})
def write_library(ops: str | type | Sequence[str | type], path: str | os.PathLike[str]) -> Path:
    """Write ops in C++ to a shared library that onnxruntime loads without pyopnb or Python.

    Load it with ``SessionOptions.register_custom_ops_library(path)`` of onnxruntime 1.25 or newer,
    from Python or any other language. The library runs on any processor of this architecture, with
    a C library at least as new as this machine's. A session takes each domain from one library
    only, so put all ops of a domain that a model uses into the same library. If a port is a
    ``std::vector``, a node has to list the optional inputs before it, with empty names if need be.

    Parameters
    ----------
    ops : str or type, or a sequence of these
        Registered ops, by name or class. Their current versions are written.
    path : str or path-like
        Such as ``"libclip.so"``. An existing file is replaced.

    Returns
    -------
    Path
        The file that was written. It is absolute: the loaders of Linux and Windows do not look for
        a bare name in the current folder.

    Raises
    ------
    UnknownName
        There is no such op.
    DefinitionError
        An op is not in C++, or the compiler refuses the text.
    InputError
        The path is a folder, or there are no ops.
    ModelError
        The folder does not exist or cannot be written to, or a session has loaded the library that
        would be replaced.
    """
    target = Path(path).absolute()
    if target.is_dir():
        got = f"the folder {sanitize(repr(str(target)))}"
        raise InputError("write_library", expected="a file's path", got=got, next='"libops.so"')
    # Before the compiler runs, which takes seconds.
    file_writes.check_writable(target)
    if _is_loaded(target):
        raise _loaded(target)
    chosen = list(ops) if isinstance(ops, (list, tuple, set)) else [ops]
    # A library without ops would load, and the mistake would show in another process.
    if not chosen:
        raise InputError("write_library, ops", expected="ops in C++", got="none", next="%%cppop")
    versions = [find_op(op).current for op in chosen]
    # Only the texts of ops in C++ can be compiled into a library.
    for version in versions:
        if not issubclass(version.cls, CppOp):
            got = f"version {version.number}, which is a class in Python"
            raise DefinitionError(
                f"op {version.op}",
                expected="an op in C++",
                got=got,
                next="pyopnb.cpp_op, or pyopnb.lower",
            )
    # Each op becomes a function with the C interface, and a row of the table that
    # the library registers.
    texts, rows = [], []
    for number, version in enumerate(versions):
        cls: Any = version.cls
        texts.append(entry_text(cls.source, cls.signature, 1, f"entry_{number}"))
        rows += list(_rows(version, f"entry_{number}"))
    # pyopnb_library.h walks this table when ONNX Runtime loads the library.
    table = "std::vector<pyopnb::LibraryOp> library_ops{\n" + ",\n".join(rows) + "\n};"
    register = (
        'extern "C" PYOPNB_EXPORT ort::Status* RegisterCustomOps('
        "ort::Options* options, const ort::ApiBase* base) {\n"
        "  return pyopnb::register_ops(*new auto(library_ops), options, base);\n}\n"
    )
    # Every class here is a CppOp, which has flags.
    flags = tuple(flag for version in versions for flag in version.cls.flags)  # type: ignore[attr-defined]
    # The compiler's messages quote the first op's text; the lines of the others
    # are not known there.
    text = "\n".join(['#include "pyopnb_library.h"', *texts, "namespace {", table, "}", register])
    source = "\n".join(version.source or "" for version in versions[:1])
    with compiled(text, target.parent, source, 1, flags) as library:
        try:
            os.replace(library, target)
        # Windows replaces no library that is loaded.
        except PermissionError:
            raise _loaded(target) from None
    return target


def _is_loaded(path: Path) -> bool:
    """Tell whether this process has a library of that name, which it would go on to use."""
    if sys.platform == "win32":
        return False
    try:
        library = ctypes.CDLL(str(path), mode=os.RTLD_NOLOAD)
    except OSError:
        return False
    # Looking must not keep it loaded, once its sessions are gone.
    _ctypes.dlclose(library._handle)
    return True


def _loaded(path: Path) -> ModelError:
    where, advice = f"file {sanitize(str(path))}", "another name, or restart the kernel"
    got = "one that a session has loaded, with its old functions"
    return ModelError(where, expected="a library that can be replaced", got=got, next=advice)


def _rows(version: Version, entry: str) -> Iterator[str]:
    """Write the rows of the library's table, one for each dtype of a template."""
    cls: Any = version.cls
    signature = cls.signature
    domain, _, op_type = version.op.rpartition("::")
    attrs = ", ".join(map(_attr, signature.attrs))
    # ONNX Runtime chooses among the rows of a template by the dtypes of a node's inputs.
    for element in signature.elements or ("",):
        inputs = ", ".join(_port(port, element) for port in signature.inputs)
        outputs = ", ".join(_port(port, element) for port in signature.outputs)
        name = f"{json.dumps(domain)}, {json.dumps(op_type)}"
        yield f"  {{{{}}, {name}, {{{inputs}}}, {{{outputs}}}, {{{attrs}}}, {entry}}}"


def _port(port: CppPort, element: str) -> str:
    number = dtype(port.element or ELEMENTS[element]).runtime
    # The ONNX Runtime numbers for inputs that are required, optional and variadic.
    characteristic = 0
    if port.variadic:
        characteristic = 2
    elif port.optional:
        characteristic = 1
    return f"{{{number}, {characteristic}}}"


def _attr(attr: CppAttr) -> str:
    """Write the row of an attr: name, kind, whether it is a list or required, and its default."""
    is_list = attr.type in (list[int], list[float])
    is_required = attr.default is op_schema.REQUIRED
    values: Any = []
    if not is_required:
        values = attr.default if is_list else [attr.default]
    ints = floats = ""
    text = '""'
    if attr.type is str:
        number = 3
        if values:
            text = json.dumps(values[0])
    elif attr.type in (float, list[float]):
        number = 2
        floats = ", ".join(repr(float(value)) for value in values)
    else:
        number = 1
        ints = ", ".join(str(int(value)) for value in values)
    name = json.dumps(sanitize(attr.name))
    facts = f"{str(is_list).lower()}, {str(is_required).lower()}"
    return f"{{{name}, {number}, {facts}, {{{ints}}}, {{{floats}}}, {text}}}"
