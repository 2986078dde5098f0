"""Run a model a few times in a bare ONNX Runtime session, which is cheap to make."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

import onnxruntime
from onnx import ModelProto
from onnxruntime import OrtAllocatorType, OrtArenaCfg, OrtMemoryInfo, OrtMemType

from pyopnb.runtime.callbacks import get_library_path
from pyopnb.runtime.session.config import CPU

__all__ = ["Runner", "bare_runner"]

Runner: TypeAlias = Callable[[Sequence[str], Mapping[str, Any]], list[Any]]
"""A function of output names and feeds."""

_LIMIT = 2**31  # bytes


def bare_runner(model: ModelProto, *, limited: bool = False) -> Runner:
    """Make a session without optimisations, in which ops of the registry run as well.

    Parameters
    ----------
    model : ModelProto
        Without external data, which ONNX Runtime would look for in the working directory.
    limited : bool
        Let a run fail that needs more than 2 GB, instead of filling the memory.

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
    run_options = onnxruntime.RunOptions()
    run_options.log_severity_level = 4
    if limited:
        # Only an allocator of the process has a limit; sessions use it that ask for it. It would keep
        # what a run took if the run did not say otherwise.
        memory = OrtMemoryInfo("Cpu", OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, OrtMemType.DEFAULT)
        arena = OrtArenaCfg({"max_mem": _LIMIT, "arena_extend_strategy": 1})
        onnxruntime.create_and_register_allocator(memory, arena)
        options.add_session_config_entry("session.use_env_allocators", "1")
        run_options.add_run_config_entry("memory.enable_memory_arena_shrinkage", "cpu:0")
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=[CPU])
    return partial(session.run, run_options=run_options)
