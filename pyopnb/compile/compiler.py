"""The C++ compiler: which one, its flags, and libraries that are made once for each text."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from pyopnb.common import caches, messages, sanitize
from pyopnb.engine import INCLUDE_FOLDER
from pyopnb.errors import DefinitionError

__all__ = [
    "CELL",
    "HEADERS",
    "cache_directory",
    "compiled",
    "find_compiler",
    "library_of",
]

HEADERS = (Path(__file__).parent / "include", INCLUDE_FOLDER)
"""The folders of ``pyopnb.h`` and of the headers that it shares with the bridge."""

CELL = "<op in C++>"
"""The name that ``#line`` gives the user's text."""

# The same numbers as in Python: no fused multiply-add, no -ffast-math. -fno-math-errno lets loops
# over std::sqrt be vectorized.
_FLAGS = (
    "-std=c++17",
    "-O3",
    "-shared",
    "-fvisibility=hidden",
    "-fno-math-errno",
    "-ffp-contract=off",
)
_PURPOSE = "op in C++"
# The first build by zig makes its C++ library, which takes a minute or two.
_LONGEST_BUILD = 900  # seconds


def find_compiler() -> tuple[str, ...]:
    """Find the C++ compiler: ``$CXX``, or the first of g++, clang++, c++ and zig that is there.

    Returns
    -------
    tuple of str
        The program and its arguments.

    Raises
    ------
    DefinitionError
        There is none.
    """
    # $CXX may hold a program with arguments, such as "ccache g++".
    command = _words_of("CXX")
    if not command:
        programs = [program for program in map(shutil.which, ("g++", "clang++", "c++")) if program]
        if programs:
            return (programs[0],)
        # The wheel of zig has clang, and the headers and libraries of each system.
        if importlib.util.find_spec("ziglang") is not None:
            return (sys.executable, "-m", "ziglang", "c++")
        raise _no_compiler("none: no g++, clang++ or c++ on the PATH")
    program = shutil.which(command[0])
    if program is None:
        raise _no_compiler(f"none at CXX={sanitize(command[0])}")
    return (program, *command[1:])


def _no_compiler(got: str) -> DefinitionError:
    install = "pip install ziglang"
    return DefinitionError(_PURPOSE, expected="a C++ compiler", got=got, next=install)


def _words_of(variable: str) -> list[str]:
    """Split an environment variable as a shell would."""
    text = os.environ.get(variable, "")
    try:
        words = shlex.split(text, posix=os.name == "posix")
    except ValueError as error:
        got = f"{sanitize(text)} ({error})"
        raise DefinitionError(
            f"op in C++, {variable}",
            expected="words with closed quotes, as in a shell",
            got=got,
            next=f"unset {variable}, or close the quotes",
        ) from None
    return [word.strip('"') for word in words]


@cache
def _version(compiler: tuple[str, ...], changed: float) -> str:
    """Ask a compiler for its version, once for each state of its file."""
    try:
        done = _run([*compiler, "--version"], "")
    except OSError as error:
        raise _no_compiler(
            f"{sanitize(compiler[0])}, which does not start: {messages.one_line(str(error))}"
        ) from None
    # A wrapper such as ccache can start and still fail.
    if done.returncode:
        got = (
            f"{sanitize(' '.join(compiler))}, which fails: "
            f"{messages.one_line(sanitize(done.stderr or 'without a word'))}"
        )
        raise _no_compiler(got)
    return done.stdout


def _run(command: Sequence[str], text: str) -> subprocess.CompletedProcess[str]:
    """Run the compiler in English in any locale, because its messages are parsed."""
    english = {**os.environ, "LC_ALL": "C"}
    return subprocess.run(  # noqa: S603  # the user's compiler
        command,
        input=text,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        timeout=_LONGEST_BUILD,
        env=english,
    )


def _flags_of(compiler: tuple[str, ...]) -> tuple[str, ...]:
    """Return the arguments that depend on the compiler and the system."""
    is_clang = "clang" in _version(compiler, os.stat(compiler[0]).st_mtime)
    flags = ["-fdiagnostics-color=never"]
    if is_clang:
        flags += ["-fno-caret-diagnostics", "-ferror-limit=5"]
    else:
        flags += ["-fno-diagnostics-show-caret", "-fmax-errors=5"]
    if sys.platform != "win32":
        flags.append("-fPIC")
    elif not is_clang:
        # Python looks for no DLLs of MinGW beside the compiler.
        flags.append("-static")
    return tuple(flags)


