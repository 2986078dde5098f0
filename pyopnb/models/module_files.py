"""Ops as a Python file: written from a notebook, and run when the user names it."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path

from pyopnb.common import file_writes, sanitize
from pyopnb.engine import Version, check_arguments, registry
from pyopnb.errors import DefinitionError, UnknownName
from pyopnb.models.exec_module import define_all, exec_source
from pyopnb.models.op_source import source_closure

__all__ = ["load_module", "save_module"]

_HEAD = "# Ops of a notebook, written by pyopnb; sha256 of what follows: "


@check_arguments
def save_module(
    path: str | os.PathLike[str], *ops: str, overwrite: bool = False
) -> tuple[Version, ...]:
    """Write ops of the registry as a module that defines them when it is imported.

    Everything that the classes use comes along: imports, functions and classes whose text is known,
    and plain constants (numbers, strings, containers of these, small arrays). Anything else that
    they use is refused by name.

    Parameters
    ----------
    path : path
        It ends in ``.py``. A file that this function wrote, and that was not
        changed since, is replaced.
    *ops : str
        Names of ops; all that users defined if none is given.
    overwrite : bool
        Also replace a file that was not written here.

    Returns
    -------
    tuple of Version
        The ops that were written.

    Raises
    ------
    UnknownName
        There is no such op, or none was defined.
    DefinitionError
        The file would not be self-contained: see `pyopnb.models.op_source`. Or a file is there
        that was not written here.

    Examples
    --------
    >>> import pathlib, tempfile, pyopnb
    >>> @pyopnb.pyop("doctest::Thrice")
    ... class Thrice:
    ...     def compute(self, x):
    ...         return x * 3
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = pathlib.Path(folder.name, "ops.py")
    >>> _ = save_module(path, "doctest::Thrice")
    >>> print("".join(path.read_text().splitlines(keepends=True)[1:]))
    import pyopnb
    <BLANKLINE>
    <BLANKLINE>
    @pyopnb.pyop("doctest::Thrice")
    class Thrice:
        def compute(self, x):
            return x * 3
    <BLANKLINE>
    >>> [str(version) for version in load_module(path)]
    ['doctest::Thrice, version 2']
    >>> folder.cleanup()
    """
    target = Path(os.fspath(path))
    if target.suffix != ".py":
        raise DefinitionError(
            "file",
            expected="a name that ends in .py",
            got=sanitize(str(path)),
            next=f"{target.stem}.py",
        )
    # A gradient op is written by the class of the op that it belongs to, once. The ops that fill or
    # wrap made belong to nodes of one model.
    selected = {}
    everything = [op for op in registry if not op.is_generated]
    for op in [registry[name] for name in ops] if ops else everything:
        selected[op.definer.name] = op.definer
    if not selected:
        raise UnknownName(
            "registry", expected="an op to write", got="none", next="define it: %%pyop"
        )
    if not overwrite and target.exists() and not _is_ours(target):
        raise DefinitionError(
            f"file {sanitize(str(path))}",
            expected="a new name",
            got="a file that pyopnb did not write, or that was changed since",
            next="another name, or overwrite=True (%pyop save: --overwrite)",
        )
    versions = tuple(op.current for op in selected.values())
    # The whole text is made before the file is touched, as an op can be refused.
    text = source_closure(versions)
    file_writes.check_writable(target)
    with file_writes.atomic_write(target) as file:
        file.stream.write(f"{_HEAD}{_checksum(text)}\n{text}".encode())
    return versions


def _checksum(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _is_ours(path: Path) -> bool:
    """Tell whether `save_module` wrote a file that was not changed since."""
    try:
        first, _, text = path.read_text(encoding="utf-8").partition("\n")
    except (OSError, UnicodeDecodeError):
        return False
    return first == f"{_HEAD}{_checksum(text)}"


@check_arguments
def load_module(path: str | os.PathLike[str]) -> tuple[Version, ...]:
    """Run a Python file and define its ops, the classes under ``@pyopnb.pyop``.

    They are defined after all of the file ran; a file that raises defines nothing.

    Parameters
    ----------
    path : path
        The Python file.

    Returns
    -------
    tuple of Version
        In the order of the file.

    Raises
    ------
    DefinitionError
        There is no such file, or no op in it.
    Exception
        The exception that the file raises, unchanged.
    """
    __tracebackhide__ = True
    file = Path(os.fspath(path)).absolute()
    where = f"file {sanitize(str(path))}"
    try:
        data = file.read_bytes()
    except FileNotFoundError:
        next_ = f"a path from {sanitize(os.getcwd())}"
        raise DefinitionError(
            where, expected="a Python file", got="no such file", next=next_
        ) from None
    except OSError as error:
        raise DefinitionError(
            where, expected="a file that can be read", got=sanitize(error.strerror or str(error))
        ) from None
    name = f"pyop_file_{re.sub(r'[^0-9A-Za-z]', '_', file.stem)}"
    definitions = exec_source(name, str(file), data)
    if not definitions:
        raise DefinitionError(
            where, expected="an op", got="none", next="@pyopnb.pyop above the class"
        )
    return define_all(definitions)
