"""``pyopnb.trace``: one run of a model, in ONNX Runtime or in the ONNX reference implementation."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pyopnb.common import progress, sanitize
from pyopnb.engine import (
    ModelSource,
    argument_checks,
    check_arguments,
    model_files,
    model_functions,
    node_plans,
    one_run,
    runtime_options,
)
from pyopnb.errors import InputError
from pyopnb.traces.recorded_run import Trace
from pyopnb.traces.run import TraceOptions, run_traced
from pyopnb.traces.runs.elsewhere import trace_elsewhere
from pyopnb.traces.runs.environments import is_other_runtime
from pyopnb.traces.runs.reference_run import trace_on_reference

__all__ = ["trace"]


@check_arguments
def trace(
    model: Any,
    /,
    *feeds: Any,
    on: Literal["onnxruntime", "reference"] | str | os.PathLike[str] = "onnxruntime",
    only: str | Sequence[str] | None = None,
    level: Literal["all", "summaries"] = "all",
    bodies: bool = False,
    check: bool = True,
    times: bool = True,
    optimized: bool = True,
    providers: Sequence[Any] | None = None,
    base_dir: str | os.PathLike[str] | None = None,
    fill: bool = False,
    **named: Any,
) -> Trace:
    """Run a model once, and record every named tensor.

    Parameters
    ----------
    model : ModelProto, bytes or path
        A model in memory, its serialized bytes, or a file.
    *feeds, **named
        By name, or in the order of the model's inputs, or one dict of all by name.
    on : str or path
        Where it runs. ``"onnxruntime"``: in ONNX Runtime, like `Session.trace`. ``"reference"``: in
        the ONNX reference implementation with the ops of the registry, node by node in Python;
        nothing is fused or timed, and bodies are not recorded. If ONNX defines an operator only in
        words, such as ``ZipMap`` or operators of ``com.microsoft``, or `reference` refuses the
        node's attrs, the node runs alone in the kernel of ONNX Runtime. ``"onnxruntime==1.25.0"``,
        another build such as ``"onnxruntime-openvino==1.24.1"``, or the path of another Python: in
        that onnxruntime; see the notes.
    only, level, bodies, check, times, optimized
        As for `Session.trace`.
    providers : list of str or of (str, dict), optional
        As for `Session`, in this process; by default, the CPU. A provider that this onnxruntime
        does not have is refused.
    base_dir : path, optional
        The folder of the external data of a model in memory.
    fill : bool
        As for `Session`, if this process's ONNX Runtime runs it. In the reference implementation,
        nothing is missing.

    Returns
    -------
    Trace
        The feeds, then the tensors in the order in which they were computed, by name.

    Raises
    ------
    InputError
        A feed does not fit, ``only`` has a name that no tensor has, the version cannot be
        installed, or the other Python has no onnxruntime.
    ModelError
        The model cannot be used, or not in the other runtime, because it is too new, or has ops
        while pyopnb is not installed there.
    Exception
        The exception that an op or the reference implementation raised.

    Notes
    -----
    The environment of a version is created when it is first used, by uv if that is installed,
    otherwise by venv and pip, in ``runtimes`` in your cache folder (``$PYOPNB_CACHE``, or
    ``~/.cache/pyopnb``). Nothing is installed into the environment of this process. The model, with
    its tensors as outputs, and the feeds are passed as files, and plain onnxruntime runs them.
    Nothing is timed, bodies are not recorded, and tensors without a dtype in NumPy, such as
    bfloat16, are left out. Opset and IR versions that are too new for that runtime are lowered if
    the model means the same in older ones. Nodes with ops run if pyopnb can be imported there.

    Examples
    --------
    >>> import numpy as np, pyopnb
    >>> model = pyopnb.model(
    ...     [pyopnb.node("Exp", "x", "e"), pyopnb.node("Neg", "e", "y")], {"x": "float32[2]"}, "y"
    ... )
    >>> trace(model, np.float32([0, 1]), on="reference")["e"].round(4)
    array([1.    , 2.7183], dtype=float32)
    """
    __tracebackhide__ = True
    # Checked before the model is read, so that a typo costs nothing.
    options = TraceOptions(only, level, bodies, check, times, optimized)
    runtime_options.check_providers(providers, None, available=True)
    if providers is not None and on != "onnxruntime":
        # Elsewhere, all that the build has are used.
        got = argument_checks.describe(providers)
        advice = 'on="onnxruntime"'
        expected = "none on another runtime"
        raise InputError("trace, providers", expected=expected, got=got, next=advice)
    if is_other_runtime(on):
        _refuse("fill", fill, "another Python")
        _refuse("bodies", bodies, "another Python")
        source = model_files.read_model(model, base_dir)
        return trace_elsewhere(source, _feeds_by_name(source, feeds, named), options, on)
    if on == "onnxruntime":
        # It is loaded for a normal run, and for one that records.
        with progress.tracking(progress.LOADED, None, parts=2):
            session = one_run.session_for_run(model, fill, base_dir, providers)
            _check_loaded(providers, session.get_providers())
            by_name = session.state.feeds.by_name(feeds, named)
            return run_traced(session.state, by_name, options, closes=True)
    # The evaluator runs bodies inside one call, and their tensors are out of reach.
    _refuse("bodies", bodies, "the reference implementation")
    source = model_files.read_model(model, base_dir)
    # Local functions that hold ops become nodes of the graph, as in a session.
    source.proto = model_functions.inline_ops(
        source.proto, node_plans.is_op(source.proto, frozenset())
    )
    named_feeds = _feeds_by_name(source, feeds, named)
    return trace_on_reference(source, named_feeds, only, keep=level == "all")


def _check_loaded(providers: Sequence[Any] | None, loaded: Sequence[str]) -> None:
    """Refuse providers that ONNX Runtime left out, such as CUDA without a GPU.

    The CPU would run in their place.
    """
    for provider in providers or ():
        name = provider[0] if isinstance(provider, tuple) else provider
        if name not in loaded:
            expected = "a provider that this machine can load"
            got = f"{name}, which ONNX Runtime left out"
            shown = sanitize(repr([name]))
            advice = f"onnxruntime.InferenceSession(path, providers={shown}), which logs why"
            raise InputError("trace, providers", expected=expected, got=got, next=advice)


def _refuse(parameter: str, value: bool, runner: str) -> None:
    """Refuse options that only ONNX Runtime in this process supports."""
    if value:
        expected = f"False on {runner}"
        advice = 'on="onnxruntime"'
        raise InputError(f"trace, {parameter}", expected=expected, got="True", next=advice)


def _feeds_by_name(
    source: ModelSource, feeds: Sequence[Any], named: Mapping[str, Any]
) -> dict[str, Any]:
    # Up to IR version 3 every weight is also an input.
    initializers = {tensor.name for tensor in source.proto.graph.initializer}
    names = [info.name for info in source.proto.graph.input if info.name not in initializers]
    return one_run.feeds_by_name(names, feeds, named)
