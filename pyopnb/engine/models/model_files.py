"""Read models as a session takes them: a ModelProto, bytes or a path."""

from __future__ import annotations

import math
import os
import tempfile
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

from google.protobuf.message import DecodeError
from onnx import GraphProto, ModelProto, TensorProto

from pyopnb.common import messages, sanitize
from pyopnb.engine.models.external_files import (
    LFS_POINTER,
    entries,
    find_bytes,
    is_absent,
    is_external,
    original,
    stub,
)
from pyopnb.engine.models.holders import held_model
from pyopnb.engine.models.markers import remove_markers
from pyopnb.engine.models.names import check_names, check_versions
from pyopnb.engine.models.protos import is_repeated, tensors
from pyopnb.engine.ops.argument_checks import describe, is_path
from pyopnb.engine.ops.dtypes import DTYPES
from pyopnb.engine.ops.op_run import is_written_as
from pyopnb.engine.ops.registry import registry
from pyopnb.errors import ModelError

__all__ = [
    "FOLDER",
    "ModelSource",
    "as_proto",
    "format_advice",
    "guess_format",
    "held_model",
    "open_readonly",
    "read_model",
    "similar_path",
    "to_model",
    "without_weights",
]

_MAX_MESSAGE = 2**31 - 1
_ORT_FORMAT = b"ORTM"
FOLDER = "pyopnb.folder"
# `without_weights` keeps initializers of fewer bytes.
_MAX_KEPT = 1024


@dataclass(eq=False)
class ModelSource:
    """A model that its reader may change without changing the caller's.

    Attributes
    ----------
    folder : str or None
        Where its external data is; None if it has none.
    taken_out : dict of str to TensorProto
        Initializers left out of the proto, which holds at most 2 GB.
    given : bytes or str, optional
        The bytes or the path that it was read from; None for a ModelProto.
    absent : ModelError or None
        What to raise if external data is in no file and nothing else provides it.
    """

    proto: ModelProto
    folder: str | None = None
    taken_out: dict[str, TensorProto] = field(default_factory=dict)
    given: bytes | str | None = None
    absent: ModelError | None = None


def read_model(
    model: Any,
    base_dir: str | os.PathLike[str] | None = None,
    *,
    data: bool = True,
    absent: bool = False,
) -> ModelSource:
    """Read a model from anything that a session accepts.

    Parameters
    ----------
    model : ModelProto, bytes, str or os.PathLike
        Or an object that holds a model or writes one: the torch ``ONNXProgram``, an onnxscript
        function, an ``onnx_ir.Model``.
    base_dir : path, optional
        The folder with the external data of a ModelProto or of bytes. For a path, it is the path's
        folder.
    data : bool
        Whether the external data must be there; an edit that does not read weights needs none.
    absent : bool
        Whether files may be absent, as options of a session can have their
        initializers: see `ModelSource`.

    Raises
    ------
    ModelError
        No such file, no model in it, or external data in an unknown folder or with
        two entries of one key.
    """
    model, folder = held_model(model)
    where, given, path = _given(model)
    if base_dir is None:
        base_dir = folder
    if isinstance(given, ModelProto):
        # The caller's model stays as it is: only the copy is changed.
        source = _copy(given)
    else:
        source = ModelSource(_parse(given, where), given=given if path is None else str(path))
        if base_dir is None and path is not None:
            base_dir = path.resolve().parent
    # onnx and the runtime end the process at some versions, so they are checked before either
    # is used.
    check_versions(source.proto, where)
    # A model that a session wrote has the private domains of its ops.
    remove_markers(source.proto)
    if base_dir is None:
        base_dir = _remembered(source.proto)
    for tensor in filter(is_external, tensors(source.proto)):
        # Check it even if nothing is read here, because others will read it.
        entries(tensor, where)
    if data:
        source.folder = _data_folder(source, base_dir, where, absent)
    elif base_dir is not None:
        source.folder = str(Path(os.fspath(base_dir)).resolve())
    return source


def _given(model: Any) -> tuple[str, ModelProto | bytes, Path | None]:
    """Return the name of a model in messages, the model itself or its bytes, and its file."""
    if isinstance(model, ModelProto):
        if not model.HasField("graph"):
            raise ModelError(
                "model",
                expected="an ONNX model with a graph",
                got="a ModelProto without one",
                next='pyopnb.parse("(float[N] x) => (float[N] y) { y = Abs(x) }")',
            )
        # A ModelProto in memory can contain more than a file can.
        check_names(model, "model")
        return "model", model, None
    if isinstance(model, (bytes, bytearray, memoryview)):
        return "model bytes", bytes(model), None
    if isinstance(model, (str, os.PathLike)):
        if not is_path(model):
            raise ModelError("model", expected="a path", got=describe(model), next='"model.onnx"')
        path = Path(os.fspath(model))
        where = f"model {path}"
        return where, _read_bytes(path, where), path
    raise _no_model(model)


