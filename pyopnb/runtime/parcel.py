"""A session packed for another process: its model, its ops in the versions that serve it, and what they have kept.

Opening it builds ONNX Runtime's session there. It runs what is in it, as unpickling anything does.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from onnx import ModelProto
from onnxruntime import SessionOptions

from pyopnb.models.external_data import find_data, is_external
from pyopnb.models.io import ModelSource, read_model
from pyopnb.models.support.missing import missing
from pyopnb.models.tensors import tensors
from pyopnb.ops.errors import ArgumentError, ModelError, sanitize
from pyopnb.ops.op import Op
from pyopnb.ops.op_sources import ReceivedOps
from pyopnb.ops.parcel import InstanceParcel, OpParcel, open_op, pack_instance, pack_op
from pyopnb.runtime.built import Built, Recipe
from pyopnb.runtime.options import free_dimensions, options_from, read_options, refuse_unread_options
from pyopnb.runtime.plan import Plan
from pyopnb.runtime.session import Session
from pyopnb.runtime.settings import Setting
from pyopnb.runtime.shared import SharedSession

if TYPE_CHECKING:
    from pyopnb.onnx_reference.fill import FilledNode

__all__ = ["open_session", "pack_session"]


@dataclass(frozen=True)
class _Packed:
    """What a session is made of, beside its model.

    Attributes
    ----------
    folder : str or None
        Where its external data is: a path that the other process must have.
    options : dict or None
        The fields of its ``SessionOptions`` that are not the defaults.
    providers, provider_options, keywords, modules, is_filled
        As `Recipe` has them.
    filled, lowered : tuple
        The session's.
    ops : tuple of OpParcel
    instances : dict of int
        By the number of their node.
    changes, model_attrs : dict of int
        See `Setting`.
    """

    folder: str | None
    options: Mapping[str, Any] | None
    providers: Sequence[Any] | None
    provider_options: Sequence[Any] | None
    keywords: Mapping[str, Any]
    modules: frozenset[str]
    is_filled: bool
    filled: tuple[FilledNode, ...]
    lowered: tuple[str, ...]
    ops: tuple[OpParcel, ...]
    instances: Mapping[int, InstanceParcel]
    changes: Mapping[int, Mapping[str, Any]]
    model_attrs: Mapping[int, dict[str, Any]]


def pack_session(session: Session, protocol: int) -> tuple[type[Session], Any, _Packed]:
    """What `open_session` takes.

    Parameters
    ----------
    session : Session
    protocol : int
        Of the pickle: from 5 on, models and large arrays are buffers that its carrier need not copy.

    Returns
    -------
    tuple

    Raises
    ------
    DefinitionError
        An op, or what one has kept on ``self``, cannot be packed.
    ArgumentError
        The session has what belongs to this process: a library or weights in its options, or more than 2 GB of weights in
        memory.
    """
    __tracebackhide__ = True
    built = session._update()
    recipe, setting = built.recipe, built.setting
    _refuse_lent(built)
    packed = _Packed(
        folder=built.folder,
        options=None if recipe.options is None else _options(built, recipe.options),
        providers=recipe.providers,
        provider_options=recipe.provider_options,
        keywords=recipe.keywords,
        modules=recipe.modules,
        is_filled=recipe.filled,
        filled=session.filled,
        lowered=session.lowered,
        ops=tuple(pack_op(op.at(built.epoch)) for op in _ops(built).values() if op.is_registered),
        instances=_instances(built, protocol),
        changes=setting.changes,
        model_attrs=setting.model,
    )
    kind = Session if isinstance(session, SharedSession) else type(session)
    return kind, _model(built, protocol), packed


def _options(built: Built, options: SessionOptions) -> dict[str, Any]:
    """The user's options, as far as they can be read; raises for the rest."""
    read = read_options(options)
    proto = built.source().proto
    unknown = (row.op for row in missing(proto) if row.kind in ("unknown op", "unknown domain"))
    refuse_unread_options(built.runtime, proto, (name for name in unknown if name not in built.ops))
    return {**read, "sizes": free_dimensions(built.runtime, proto)}


def _ops(built: Built) -> dict[str, Op]:
    return {kernel.op.name: kernel.op for kernel in list(built.kernels)}


def _instances(built: Built, protocol: int) -> dict[int, InstanceParcel]:
    found = {}
    for kernel in list(built.kernels):
        served = kernel.instance_at(built.epoch)
        version = kernel.op.at(built.epoch)
        if served is not None and served[0] == version.number:
            found[kernel.number] = pack_instance(version, served[1], kernel.where, in_band=protocol < 5)
    return found


def _model(built: Built, protocol: int) -> Any:
    """The bytes of the model, or the path of one that has external data."""
    data = built.runtime._model_bytes
    if data is None:
        path = os.path.abspath(built.runtime._model_path)
        if built.folder is not None:
            return path
        with open(path, "rb") as file:
            data = file.read()
    return data if protocol < 5 else pickle.PickleBuffer(data)


def _refuse_lent(built: Built) -> None:
    """Raise for weights that are in the memory of this process alone."""
    if built.taken_out:
        raise ArgumentError(
            "Session: pickle",
            expected="a model of at most 2 GB in memory",
            got="a larger one",
            next="pyopnb.save(model, path, external_data=True), and a session of that path",
        )
    if built.folder is None:
        return
    for tensor in filter(is_external, tensors(built.source().proto)):
        try:
            find_data(tensor, built.folder)
        except ModelError as error:
            raise ArgumentError(
                f"Session: pickle, initializer {sanitize(tensor.name)}",
                expected="external data in a file",
                got="a weight that the session's options hold, or whose file is gone",
                next="pyopnb.save(model, path), and a session of that path",
            ) from error


# ---- opening -----------------------------------------------------------------------------------------------------------------


def open_session(kind: type[Session], model: Any, packed: _Packed) -> Session:
    """The session of another process.

    Parameters
    ----------
    kind : type
    model : bytes, buffer or str
    packed : _Packed

    Returns
    -------
    Session
        It serves the versions that it had there, until an op of that name is defined in this process.

    Raises
    ------
    ModelError
        Its external data is not where it was.
    DefinitionError
        An op cannot be defined here.
    """
    ops = [open_op(parcel) for parcel in packed.ops]
    pairs = zip(packed.ops, ops, strict=True)
    classes = {(module, op.current.cls.__name__): op for parcel, op in pairs for module in parcel.modules}
    recipe = Recipe(
        None if packed.options is None else options_from(packed.options),
        packed.providers,
        packed.provider_options,
        packed.keywords,
        packed.modules,
        packed.is_filled,
        ReceivedOps(ops, classes),
    )

    def lend(plan: Plan, _: ModelProto) -> None:
        for node in plan.nodes:
            version = node.op.at(plan.epoch)
            if node.number in packed.instances and not node.linked:  # of a linked one, each call has its own
                node.lent = version.number, packed.instances[node.number].open(version)

    setting = Setting({}, packed.changes, packed.model_attrs)
    source = _source(model, packed.folder)
    return kind._received(packed.filled, packed.lowered, lambda: recipe.build(source, setting=setting, prepare=lend))


def _source(model: Any, folder: str | None) -> ModelSource:
    try:
        return read_model(model if isinstance(model, str) else bytes(model), folder)
    except ModelError as error:
        if folder is None:
            raise
        error.add_note(f"the session is of another process, and its model has external data in {sanitize(folder)}")
        raise
