"""Run source text as a separate module, and define its ops after all of it ran.

If the text raises, none of its ops is defined.
"""

from __future__ import annotations

import linecache
import sys
import types
from collections.abc import Sequence

from pyopnb.engine import Version, op_definitions, registry

__all__ = ["define_all", "exec_source"]


def exec_source(name: str, file: str, text: str | bytes) -> list[op_definitions.Definition]:
    """Run a text as a module, and collect the ops that it defines.

    Parameters
    ----------
    name : str
        The module's name in ``sys.modules``. If the text raises, the module that
        had the name keeps it.
    file : str
        The file name in tracebacks.
    text : str or bytes
        A str is given to `linecache`, for tracebacks and `inspect`; bytes are the
        content of the file.

    Raises
    ------
    Exception
        The exception that the text raises, unchanged.
    """
    __tracebackhide__ = True
    # A script that only defines ops never needs it.
    import cloudpickle  # type: ignore[import-untyped]

    code = compile(text, file, "exec", dont_inherit=True)
    module = types.ModuleType(name)
    module.__file__ = file
    # Put in place before the text runs, as it may look itself up, and taken back if it raises.
    former, former_lines = sys.modules.get(name), linecache.cache.get(file)
    if isinstance(text, bytes):
        linecache.checkcache(file)
    else:
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    sys.modules[name] = module
    try:
        with op_definitions.collect_definitions() as definitions:
            exec(code, vars(module))  # noqa: S102  # the caller has named this very text
    except BaseException:
        if former is None:
            del sys.modules[name]
        else:
            sys.modules[name] = former
        if former_lines is not None:
            linecache.cache[file] = former_lines
        raise
    # No other process can import this module, so its contents are pickled by value.
    cloudpickle.register_pickle_by_value(module)
    return definitions


def define_all(
    definitions: Sequence[op_definitions.Definition], source: str | None = None
) -> tuple[Version, ...]:
    """Define ops in the registry.

    Parameters
    ----------
    source : str, optional
        Their source, instead of the one that each definition has.
    """
    versions = []
    for definition in definitions:
        version = registry.define(
            definition.cls,
            definition.name,
            opset=definition.opset,
            module=definition.module,
            source=source or definition.source,
        )
        versions.append(version)
    return tuple(versions)
