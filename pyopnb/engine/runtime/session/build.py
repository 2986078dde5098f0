"""Build the ONNX Runtime session of a model, retrying until it knows all dtypes."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import onnxruntime
from onnx import ModelProto

from pyopnb.common import hand_downs, sanitize
from pyopnb.engine.models.external_files import weight_bytes
from pyopnb.engine.models.markers import add_markers, remove_markers
from pyopnb.engine.models.model_files import ModelSource
from pyopnb.engine.models.model_functions import inline_ops
from pyopnb.engine.models.protos import declared_scalars, forget_inferred
from pyopnb.engine.ops.instantiate import add_note
from pyopnb.engine.ops.registry import registry
from pyopnb.engine.runtime.callbacks import get_library_path
from pyopnb.engine.runtime.exceptions import call_runtime, is_of_runtime, keep_owners
from pyopnb.engine.runtime.interruptible import LARGE, call_interruptibly, loading
from pyopnb.engine.runtime.node_plans import Plan, is_op, planned_nodes
from pyopnb.engine.runtime.runtime_options import (
    CPU,
    LENT,
    copied_options,
    lock_of,
    session_options,
    writes_files,
)
from pyopnb.engine.runtime.session.config import SessionConfig
from pyopnb.engine.runtime.session.state import Feeds, SessionState
from pyopnb.engine.runtime.settings import Setting, Settings
from pyopnb.errors import RunRefused

__all__ = ["Prepare", "build_state"]

Prepare = Callable[[Plan, ModelProto], None]
"""Changes a plan, and the session's own copy of the model, before each attempt to build."""


def build_state(
    config: SessionConfig,
    source: ModelSource,
    *,
    epoch: int | None = None,
    setting: Setting | None = None,
    prepare: Prepare | None = None,
) -> SessionState:
    """Build the ONNX Runtime session of a model, with the ops and attrs of an epoch and a setting.

    Parameters
    ----------
    source : ModelSource
        Its proto is changed.
    epoch : int, optional
        The registry's current one if not given.
    setting : Setting, optional
        Attrs that differ from the model's.
    """
    __tracebackhide__ = True
    plan = _plan(config, source, registry.epoch if epoch is None else epoch, setting or Setting())
    runtime: onnxruntime.InferenceSession | BaseException
    while True:
        if prepare is not None:
            prepare(plan, source.proto)
        runtime = _attempt(config, source, plan)
        # Each attempt shows which dtypes have to be declared before ONNX Runtime infers.
        if not plan.learn():
            break
        # Its weights are in memory.
        del runtime
    # There is nothing more to learn, so the exception of the last attempt counts.
    if isinstance(runtime, BaseException):
        raise runtime
    return SessionState(
        config=config,
        runtime=runtime,
        feeds=Feeds(runtime, declared_scalars(source.proto)),
        ops=tuple(sorted({node.op.name for node in plan.nodes})),
        kernels=plan.kernels,
        settings=plan.settings,
        epoch=plan.epoch,
        seen=plan.epoch,
        folder=source.folder,
        taken_out=source.taken_out,
        only_cpu=runtime.get_providers() == [CPU],
        is_large=runtime._megabytes >= LARGE,
    )


def _plan(config: SessionConfig, source: ModelSource, epoch: int, setting: Setting) -> Plan:
    """Plan which nodes run through which ops, with the attrs that were changed."""
    __tracebackhide__ = True
    forget_inferred(source.proto)
    source.proto = inline_ops(source.proto, is_op(source.proto, config.modules, config.ops))
    nodes = planned_nodes(source.proto, config.modules, epoch, config.ops)
    # A session that is built again keeps what `set_attrs` has changed.
    for number, values in setting.changes.items():
        nodes[number].values.update(values)
    if config.is_parallel and nodes:
        # On the ONNX Runtime threads, no documented feature says which run a call belongs to.
        raise RunRefused(
            "session with ExecutionMode.ORT_PARALLEL",
            expected="a model without Python ops, or ORT_SEQUENTIAL",
            got=f"a model with {nodes[0].op.name}",
            next="options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL",
        )
    return Plan(nodes, epoch, Settings(Setting({}, setting.changes, setting.model)))