def _no_model(thing: Any) -> ModelError:
    advice: str | None
    if isinstance(thing, GraphProto):
        advice = "onnx.helper.make_model(graph)"
    elif isinstance(getattr(thing, "model", None), ModelProto):
        advice = "its attribute model"
    elif hasattr(thing, "state_dict"):
        advice = "pyopnb.torch.export(module, args)"
    elif hasattr(thing, "get_params"):
        advice = "pyopnb.sklearn.convert(estimator, X)"
    else:
        ops = [op.name for op in registry if is_written_as(op.current.cls, thing)]
        advice = f'pyopnb.call("{ops[0]}", x)' if ops else None
    return ModelError(
        "model", expected="a ModelProto, bytes or a path", got=type(thing).__name__, next=advice
    )


def to_model(source: ModelSource) -> ModelProto:
    """Return the model of a source, to be handed out after an edit.

    Returns
    -------
    ModelProto
        With the initializers that were left out. A session in this process finds its external data.
    """
    # Put back the large data that was left out of the copy.
    for tensor in source.proto.graph.initializer:
        full = original(tensor, source.taken_out)
        if full is not tensor:
            tensor.CopyFrom(full)
    if source.folder is not None and any(map(is_external, tensors(source.proto))):
        _remember(source.proto, source.folder)
    return source.proto


_folders: dict[str, str] = {}
"""Folders of external data by the tokens in the metadata of edited models.

Were the folder itself in the metadata, any file could name any folder. A token means nothing in
another process and cannot be guessed.
"""

_tokens: dict[str, str] = {}  # by folder


def _remember(proto: ModelProto, folder: str) -> None:
    # Several threads can be here at once.
    token = _tokens.setdefault(folder, os.urandom(16).hex())
    _folders[token] = folder
    for entry in proto.metadata_props:
        if entry.key == FOLDER:
            entry.value = token
            return
    proto.metadata_props.add(key=FOLDER, value=token)


def _remembered(proto: ModelProto) -> str | None:
    for entry in proto.metadata_props:
        if entry.key == FOLDER:
            return _folders.get(entry.value)
    return None


def _read_bytes(path: Path, where: str) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        if str(path).startswith(("http:", "https:")):
            advice = "urllib.request.urlretrieve(url)[0]"
            expected = "a file on this machine"
            raise ModelError("model", expected=expected, got="a URL", next=advice) from None
        if str(path) in registry:
            advice = f'pyopnb.call("{path}", x)'
            expected, got = "a model or its path", f"the op {path}"
            raise ModelError("model", expected=expected, got=got, next=advice) from None
        # The first words are ONNX Runtime's.
        where, advice = f"Load {where} failed. File doesn't exist", similar_path(path)
        raise ModelError(where, next=advice) from None
    except OSError as error:
        # On Windows, reading a folder is a PermissionError.
        if not path.is_dir():
            got = sanitize(str(error))
            raise ModelError(where, expected="a file that can be read", got=got) from error
        nearest = next(chain(sorted(path.glob("*.onnx")), sorted(path.glob("*/*.onnx"))), None)
        example = None if nearest is None else repr(str(nearest))
        raise ModelError(where, expected="a model file", got="a folder", next=example) from None


def similar_path(path: Path, ending: str = ".onnx") -> str:
    """Return a path that a mistyped one may mean."""
    stems = []
    if path.parent.is_dir():
        stems = [entry.stem for entry in path.parent.iterdir() if entry.suffix == ending]
    near = messages.closest(path.stem, stems)
    if near is None:
        return sanitize(f"a path from {Path.cwd()}")
    return sanitize(str(path.parent / f"{near}{ending}"))


def _parse(data: bytes, where: str) -> ModelProto:
    proto = ModelProto()
    if data[4:8] == _ORT_FORMAT:
        # In the ONNX Runtime format the nodes are fixed.
        return proto
    try:
        proto.ParseFromString(data)
    except DecodeError:
        proto.Clear()
    if not proto.HasField("graph"):
        got = guess_format(data) or f"{len(data)} bytes that are not a model with a graph"
        expected, advice = "an ONNX model with a graph", format_advice(data)
        raise ModelError(where, expected=expected, got=got, next=advice)
    check_names(proto, where)
    return proto


def guess_format(data: bytes) -> str | None:
    """Recognize bytes that are not a model, such as a web page about it."""
    head = data[:200].lstrip()
    if not data:
        return "an empty file"
    if head.startswith(LFS_POINTER):
        return "a Git LFS pointer: the name of a large file that was not fetched"
    if head[:1] == b"<":
        return "HTML or XML, perhaps the page about a file"
    if head[:60].isascii() and head[:60].decode().replace("\n", " ").isprintable():
        return f"text that begins with {sanitize(head[:60].decode().splitlines()[0])}"
    return None


