"""Read the native modules of a wheel for macOS: ``mach_o.py WHEEL``. No Mac is needed for that.

They are linked with ``-undefined dynamic_lookup``, so that nothing else tells before they are
loaded whether a name that they look up will be there.
"""

from __future__ import annotations

import ctypes
import re
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import lief
import ziglang

SYSTEM = "/usr/lib/libSystem.B.dylib"


def faults(module: lief.MachO.Binary, name: str) -> Iterator[str]:
    """Yield what would keep macOS from loading a module."""
    ids = [command.name for command in module.commands if command.command.name == "ID_DYLIB"]
    if ids != [f"@rpath/{name.partition('.')[0]}.so"]:
        yield f"install name {ids}"
    libraries = {library.name for library in module.libraries} - set(ids)
    if libraries != {SYSTEM}:
        yield f"libraries {sorted(libraries)}"
    flat = {symbol.name.removeprefix("_") for symbol in module.imported_symbols}
    python = {symbol for symbol in flat if symbol.startswith(("Py", "_Py"))}
    if not python:
        yield "no symbol of Python"
    yield from (f"{each}: not in Python" for each in python if not hasattr(ctypes.pythonapi, each))
    yield from (f"{each}: not in libSystem" for each in flat - python - system_symbols())
    if f"_PyInit_{name.partition('.')[0]}" not in {each.name for each in module.exported_symbols}:
        yield "no PyInit function"


def system_symbols() -> set[str]:
    """Return what libSystem exports, which zig has a list of."""
    listed = Path(ziglang.__file__).parent / "lib/libc/darwin/libSystem.tbd"
    found = re.findall(r"\b_([\w$]+)", listed.read_text(encoding="utf-8"))
    return {*found, "dyld_stub_binder"}


if __name__ == "__main__":
    with zipfile.ZipFile(sys.argv[1]) as wheel:
        modules = {Path(name).name: wheel.read(name) for name in wheel.namelist()}
    read = {
        name: lief.MachO.parse(list(data)).at(0)
        for name, data in modules.items()
        if name.endswith(".so")
    }
    told = [f"{name}: {fault}" for name, module in read.items() for fault in faults(module, name)]
    if len(read) != 2 or told:
        sys.exit("\n".join(["the modules for macOS:", *sorted(read), *told]))
