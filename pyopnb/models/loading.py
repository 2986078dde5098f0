"""Read a model file with its ops, and run only the ops that the caller names."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any

from onnx import ModelProto

from pyopnb.common import Displayable, messages, sanitize
from pyopnb.engine import Version, check_arguments, model_files, protos, to_model
from pyopnb.errors import ModelError
from pyopnb.models.exec_module import define_all, exec_source
from pyopnb.models.op_metadata import KeptOp, read_ops

__all__ = ["Loaded", "load"]

_STORED = re.compile(
    r"^    stored = \(\n(?P<data>(?: {8}'[^'\"\\\s]+'\n){4,})    \)$", re.MULTILINE
)
# An output shows this many characters of sources.
_MAX_SOURCES = 64_000


class Loaded(Displayable):
    """A model file that `load` has read.

    Attributes
    ----------
    path : str
        As it was passed; ``"model"`` for a model in memory.
    model : ModelProto
        Pass it to a `Session`. Its metadata still has the sources of the ops.
    ops : Mapping of str to KeptOp
        The ops by name, in the order of the file.
    versions : tuple of Version
        The versions of the ops that were run and are now in the registry.
    """

    def __init__(
        self, path: str, model: ModelProto, ops: Mapping[str, KeptOp], versions: tuple[Version, ...]
    ) -> None:
        self.path, self.model, self.versions = path, model, versions
        self.ops = MappingProxyType(dict(ops))

    def __repr__(self) -> str:
        lines = [self.head]
        for op, text in zip(self.ops.values(), self.sources(), strict=True):
            lines += [
                "",
                f"{op!r}  {self.state(op)}",
                *(f"    {line}" for line in text.split("\n")),
            ]
        return "\n".join([*lines, *([""] if self.ops else []), self.next])

    @property
    def head(self) -> str:
        """Describe the model in one line."""
        return f"{sanitize(os.path.basename(self.path))}: {protos.summary(self.model)}"

    @property
    def next(self) -> str:
        """Say which ops were run, and how to run the others."""
        if not self.ops:
            return "It keeps no op."
        ran = {version.op for version in self.versions}
        waiting = [op for op in self.ops.values() if op.name not in ran]
        if not waiting:
            return f"Ran {', '.join(map(str, self.versions))}."
        names = ", ".join(f'"{sanitize(op.name)}"' for op in waiting)
        if ran:
            state = f"Ran {', '.join(map(str, self.versions))}; nothing else was run."
        else:
            state = "Nothing of this was run."
        path = sanitize(repr(self.path))
        return (
            f"{state} Once you have read it: pyopnb.load({path}, ops=[{names}]), "
            "or the digests in their place."
        )

    def state(self, op: KeptOp) -> str:
        """Return the schema of an op, and the version that it was run as.

        Parameters
        ----------
        op : KeptOp
            One of ``ops``.

        Returns
        -------
        str
            A note for the listing of the ops.
        """
        for version in self.versions:
            if version.op == op.name:
                return f"run, now version {version.number}  {version.schema}"
        return sanitize(op.schema)

    def sources(self) -> list[str]:
        """Return the sources of the ops, safe to print.

        A long source is cut, and its last line says so.

        Returns
        -------
        list of str
            In the order of the ops.
        """
        remaining, texts = _MAX_SOURCES, []
        for op in self.ops.values():
            text = _fold_data(messages.sanitize_source(op.source.rstrip("\n")), op.name)
            if len(text) > remaining:
                name = sanitize(repr(op.name))
                hint = (
                    f"{len(text) - remaining} characters more are NOT shown: "
                    f"print(….ops[{name}].source)"
                )
                text = f"{text[:remaining]}\n… {hint}"
            # Later sources get the remaining length of the output.
            remaining = max(0, remaining - len(text))
            texts.append(text)
        return texts


def _fold_data(source: str, name: str) -> str:
    """Replace the stored data of a fitted estimator by one line that says how long it is.

    The data takes hundreds of unreadable lines. A line is left out only if no reader of
    Python could take it for code: it is one literal without quotes or backslashes inside, and the
    literals begin right below ``stored = (``, a line in which no string can begin or end.
    """
    match = _STORED.search(source)
    if match is None:
        return source
    lines = match["data"].count("\n")
    size = len(match["data"])
    call = f"print(….ops[{sanitize(repr(name))}].source)"
    remark = f"        # {lines} lines of data, {size:,} characters, are NOT shown: {call}\n"
    return source[: match.start("data")] + remark + source[match.end("data") :]


@check_arguments
def load(
    model: str | os.PathLike[str] | bytes | ModelProto,
    ops: Collection[str] = (),
    *,
    base_dir: str | os.PathLike[str] | None = None,
) -> Loaded:
    """Read a model file with ops, and run the ops that you name.

    The source of an op can do anything that you can do. So load the file without ``ops`` first,
    read the sources that it shows, and then name the ops to run. You cannot name all of them at
    once.

    Parameters
    ----------
    model : path, bytes or ModelProto
        A model in memory, its serialized bytes, or a file.
    ops : list of str
        Names (``"demo::SoftClip"``) or digests (``"sha256:…"`` with all 64 digits) of ops. A name
        runs any source that the file now has under it; a digest runs only that exact source.
    base_dir : path, optional
        The folder with the external data of a ModelProto or of bytes.

    Returns
    -------
    Loaded
        The model, and its ops with their sources and digests.

    Raises
    ------
    ModelError
        There is no model, an entry was not written by `save`, a digest belongs to another source,
        or the file lacks one of ``ops``. In these cases nothing was run.
    Exception
        The exception that a source raises. The registry is then unchanged.

    Examples
    --------
    >>> import pathlib, tempfile, numpy as np, pyopnb
    >>> @pyopnb.pyop("doctest::Halve")
    ... class Halve:
    ...     def compute(self, x):
    ...         return x / np.float32(2)
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = pathlib.Path(folder.name, "halve.onnx")
    >>> ops = pyopnb.save(
    ...     pyopnb.model(pyopnb.node("doctest::Halve", "x", "y"), {"x": "float32[N]"}, "y"), path
    ... )
    >>> pyopnb.registry.remove("doctest::Halve")
    >>> list(pyopnb.load(path).ops), "doctest::Halve" in pyopnb.registry
    (['doctest::Halve'], False)
    >>> loaded = pyopnb.load(path, ops=["doctest::Halve"])
    >>> pyopnb.run(loaded.model, x=np.float32([1, 2]))["y"]
    array([0.5, 1. ], dtype=float32)
    >>> folder.cleanup()
    """
    __tracebackhide__ = True
    # Everything is checked before the first source runs.
    names = _check_names(ops)
    source = model_files.read_model(model, base_dir)
    ops_in_file = read_ops(source.proto)
    selected = [_select(name, ops_in_file) for name in names]
    # All sources run before the first op is defined, so that one that raises leaves the registry
    # as it was.
    unique = {op.name: op for op in selected}
    definitions = [(op, _run(op)) for op in unique.values()]
    versions: list[Version] = []
    for op, of_op in definitions:
        versions += define_all(of_op, op.source)
    path = str(model) if isinstance(model, (str, os.PathLike)) else "model"
    return Loaded(path, to_model(source), ops_in_file, tuple(versions))


def _check_names(ops: Any) -> list[str]:
    if isinstance(ops, (list, tuple, set, frozenset)) and all(
        isinstance(name, str) for name in ops
    ):
        return list(ops)
    raise ModelError(
        "load, ops",
        expected="a list of names or digests",
        got=sanitize(repr(ops), 60),
        next='ops=["demo::SoftClip"], one by one',
    )


def _select(name: str, ops: Mapping[str, KeptOp]) -> KeptOp:
    # Patterns, a part of a digest and "all" would run unread sources, so names
    # and digests are whole.
    for op in ops.values():
        if name in (op.name, op.digest):
            return op
    raise ModelError(
        "load, ops",
        expected="the name of an op that the file keeps, or the whole digest of its source",
        got=sanitize(repr(name), 100),
        next="load the file without ops",
    )


def _run(op: KeptOp) -> list[Any]:
    __tracebackhide__ = True
    digits = op.digest.removeprefix("sha256:")[:12]
    name = f"pyop_kept_{re.sub(r'[^0-9A-Za-z]', '_', op.name)}_{digits}"
    definitions = exec_source(name, f"<{op.name} sha256:{digits}>", op.source)
    # A source that defines another op than its entry says would slip it past the reader.
    if [definition.name for definition in definitions] != [op.name]:
        got = ", ".join(sanitize(definition.name) for definition in definitions) or "none"
        raise ModelError(
            f"op {op.name}, as the model keeps it",
            expected="a source that defines this op alone",
            got=got,
        )
    return definitions
