"""Build ONNX Runtime's session of a model, retrying until it knows all dtypes."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import onnxruntime
from onnx import ModelProto

from pyopnb.errors import RunRefused
from pyopnb.models.edit.inline import inline_ops
from pyopnb.models.io import ModelSource
from pyopnb.models.markers import add_markers, remove_markers
from pyopnb.models.nodes import declared_scalars, forget_inferred
from pyopnb.ops.registry import registry
from pyopnb.runtime.callbacks import get_library_path
from pyopnb.runtime.exceptions import call_runtime, keep_owners
from pyopnb.runtime.options import LENT, session_options
from pyopnb.runtime.plan import Plan, is_op, planned_nodes
from pyopnb.runtime.session.config import CPU, SessionConfig
from pyopnb.runtime.session.state import Feeds, SessionState
from pyopnb.runtime.settings import Setting, Settings

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
    """Build ONNX Runtime's session of a model, with the ops of an epoch and the attrs of a setting.

    Parameters
    ----------
    config : SessionConfig
    source : ModelSource
        Its proto is changed.
    epoch : int, optional
        The registry's current one if not given.
    setting : Setting, optional
        Attrs that differ from the model's.
    prepare : callable, optional

    Returns
    -------
    SessionState
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
    # There is nothing more to learn, so the exception of the last attempt stands.
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
        # On ONNX Runtime's own threads, no documented feature says which run a call belongs to.
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
    """Make ONNX Runtime's session; return its exception if the plan can fix the cause."""
    __tracebackhide__ = True
    add_markers(source.proto, [node.numbered for node in plan.nodes])
    options = session_options(config.options, source)
    keywords = dict(config.keywords)
    if config.is_cpu_only:
        # Falling back from the CPU to the CPU only repeats the failure and prints it.
        keywords.setdefault("enable_fallback", 0)

    def make_runtime() -> onnxruntime.InferenceSession:
        __tracebackhide__ = True
        if not plan.nodes and source.given is not None:
            model = source.given
        else:
            options.register_custom_ops_library(get_library_path())
            model = source.proto.SerializeToString()
        return onnxruntime.InferenceSession(
            model, options, config.providers, config.provider_options, **keywords
        )

    try:
        runtime = call_runtime(plan.epoch, make_runtime, (), plan=plan, always=not plan.wanted)
    except Exception as error:
        if plan.wanted:
            return error
        if source.absent is not None and "external" in str(error).lower():
            raise source.absent from error
        _explain(config, source.proto, error)
        raise
    # Weights in memory that is lent to ONNX Runtime have to live as long as its session.
    runtime._lent = LENT.get(options)
    if source.taken_out:
        weakref.finalize(runtime._sess, keep_owners, runtime._lent).atexit = False
    return runtime


def _explain(config: SessionConfig, proto: ModelProto, error: Exception) -> Any:
    """Explain why ONNX Runtime refused, if there is a better message."""
    __tracebackhide__ = True
    if not type(error).__module__.startswith("onnxruntime"):
        return  # an op's own exception says enough
    from pyopnb.models.support.refusal import explain_refusal  # what most sessions never need

    remove_markers(proto)
    explanation = explain_refusal(proto, str(error), filled=config.filled)
    if explanation is not None:
        raise explanation from None
