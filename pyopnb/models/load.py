"""A model file and the ops that it keeps: looked at, and run only where the caller names them."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any

from onnx import ModelProto

from pyopnb.models.io import read_model, to_model
from pyopnb.models.nodes import summary
from pyopnb.models.op_metadata import KeptOp, read_ops
from pyopnb.ops.displayable import Displayable
from pyopnb.ops.errors import ModelError, hide_internal_frames, sanitize, sanitize_source, suggest
from pyopnb.ops.exec_module import define_all, exec_source
from pyopnb.ops.registry import Version

__all__ = ["Loaded", "load"]

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_SHOWN = 64_000  # characters of sources that an output holds


class Loaded(Displayable):
    """What `load` found in a file.

    Attributes
    ----------
    path : str
    model : ModelProto
        The model, for a `Session`. Its metadata still has the ops' sources.
    ops : Mapping of str to KeptOp
        The ops that the file keeps, by name, in the order of the file.
    versions : tuple of Version
        Those that were run and are now in the registry.
    """

    def __init__(self, path: str, model: ModelProto, ops: Mapping[str, KeptOp], versions: tuple[Version, ...]) -> None:
        self.path, self.model, self.ops, self.versions = path, model, MappingProxyType(dict(ops)), versions

    def __repr__(self) -> str:
        lines = [self.head]
        for op, text in zip(self.ops.values(), self.sources(), strict=True):
            lines += ["", f"{op!r}  {self.state(op)}", *(f"    {line}" for line in text.split("\n"))]
        return "\n".join([*lines, *([""] if self.ops else []), self.next])

    @property
    def head(self) -> str:
        """The model on one line."""
        return f"{sanitize(os.path.basename(self.path))}: {summary(self.model)}"

    @property
    def next(self) -> str:
        """What was run, and how to run the others."""
        if not self.ops:
            return "It keeps no op."
        ran = {version.op for version in self.versions}
        rest = [op for op in self.ops.values() if op.name not in ran]
        if not rest:
            return f"Ran {', '.join(map(str, self.versions))}."
        names = ", ".join(f'"{sanitize(op.name)}"' for op in rest)
        said = f"Ran {', '.join(map(str, self.versions))}; nothing else was run." if ran else "Nothing of this was run."
        path = sanitize(repr(self.path))
        return f"{said} Once you have read it: pyopnb.load({path}, ops=[{names}]), or the digests in their place."

    def state(self, op: KeptOp) -> str:
        """How the op stands to the registry's of that name, on a few words; its schema after it."""
        version = op.registered
        ran = next((version for version in self.versions if version.op == op.name), None)
        schema = sanitize(op.schema) if ran is None else str(ran.schema)
        if ran is not None:
            said = f"run, now version {ran.number}"
        elif version is None:
            said = "not in the registry"
        else:
            said = {True: "is the same", False: "is another", None: "has no text to compare"}[op.same]
            said = f"the registry's version {version.number} {said}"
        return f"{said}  {schema}"

    def sources(self) -> list[str]:
        """The sources as they can be shown, in the order of the ops; what is too long for one output says so at its end."""
        left, texts = _SHOWN, []
        for op in self.ops.values():
            text = sanitize_source(op.source.rstrip("\n"))
            if len(text) > left:
                name = sanitize(repr(op.name))
                text = f"{text[:left]}\n… {len(text) - left} characters more are NOT shown: print(….ops[{name}].source)"
            left = max(0, left - len(text))
            texts.append(text)
        return texts