def format_advice(data: bytes) -> str | None:
    """Suggest how to get the model instead of the file that `guess_format` recognized."""
    head = data[:200].lstrip()
    if head.startswith(LFS_POINTER):
        return "git lfs pull, in the folder of the file"
    if head[:1] == b"<":
        return "download the file itself (on GitHub: Raw)"
    return None


def _copy(model: ModelProto) -> ModelSource:
    # In Python, protobuf computes a message's size by serializing it, which fails over 2 GB.
    if sum(map(_size, tensors(model))) <= _MAX_MESSAGE - 2**26:
        proto = ModelProto()
        proto.CopyFrom(model)
        return ModelSource(proto)
    return without_weights(model)


def without_weights(model: ModelProto) -> ModelSource:
    """Copy a model without the data of its large initializers.

    Returns
    -------
    ModelSource
        The initializers, not copied, are in ``taken_out``.
    """
    proto = ModelProto()
    # CopyFrom would also copy the weights, and fails above 2 GB.
    _copy_fields(model, proto, but="graph")
    _copy_fields(model.graph, proto.graph, but="initializer")
    taken_out = {}
    for tensor in model.graph.initializer:
        # Small initializers stay, as shapes and axes among them decide types.
        if _size(tensor) <= _MAX_KEPT or is_external(tensor):
            proto.graph.initializer.add().CopyFrom(tensor)
        else:
            proto.graph.initializer.append(stub(tensor))
            taken_out[tensor.name] = tensor
    return ModelSource(proto, taken_out=taken_out)


def _copy_fields(source: Any, target: Any, but: str) -> None:
    for descriptor, value in source.ListFields():
        name = descriptor.name
        if name == but:
            continue
        if is_repeated(descriptor):
            getattr(target, name).extend(value)
        elif descriptor.message_type:
            getattr(target, name).CopyFrom(value)
        elif descriptor.type == descriptor.TYPE_STRING and isinstance(value, bytes):
            # These are words that are not UTF-8.
            setattr(target, name, value.decode(errors="replace"))
        else:
            setattr(target, name, value)


_BITS = {row.onnx: row.bits for row in DTYPES}


def _size(tensor: TensorProto) -> int:
    """Compute the bytes of a tensor's data from its dims; 0 for external data and strings."""
    if is_external(tensor):
        return 0
    bits = _BITS.get(tensor.data_type, 0)
    # Strings have no bits, and values of fewer than 8 bits may be stored one per byte.
    return math.prod(tensor.dims) * max(bits, 8) // 8 if bits else 0


def _data_folder(
    source: ModelSource, base_dir: str | os.PathLike[str] | None, where: str, absent: bool = False
) -> str | None:
    external = [
        t for t in tensors(source.proto) if is_external(t) and original(t, source.taken_out) is t
    ]
    if not external:
        return None
    if base_dir is None:
        source.absent = ModelError(
            f"{where}, initializer {external[0].name}",
            expected="the folder of its external data",
            got="a model in memory, which has none",
            next="base_dir=…, or give the path of the model",
        )
        if not absent:
            raise source.absent
        # ONNX Runtime would look in the current folder, which the caller did not name.
        return str(Path(tempfile.gettempdir()).resolve() / f"absent-{os.urandom(8).hex()}")
    for tensor in external:
        try:
            find_bytes(tensor, base_dir, where)
        except ModelError as error:
            if not (absent and is_absent(tensor, base_dir)):
                raise
            source.absent = source.absent or error
    return str(Path(os.fspath(base_dir)).resolve())


def open_readonly(model: Any) -> ModelSource:
    """Read a model that will not be changed.

    A ModelProto is not copied, and its external data need not be there.

    Parameters
    ----------
    model : ModelProto, bytes, str or os.PathLike

    Raises
    ------
    ModelError
        No such file, no model in it, or external data outside its folder.
    """
    model, folder = held_model(model)
    if not isinstance(model, ModelProto):
        return read_model(model, data=not isinstance(model, (bytes, bytearray, memoryview)))
    source = ModelSource(as_proto(model))
    if folder is None:
        folder = _remembered(model)
    if folder is not None:
        source.folder = _data_folder(source, folder, "model")
    return source


def as_proto(model: Any) -> ModelProto:
    """Return the proto of a model that will not be changed, without looking for external data.

    A ModelProto is returned as it is.

    Parameters
    ----------
    model : ModelProto, bytes, str or os.PathLike

    Raises
    ------
    ModelError
        No such file, or no model in it.
    """
    where, given, _ = _given(held_model(model)[0])
    if isinstance(given, ModelProto):
        return given
    if given[4:8] == _ORT_FORMAT:
        raise ModelError(
            where,
            expected="an ONNX model",
            got="the ONNX Runtime format, whose kernels are chosen already",
            next="the .onnx file that it was made of",
        )
    return _parse(given, where)
