"""Run a model at a level of the ONNX Runtime optimizations, and tell which graph ran."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import onnxruntime
from onnx import GraphProto

from pyopnb.engine import Session, SessionState, runtime_options
from pyopnb.traces.shadow_session import (
    check_temporary_room,
    executed_graph,
    leave_out_weights,
)

__all__ = ["OptimizedRun", "run_optimized", "runtime_name", "runtime_text", "session_at"]

_MODIFIED = re.compile(r"GraphTransformer (\S+) modified: 1 ")
_LOG_LINE = re.compile(r"\[[VIWEF]:onnxruntime:")
_INFO = 1  # the severity from which on ONNX Runtime names its graph transformers


@dataclass(frozen=True)
class OptimizedRun:
    """The outputs of a run by name, its optimized graph, and the transformers that changed it."""

    outputs: dict[str, Any]
    executed: GraphProto
    modifying: tuple[str, ...]


def run_optimized(
    model: Any, feeds: Mapping[str, Any], level: str, disabled: Sequence[str] = ()
) -> OptimizedRun:
    """Run a model once at a level of optimization, without some graph transformers."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = _INFO
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
    check_temporary_room("first_divergence")
    with tempfile.TemporaryDirectory(prefix="pyopnb-", ignore_cleanup_errors=True) as folder:
        options.optimized_model_filepath = os.path.join(folder, "executed.onnx")
        leave_out_weights(options)
        with _log_of_runtime() as read_log:
            session = Session(model, options, disabled_optimizers=list(disabled))
        executed = executed_graph(options) or GraphProto()
    # From here on it is quiet: only the making of the session names the optimizers.
    names = [info.name for info in session.get_outputs()]
    run_options = onnxruntime.RunOptions()
    run_options.log_severity_level = 4
    outputs = dict(zip(names, session.run(names, feeds, run_options), strict=True))
    modifying = tuple(dict.fromkeys(_MODIFIED.findall(read_log())))
    return OptimizedRun(outputs, executed, modifying)


def session_at(
    model: Any,
    level: str = "ORT_ENABLE_ALL",
    *,
    threads: int = 0,
    providers: Sequence[Any] | None = None,
) -> Session:
    """Make a quiet session at a level of optimization, on some threads; 0 are all."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
    options.intra_op_num_threads = threads
    return Session(model, options, providers)


def runtime_text(state: SessionState, *, optimized: bool = True) -> str:
    """Name the runtime of a session's model: onnxruntime version and level of optimization."""
    # The ONNX Runtime default where the user gave no options.
    level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    if not optimized:
        level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    elif state.config.options is not None:
        level = state.config.options.graph_optimization_level
    name = level.name.removeprefix("ORT_").removeprefix("ENABLE_").lower()
    amount = "no" if level == onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL else name
    runtime = runtime_name(onnxruntime.__version__, state.runtime.get_providers())
    return f"{runtime}, {amount} optimizations"


def runtime_name(version: str, providers: Sequence[str]) -> str:
    """Name a runtime with its version, and with its providers if not only the CPU's is used."""
    special = [name for name in providers if name != runtime_options.CPU]
    if special:
        return f"onnxruntime {version} with {' and '.join(special)}"
    return f"onnxruntime {version}"


@contextmanager
def _log_of_runtime() -> Iterator[Callable[[], str]]:
    """Collect the log that ONNX Runtime writes to the process's stderr.

    Lines that others write there meanwhile are passed on.
    """
    # The ONNX Runtime log has no other way into Python.
    sys.stderr.flush()
    text = ""
    stderr = os.dup(2)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 2)
        try:
            yield lambda: text
        finally:
            sys.stderr.flush()
            os.dup2(stderr, 2)
            os.close(stderr)
            file.seek(0)
            # On Windows the log is in UTF-16, between lines of others that are not.
            text = file.read().replace(b"\0", b"").decode(errors="replace")
    for line in text.splitlines(keepends=True):
        if not _LOG_LINE.search(line):
            os.write(2, line.encode())