@hide_internal_frames
def load(
    model: str | os.PathLike[str] | bytes | ModelProto,
    ops: Collection[str] = (),
    *,
    base_dir: str | os.PathLike[str] | None = None,
) -> Loaded:
    """Read a model file that keeps ops. Of these, only those that are named are run.

    A source in a file can do whatever you can do. Load the file without ``ops`` first, read what it shows, and name then what
    may run. There is no way to name all of them at once.

    Parameters
    ----------
    model : path, bytes or ModelProto
    ops : list of str
        Each the name of an op, ``"demo::SoftClip"``, or a digest, ``"sha256:…"`` with all its 64 digits. A name runs what this
        file has under that name now; a digest runs only the source that it was made of.
    base_dir : path, optional
        Where the external data of a ModelProto or of bytes is.

    Returns
    -------
    Loaded
        The model, and the ops with their sources and digests.

    Raises
    ------
    ModelError
        There is no model, an entry of it is not what `save` writes, a source is not that of its digest, or ``ops`` names what
        the file does not have. Then nothing was run.
    Exception
        What a source raises. Then none of the named ops is in the registry, and what it had is as it was.

    Examples
    --------
    >>> import pathlib, tempfile, numpy as np, pyopnb
    >>> @pyopnb.pyop("doctest::Halve")
    ... class Halve:
    ...     def compute(self, x):
    ...         return x / np.float32(2)
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = pathlib.Path(folder.name, "halve.onnx")
    >>> ops = pyopnb.save(pyopnb.model(pyopnb.node("doctest::Halve", "x", "y"), {"x": "float32[N]"}, "y"), path)
    >>> pyopnb.registry.remove("doctest::Halve")
    >>> list(pyopnb.load(path).ops), "doctest::Halve" in pyopnb.registry
    (['doctest::Halve'], False)
    >>> loaded = pyopnb.load(path, ops=["doctest::Halve"])
    >>> pyopnb.run(loaded.model, x=np.float32([1, 2]))["y"]
    array([0.5, 1. ], dtype=float32)
    >>> folder.cleanup()
    """
    __tracebackhide__ = True
    wanted = _listed(ops)
    source = read_model(model, base_dir)
    kept = read_ops(source.proto)
    chosen = [_chosen(name, kept) for name in wanted]
    definitions = []
    for op in {op.name: op for op in chosen}.values():
        definitions.append((op, _run(op)))
    versions = tuple(version for op, found in definitions for version in define_all(found, op.source))
    path = str(model) if isinstance(model, (str, os.PathLike)) else "model"
    return Loaded(path, to_model(source), kept, versions)


def _listed(ops: Any) -> list[str]:
    if isinstance(ops, (list, tuple, set, frozenset)) and all(isinstance(name, str) for name in ops):
        return list(ops)
    raise ModelError(
        "load, ops",
        expected="a list of names or digests",
        got=sanitize(repr(ops), 60),
        next='ops=["demo::SoftClip"], one by one',
    )


def _chosen(name: str, ops: Mapping[str, KeptOp]) -> KeptOp:
    found = next((op for op in ops.values() if name in (op.name, op.digest)), None)
    if found is not None:
        return found
    got = sanitize(repr(name), 100)
    if name.startswith("sha256:") and not _DIGEST.fullmatch(name):
        raise ModelError("load, ops", expected="a digest with all its 64 digits", got=got, next="copy it from what load shows")
    if name.startswith("sha256:"):
        raise ModelError("load, ops", expected="the digest of a source in the file", got=got, next="load the file without ops")
    if set(name) & set("*?[]") or name.lower() in ("all", "true", "yes", ""):
        raise ModelError("load, ops", expected="names or digests, one by one", got=got, next="load the file without ops")
    next_ = repr(sanitize(suggest(name, ops))) if ops else "save it with its ops: pyopnb.save"
    raise ModelError("load, ops", expected="an op that the file keeps", got=got, next=next_)


def _run(op: KeptOp) -> list[Any]:
    __tracebackhide__ = True
    digits = op.digest.removeprefix("sha256:")[:12]
    name = f"pyop_kept_{re.sub(r'[^0-9A-Za-z]', '_', op.name)}_{digits}"
    found = exec_source(name, f"<{op.name} sha256:{digits}>", op.source)
    if [one.name for one in found] != [op.name]:
        got = ", ".join(sanitize(one.name) for one in found) or "none"
        raise ModelError(
            f"op {sanitize(op.name)}, as the model keeps it", expected="a source that defines this op alone", got=got
        )
    return found
