"""One run of a model, in a session that nobody keeps."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import onnxruntime
from onnx import ModelProto

from pyopnb.errors import InputError, PyopError
from pyopnb.models.edit.inline import inline_ops
from pyopnb.models.io import ModelSource, read_model
from pyopnb.models.versions import FILL
from pyopnb.ops.arguments import check_arguments
from pyopnb.ops.messages import closest, hide_internal_frames, moved, sanitize
from pyopnb.ops.progress import Progress
from pyopnb.ops.result import Result
from pyopnb.runtime.built import CPU
from pyopnb.runtime.feeds import feeds_by_name
from pyopnb.runtime.options import QUIET
from pyopnb.runtime.plan import is_op
from pyopnb.runtime.session import Session
from pyopnb.runtime.trace.run import TraceOptions, run_traced
from pyopnb.runtime.trace.trace import Trace

__all__ = ["kernel_runner", "run", "run_each", "run_kernels", "trace"]


@hide_internal_frames
@check_arguments
def run(model: Any, /, *feeds: Any, fill: bool = False, **named: Any) -> Result:
    """Run a model once: ``Session(model)(**feeds)``.

    Parameters
    ----------
    model : ModelProto, bytes or path
    *feeds, **named
        By name, or in the order of the model's inputs, or one dict of all by name: also for a feed that is called ``fill``.
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
        Whatever an op raised, with a note that names node, op and version.

    Examples
    --------
    >>> import numpy as np, pyopnb
    >>> run(pyopnb.model([pyopnb.node("Abs", "x", "y")], {"x": "float32[N]"}, "y"), x=np.float32([-1, 2]))["y"]
    array([1., 2.], dtype=float32)
    """
    return _session(model, fill)(*feeds, **named)


def _session(model: Any, fill: bool, base_dir: str | os.PathLike[str] | None = None) -> Session:
    """A session for one run, whose errors advise what is typed for that run."""
    __tracebackhide__ = True
    try:
        return Session(model, base_dir=base_dir, fill=fill)
    except PyopError as error:
        if error.next != FILL:
            raise
        raise moved(error, error.where, "fill=True") from None


@hide_internal_frames
@check_arguments
def trace(
    model: Any,
    /,
    *feeds: Any,
    on: str = "onnxruntime",
    only: str | Sequence[str] | None = None,
    level: str = "all",
    bodies: bool = False,
    check: bool = True,
    times: bool | int = True,
    optimised: bool = True,
    progress: Progress | bool = False,
    base_dir: str | os.PathLike[str] | None = None,
    fill: bool = False,
    **named: Any,
) -> Trace:
    """Run a model once, and look at every named tensor.

    Parameters
    ----------
    model : ModelProto, bytes or path
    *feeds, **named
        By name, or in the order of the model's inputs, or one dict of all by name.
    on : {"onnxruntime", "reference"}
        What runs it: ONNX Runtime, as `Session.trace` does, or ONNX's reference implementation with the ops of the registry,
        node by node in Python: nothing is fused, nothing is timed, and it looks into no bodies. A node whose operator ONNX
        defines in words only, as ``ZipMap`` or those of ``com.microsoft``, runs in ONNX Runtime's kernel, alone.
    only, level, bodies, check, times, optimised, progress
        As for `Session.trace`.
    base_dir : path, optional
        The folder of the external data of a model in memory.
    fill : bool
        As for `Session`; on the reference implementation, nothing is missing.

    Returns
    -------
    Trace

    Raises
    ------
    InputError
        A feed does not fit, or a name in ``only`` is that of no tensor.
    ModelError
        The model cannot be used.
    Exception
        Whatever an op, or the reference implementation, raised.

    Examples
    --------
    >>> import numpy as np, pyopnb
    >>> model = pyopnb.model([pyopnb.node("Exp", "x", "e"), pyopnb.node("Neg", "e", "y")], {"x": "float32[2]"}, "y")
    >>> trace(model, np.float32([0, 1]), on="reference")["e"].round(4)
    array([1.    , 2.7183], dtype=float32)
    """
    __tracebackhide__ = True
    options = TraceOptions(only, level, bodies, check, times, optimised, progress)
    if on == "onnxruntime":
        session = _session(model, fill, base_dir)
        return run_traced(session, session._built, session._feeds.by_name(feeds, named), options)
    if on != "reference":
        next_ = closest(str(on), ("onnxruntime", "reference"))
        got = sanitize(repr(on))
        raise InputError(
            "trace, on",
            expected="'onnxruntime' or 'reference'",
            got=got,
            next=next_ and repr(next_),
        )
    if bodies:
        raise InputError(
            "trace, bodies",
            expected="False on the reference implementation",
            got="True",
            next='on="onnxruntime"',
        )
    return _trace_on_reference(read_model(model, base_dir), feeds, named, options)


def _trace_on_reference(
    source: ModelSource, feeds: Sequence[Any], named: Mapping[str, Any], options: TraceOptions
) -> Trace:
    __tracebackhide__ = True
    from pyopnb.runtime.trace.reference import trace_on_reference

    source.proto = inline_ops(source.proto, is_op(source.proto, frozenset()))
    initializers = {tensor.name for tensor in source.proto.graph.initializer}
    inputs = [info.name for info in source.proto.graph.input if info.name not in initializers]
    return trace_on_reference(
        source, feeds_by_name(inputs, feeds, named), options.only, keep=options.level == "all"
    )


def run_kernels(model: ModelProto, feeds: Mapping[str, Any]) -> list[Any]:
    """Run a model once through ONNX Runtime's own kernels, also where the registry has ops of their names."""
    return kernel_runner(model)(feeds)


def kernel_runner(model: ModelProto) -> Callable[[Mapping[str, Any]], list[Any]]:
    """A function that runs a model through ONNX Runtime's own kernels, also where the registry has ops of their names."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=[CPU], enable_fallback=0
    )
    return lambda feeds: list(session.run(None, feeds, QUIET))


def run_each(
    model: ModelProto, feeds: Sequence[Mapping[str, Any]], level: str = "all"
) -> list[dict[str, Any]]:
    """Run a model on several feeds in one session; what it gives by name.

    Parameters
    ----------
    model : ModelProto
    feeds : sequence of mapping
    level : str
        Of ONNX Runtime's optimisations: ``"all"``, ``"no"``, ``"basic"`` …
    """
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    name = "ORT_DISABLE_ALL" if level == "no" else f"ORT_ENABLE_{level.upper()}"
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, name)
    session = Session(model, options, [CPU])
    names = [info.name for info in model.graph.output]
    return [dict(zip(names, session.run(names, one), strict=True)) for one in feeds]
