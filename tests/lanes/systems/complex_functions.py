"""Gives NumPy's modules for Windows the complex functions that ucrtbase.dll of Wine 10 lacks.

Usage: complex_functions.py STUBS SITE, with a Python that has pefile and ziglang: a file that lists
the functions that are stubs in Wine, and the folder with numpy. A DLL with these functions, which
forwards the others to ucrtbase, is put beside each module that imports one of them, and the name of
the library, of the same length, is replaced in the module.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pefile

OLD = b"api-ms-win-crt-math-l1-1-0.dll"
NEW = b"wine-crt-math-with-complex.dll"

# The C99 functions by their textbook forms: NumPy's own tests are not run on them.
TYPED = """
typedef struct {{ {real} re, im; }} {c};
static {c} {c}_cexp({c} a) {{
  {real} e = exp{x}(a.re);
  {c} r = {{a.im == 0 ? e : e * cos{x}(a.im), a.im == 0 ? a.im : e * sin{x}(a.im)}};
  return r;
}}
static {c} {c}_ccosh({c} a) {{ {c} r = {{cosh{x}(a.re) * cos{x}(a.im), sinh{x}(a.re) * sin{x}(a.im)}}; return r; }}
static {c} {c}_csinh({c} a) {{ {c} r = {{sinh{x}(a.re) * cos{x}(a.im), cosh{x}(a.re) * sin{x}(a.im)}}; return r; }}
static {c} {c}_ctanh({c} a) {{
  {real} t = tan{x}(a.im), h = tanh{x}(a.re), d = 1 + h * h * t * t;
  {c} r = {{h * (1 + t * t) / d, t * (1 - h * h) / d}};
  return r;
}}
static {c} {c}_ccos({c} a) {{ {c} i = {{-a.im, a.re}}; return {c}_ccosh(i); }}
static {c} {c}_csin({c} a) {{ {c} i = {{-a.im, a.re}}, s = {c}_csinh(i), r = {{s.im, -s.re}}; return r; }}
static {c} {c}_ctan({c} a) {{ {c} i = {{-a.im, a.re}}, s = {c}_ctanh(i), r = {{s.im, -s.re}}; return r; }}
static {c} {c}_cpow({c} a, {c} b) {{
  {real} l = log{x}(hypot{x}(a.re, a.im)), w = atan2{x}(a.im, a.re);
  {c} e = {{b.re * l - b.im * w, b.im * l + b.re * w}};
  return {c}_cexp(e);
}}
"""
PARTS = {
    "creal": "a.re",
    "cimag": "a.im",
    "carg": "atan2{x}(a.im, a.re)",
    "cabs": "hypot{x}(a.re, a.im)",
}


def defined(name: str) -> str:
    """Define one of the functions in C: with an f it is of float, with an l of double, as on Windows."""
    base, c, x, real = name, "D", "", "double"
    if name.endswith("f"):
        base, c, x, real = name[:-1], "F", "f", "float"
    elif name.endswith("l") and name != "creal":
        base = name[:-1]
    if base in PARTS:
        return f"{real} shim_{name}({c} a) {{ return {PARTS[base].format(x=x)}; }}\n"
    second, passed = (f", {c} b", ", b") if base == "cpow" else ("", "")
    return f"{c} shim_{name}({c} a{second}) {{ return {c}_{base}(a{passed}); }}\n"


def imported(path: Path) -> set[str]:
    """Return the names that a module imports from the C library's math."""
    module = pefile.PE(str(path), fast_load=True)
    module.parse_data_directories([pefile.DIRECTORY_ENTRY["IMAGE_DIRECTORY_ENTRY_IMPORT"]])
    libraries = [entry for entry in module.DIRECTORY_ENTRY_IMPORT if entry.dll.lower() == OLD]
    return {symbol.name.decode() for library in libraries for symbol in library.imports}


def main(listed: str, site: str) -> None:
    stubs = set(Path(listed).read_text(encoding="utf-8").split())
    modules = {path: imported(path) for path in Path(site, "numpy").rglob("*.pyd")}
    modules = {path: names for path, names in modules.items() if names & stubs}
    if not modules:
        return
    names = sorted(set().union(*modules.values()))
    source = "#include <math.h>\n" + TYPED.format(c="F", x="f", real="float")
    source += TYPED.format(c="D", x="", real="double")
    exports = f'LIBRARY "{NEW.decode()}"\nEXPORTS\n'
    for name in names:
        if name in stubs:
            source += defined(name)
        exports += f"  {name} = {f'shim_{name}' if name in stubs else f'ucrtbase.{name}'}\n"
    with tempfile.TemporaryDirectory() as folder:
        code, table, library = (Path(folder, end) for end in ("shim.c", "shim.def", "shim.dll"))
        code.write_text(source, encoding="utf-8")
        table.write_text(exports, encoding="utf-8")
        compiler = [sys.executable, "-m", "ziglang", "cc", "-target", "x86_64-windows-gnu"]
        options = ["-O1", "-shared", "-fno-builtin", str(code), str(table), "-o", str(library)]
        subprocess.run([*compiler, *options], check=True)
        for path in modules:
            data = path.read_bytes()
            assert data.count(OLD) == 1, path
            path.write_bytes(data.replace(OLD, NEW))
            shutil.copy(library, path.parent / NEW.decode())


if __name__ == "__main__":
    main(*sys.argv[1:])
