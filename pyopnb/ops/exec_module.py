"""Texts that are run as modules of their own: what they ask `pyop` for is defined after all of it ran, or not at all."""

from __future__ import annotations

import linecache
import sys
import types
from collections.abc import Sequence
from dataclasses import replace

from pyopnb.ops.registry import Definition, Version, collect_definitions, registry

__all__ = ["define_all", "exec_source"]


def exec_source(name: str, file: str, text: str | bytes) -> list[Definition]:
    """Run a text as the module of that name, and give the ops that it asks for.

    A str is put where tracebacks and `inspect` look for it; bytes are those of a file. If it raises, the module
    that had the name has it again.
    """
    __tracebackhide__ = True
    code = compile(text, file, "exec", dont_inherit=True)
    module = types.ModuleType(name)
    module.__file__ = file
    former, former_lines = sys.modules.get(name), linecache.cache.get(file)
    if isinstance(text, bytes):
        linecache.checkcache(file)
    else:
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    sys.modules[name] = module
    try:
        with collect_definitions() as definitions:
            exec(code, vars(module))  # noqa: S102  # the caller has named this very text
    except BaseException:
        if former is None:
            del sys.modules[name]
        else:
            sys.modules[name] = former
        if former_lines is not None:
            linecache.cache[file] = former_lines
        raise
    return definitions


def define_all(definitions: Sequence[Definition], source: str | None = None) -> tuple[Version, ...]:
    """Put them into the registry, with a source of their own if one is given."""
    made = [replace(one, source=source or one.source) for one in definitions]
    return tuple(registry.define(one.cls, one.name, opset=one.opset, module=one.module, source=one.source) for one in made)