@cache
def _processor() -> str:
    """Describe the processor, on which ``-march=native`` depends."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").split("\n\n")[0]
        facts = re.findall(r"^(?:model name|flags|Features|CPU part)\s*:.*$", lines, re.MULTILINE)
    except OSError:
        facts = []
    return "\n".join([platform.machine(), platform.processor(), *facts])


# ---- the cache -----------------------------------------------------------------------------------


def cache_directory() -> Path:
    """Return the folder that keeps compiled libraries.

    Raises
    ------
    DefinitionError
        Another user can write there, and could replace the library that is loaded.
    """
    return caches.cache_folder("compiled", _PURPOSE)


def library_of(text: str, source: str, first: int, flags: tuple[str, ...] = ()) -> Path:
    """Return the library that a text compiles to, for this machine: from the cache, or made now.

    Parameters
    ----------
    text : str
        All that is compiled.
    source, first : str, int
        The part of it that the user wrote, and the number of its first line, for messages.
    flags : tuple of str
        Further arguments for the compiler, to which ``$CXXFLAGS`` adds.

    Raises
    ------
    DefinitionError
        There is no compiler, or it refuses the text.
    """
    compiler = find_compiler()
    # The key has all that the machine code depends on: text, headers, compiler,
    # flags and processor.
    flags = (*flags, *_words_of("CXXFLAGS"))
    if platform.machine() in ("x86_64", "AMD64"):
        flags = ("-march=native", *flags)
    key = hashlib.sha256()
    # A new pyopnb may bring other headers for the same text.
    files = [path for folder in HEADERS for path in sorted(folder.glob("*.h"))]
    headers = [path.read_text(encoding="utf-8") for path in files]
    version = _version(compiler, os.stat(compiler[0]).st_mtime)
    for part in (text, *headers, *compiler, version, *_FLAGS, *flags, _processor()):
        key.update(part.encode("utf-8", "surrogateescape") + b"\0")
    folder = cache_directory()
    try:
        for path in folder.glob(f"{key.hexdigest()}-*.so"):
            if _is_whole(path):
                return path
        with compiled(text, folder, source, first, flags) as library:
            path = folder / f"{key.hexdigest()}-{_digest(library)}.so"
            try:
                os.rename(library, path)
            # Only Windows says so: another process was first, and may have loaded the same library.
            except FileExistsError:
                if not _is_whole(path):
                    os.replace(library, path)
    except OSError as error:
        raise caches.bad_cache(
            _PURPOSE,
            folder,
            "room for a library",
            messages.one_line(str(error)),
            "PYOPNB_CACHE=…",
        ) from None
    return path


def _is_whole(path: Path) -> bool:
    """Tell whether a library has the digest that its name ends with.

    One that was cut off would end the process by SIGBUS when it is loaded.
    """
    return path.stem.endswith(f"-{_digest(path)}")


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@contextmanager
def compiled(
    text: str, folder: Path, source: str, first: int, flags: tuple[str, ...] = ()
) -> Iterator[Path]:
    """Compile a text to a shared library, for the caller to move to its place in the folder.

    Parameters
    ----------
    source, first : str, int
        As for `library_of`.

    Raises
    ------
    DefinitionError
        There is no compiler, or it refuses the text.
    OSError
        The file cannot be written.
    """
    compiler = find_compiler()
    # Two processes that compile the same text must not write to one file, and on Windows zig leaves
    # others beside the library.
    with tempfile.TemporaryDirectory(prefix="build-", dir=folder) as unfinished:
        library = Path(unfinished, "library.so")
        arguments = [*_FLAGS, *flags, *_flags_of(compiler)]
        includes = [f"-I{folder}" for folder in HEADERS]
        command = [*compiler, *arguments, *includes, "-x", "c++", "-", "-o", str(library)]
        try:
            done = _run(command, text)
        except subprocess.TimeoutExpired:
            got = f"none after {_LONGEST_BUILD} seconds"
            raise DefinitionError(
                _PURPOSE, expected="a library", got=got, next="a shorter function"
            ) from None
        if done.returncode:
            raise _refused(done.stderr, source, first)
        # The new library must be on the disk before it replaces a good one: after a power cut,
        # the new name could have no content.
        with library.open("rb+") as file:
            os.fsync(file.fileno())
        yield library


_MESSAGE = re.compile(
    rf"^{re.escape(CELL)}:(\d+):(?:(\d+):)? (?:fatal )?error: (.*)$", re.MULTILINE
)


def _refused(said: str, source: str, first: int) -> DefinitionError:
    """Quote the compiler's first errors in the user's text, each with its line."""
    lines = source.splitlines()
    # Errors in the user's text, which follows the #line with its name; errors in
    # headers have other files.
    match = _MESSAGE.findall(said)
    if not match:
        about = [line for line in said.splitlines() if "error" in line]
        about = about or said.splitlines() or ["nothing was said"]
        got = sanitize("\n".join(about[:5]), 1500)
        return DefinitionError("op in C++", expected="code that compiles", got=got)
    blocks = []
    for number, column, message in match[:3]:
        # An error at the end of the text can be one line after it.
        at = int(number) - first
        line = ""
        if 0 <= at < len(lines):
            line = lines[at]
        mark = ""
        if column:
            mark = f"\n    {' ' * (int(column) - 1)}^"
        blocks.append(f"\n    {sanitize(line)}{mark}\nline {number}: {sanitize(message, 500)}")
    return DefinitionError("op in C++:" + "".join(blocks))
