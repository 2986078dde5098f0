"""A model as it was given, a ModelProto, bytes or a path, as a proto to look at; and back as something that a session loads."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from google.protobuf.message import DecodeError
from onnx import ModelProto, TensorProto

from pyopnb.models.markers import remove_markers
from pyopnb.models.nodes import tensors
from pyopnb.ops.dtypes import DTYPES
from pyopnb.ops.errors import ModelError, closest, sanitize

__all__ = [
    "FOLDER",
    "ModelSource",
    "as_proto",
    "format_advice",
    "guess_format",
    "open_readonly",
    "read_model",
    "to_model",
    "without_weights",
]

_LARGEST_MESSAGE = 2**31 - 1
_ORT_FORMAT = b"ORTM"
_POINTER = b"version https://git-lfs"
FOLDER = "pyopnb.folder"
_STAYS = 1024  # bytes of an initializer up to which it stays in a proto that is too large as a whole


@dataclass
class ModelSource:
    """A model that belongs to its reader: changing it changes nothing of the caller's.

    Attributes
    ----------
    proto : ModelProto
    folder : str or None
        Where its external data is; None where it has none.
    taken_out : dict
        Initializers that had to leave the proto because a message holds at most 2 GB, name to tensor.
    given : bytes or str, optional
        The bytes or the path, as they came; None for a ModelProto.
    """

    proto: ModelProto
    folder: str | None = None
    taken_out: dict[str, TensorProto] = field(default_factory=dict)
    given: bytes | str | None = None


def read_model(model: Any, base_dir: str | os.PathLike[str] | None = None, *, data: bool = True) -> ModelSource:
    """Read a model from what a session takes.

    Parameters
    ----------
    model : ModelProto, bytes, str or os.PathLike
    base_dir : path, optional
        Where the external data of a ModelProto or of bytes is. A path has it beside itself.
    data : bool
        Whether the external data must be there. Who edits a model without looking at weights need not have them.

    Raises
    ------
    ModelError
        No such file, no model in it, or external data whose folder nobody named.
    """
    if isinstance(model, ModelProto):
        where = "model"
        if not model.HasField("graph"):
            raise ModelError(where, expected="an ONNX model with a graph", got="a ModelProto without one")
        source = _copied(model)
    elif isinstance(model, (bytes, bytearray, memoryview)):
        where = "model bytes"
        source = ModelSource(_parsed(bytes(model), where), given=bytes(model))
    elif isinstance(model, (str, os.PathLike)):
        path = Path(os.fspath(model))
        where = f"model {sanitize(str(path))}"
        source = ModelSource(_parsed(_bytes_of(path, where), where), given=str(path))
        base_dir = path.resolve().parent if base_dir is None else base_dir
    else:
        raise ModelError("model", expected="a ModelProto, bytes or a path", got=type(model).__name__)
    remove_markers(source.proto)
    base_dir = _remembered(source.proto) if base_dir is None else base_dir
    if data:
        source.folder = _folder(source, base_dir, where)
    elif base_dir is not None:
        source.folder = str(Path(os.fspath(base_dir)).resolve())
    return source


def to_model(source: ModelSource) -> ModelProto:
    """The model of a source that its reader has changed, to be handed out.

    Initializers that had been taken out are back, and a session in this process finds the external data where it was.
    """
    for tensor in source.proto.graph.initializer:
        if tensor.name in source.taken_out:
            tensor.CopyFrom(source.taken_out[tensor.name])
    if source.folder is not None and any(t.data_location == TensorProto.EXTERNAL for t in tensors(source.proto)):
        _remember(source.proto, source.folder)
    return source.proto


_folders: dict[str, str] = {}
"""Folders of external data by the tokens that edited models carry.

