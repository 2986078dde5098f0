"""Find or make a Python with another onnxruntime.

The user names a Python by its path, or a version, whose environment is made in the user's cache
folder.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from pyopnb.common import caches, messages, progress, sanitize
from pyopnb.engine import argument_checks
from pyopnb.errors import InputError

__all__ = ["is_made", "is_other_runtime", "python_for"]

# A build of onnxruntime and its version; the version alone is no requirement, as the
# run could not be repeated.
_REQUIREMENT = re.compile(r"onnxruntime(?:-[a-z0-9-]+)?==(?P<major>\d+)\.(?P<minor>\d+)[\w.]*")
_LONGEST = 1800  # seconds: some builds have gigabytes
_HERE = ("onnxruntime", "reference")


def is_other_runtime(on: object, caller: str = "trace") -> bool:
    """Tell whether ``on`` names another Python or a version, and not a runtime of this process.

    Raises
    ------
    InputError
        It names neither.
    """
    if isinstance(on, str) and on in _HERE:
        return False
    if isinstance(on, os.PathLike) or (isinstance(on, str) and _is_path(on)):
        return True
    if isinstance(on, str) and _REQUIREMENT.fullmatch(on):
        return True
    advice = 'on="onnxruntime==1.25.0"'
    # Where there are digits, a version was meant.
    near = messages.closest(on, _HERE) if isinstance(on, str) and on.isalpha() else None
    if near is not None:
        advice = repr(near)
    raise InputError(
        f"{caller}, on",
        expected=(
            "'onnxruntime', 'reference', a version as 'onnxruntime==1.25.0', "
            "or the path of a Python"
        ),
        got=sanitize(repr(on)) if isinstance(on, str) else argument_checks.describe(on),
        next=advice,
    )


def _is_path(text: str) -> bool:
    return os.sep in text or "/" in text


def python_for(on: str | os.PathLike[str]) -> Path:
    """Return the Python that ``on`` names, and make its environment if there is none yet.

    Raises
    ------
    InputError
        There is no such file, or no such version for this Python, or no network.
    DefinitionError
        The cache folder cannot be used.
    """
    text = os.fspath(on)
    if _REQUIREMENT.fullmatch(text) is None:
        python = Path(text).expanduser()
        if not (python.is_file() and os.access(python, os.X_OK)):
            expected = "the path of a Python, such as /path/to/environment/bin/python"
            advice = 'on="onnxruntime==1.25.0"'
            raise InputError("trace, on", expected=expected, got=sanitize(text), next=advice)
        # Not resolved: the link of an environment leads to a Python that does not
        # know the environment.
        return python.absolute()
    folder = _folder_of(text)
    if not is_made(on):
        _make(text, folder)
    return _python_in(folder)


def is_made(on: str | os.PathLike[str]) -> bool:
    """Tell whether ``on`` is a path, or a version whose environment exists already."""
    text = os.fspath(on)
    return _REQUIREMENT.fullmatch(text) is None or _python_in(_folder_of(text)).exists()


def _folder_of(requirement: str) -> Path:
    """Return where the environment of a requirement is, for this Python."""
    python = f"{sys.implementation.cache_tag}-{os.path.realpath(sys.executable)}"
    # Two Pythons of one version may load different modules.
    key = hashlib.sha256(python.encode()).hexdigest()[:8]
    return caches.cache_folder("runtimes", f"trace on {requirement}") / f"{requirement}-{key}"


def _python_in(folder: Path) -> Path:
    if os.name == "nt":
        return folder / "Scripts" / "python.exe"
    return folder / "bin" / "python"


def _make(requirement: str, folder: Path) -> None:
    """Make an environment; it is there whole or not at all."""
    show = progress.bar(f"steps of an environment with {requirement}, which is kept")
    # Made beside its place and renamed, so that an unfinished one after an interrupt is not
    # taken for an environment.
    unfinished = Path(tempfile.mkdtemp(prefix=".unfinished-", dir=folder.parent))
    try:
        show(0, 2)
        for make, install in _installers(unfinished):
            failure = _call(make) or _call([*install, *_packages(requirement)])
            show(1, 2)
            if not failure:
                break
        else:
            raise _not_made(requirement, failure)
        try:
            unfinished.rename(folder)
        except OSError:
            # Another process was first, with the same environment.
            if not _python_in(folder).exists():
                raise
        show(2, 2)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _installers(folder: Path) -> Iterator[tuple[list[str], list[str]]]:
    """Yield the commands that make an environment and install into it.

    uv's come first if it is installed, and pip's follow.
    """
    python = str(_python_in(folder))
    uv = shutil.which("uv")
    if uv is not None:
        make = [uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(folder)]
        yield make, [uv, "pip", "install", "--quiet", "--python", python]
    # uv does not read how pip is configured, as with the index of a company.
    make = [sys.executable, "-m", "venv", "--clear", str(folder)]
    yield make, [python, "-m", "pip", "install", "--quiet", "--retries=1"]


def _packages(requirement: str) -> list[str]:
    match = _REQUIREMENT.fullmatch(requirement)
    assert match is not None  # noqa: S101  # the caller has looked
    # The wheels before 1.19 were built for NumPy 1, and do not say so.
    if (int(match["major"]), int(match["minor"])) < (1, 19):
        return [requirement, "numpy<2"]
    return [requirement, "numpy"]


def _call(command: Sequence[str]) -> str:
    """Run a command, and return its error output if it failed."""
    try:
        process = subprocess.Popen(  # noqa: S603  # this Python
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,
        )
    except OSError as error:
        return str(error)
    try:
        output, errors = process.communicate(timeout=_LONGEST)
    except subprocess.TimeoutExpired as error:
        return str(error)
    finally:
        # Also its child processes, such as ensurepip of venv, which would write on into a
        # folder that is removed.
        if process.poll() is None:
            if os.name == "posix":
                os.killpg(process.pid, signal.SIGKILL)
            process.kill()
            process.wait()
    if process.returncode == 0:
        return ""
    return errors or output or f"exit code {process.returncode}"


def _not_made(requirement: str, failure: str) -> InputError:
    """Make the error for a version that cannot be installed.

    It does not exist, or not for this Python, or there is no network.
    """
    name = requirement.partition("==")[0]
    lines = failure.strip().splitlines()
    reason = lines[-1] if lines else ""
    # pip tries again and in the end says only that it found none.
    if "connection" in failure.lower():
        reason = "no connection to the package index"
    return InputError(
        "trace, on",
        expected=f"a version of {name} that can be installed for this Python from here",
        got=f"{requirement}: {sanitize(reason, 200)}",
        next=f'pip index versions {name}; with no network, on="/path/to/python" that has it',
    )
