"""Name the node at which a run in ONNX Runtime failed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import onnxruntime
from onnx import ModelProto

from pyopnb.common import hand_downs
from pyopnb.engine.ops.instantiate import add_note
from pyopnb.engine.runtime.exceptions import is_of_runtime
from pyopnb.engine.runtime.ortvalues import as_ortvalues
from pyopnb.engine.runtime.runtime_options import QUIET, new_options, session_options, writes_files

if TYPE_CHECKING:
    from pyopnb.engine.models.model_files import ModelSource

__all__ = ["name_node"]

# A run that is repeated for its error takes a session of its own each time.
_MOST = 5
_RUNNING = "while running"


def name_node(error: Exception, state: Any, feeds: Mapping[str, Any] | None) -> None:
    """Add a note that names the node to an error of a run.

    Parameters
    ----------
    state : SessionState
        Its module imports this one.
    feeds : mapping, optional
        The inputs of the run; None if they are not known.
    """
    # The text of another error may itself raise.
    said = str(error) if is_of_runtime(error) else ""
    # Other errors, such as for a run that was stopped, are about no node.
    if _RUNNING not in said:
        return
    source = state.source()
    if not source.proto.HasField("graph"):
        return

    def run_again(proto: ModelProto) -> str:
        # Optimizers merge and rename nodes. The user's options may bring operators of their own.
        for options in (new_options("no"), state.config.options):
            if options is None:
                continue
            again = replace(source, proto=proto)
            said = _error_of_run(session_options(options, again), again, state, feeds or {})
            if _RUNNING in said:
                return said
        return ""

    state.runtime._repeated = getattr(state.runtime, "_repeated", 0) + 1
    # An op would compute twice, and a run that wants too much memory would want it twice.
    repeats = (
        feeds is not None
        and not state.kernels
        and not (state.config.options and writes_files(state.config.options))
        and "allocate" not in said
        and state.runtime._repeated <= _MOST
    )
    where = hand_downs.handed_down("failing_node")(
        source.proto, said, run_again if repeats else None
    )
    if where is not None:
        add_note(error, f"in {where}")


def _error_of_run(
    options: onnxruntime.SessionOptions,
    source: ModelSource,
    state: Any,
    feeds: Mapping[str, Any],
) -> str:
    """Run a model in a session of its own, and return the text of its error."""
    model, providers = source.proto.SerializeToString(), state.runtime.get_providers()
    try:
        session = onnxruntime.InferenceSession(model, options, providers)
        session.run_with_ort_values(None, as_ortvalues(feeds), QUIET)
    except Exception as error:  # exceptions of ONNX Runtime have no common base class
        return str(error)
    return ""
