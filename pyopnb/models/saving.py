"""A model and its ops in one file."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from google.protobuf.message import DecodeError
from onnx import ModelProto, TensorProto, numpy_helper

from pyopnb.common import file_writes
from pyopnb.engine import (
    ModelSource,
    Op,
    check_arguments,
    external_files,
    model_files,
    protos,
    registry,
)
from pyopnb.errors import ModelError
from pyopnb.models.op_metadata import KeptOp, digest, write_ops
from pyopnb.models.op_source import source_closure

__all__ = ["save"]

_MAX_FILE = 2**31 - 1 - 2**20
# Data begins at a page, so that the runtime can map it.
_ALIGNMENT = 4096
# Tensors of fewer bytes stay in the model.
_MAX_INLINE = 1024


@check_arguments
def save(
    model: ModelProto | bytes | str | os.PathLike[str],
    path: str | os.PathLike[str],
    *,
    external_data: bool | None = None,
    base_dir: str | os.PathLike[str] | None = None,
) -> tuple[KeptOp, ...]:
    """Write a model and the sources of its ops to a file.

    The file is an ordinary ONNX model with the sources of the ops as text in its metadata.
    `pyopnb.load` shows them and runs the ones that you name. A source brings along everything that
    it uses: imports, functions and classes whose text is known, and plain constants. If it uses
    anything else, `save` refuses and names it.

    Parameters
    ----------
    model : ModelProto, bytes, str or os.PathLike
        A model in memory, its serialized bytes, or a file.
    path : path
        If anything fails, an existing file stays as it was.
    external_data : bool, optional
        Whether large weights go to a second file beside it. By default, they do if they came from
        one.
    base_dir : path, optional
        Where the external data of a ModelProto or of bytes is.

    Returns
    -------
    tuple of KeptOp
        The ops of the registry that nodes of the model use.

    Raises
    ------
    DefinitionError
        An op uses something that cannot be saved with it; see `pyopnb.models.op_source`.
    ModelError
        There is no model, or no file can be written there.
    OSError
        The disk is full, or fails.

    Examples
    --------
    >>> import pathlib, tempfile, pyopnb
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = pathlib.Path(folder.name, "abs.onnx")
    >>> pyopnb.save(pyopnb.model(pyopnb.node("Abs", "x", "y"), {"x": "float32[N]"}, "y"), path)
    ()
    >>> pyopnb.load(path)
    abs.onnx: (x: float32[N]) -> (y: float32[N]), 1 node
    It keeps no op.
    >>> folder.cleanup()
    """
    target = Path(os.fspath(path))
    source = model_files.read_model(model, base_dir)
    if not source.proto.HasField("graph"):
        raise ModelError(
            "model",
            expected="an ONNX model",
            got="the ONNX Runtime format, which keeps no metadata",
            next="the .onnx file that it was made of",
        )
    ops = tuple(_keep(op) for op in _ops_of(source.proto))
    _remove_folder(source.proto)
    write_ops(source.proto, ops)
    # A file that cannot be written is better known before gigabytes of weights are.
    file_writes.check_writable(target)
    # An earlier save under the same name left data that the new model does not use.
    former = _data_files(target)
    data_file = _move_out(source, _external_tensors(source, external_data), target)
    try:
        data = _serialized(source.proto)
        # The model is replaced in one step, after its data is there.
        with file_writes.atomic_write(target) as file:
            file.stream.write(data)
    except BaseException:
        if data_file is not None and data_file not in former:
            data_file.unlink()
        raise
    for old in former - _data_files(target):
        # Windows keeps a file that a session maps.
        with suppress(FileNotFoundError, PermissionError):
            old.unlink()
    return ops


def _ops_of(model: ModelProto) -> list[Op]:
    """Return the ops of the registry that nodes use, each once."""
    used: dict[str, Op] = {}
    for site in protos.walk(model):
        op = registry.find(site.node.domain, site.node.op_type)
        # A retired PyOp names a module and a class instead of an op.
        if op is None and site.node.op_type == "PyOp":
            values = protos.attribute_values(site.node, model, site.where)
            op = registry.find_class(_text(values.get("module")), _text(values.get("class_name")))
        if op is not None:
            op = op.definer
            used[op.name] = op
    return list(used.values())


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return str(value)


def _keep(op: Op) -> KeptOp:
    source = source_closure([op.current])
    return KeptOp(
        op.name,
        source,
        digest(source),
        str(op.current.schema),
        str(sys.modules["pyopnb"].__version__),
    )


def _remove_folder(model: ModelProto) -> None:
    for position in reversed(
        [
            position
            for position, entry in enumerate(model.metadata_props)
            if entry.key == model_files.FOLDER
        ]
    ):
        del model.metadata_props[position]


# ---- weights -------------------------------------------------------------------------------------


def _external_tensors(source: ModelSource, wanted: bool | None) -> list[TensorProto]:
    """Return the tensors whose data goes to a second file."""
    large = [
        t
        for t in protos.tensors(source.proto)
        if external_files.is_external(t) or len(t.raw_data) > _MAX_INLINE
    ]
    already = any(map(external_files.is_external, large))
    if wanted or (wanted is None and already):
        return large
    return []


def _move_out(source: ModelSource, external: list[TensorProto], target: Path) -> Path | None:
    """Write the tensors' data to a file beside the model, and return its path.

    Without tensors, all external data is taken into the model, and there is no path.
    """
    if not external:
        for tensor in protos.tensors(source.proto):
            _take_in(source, tensor)
        return None
    path = target.with_name(f"{target.name}.data")
    checksum = hashlib.sha256()
    try:
        with file_writes.atomic_write(path) as file:
            # The digest is part of the file's name, so it is computed while the data is written.
            locations = list(_write_data(source, external, file.stream, checksum))
            # The name has the digest of the data, so that a model that is not replaced after all
            # still finds its own.
            path = file.path = target.with_name(f"{target.name}.{checksum.hexdigest()[:8]}.data")
    except PermissionError:
        # Windows does not replace a file that a session maps. It may hold the same weights.
        if not path.is_file() or _sha256(path) != checksum.hexdigest():
            raise
    for tensor, offset, length in locations:
        _point(tensor, path.name, offset, length)
    return path


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _write_data(
    source: ModelSource, external: list[TensorProto], file: BinaryIO, checksum: Any
) -> Iterator[tuple[TensorProto, int, int]]:
    at = 0
    for tensor in external:
        data = _data_of(source, tensor)
        # The padding comes before the data, so that each tensor begins at a page.
        for piece in (b"\0" * (-at % _ALIGNMENT), data):
            file.write(piece)
            checksum.update(piece)
            at += len(piece)
        yield tensor, at - len(data), len(data)


def _data_of(source: ModelSource, tensor: TensorProto) -> bytes:
    full = external_files.original(tensor, source.taken_out)
    if full is not tensor:
        return _raw(full)
    if not external_files.is_external(tensor):
        return tensor.raw_data
    return external_files.read_data(tensor, source.folder or "")


def _raw(tensor: TensorProto) -> bytes:
    if tensor.raw_data:
        return tensor.raw_data
    return bytes(numpy_helper.from_array(numpy_helper.to_array(tensor)).raw_data)


def _point(tensor: TensorProto, location: str, offset: int, length: int) -> None:
    tensor.ClearField("raw_data")
    del tensor.external_data[:]
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", str(offset)), ("length", str(length))):
        tensor.external_data.add(key=key, value=value)


def _take_in(source: ModelSource, tensor: TensorProto) -> None:
    if external_files.is_external(tensor):
        external_files.taken_in(tensor, _data_of(source, tensor))


def _serialized(model: ModelProto) -> bytes:
    if sum(len(tensor.raw_data) for tensor in protos.tensors(model)) <= _MAX_FILE:
        return bytes(model.SerializeToString())
    raise ModelError(
        "model", expected="at most 2 GB in one file", got="more", next="external_data=True"
    )


def _data_files(target: Path) -> set[Path]:
    """Return the data files that the model of that name uses and that `save` wrote beside it."""
    model = ModelProto()
    try:
        model.ParseFromString(target.read_bytes())
    except (OSError, DecodeError):
        # There is no such file, or it holds no model.
        return set()
    try:
        file_names = {
            external_files.entries(tensor).get("location", "")
            for tensor in protos.tensors(model)
            if external_files.is_external(tensor)
        }
    except ModelError:
        # `save` writes one location for a tensor, so the file is not its own.
        return set()
    start, end = f"{target.name}.", ".data"
    ours = {
        n
        for n in file_names
        if n.startswith(start) and n.endswith(end) and len(n) == len(start) + 8 + len(end)
    }
    return {target.with_name(name) for name in ours if "/" not in name and "\\" not in name}
