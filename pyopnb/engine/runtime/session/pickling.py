"""Pickles of sessions: the model, the options, the ops, and the state of the ops' instances.

Unpickling builds the ONNX Runtime session, and runs code from the pickle as unpickling always does.
"""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

from onnx import ModelProto

from pyopnb.common import sanitize
from pyopnb.engine.models.external_files import find_data, is_external
from pyopnb.engine.models.model_files import ModelSource, read_model
from pyopnb.engine.models.protos import tensors
from pyopnb.engine.ops.op import Version
from pyopnb.engine.ops.op_sources import ReceivedOps
from pyopnb.engine.ops.pickling import dumps, open_op
from pyopnb.engine.ops.registry import registry
from pyopnb.engine.runtime.node_plans import Plan
from pyopnb.engine.runtime.runtime_options import options_from, read_options, refuse_lent_weights
from pyopnb.engine.runtime.session.build import build_state
from pyopnb.engine.runtime.session.config import SessionConfig
from pyopnb.engine.runtime.session.state import SessionState
from pyopnb.engine.runtime.settings import Setting
from pyopnb.errors import DefinitionError, InputError, ModelError, PyopError

__all__ = ["open_session", "reduce_session"]

_Instances = dict[int, tuple[int, object]]
"""By the number of the node: the number of the version, and the instance."""


def reduce_session(session: Any) -> tuple[Any, ...]:
    """Collect the contents of a session's pickle.

    Parameters
    ----------
    session : Session

    Raises
    ------
    DefinitionError
        An op, or the state that it keeps on ``self``, cannot be pickled.
    InputError
        The session has parts that belong to this process: weights in its options, or more
        than 2 GB of weights in memory.
    """
    __tracebackhide__ = True
    state = session.update()
    _refuse_lent(state)
    config, setting = state.config, state.setting
    instances = _instances(state)
    options = None
    if config.options is not None:
        options = read_options(config.options)
        refuse_lent_weights(state.runtime, state.source().proto)
    parts = {
        "folder": state.folder,
        "options": options,
        "providers": config.providers,
        "provider_options": config.provider_options,
        "keywords": config.keywords,
        "modules": config.modules,
        "is_filled": config.filled,
        "filled": session.filled,
        "lowered": session.lowered,
        "ops": _ops(state),
        "instances": instances,
        "changes": setting.changes,
        "model_attrs": setting.model,
    }
    try:
        data = dumps(parts)
    except PyopError:
        raise
    except Exception as error:  # a user's class can raise anything here
        raise _unpicklable(state, instances, error) from error
    return open_session, (type(session), _model(state), data)


def _ops(state: SessionState) -> list[tuple[Version, tuple[str, ...], bool]]:
    """List the arguments of `open_op` for each registry op in the session."""
    rows = {}
    for kernel in list(state.kernels):
        if kernel.op.is_registered:
            definer = kernel.op.definer
            modules = registry.modules_of(definer.name)
            rows[kernel.op.name] = definer.at(state.epoch), modules, kernel.op.base is not None
    return list(rows.values())


def _instances(state: SessionState) -> _Instances:
    instances = {}
    for kernel in list(state.kernels):
        numbered_instance = kernel.instance_at(state.epoch)
        if numbered_instance is None:
            continue
        if numbered_instance[0] == kernel.op.at(state.epoch).number:
            instances[kernel.number] = numbered_instance
    return instances


def _unpicklable(state: SessionState, instances: _Instances, error: Exception) -> DefinitionError:
    """Name the attribute of an op's instance that cannot be pickled."""
    where, reason = "Session", error
    for kernel in list(state.kernels):
        _, instance = instances.get(kernel.number, (0, None))
        for name, value in getattr(instance, "__dict__", {}).items():
            try:
                dumps(value)
            except Exception as attribute_error:  # as above
                where = f"{kernel.where}, self.{name}"
                reason = attribute_error
    return DefinitionError(
        where,
        expected="state that can be pickled",
        got=sanitize(f"{type(reason).__name__}: {reason}", 120),
        next="leave it out in __getstate__ of the class, and make it again in __setstate__",
    )


def _model(state: SessionState) -> Any:
    """Return the bytes of the model, or the path of one that has external data."""
    if state.runtime._model_bytes is not None:
        return state.runtime._model_bytes
    # The other process may have another working directory.
    path = os.path.abspath(state.runtime._model_path)
    return path if state.folder is not None else Path(path).read_bytes()


def _refuse_lent(state: SessionState) -> None:
    """Raise for weights that exist only in this process's memory."""
    if state.taken_out:
        raise InputError(
            "Session: pickle",
            expected="a model of at most 2 GB in memory",
            got="a larger one",
            next="pyopnb.save(model, path, external_data=True), and a session of that path",
        )
    if state.folder is None:
        return
    for tensor in filter(is_external, tensors(state.source().proto)):
        try:
            find_data(tensor, state.folder)
        except ModelError as error:
            raise InputError(
                f"Session: pickle, initializer {tensor.name}",
                expected="external data in a file",
                got="a weight that the session's options hold, or whose file is gone",
                next="pyopnb.save(model, path), and a session of that path",
            ) from error


# ---- opening -------------------------------------------------------------------------------------


def open_session(cls: type[Any], model: bytes | str, data: bytes) -> Any:
    """Build the session of a pickle.

    Returns
    -------
    Session
        It serves the versions that it had, also where the registry has other ops of these names.

    Raises
    ------
    ModelError
        Its external data is not where it was.
    """
    parts = pickle.loads(data)  # noqa: S301  # opening a pickle runs it
    ops = []
    classes = {}
    for version, modules, is_gradient in parts["ops"]:
        op = open_op(version, modules, is_gradient)
        ops.append(op)
        # Nodes of the retired PyOp ask for a class by its module and name.
        for module in modules:
            classes[module, version.cls.__name__] = op
    options = None
    if parts["options"] is not None:
        options = options_from(parts["options"])
    config = SessionConfig(
        options,
        parts["providers"],
        parts["provider_options"],
        parts["keywords"],
        parts["modules"],
        parts["is_filled"],
        ReceivedOps(ops, classes),
    )
    instances: _Instances = parts["instances"]

    def lend(plan: Plan, _: ModelProto) -> None:
        for node in plan.nodes:
            # Each call of a linked node has its own instance.
            if node.number in instances and not node.linked:
                number = node.op.at(plan.epoch).number
                node.instances[number] = instances[node.number][1]

    setting = Setting({}, parts["changes"], parts["model_attrs"])
    source = _source(model, parts["folder"])
    return cls._with_state(
        parts["filled"],
        parts["lowered"],
        lambda: build_state(config, source, setting=setting, prepare=lend),
    )


def _source(model: bytes | str, folder: str | None) -> ModelSource:
    try:
        return read_model(model, folder)
    except ModelError as error:
        if folder is not None:
            where = sanitize(folder)
            error.add_note(f"the session is of another process, and its model has data in {where}")
        raise
