"""Keep ops in the metadata of a model, each as its source, a digest of it and a readable schema.

They are data until the user runs them.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass

from onnx import ModelProto

from pyopnb.common import sanitize
from pyopnb.engine import model_faults, op_names
from pyopnb.errors import DefinitionError, ModelError

__all__ = ["MAX_SOURCE", "KeptOp", "digest", "read_ops", "write_ops"]

MAX_SOURCE = 2**24
"""Characters of an op's entry; a longer one is implausible. Fitted estimators are long."""

_STRANGE = re.compile("[\\x00-\\x08\\x0b-\\x1f\\x7f\\ud800-\\udfff]")
_FIELDS = ("source", "digest", "schema", "pyopnb")


@dataclass(frozen=True)
class KeptOp:
    """An op in a model file. None of it has been run.

    Attributes
    ----------
    name : str
        ``domain::OpType``, by the file.
    source : str
        The text of a module that defines the op.
    digest : str
        ``sha256:`` and 64 hexadecimal digits, of the source.
    schema : str
        Its inputs and outputs, by the file; they may differ once the source is run.
    pyopnb : str
        The version of pyopnb that wrote it.
    """

    name: str
    source: str
    digest: str
    schema: str
    pyopnb: str

    def __repr__(self) -> str:
        return f"{sanitize(self.name)}  {self.digest}"


def digest(source: str) -> str:
    """Return the digest of a source.

    Returns
    -------
    str
        ``sha256:`` and 64 hexadecimal digits.
    """
    return f"sha256:{hashlib.sha256(source.encode()).hexdigest()}"


def write_ops(model: ModelProto, ops: Iterable[KeptOp]) -> None:
    """Write ops into the metadata of a model; entries of the same names are replaced.

    Parameters
    ----------
    model : ModelProto
        It is changed.
    """
    entries = {}
    for op in ops:
        fields = {name: getattr(op, name) for name in _FIELDS}
        entries[model_faults.OP_KEY + op.name] = json.dumps(fields, ensure_ascii=False)
    # Entries of other programs stay, in their order and before ours.
    foreign = [(e.key, e.value) for e in model.metadata_props if e.key not in entries]
    del model.metadata_props[:]
    for key, value in (*foreign, *entries.items()):
        model.metadata_props.add(key=key, value=value)


def read_ops(model: ModelProto) -> dict[str, KeptOp]:
    """Read the ops from the metadata of a model.

    Raises
    ------
    ModelError
        An entry was not written by `write_ops`, occurs twice, or has a digest of another source.
    """
    ops: dict[str, KeptOp] = {}
    for entry in model.metadata_props:
        if not entry.key.startswith(model_faults.OP_KEY):
            continue
        name = entry.key.removeprefix(model_faults.OP_KEY)
        if name in ops:
            raise _refused(name, "one entry", "two")
        ops[name] = _read(name, entry.value)
    return ops


def _read(name: str, text: str) -> KeptOp:
    # The name is shown and typed again, so it must be one.
    if len(name) > 200 or not _is_name(name):
        raise _refused(name, "domain::OpType", sanitize(repr(name)))
    if len(text) > MAX_SOURCE:
        raise _refused(name, f"at most {MAX_SOURCE} characters", str(len(text)))
    try:
        entry = dict(json.loads(text, object_pairs_hook=_unique_keys))
        fields = [entry[field] for field in _FIELDS]
    except (ValueError, TypeError, KeyError, RecursionError):
        fields = []
    if not fields or not all(isinstance(item, str) for item in fields):
        raise _refused(name, f"JSON with {', '.join(_FIELDS)}", sanitize(text, 60) or "nothing")
    op = KeptOp(name, *fields)
    strange = _STRANGE.search(op.source)
    if strange is not None:
        # After a carriage return Python reads on where a reader sees a comment.
        got = f"the character {strange[0].encode('unicode_escape').decode()} in it"
        raise _refused(name, "a source of plain lines", got)
    # A careful user names the digest, so it must match the source.
    if digest(op.source) != op.digest:
        raise _refused(
            name,
            f"a source with the digest {sanitize(op.digest, 80)}",
            digest(op.source),
            "get the file again",
        )
    return op


def _is_name(name: str) -> bool:
    try:
        return "::" in name and "::".join(op_names.split_name(name)) == name
    except DefinitionError:
        return False


def _unique_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
    entry = dict(pairs)
    if len(entry) != len(pairs):
        raise ValueError("a key occurs twice")
    return entry


def _refused(name: str, expected: str, got: str, next: str | None = None) -> ModelError:
    return ModelError(f"op {name}, as the model keeps it", expected=expected, got=got, next=next)
