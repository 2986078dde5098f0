"""Ops as a model file keeps them: a text, its digest, and a schema to read. All of it is data until somebody runs it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass

from onnx import ModelProto

from pyopnb.ops.errors import DefinitionError, ModelError, sanitize
from pyopnb.ops.registry import Version, registry, split_name
from pyopnb.ops.source import source_closure

__all__ = ["MAX_SOURCE", "PREFIX", "KeptOp", "digest", "read_ops", "write_ops"]

PREFIX = "pyopnb.op."
"""What the keys of a model's metadata begin with that hold ops."""

MAX_SOURCE = 2**20
"""Characters of an op's entry; what is longer was not written by anybody."""

_FIELDS = ("source", "digest", "schema", "pyopnb")


@dataclass(frozen=True)
class KeptOp:
    """An op that a model file keeps. Nothing of it has been run.

    Attributes
    ----------
    name : str
        ``domain::OpType``, as the file says.
    source : str
        The text of a module that defines it.
    digest : str
        ``sha256:`` and 64 digits, of the source.
    schema : str
        What it takes and gives, as the file says; running it may tell another.
    pyopnb : str
        Version of pyopnb that wrote it.
    """

    name: str
    source: str
    digest: str
    schema: str
    pyopnb: str

    @property
    def registered(self) -> Version | None:
        """The current version of the op in the registry, whatever its text."""
        return next((op.current for op in registry if op.name == self.name), None)

    @property
    def same(self) -> bool | None:
        """Whether the registry's op has the same text; None where there is none, or its text is not known."""
        version = self.registered
        if version is None or version.source is None:
            return None
        if digest(version.source) == self.digest:
            return True
        try:
            return digest(source_closure([version])) == self.digest
        except DefinitionError:
            return None

    def __repr__(self) -> str:
        return f"{sanitize(self.name)}  {self.digest}"


def digest(source: str) -> str:
    """``sha256:`` and the digits of a source."""
    return f"sha256:{hashlib.sha256(source.encode()).hexdigest()}"


def write_ops(model: ModelProto, ops: Iterable[KeptOp]) -> None:
    """Write ops into a model's metadata, in the place of entries under the same names."""
    entries = {PREFIX + op.name: {name: getattr(op, name) for name in _FIELDS} for op in ops}
    others = [entry for entry in model.metadata_props if entry.key not in entries]
    copies = [(entry.key, entry.value) for entry in others]
    del model.metadata_props[:]
    for key, value in [*copies, *((key, json.dumps(value, ensure_ascii=False)) for key, value in entries.items())]:
        model.metadata_props.add(key=key, value=value)


def read_ops(model: ModelProto) -> dict[str, KeptOp]:
    """The ops that a model keeps, by name.

    Raises
    ------
    ModelError
        An entry is not what `write_ops` writes, is there twice, or its source is not that of its digest.
    """
    ops: dict[str, KeptOp] = {}
    for entry in model.metadata_props:
        if not entry.key.startswith(PREFIX):
            continue
        name = entry.key.removeprefix(PREFIX)
        if name in ops:
            raise _refused(name, "one entry", "two")
        ops[name] = _read(name, entry.value)
    return ops


def _read(name: str, text: str) -> KeptOp:
    if len(name) > 200 or not _is_name(name):
        raise _refused(name, "domain::OpType", sanitize(repr(name)))
    if len(text) > MAX_SOURCE:
        raise _refused(name, f"at most {MAX_SOURCE} characters", str(len(text)))
    try:
        held = json.loads(text, object_pairs_hook=_once)
        fields = [held[name] for name in _FIELDS] if isinstance(held, dict) else []
    except (ValueError, KeyError, RecursionError):
        fields = []
    if not fields or not all(isinstance(item, str) for item in fields):
        raise _refused(name, f"JSON with {', '.join(_FIELDS)}", sanitize(text, 60) or "nothing")
    op = KeptOp(name, *fields)
    if strange := sorted({c for c in op.source if (c < " " and c not in "\n\t") or c == "\x7f" or "\ud800" <= c <= "\udfff"}):
        # A carriage return ends a comment for Python and not for the eye.
        raise _refused(name, "a source of plain lines", f"the character {strange[0].encode('unicode_escape').decode()} in it")
    if digest(op.source) != op.digest:
        raise _refused(name, f"a source with the digest {sanitize(op.digest, 80)}", digest(op.source), "get the file anew")
    return op


def _is_name(name: str) -> bool:
    try:
        return "::" in name and "::".join(split_name(name)) == name
    except DefinitionError:
        return False


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    held = dict(pairs)
    if len(held) != len(pairs):
        raise ValueError("a key is there twice")
    return held


def _refused(name: str, expected: str, got: str, next: str | None = None) -> ModelError:
    return ModelError(f"op {sanitize(name)}, as the model keeps it", expected=expected, got=got, next=next)
