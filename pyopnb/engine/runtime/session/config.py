"""How the user wants a session to be built."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import onnxruntime

from pyopnb.engine.ops.op_sources import OpSource
from pyopnb.engine.ops.registry import registry
from pyopnb.engine.runtime.runtime_options import CPU

__all__ = ["SessionConfig"]


@dataclass(frozen=True, eq=False)
class SessionConfig:
    """The user's choices when the session was made, which every rebuild repeats.

    Attributes
    ----------
    options, providers, provider_options, keywords
        As ``InferenceSession`` takes them.
    modules : frozenset of str
        Modules that the retired PyOp's nodes may have their classes from.
    filled : bool
        Whether stand-ins run operators that the runtime lacks.
    derived : bool
        Whether the model was derived from the user's to look at a run of it.
    ops : OpSource
        Where the ops of the nodes are found.
    """

    options: onnxruntime.SessionOptions | None
    providers: Sequence[Any] | None
    provider_options: Sequence[Any] | None
    keywords: Mapping[str, Any]
    modules: frozenset[str]
    filled: bool = False
    ops: OpSource = registry
    derived: bool = False

    @property
    def is_parallel(self) -> bool:
        """Tell whether ONNX Runtime should run branches on its own threads."""
        parallel = onnxruntime.ExecutionMode.ORT_PARALLEL
        return self.options is not None and self.options.execution_mode == parallel

    @property
    def is_cpu_only(self) -> bool:
        """Tell whether the CPU is the only provider."""
        return not self.providers or list(self.providers) == [CPU]
