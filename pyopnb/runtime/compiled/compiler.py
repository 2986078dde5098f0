"""The C++ compiler: which one, with what flags, and libraries that are made once for each text."""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shlex
import shutil
import stat
import subprocess
import sys
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path

from pyopnb.ops.errors import DefinitionError, one_line, sanitize

__all__ = ["CELL", "HEADERS", "build", "cache_directory", "find_compiler", "library_of"]

HEADERS = Path(__file__).parent / "include"
"""The folder of ``pyopnb.h``."""

CELL = "<op in C++>"
"""The name that ``#line`` gives the user's text."""

# Numbers as Python has them: no fused multiply-add, no -ffast-math. -fno-math-errno lets loops over std::sqrt be vectorised.
_FLAGS = ("-std=c++17", "-O3", "-fPIC", "-shared", "-fvisibility=hidden", "-fno-math-errno", "-ffp-contract=off")
_QUIET = ("-fdiagnostics-color=never", "-fno-diagnostics-show-caret", "-fmax-errors=5")
_LONGEST_BUILD = 300  # seconds
_INSTALL = {
    "darwin": "xcode-select --install",
    "win32": "g++ of MinGW-w64, or clang++, on the PATH or as CXX=…",
}
_INSTALL_ELSEWHERE = "apt install g++, or conda install -c conda-forge cxx-compiler"


def find_compiler() -> tuple[str, ...]:
    """The command of the C++ compiler: ``$CXX``, or the first of g++, clang++ and c++ that is installed.

    Returns
    -------
    tuple of str
        The program and the arguments that ``$CXX`` has.

    Raises
    ------
    DefinitionError
        There is none.
    """
    said = [part.strip('"') for part in shlex.split(os.environ.get("CXX", ""), posix=os.name == "posix")]
    program = next(filter(None, map(shutil.which, said[:1] or ("g++", "clang++", "c++"))), None)
    if program is None:
        install = _INSTALL.get(sys.platform, _INSTALL_ELSEWHERE)
        got = f"none at CXX={sanitize(said[0])}" if said else "none: no g++, clang++ or c++ on the PATH"
        raise DefinitionError("op in C++", expected="a C++ compiler", got=got, next=install)
    return (program, *said[1:])


@cache
def _version(compiler: tuple[str, ...], changed: float) -> str:
    """What a compiler says of itself; asked once for each state of its file."""
    return subprocess.run([*compiler, "--version"], capture_output=True, text=True, check=True).stdout  # noqa: S603  # the user's


@cache
def _processor() -> str:
    """What the compiler's ``-march=native`` depends on."""
    try:
        lines = Path("/proc/cpuinfo").read_text().split("\n\n")[0]
        facts = re.findall(r"^(?:model name|flags|Features|CPU part)\s*:.*$", lines, re.MULTILINE)
    except OSError:
        facts = []
    return "\n".join([platform.machine(), platform.processor(), *facts])


def cache_directory() -> Path:
    """The folder that keeps compiled libraries; it is made if need be, for its owner alone.

    ``$PYOPNB_CACHE``, or ``pyopnb`` in ``$XDG_CACHE_HOME`` or ``~/.cache``.

    Returns
    -------
    Path

    Raises
    ------
    DefinitionError
        Somebody else can write there: the library that is loaded could be theirs.
    """
    base = os.environ.get("PYOPNB_CACHE") or os.path.join(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "pyopnb")
    folder = Path(base).expanduser() / "compiled"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        facts = folder.lstat()
    except OSError as error:
        raise DefinitionError(
            f"op in C++, the cache {sanitize(folder)}", expected="a folder", got=one_line(str(error)), next="PYOPNB_CACHE=…"
        ) from None
    if hasattr(os, "getuid") and (facts.st_uid != os.getuid() or facts.st_mode & 0o022 or not stat.S_ISDIR(facts.st_mode)):
        raise DefinitionError(
            f"op in C++, the cache {sanitize(folder)}",
            expected="a folder that only you can write to",
            got=f"{stat.filemode(facts.st_mode)} of user {facts.st_uid}",
            next=f"chmod 700 {shlex.quote(str(folder))}, or PYOPNB_CACHE=…",
        )
    return folder