A proto has no place for a thing that is not written into the file, and a folder that is read from a file would let any file
name any folder. The token means nothing in another process, and nobody can guess one of this.
"""


def _remember(proto: ModelProto, folder: str) -> None:
    token = next((t for t, known in _folders.items() if known == folder), None) or os.urandom(16).hex()
    _folders[token] = folder
    entry = next((e for e in proto.metadata_props if e.key == FOLDER), None) or proto.metadata_props.add(key=FOLDER)
    entry.value = token


def _remembered(proto: ModelProto) -> str | None:
    return next((_folders.get(entry.value) for entry in proto.metadata_props if entry.key == FOLDER), None)


def _bytes_of(path: Path, where: str) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        # The first words are those of ONNX Runtime, which the retired PyOp kept.
        raise ModelError(f"Load {where} failed. File doesn't exist", next=_path_like(path)) from None
    except OSError as error:
        raise ModelError(where, expected="a file that can be read", got=sanitize(str(error))) from error


def _path_like(path: Path) -> str:
    """A path beside a mistyped one that may have been meant."""
    folder = path.parent
    stems = [entry.stem for entry in folder.iterdir() if entry.suffix == ".onnx"] if folder.is_dir() else []
    near = closest(path.stem, stems)
    return sanitize(f"a path from {Path.cwd()}" if near is None else str(folder / f"{near}.onnx"))


def _parsed(data: bytes, where: str) -> ModelProto:
    proto = ModelProto()
    if data[4:8] == _ORT_FORMAT:
        return proto  # ONNX Runtime's own format: its nodes are fixed, and there is nothing to look at
    try:
        proto.ParseFromString(data)
    except DecodeError:
        raise ModelError(where, expected="an ONNX model", got=_looks_like(data), next=format_advice(data)) from None
    if not proto.HasField("graph"):
        raise ModelError(where, expected="an ONNX model with a graph", got=_looks_like(data), next=format_advice(data))
    return proto


def guess_format(data: bytes) -> str | None:
    """What the bytes of a file are that came in the place of another; None where nothing like that is seen."""
    head = data[:200].lstrip()
    if not data:
        return "an empty file"
    if head.startswith(_POINTER):
        return "a Git LFS pointer: the name of a large file that was not fetched"
    return "HTML or XML, perhaps the page about a file" if head[:1] == b"<" else None


def format_advice(data: bytes) -> str | None:
    """What to type where that helps."""
    head = data[:200].lstrip()
    if head.startswith(_POINTER):
        return "git lfs pull, in the folder of the file"
    return "download the file itself (on GitHub: Raw)" if head[:1] == b"<" else None


def _looks_like(data: bytes) -> str:
    head = data[:60].lstrip()
    if guess_format(data) is None and head.isascii() and head.decode().replace("\n", " ").isprintable():
        return f"text that begins with {sanitize(head.decode().splitlines()[0])}"
    return guess_format(data) or f"{len(data)} bytes that are no model with a graph"


def _copied(model: ModelProto) -> ModelSource:
    # Python's protobuf knows a message's size only by serializing it, which fails over 2 GB.
    if sum(map(_size, tensors(model))) <= _LARGEST_MESSAGE - 2**26:
        proto = ModelProto()
        proto.CopyFrom(model)
        return ModelSource(proto)
    return without_weights(model)


def without_weights(model: ModelProto) -> ModelSource:
    """A copy of a model without the data of its large initializers, which are in ``taken_out``, not copied."""
    proto = ModelProto()
    for descriptor, value in model.ListFields():
        if descriptor.name != "graph":
            _put(proto, descriptor, value)
    taken_out = {}
    for descriptor, value in model.graph.ListFields():
        if descriptor.name != "initializer":
            _put(proto.graph, descriptor, value)
    for tensor in model.graph.initializer:
        if _size(tensor) <= _STAYS or tensor.data_location == TensorProto.EXTERNAL:
            proto.graph.initializer.add().CopyFrom(tensor)
        else:
            stub = proto.graph.initializer.add(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims)
            # onnxruntime takes an initializer from memory only in the place of one that would lie in a file.
            stub.data_location = TensorProto.EXTERNAL
            stub.external_data.add(key="location", value="taken-out")
            taken_out[tensor.name] = tensor
    return ModelSource(proto, taken_out=taken_out)


def _size(tensor: TensorProto) -> int:
    """Bytes of a tensor's data by its dims; 0 where they lie in a file, or are text."""
    rows = [row for row in DTYPES if row.onnx == tensor.data_type]
    if not rows or tensor.data_location == TensorProto.EXTERNAL:
        return 0
    return math.prod(tensor.dims) * max(rows[0].bits, 8) // 8 if rows[0].bits else 0