def _attempt(
    config: SessionConfig, source: ModelSource, plan: Plan
) -> onnxruntime.InferenceSession | BaseException:
    """Make the ONNX Runtime session; return its exception if the plan can fix the cause."""
    __tracebackhide__ = True
    add_markers(source.proto, [node.numbered for node in plan.nodes])
    options = session_options(config.options, source)
    keywords = dict(config.keywords)
    if config.is_cpu_only:
        # Falling back from the CPU to the CPU only repeats the failure and prints it.
        keywords.setdefault("enable_fallback", 0)

    def make_runtime(model: bytes | str) -> onnxruntime.InferenceSession:
        __tracebackhide__ = True
        if model is not source.given:
            options.register_custom_ops_library(get_library_path())
        # A trace may be changing options that cannot be copied, in another thread.
        with lock_of(options):
            return _runtime_of(model, options, config, keywords)

    def load_again(proto: ModelProto) -> str:
        model = proto.SerializeToString()
        try:
            call_runtime(plan.epoch, make_runtime, (model,), plan=plan)
        except Exception as error:  # exceptions of ONNX Runtime have no common base class
            return str(error)
        return ""

    given = source.given
    if plan.nodes or given is None:
        given = source.proto.SerializeToString()

    def load() -> onnxruntime.InferenceSession:
        __tracebackhide__ = True
        return call_runtime(plan.epoch, make_runtime, (given,), plan=plan, always=not plan.wanted)

    try:
        megabytes = weight_bytes(source.proto) // 1_000_000
        # On another thread, as of a live output, there is no Ctrl-C, and no place for a bar.
        if megabytes >= LARGE and threading.current_thread() is threading.main_thread():
            runtime = _load_interruptibly(load, options, megabytes)
        else:
            runtime = load()
        runtime._megabytes = megabytes
    except Exception as error:
        if plan.wanted:
            return error
        if source.absent is not None and "external" in str(error).lower():
            raise source.absent from error
        _explain(config, source.proto, error, None if writes_files(options) else load_again)
        raise
    # Weights in memory that is lent to ONNX Runtime have to live as long as its session.
    runtime._lent = LENT.get(options)
    if source.taken_out:
        weakref.finalize(runtime._sess, keep_owners, runtime._lent).atexit = False
    return runtime


def _load_interruptibly(
    load: Callable[[], onnxruntime.InferenceSession],
    options: onnxruntime.SessionOptions,
    megabytes: int,
) -> onnxruntime.InferenceSession:
    """Load a large model, show how far it is, and stop at Ctrl-C."""
    __tracebackhide__ = True
    try:
        with loading(megabytes) as beat:
            cancel = partial(options.set_load_cancellation_flag, True)
            return call_interruptibly(load, cancel, beat)
    finally:
        # Options can make other sessions.
        options.set_load_cancellation_flag(False)


_DROPPED = "Failed to find node output or a constant initializer producing output: "
_DROPPING = ("MatMul_BatchNormalization_Fusion", "EmbedLayerNormFusion")
"""Optimizers of ONNX Runtime that remove a tensor although it is an output of the model."""


def _runtime_of(
    model: Any, options: onnxruntime.SessionOptions, config: SessionConfig, keywords: dict[str, Any]
) -> onnxruntime.InferenceSession:
    """Make the ONNX Runtime session, without the optimizers that drop one of its outputs.

    Its ``_left_out`` says which they are.
    """

    def make(
        disabled: Sequence[str], left_out: str, options: onnxruntime.SessionOptions = options
    ) -> onnxruntime.InferenceSession:
        names = [*(keywords.get("disabled_optimizers") or ()), *disabled]
        more = {**keywords, "disabled_optimizers": names} if names else keywords
        runtime = onnxruntime.InferenceSession(
            model, options, config.providers, config.provider_options, **more
        )
        runtime._left_out = left_out
        return runtime

    try:
        return make((), "")
    except RuntimeError as error:
        _, found, output = str(error).partition(_DROPPED)
        if not found:
            raise
    reason = f"would drop output {sanitize(output.rstrip('.'))}"
    for names in ((_DROPPING[0],), (_DROPPING[1],), _DROPPING):
        try:
            return make(names, f"{' and '.join(names)}, which {reason}")
        except RuntimeError as error:
            if _DROPPED not in str(error):
                raise
    # Only without optimizations can no other one do so.
    unoptimized = copied_options(options)
    unoptimized.register_custom_ops_library(get_library_path())
    unoptimized.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return make((), f"optimizations, which {reason}", unoptimized)


def _explain(
    config: SessionConfig,
    proto: ModelProto,
    error: Exception,
    load_again: Callable[[ModelProto], str] | None,
) -> None:
    """Explain why ONNX Runtime refused, or name the node that its message is about."""
    __tracebackhide__ = True
    if not is_of_runtime(error):
        return  # an op's own exception says enough
    marked = ModelProto()
    marked.CopyFrom(proto)
    remove_markers(proto)
    explanation = hand_downs.handed_down("refusal")(proto, str(error), filled=config.filled)
    if explanation is not None:
        raise explanation from None
    where = hand_downs.handed_down("failing_node")(marked, str(error), load_again)
    if where is not None:
        add_note(error, f"in {where}")
