"""Files that are replaced whole or not at all."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from pyopnb.common.told.messages import sanitize
from pyopnb.errors import ModelError

__all__ = ["PendingFile", "atomic_write", "check_writable", "remove_abandoned"]

_SUFFIX = ".part"
_LONG = 3600.0  # seconds without a byte, after which no process writes any more


@dataclass
class PendingFile:
    """A file that is being written.

    Attributes
    ----------
    path : Path
        The name that it gets; the writer may choose another one in the same folder.
    """

    path: Path
    stream: BinaryIO


@contextmanager
def atomic_write(path: Path) -> Iterator[PendingFile]:
    """Write a file that gets its name only once it is complete and on the disk.

    A symbolic link is replaced, not followed. A file that is replaced passes its permissions on.

    Raises
    ------
    OSError
        As `open` raises it, with that path. The file is as it was before.
    """
    mode = _mode(path)
    first_mode = 0o666 if mode is None else mode
    # In the same folder, so that os.replace is one step.
    temporary = path.with_name(f".{path.name[:40]}.{os.urandom(8).hex()}{_SUFFIX}")
    try:
        # tempfile makes files for their owner alone; here, the system applies its mask.
        opened = open(  # noqa: SIM115  # below, where errors are of another kind
            temporary, "xb", opener=lambda name, flags: os.open(name, flags, first_mode)
        )
    except OSError as error:
        raise type(error)(error.errno, error.strerror, str(path)) from None
    try:
        with opened as stream:
            pending = PendingFile(path, stream)
            yield pending
            stream.flush()
            # Without it, a crash soon after could leave the name of a file without its content.
            os.fsync(stream.fileno())
        if mode is not None:
            os.chmod(temporary, mode)
        os.replace(temporary, pending.path)
    except BaseException as error:
        with suppress(FileNotFoundError):
            os.unlink(temporary)
        # A stream does not say which file is too large for the disk.
        if isinstance(error, OSError) and error.errno and error.filename is None:
            error.filename = str(path)
        raise


def remove_abandoned(folder: Path, start: str) -> None:
    """Remove unfinished files of killed processes, to which nothing was written for an hour.

    Parameters
    ----------
    start : str
        The beginning of the files' names.
    """
    for abandoned in folder.iterdir():
        if abandoned.name.startswith(f".{start[:40]}") and abandoned.suffix == _SUFFIX:
            with suppress(OSError):  # another process may be removing it, or own it
                if time.time() - abandoned.stat().st_mtime > _LONG:
                    abandoned.unlink()


def check_writable(path: Path) -> None:
    """Raise a `ModelError` for a path where no file can be written.

    It is a folder or a device, or its folder does not exist or cannot be written to.
    """
    where = f"file {sanitize(str(path))}"
    if path.is_dir():
        advice = sanitize(repr(str(path / "model.onnx")))
        raise ModelError(where, expected="the name of a file", got="a folder", next=advice)
    # A device would be replaced by the file, and reading what it holds need not end.
    if path.exists() and not path.is_file():
        advice = sanitize(repr(path.name))
        raise ModelError(where, expected="the name of a file", got="a device", next=advice)
    if not path.parent.is_dir():
        raise ModelError(
            where,
            expected="a folder that can be written to",
            got="no such folder",
            next=f"os.makedirs({sanitize(repr(str(path.parent)))})",
        )
    if not os.access(path.parent, os.W_OK):
        raise ModelError(where, expected="a folder that can be written to", got="one that cannot")


def _mode(path: Path) -> int | None:
    """Return the permissions of the file that is replaced, if there is one."""
    with suppress(OSError):
        return path.stat().st_mode & 0o777
    return None
