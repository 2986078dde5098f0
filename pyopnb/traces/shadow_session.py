"""Build a session beside the user's, to look at runs of the same model."""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import onnx
import onnxruntime
from onnx import GraphProto, ModelProto

from pyopnb.engine.models.inline import inline_ops
from pyopnb.engine.models.io import ModelSource, without_weights
from pyopnb.engine.runtime.options import CHANGING
from pyopnb.engine.runtime.plan import is_op
from pyopnb.engine.runtime.session.session import Session, derived_session
from pyopnb.engine.runtime.session.state import SessionState
from pyopnb.errors import ModelError

if TYPE_CHECKING:
    from pyopnb.engine.runtime.session.build import Prepare

__all__ = [
    "can_save",
    "executed_graph",
    "model_beside",
    "session_beside",
]

_SAVING = frozenset({"CPUExecutionProvider", "CUDAExecutionProvider", "ROCMExecutionProvider"})
# Elements that a saved graph may take along, where the user's options are in use.
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
            got="one of a model in ONNX Runtime's own format",
        )
    source.given = None  # the bytes or the file, which are not what is to be loaded
    # An op may be new since the session was built.
    source.proto = inline_ops(
        source.proto, is_op(source.proto, state.config.modules, state.config.ops)
    )
    return source, without_weights(source.proto).proto


@contextmanager
def session_beside(
    state: SessionState,
    source: ModelSource,
    prepare: Prepare,
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
        As for `derived_session`.
    profiles : bool
        Whether ONNX Runtime writes a profile, and the graph that it runs.
    changes : mapping, optional
        Fields of the options and their values.
    entries : mapping, optional
        Entries of the configuration, where the user gave no options.

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
        with _changed_options(state, fields, entries or {}) as options:
            shadow = derived_session(state, source, options, prepare)
            executed = executed_graph(options)
        yield shadow, executed


@contextmanager
def _changed_options(
    state: SessionState, fields: dict[str, Any], entries: Mapping[str, str]
) -> Iterator[onnxruntime.SessionOptions]:
    """Change fields in a session's options for a while, or in new ones where the user gave none."""
    options = state.config.options
    saved = fields["optimized_model_filepath"]
    if options is None:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        for key, entry in entries.items():
            options.add_session_config_entry(key, entry)
        if saved and os.name == "posix":  # without the data of the weights
            os.symlink(os.devnull, os.path.join(os.path.dirname(saved), "weights"))
            options.add_session_config_entry(
                "session.optimized_model_external_initializers_file_name", "weights"
            )
    if saved:  # ONNX Runtime warns that what it saves is for this machine alone
        fields["log_severity_level"] = max(options.log_severity_level, 3)
    # No copy has the libraries and weights that options hold: the user's are
    # changed, and changed back.
    with CHANGING:
        before = {name: getattr(options, name) for name in fields}
        try:
            for name, value in fields.items():
                setattr(options, name, value)
            yield options
        finally:
            for name, value in before.items():
                setattr(options, name, value)


def executed_graph(options: onnxruntime.SessionOptions) -> GraphProto | None:
    """Read the graph that runs; None where it was not saved."""
    path = options.optimized_model_filepath
    if path:
        return onnx.load(path, load_external_data=False).graph
    return None


def can_save(state: SessionState, source: ModelSource) -> bool:
    """Tell whether ONNX Runtime can save the optimized graph without writing many weights.

    Other providers than these compile nodes, which cannot be saved. An entry of the user's options
    could not be taken back.
    """
    # ONNX Runtime writes the weights with the graph.
    weights = sum(math.prod(tensor.dims) for tensor in source.proto.graph.initializer)
    return _SAVING.issuperset(state.runtime.get_providers()) and (
        state.config.options is None or weights <= _MOST_WEIGHTS
    )
