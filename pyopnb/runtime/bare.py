"""Run a model a few times in a bare ONNX Runtime session, which is cheap to make."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

import onnxruntime
from onnx import ModelProto

from pyopnb.runtime.callbacks import get_library_path
from pyopnb.runtime.options import QUIET
from pyopnb.runtime.session.config import CPU

__all__ = ["Runner", "bare_runner"]

Runner: TypeAlias = Callable[[Sequence[str], Mapping[str, Any]], list[Any]]
"""A function of output names and feeds."""


def bare_runner(model: ModelProto) -> Runner:
    """Make a session without optimisations, in which ops of the registry run as well.

    Parameters
    ----------
    model : ModelProto
        Without external data, which ONNX Runtime would look for in the working directory.

    Returns
    -------
    callable
    """
    options = onnxruntime.SessionOptions()
    # Optimising a graph of a thousand nodes costs more than a hundred runs of it.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    options.register_custom_ops_library(get_library_path())
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=[CPU])
    return partial(session.run, run_options=QUIET)
