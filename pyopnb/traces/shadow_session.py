"""Build a session beside the user's, to look at runs of the same model."""

from __future__ import annotations

import math
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import onnx
import onnxruntime
from onnx import GraphProto, ModelProto

from pyopnb.common import sanitize
from pyopnb.engine import (
    ModelSource,
    Session,
    SessionState,
    model_files,
    model_functions,
    node_plans,
    one_run,
    op_names,
    ort_capabilities,
    protos,
    runtime_options,
)
from pyopnb.errors import ModelError

__all__ = [
    "can_save",
    "check_temporary_room",
    "executed_graph",
    "leave_out_weights",
    "model_beside",
    "session_beside",
]

_SAVING = frozenset({"CPUExecutionProvider", "CUDAExecutionProvider", "ROCMExecutionProvider"})
_ROOM = 2**20
# Elements that a saved graph may take along, where the user's options are changed.
_MOST_WEIGHTS = 1 << 28


def model_beside(state: SessionState, where: str) -> tuple[ModelSource, ModelProto]:
    """Read a session's model with its current attrs, and copy it without weights.

    Parameters
    ----------
    where : str
        For the message.

    Raises
    ------
    ModelError
        The model is in the ONNX Runtime format.
    """
    __tracebackhide__ = True
    # The state knows where the model came from: a file, bytes, or a model in memory.
    source = state.source(in_use=True)
    if not source.proto.HasField("graph"):
        raise ModelError(
            where,
            expected="a session of an ONNX model",
            got="a session of a model in the ONNX Runtime format",
            next="pyopnb.Session of the .onnx file that it was made of",
        )
    source.given = None  # the bytes or the file, which must not be loaded
    # An op may be new since the session was built.
    source.proto = model_functions.inline_ops(
        source.proto, node_plans.is_op(source.proto, state.config.modules, state.config.ops)
    )
    return source, model_files.without_weights(source.proto).proto


@contextmanager
def session_beside(
    state: SessionState,
    source: ModelSource,
    prepare: Callable[[node_plans.Plan, ModelProto], None],
    *,
    profiles: bool = True,
    changes: Mapping[str, Any] | None = None,
    entries: Mapping[str, str] | None = None,
) -> Iterator[tuple[Session, GraphProto | None]]:
    """Build a session beside the user's, and remove the files that ONNX Runtime wrote for it.

    Parameters
    ----------
    state : SessionState
        The state of the user's session, with the versions and attrs that the new session gets.
    source : ModelSource
        The model of the new session.
    prepare : callable
        As for `one_run.derived_session`.
    profiles : bool
        Whether ONNX Runtime writes a profile, and the graph that it runs.
    changes : mapping, optional
        Fields of the options and their values.
    entries : mapping, optional
        Defaults for entries of the configuration. Options that cannot be copied get none.

    Yields
    ------
    session : Session
    executed : GraphProto or None
        None where it was not saved.
    """
    __tracebackhide__ = True
    # Windows removes no file that is open, as the profile is where something raises: that must not
    # hide the error.
    with tempfile.TemporaryDirectory(prefix="pyopnb-", ignore_cleanup_errors=True) as folder:
        if profiles:
            check_temporary_room("trace")
        saved = ""
        if profiles and can_save(state, source):
            saved = os.path.join(folder, "executed.onnx")
        fields = {
            "enable_profiling": profiles,
            # One node after the other, so that each instant belongs to one.
            "execution_mode": onnxruntime.ExecutionMode.ORT_SEQUENTIAL,
            "profile_file_prefix": os.path.join(folder, "profile"),
            "optimized_model_filepath": saved,
            **(changes or {}),
        }
        with _options_beside(state, source.proto, fields, entries or {}) as options:
            shadow = one_run.derived_session(state, source, options, prepare)
            executed = executed_graph(options)
        yield shadow, executed


def check_temporary_room(where: str) -> None:
    """Raise `ModelError` if the temporary folder is full: ONNX Runtime would speak of Protobuf."""
    folder = tempfile.gettempdir()
    if shutil.disk_usage(folder).free < _ROOM:
        where = f"{where}, temporary folder {sanitize(folder)}"
        advice = 'tempfile.tempdir = "."'
        raise ModelError(where, expected="a free megabyte", got="a full disk", next=advice)


@contextmanager
def _options_beside(
    state: SessionState, proto: ModelProto, fields: dict[str, Any], entries: Mapping[str, str]
) -> Iterator[onnxruntime.SessionOptions]:
    """Copy a session's options and change the copy; where there is no copy, change them a while."""
    given = state.config.options
    saved = fields["optimized_model_filepath"]
    if saved and given is not None:  # ONNX Runtime warns that it saves for this machine alone
        fields["log_severity_level"] = max(given.log_severity_level, 3)
    if given is not None and not _is_copied(state, proto):
        with runtime_options.lock_of(given):
            before = {name: getattr(given, name) for name in fields}
            try:
                _set_fields(given, fields)
                yield given
            finally:
                _set_fields(given, before)
        return
    options = (
        runtime_options.new_options() if given is None else runtime_options.copied_options(given)
    )
    _set_fields(options, fields)
    for key, entry in entries.items():
        if runtime_options.session_entry(options, key) is None:
            options.add_session_config_entry(key, entry)
    if saved:
        leave_out_weights(options)
    yield options


def leave_out_weights(options: onnxruntime.SessionOptions) -> None:
    """Let ONNX Runtime save the graph that it runs without the gigabytes of weights.

    Windows makes no symbolic links without a right: there, they go into another file.
    """
    if os.name == "posix":
        folder = os.path.dirname(options.optimized_model_filepath)
        os.symlink(os.devnull, os.path.join(folder, "weights"))
    options.add_session_config_entry(
        "session.optimized_model_external_initializers_file_name", "weights"
    )


def _set_fields(options: onnxruntime.SessionOptions, fields: Mapping[str, Any]) -> None:
    for name, value in fields.items():
        setattr(options, name, value)


def _is_copied(state: SessionState, proto: ModelProto) -> bool:
    """Tell whether a copy of the session's options would do.

    It has neither the providers that were added to them, nor libraries of custom operators.
    """
    options = state.config.options
    if options is None:
        return True
    if options.has_providers():
        return False
    is_served = node_plans.is_op(proto, state.config.modules, state.config.ops)
    local = {(function.domain, function.name) for function in proto.functions}
    for site in protos.walk(proto):
        node = site.node
        name = (op_names.canonical_domain(node.domain), node.op_type)
        if not (
            ort_capabilities.has_op(*name)
            or (node.domain, node.op_type) in local
            or is_served(node)
        ):
            return False
    return True


def executed_graph(options: onnxruntime.SessionOptions) -> GraphProto | None:
    """Read the graph that runs; None where it was not saved."""
    path = options.optimized_model_filepath
    if path:
        return onnx.load(path, load_external_data=False).graph
    return None


def can_save(state: SessionState, source: ModelSource) -> bool:
    """Tell whether ONNX Runtime can save the optimized graph without writing many weights.

    Other providers than these compile nodes, which cannot be saved. An entry of options that are
    not copied could not be taken back.
    """
    # ONNX Runtime writes the weights with the graph.
    weights = sum(math.prod(tensor.dims) for tensor in source.proto.graph.initializer)
    return _SAVING.issuperset(state.runtime.get_providers()) and (
        weights <= _MOST_WEIGHTS or _is_copied(state, source.proto)
    )