def _put(target: Any, descriptor: Any, value: Any) -> None:
    if descriptor.is_repeated if hasattr(descriptor, "is_repeated") else descriptor.label == descriptor.LABEL_REPEATED:
        getattr(target, descriptor.name).extend(value)
    elif descriptor.message_type:
        getattr(target, descriptor.name).CopyFrom(value)
    else:
        setattr(target, descriptor.name, value)


def _folder(source: ModelSource, base_dir: str | os.PathLike[str] | None, where: str) -> str | None:
    outside = [t for t in tensors(source.proto) if t.data_location == TensorProto.EXTERNAL]
    outside = [t for t in outside if t.name not in source.taken_out]
    if not outside:
        return None
    if base_dir is None:
        raise ModelError(
            f"{where}, initializer {sanitize(outside[0].name)}",
            expected="the folder of its external data",
            got="a model in memory, which has none",
            next="base_dir=…, or give the path of the model",
        )
    folder = Path(os.fspath(base_dir)).resolve()
    for tensor in outside:
        _refuse_links(tensor, folder, where)
    return str(folder)


def _refuse_links(tensor: TensorProto, folder: Path, where: str) -> None:
    # ONNX Runtime refuses most of this as well, in other words; a hard link it reads.
    location = next((entry.value for entry in tensor.external_data if entry.key == "location"), "")
    path = Path(os.path.normpath(folder / location)) if location and "\0" not in location else folder
    if not path.is_relative_to(folder) or path.resolve() != path:
        got = f"{sanitize(location)}, which leads elsewhere"
    elif not path.is_file():
        got = f"{sanitize(location) or 'no name'}, which is no file in {sanitize(str(folder))}"
    elif path.stat().st_nlink > 1:
        got = f"{sanitize(location)}, which has other names (a hard link can lead anywhere)"
    else:
        return
    raise ModelError(
        f"{where}, initializer {sanitize(tensor.name)}",
        expected="a data file of its own beside the model",
        got=got,
        next="copy the file",
    )


def open_readonly(model: Any) -> ModelSource:
    """A model and where its weights are, only to be looked at: a ModelProto is not copied, and may be without its data.

    Raises
    ------
    ModelError
        No such file, no model in it, or external data outside its folder.
    """
    if not isinstance(model, ModelProto):
        return read_model(model, data=not isinstance(model, (bytes, bytearray, memoryview)))
    source = ModelSource(as_proto(model))
    folder = _remembered(model)
    if folder is not None:
        source.folder = _folder(source, folder, "model")
    return source


def as_proto(model: Any) -> ModelProto:
    """The proto of a model, only to be looked at: a ModelProto as it is, nothing copied, and no external data looked for.

    Raises
    ------
    ModelError
        No such file, or no model in it.
    """
    if isinstance(model, ModelProto):
        if not model.HasField("graph"):
            raise ModelError("model", expected="an ONNX model with a graph", got="a ModelProto without one")
        return model
    if isinstance(model, (bytes, bytearray, memoryview)):
        where, data = "model bytes", bytes(model)
    elif isinstance(model, (str, os.PathLike)):
        path = Path(os.fspath(model))
        where = f"model {sanitize(str(path))}"
        data = _bytes_of(path, where)
    else:
        raise ModelError("model", expected="a ModelProto, bytes or a path", got=type(model).__name__)
    if data[4:8] == _ORT_FORMAT:
        raise ModelError(where, expected="an ONNX model", got="ONNX Runtime's own format, whose kernels are chosen already")
    return _parsed(data, where)
