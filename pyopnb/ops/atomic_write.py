"""Files that are there whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from pyopnb.ops.errors import ModelError, sanitize

__all__ = ["atomic_write"]


@contextmanager
def atomic_write(path: Path) -> Iterator[tuple[BinaryIO, list[Path]]]:
    """A file to write, which gets its name only once all is in it and on the disk.

    It comes with a list that holds the name; who finds a better one while writing changes it there. A link is not followed:
    it is the link that is replaced.
    """
    names = [path]
    if path.is_dir():
        raise ModelError(f"file {sanitize(str(path))}", expected="the name of a file", got="a folder")
    try:
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    except OSError as error:
        raise ModelError(
            f"file {sanitize(str(path))}",
            expected="a folder that can be written to",
            got=sanitize(error.strerror or str(error)),
        ) from error
    try:
        with os.fdopen(handle, "wb") as file:
            yield file, names
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, _mode(path))
        os.replace(temporary, names[0])
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


def _mode(path: Path) -> int:
    """The rights that the file had, or that a new one would get."""
    with suppress(OSError):
        return path.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