def library_of(text: str, source: str, first: int, flags: tuple[str, ...] = ()) -> Path:
    """The library that a text compiles to, for this machine: from the cache, or made now.

    Parameters
    ----------
    text : str
        All that is compiled.
    source, first : str, int
        The part of it that the user wrote, and the number of its first line, for messages.
    flags : tuple of str
        Further arguments for the compiler, to which ``$CXXFLAGS`` adds.

    Returns
    -------
    Path

    Raises
    ------
    DefinitionError
        There is no compiler, or it refuses the text.
    """
    compiler = find_compiler()
    flags = (*flags, *shlex.split(os.environ.get("CXXFLAGS", "")))
    flags = ("-march=native", *flags) if platform.machine() in ("x86_64", "AMD64") else flags
    key = hashlib.sha256()
    headers = [path.read_text() for path in sorted(HEADERS.glob("*.h"))]
    for part in (text, *headers, *compiler, _version(compiler, os.stat(compiler[0]).st_mtime), *_FLAGS, *flags, _processor()):
        key.update(part.encode() + b"\0")
    path = cache_directory() / f"{key.hexdigest()}.so"
    try:
        os.utime(path)  # the least recently used go first
    except FileNotFoundError:
        try:
            build(text, path, source, first, flags)
        except PermissionError:  # Windows replaces no library that is loaded: another process was first, with the same one
            if not path.exists():
                raise
        _prune(path.parent)
    return path


_MOST_KEPT = 200_000_000  # bytes: thousands of ops


def _prune(folder: Path) -> None:
    """Remove the libraries that were not used for longest; one that a process has loaded goes on there."""
    libraries = []
    for path in folder.glob("*.so"):
        with suppress(FileNotFoundError):  # another process prunes as well
            facts = path.stat()
            libraries.append((facts.st_mtime, facts.st_size, path))
    kept = 0
    for number, (_, size, path) in enumerate(sorted(libraries, reverse=True)):
        kept += size
        if number and kept > _MOST_KEPT:
            with suppress(PermissionError):  # Windows keeps what is loaded
                path.unlink(missing_ok=True)


def build(text: str, path: Path, source: str, first: int, flags: tuple[str, ...] = ()) -> None:
    """Compile a text to a shared library, with one call of the compiler; the file is there whole or not at all.

    Parameters
    ----------
    text : str
    path : Path
    source, first : str, int
        As for `library_of`.
    flags : tuple of str

    Raises
    ------
    DefinitionError
        There is no compiler, or it refuses the text.
    OSError
        The file cannot be written.
    """
    handle, unfinished = tempfile.mkstemp(suffix=".so", dir=path.parent)
    os.close(handle)
    command = [*find_compiler(), *_FLAGS, *flags, *_QUIET, "-I", str(HEADERS), "-x", "c++", "-", "-o", unfinished]
    try:
        english = {**os.environ, "LC_ALL": "C"}  # as what is read of its messages expects
        done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=_LONGEST_BUILD, env=english)  # noqa: S603  # the user's
        if done.returncode:
            raise _refused(done.stderr, source, first)
        os.chmod(unfinished, 0o755)  # noqa: S103  # as the compiler leaves what it links; mkstemp's is for the owner alone
        os.replace(unfinished, path)
    finally:
        Path(unfinished).unlink(missing_ok=True)


_MESSAGE = re.compile(rf"^{re.escape(CELL)}:(\d+):(?:(\d+):)? (?:fatal )?error: (.*)$", re.MULTILINE)


def _refused(said: str, source: str, first: int) -> DefinitionError:
    """The compiler's first errors in the user's text, each with its line."""
    lines = source.splitlines()
    found = _MESSAGE.findall(said)
    if not found:
        about = [line for line in said.splitlines() if "error" in line] or said.splitlines() or ["nothing was said"]
        return DefinitionError("op in C++", expected="what the compiler takes", got=sanitize("\n".join(about[:5]), 1500))
    blocks = []
    for number, column, message in found[:3]:
        at = int(number) - first
        line = lines[at] if 0 <= at < len(lines) else ""
        mark = f"\n    {' ' * (int(column) - 1)}^" if column else ""
        blocks.append(f"\n    {sanitize(line)}{mark}\nline {number}: {sanitize(message, 500)}")
    return DefinitionError("op in C++:" + "".join(blocks))
