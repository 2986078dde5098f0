"""Sessions beside the user's: for one run of a model, or of a model that was derived from one."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import onnxruntime
from onnx import ModelProto, TensorProto

from pyopnb.common import messages
from pyopnb.engine.models.model_files import ModelSource
from pyopnb.engine.models.opset_versions import FILL
from pyopnb.engine.models.protos import nodes_in, type_of_proto
from pyopnb.engine.ops.argument_checks import check_arguments
from pyopnb.engine.ops.dtypes import dtype
from pyopnb.engine.ops.registry import registry
from pyopnb.engine.ops.result import Result
from pyopnb.engine.runtime.ortvalues import (
    as_ortvalues,
    from_ortvalue,
    needs_ml_dtypes,
    to_ortvalue,
)
from pyopnb.engine.runtime.runtime_options import CPU, QUIET, new_options
from pyopnb.engine.runtime.session.build import Prepare, build_state
from pyopnb.engine.runtime.session.session import Session
from pyopnb.engine.runtime.session.state import SessionState, feeds_by_name
from pyopnb.errors import PyopError

__all__ = [
    "Runner",
    "derived_session",
    "feeds_by_name",
    "kernel_runner",
    "lone_runner",
    "run",
    "session_for_run",
]

Runner = Callable[[Sequence[str] | None, Mapping[str, Any]], list[Any]]
"""Takes the names of outputs, None for all, and feeds by name."""


@check_arguments
def run(model: Any, /, *feeds: Any, fill: bool = False, **named: Any) -> Result:
    """Run a model once: ``Session(model)(**feeds)``.

    Parameters
    ----------
    model : ModelProto, bytes or path
        A model in memory, its serialized bytes, or a file.
    *feeds, **named
        By name, in the order of the model's inputs, or one dict of all by name. Use the dict for a
        feed named ``fill``.
    fill : bool
        As for `Session`.

    Returns
    -------
    Result
        The outputs, by name and by position.

    Raises
    ------
    InputError
        A feed does not fit.
    ModelError
        The model cannot be used.
    Exception
        The exception that an op raised, with a note that names node, op and version.

    Examples
    --------
    >>> import numpy as np, pyopnb
    >>> run(
    ...     pyopnb.model([pyopnb.node("Abs", "x", "y")], {"x": "float32[N]"}, "y"),
    ...     x=np.float32([-1, 2]),
    ... )["y"]
    array([1., 2.], dtype=float32)
    """
    return session_for_run(model, fill)(*feeds, **named)


def session_for_run(
    model: Any,
    fill: bool,
    base_dir: str | os.PathLike[str] | None = None,
    providers: Sequence[Any] | None = None,
) -> Session:
    """Make a session for one run, with error messages that fit that call."""
    __tracebackhide__ = True
    try:
        return Session(model, providers=providers, base_dir=base_dir, fill=fill)
    except PyopError as error:
        # The session's advice names its own constructor; here `fill` is an argument of
        # the called function.
        if error.next != FILL:
            raise
        raise messages.moved(error, error.where, "fill=True") from None


def kernel_runner(model: ModelProto) -> Callable[[Mapping[str, Any]], list[Any]]:
    """Make a function that runs a model on the ONNX Runtime kernels, ignoring the registry."""
    data, options = model.SerializeToString(), new_options(threads=1)
    # Falling back from the CPU to the CPU only repeats a failure and prints it.
    session = onnxruntime.InferenceSession(data, options, providers=[CPU], enable_fallback=0)
    types = {info.name: type_of_proto(info.type) for info in model.graph.output}
    if not any(map(needs_ml_dtypes, types.values())):
        infos = model.graph.input
        if not any(needs_ml_dtypes(type_of_proto(info.type)) for info in infos):
            return lambda feeds: list(session.run(None, feeds, QUIET))

    def run_with_ortvalues(feeds: Mapping[str, Any]) -> list[Any]:
        values = {name: _ortvalue(np.asarray(array)) for name, array in feeds.items()}
        results = session.run_with_ort_values(list(types), as_ortvalues(values), QUIET)
        return [
            from_ortvalue(value, kind.dtype)
            for value, kind in zip(results, types.values(), strict=True)
        ]

    return run_with_ortvalues


def _ortvalue(array: np.ndarray) -> Any:
    """Make an OrtValue of an array that onnxruntime does not take."""
    return to_ortvalue(array, dtype(array.dtype)) if array.dtype.isbuiltin == 2 else array


def lone_runner(model: ModelProto, *, fill: bool = False) -> Runner:
    """Make a function for a few short runs of a model, which does not log failures.

    Optimizing a graph of a thousand nodes, or starting a pool of threads, would cost more than such
    runs. So would a plan, which only ops need.
    """
    options = new_options("no", threads=1)
    # Planning memory for each new size takes longer than the few runs that have it.
    options.enable_mem_pattern = False
    session: Any
    try:
        if _is_plain(model):
            data = model.SerializeToString()
            session = onnxruntime.InferenceSession(data, options, [CPU], enable_fallback=0)
        else:
            session = Session(model, options)
    except Exception:
        # Looking for nodes without kernels first would take longer than making the session. An
        # error that filling does not correct is raised again, in our words.
        session = Session(model, options, fill=fill)
    return lambda names, feeds: list(session.run(names, feeds, QUIET))


def _is_plain(model: ModelProto) -> bool:
    """Tell whether ONNX Runtime alone can run a model, with arrays of NumPy dtypes."""
    for info in (*model.graph.input, *model.graph.output):
        if info.type.tensor_type.elem_type >= TensorProto.BFLOAT16:
            return False
    operators: set[tuple[str, str]] = set()
    for scope in (model.graph, *model.functions):
        operators.update((node.domain, node.op_type) for node in nodes_in(scope))
    return not any(registry.find(*operator) for operator in operators)


def derived_session(
    state: SessionState,
    source: ModelSource,
    options: onnxruntime.SessionOptions,
    prepare: Prepare,
) -> Session:
    """Make a session of a model that was derived from another one, with its versions and attrs.

    It stays in these versions where its runs go through its state.
    """
    __tracebackhide__ = True
    config = replace(state.config, options=options, filled=False, derived=True)

    def build() -> SessionState:
        __tracebackhide__ = True
        return build_state(
            config, source, epoch=state.epoch, setting=state.setting, prepare=prepare
        )

    return Session._with_state((), (), build)
