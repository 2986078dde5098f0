"""What a session runs in: ONNX Runtime's session and all that belongs to it, built whole and swapped whole."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import onnxruntime
from onnx import ModelProto

from pyopnb.errors import RunRefused
from pyopnb.models.edit.inline import inline_ops
from pyopnb.models.io import ModelSource, read_model
from pyopnb.models.markers import add_markers, remove_markers
from pyopnb.models.nodes import declared_scalars, forget_inferred
from pyopnb.ops.op_sources import OpSource
from pyopnb.ops.registry import registry
from pyopnb.runtime import _bridge
from pyopnb.runtime.callbacks import get_library_path
from pyopnb.runtime.exceptions import call_runtime, keep_owners
from pyopnb.runtime.feeds import Feeds, check_output_names
from pyopnb.runtime.options import (
    LENT,
    QUIET,
    SHRINKAGE,
    check_run_options,
    session_options,
    shrinks_arena,
)
from pyopnb.runtime.ortvalues import from_ortvalue, texts_to_ortvalue
from pyopnb.runtime.plan import Plan, is_op, planned_nodes
from pyopnb.runtime.settings import Setting, Settings

if TYPE_CHECKING:
    from pyopnb.runtime.kernel import Kernel
    from pyopnb.runtime.session.shared import Lease

__all__ = ["CPU", "Built", "Prepare", "Recipe"]

CPU = "CPUExecutionProvider"

Prepare = Callable[[Plan, ModelProto], None]
"""Changes a plan, and the session's own copy of the model, before each attempt to build."""


@dataclass(frozen=True, eq=False)
class Recipe:
    """How the user wants a session to be built.

    Attributes
    ----------
    options, providers, provider_options, keywords
        As ``InferenceSession`` takes them.
    modules : frozenset of str
        Modules that the retired PyOp's nodes may have their classes from.
    filled : bool
        Whether stand-ins run what the runtime lacks, as far as there are some.
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

    def build(
        self,
        source: ModelSource,
        *,
        epoch: int | None = None,
        setting: Setting | None = None,
        prepare: Prepare | None = None,
    ) -> Built:
        """ONNX Runtime's session of a model, with the ops as they are in an epoch and the attrs of a setting.

        Parameters
        ----------
        source : ModelSource
            Its proto is changed.
        epoch : int, optional
            The registry's current one if not given.
        setting : Setting, optional
            Attrs that differ from the model's.
        prepare : callable, optional

        Returns
        -------
        Built
        """
        __tracebackhide__ = True
        epoch = registry.epoch if epoch is None else epoch
        before = setting or Setting()
        forget_inferred(source.proto)
        source.proto = inline_ops(source.proto, is_op(source.proto, self.modules, self.ops))
        settings = Settings(Setting({}, before.changes, before.model))
        plan = Plan(planned_nodes(source.proto, self.modules, epoch, self.ops), epoch, settings)
        for number, values in before.changes.items():
            plan.nodes[number].values.update(values)
        if self._is_parallel and plan.nodes:
            # On a thread of ONNX Runtime's own, nothing that is promised says which run a call belongs to.
            raise RunRefused(
                "session with ExecutionMode.ORT_PARALLEL",
                expected="a model without Python ops, or ORT_SEQUENTIAL",
                got=f"a model with {plan.nodes[0].op.name}",
                next="options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL",
            )
        if prepare is not None:
            prepare(plan, source.proto)
        built = self._try(source, plan)
        while plan.learn():
            if prepare is not None:
                prepare(plan, source.proto)
            built = self._try(source, plan)
        if isinstance(built, BaseException):
            raise built
        return Built(
            recipe=self,
            runtime=built,
            feeds=Feeds(built, declared_scalars(source.proto)),
            ops=tuple(sorted({node.op.name for node in plan.nodes})),
            kernels=plan.kernels,
            settings=plan.settings,
            epoch=epoch,
            seen=epoch,
            folder=source.folder,
            taken_out=source.taken_out,
            only_cpu=built.get_providers() == [CPU],
        )

    @property
    def _is_parallel(self) -> bool:
        return (
            self.options is not None
            and self.options.execution_mode == onnxruntime.ExecutionMode.ORT_PARALLEL
        )

    def _try(self, source: ModelSource, plan: Plan) -> onnxruntime.InferenceSession | BaseException:
        """ONNX Runtime's session; where it refused and the plan now says why, the exception."""
        __tracebackhide__ = True
        add_markers(source.proto, [node.numbered for node in plan.nodes])
        options = session_options(self.options, source)
        keywords = dict(self.keywords)
        if not self.providers or list(self.providers) == [CPU]:
            # Falling back from the CPU to the CPU only repeats the failure and prints it.
            keywords.setdefault("enable_fallback", 0)

        def build() -> onnxruntime.InferenceSession:
            __tracebackhide__ = True
            if not plan.nodes and source.given is not None:
                return onnxruntime.InferenceSession(
                    source.given, options, self.providers, self.provider_options, **keywords
                )
            options.register_custom_ops_library(get_library_path())
            data = source.proto.SerializeToString()
            return onnxruntime.InferenceSession(
                data, options, self.providers, self.provider_options, **keywords
            )

        try:
            session = call_runtime(plan.epoch, build, (), plan=plan, always=not plan.wanted)
            session._lent = LENT.get(options)
            if source.taken_out:
                weakref.finalize(session._sess, keep_owners, session._lent).atexit = False
            return session
        except Exception as error:
            if plan.wanted:
                return error
            if source.absent is not None and "external" in str(error).lower():
                raise source.absent from error
            self._explain(source.proto, error)
            raise

    def _explain(self, proto: ModelProto, error: Exception) -> None:
        """Raise a message of ours for what ONNX Runtime refused, if it is known; ONNX Runtime's error is its context."""
        __tracebackhide__ = True
        if not type(error).__module__.startswith("onnxruntime"):
            return  # an op's own
        from pyopnb.models.support.refusal import explain_refusal  # what most sessions never need

        remove_markers(proto)
        known = explain_refusal(proto, str(error), filled=self.filled)
        if known is not None:
            raise known from None


@dataclass(frozen=True, eq=False)
class Built:
    """An ONNX Runtime session, whole. A `Session` has one at a time; a rebuild makes another and swaps it by one assignment.

    Attributes
    ----------
    recipe : Recipe
    runtime : onnxruntime.InferenceSession
    feeds : Feeds
        What it takes and gives.
    ops : tuple of str
        The ops that it uses.
    kernels : collection of Kernel
        Of its nodes that run through ops.
    settings : Settings
        Their attrs; the kernels have the same object.
    epoch : int
        The versions and attrs of that epoch serve its runs.
    seen : int
        The registry's epoch for which it is ready, -1 for none.
    folder, taken_out
        Where its external data is, and what is in no file; see `ModelSource`.
    only_cpu : bool
    lease : Lease or None
        Where the ONNX Runtime session is another session's.
    """

    recipe: Recipe
    runtime: Any
    feeds: Feeds
    ops: tuple[str, ...]
    kernels: Collection[Kernel]
    settings: Settings
    epoch: int
    seen: int
    folder: str | None
    taken_out: dict[str, Any]
    only_cpu: bool
    lease: Lease | None = None

    @property
    def setting(self) -> Setting:
        """The attrs that serve its runs."""
        return self.settings.at(self.epoch)

    def values(self, kernel: Kernel) -> dict[str, Any]:
        """The attrs that the next run uses at a node."""
        return kernel.values_in(self.setting)[1]

    def changes(self, epoch: int) -> str:
        """Make the kernels ready for an epoch; what changed, where ONNX Runtime was told of other outputs."""
        __tracebackhide__ = True
        return "; ".join(
            sorted({change for kernel in list(self.kernels) if (change := kernel.update(epoch))})
        )

    def source(self) -> ModelSource:
        """The model as it is run, read again."""
        if self.runtime._model_bytes is None:
            return read_model(self.runtime._model_path, self.folder, absent=True)
        proto = ModelProto.FromString(self.runtime._model_bytes)
        remove_markers(proto)
        return ModelSource(proto, self.folder, self.taken_out)

    def call(
        self,
        function: Callable[..., Any],
        arguments: tuple[Any, ...],
        feeds: Any = None,
        *,
        options: Any = QUIET,
    ) -> Any:
        """Call ONNX Runtime as one run; see `call_runtime`."""
        __tracebackhide__ = True
        owners = None if feeds is None else (feeds, self.runtime._lent)
        if options is not QUIET:
            check_run_options(options)
        shrinks = options is not QUIET and shrinks_arena(options)
        if shrinks:
            self._refuse_shrinking()
        return call_runtime(self.epoch, function, arguments, feeds=owners, shrinks=shrinks)

    def _refuse_shrinking(self) -> None:
        """Raise where an op has kept inputs, whose memory the run would give back."""
        __tracebackhide__ = True
        keeping = set(_bridge.kept_by())
        kernel = next((kernel for kernel in list(self.kernels) if id(kernel) in keeping), None)
        if kernel is not None:
            raise RunRefused(
                f"run with {SHRINKAGE}",
                expected="no input that an op kept in an earlier run, as its memory would be given back",
                got=f"one that {kernel.where} kept and that is still there",
                next="release it, and the exception that told of it, or run without that option",
            )

    def run(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        run_options: Any = None,
    ) -> list[Any]:
        """A run in these versions and with these attrs; see `Session.run`."""
        __tracebackhide__ = True
        feeds, with_ortvalues = self.feeds.check(input_feed)
        options = QUIET if run_options is None else run_options
        runtime = self.runtime
        try:
            names = output_names or self.feeds.output_names
            if with_ortvalues or self.feeds.needs_ortvalues(output_names):
                return self._run_with_ortvalues(names, feeds, options)
            # InferenceSession.run checks the names again, and falls back to other providers.
            function = (
                runtime._sess.run if self.only_cpu and not runtime._enable_fallback else runtime.run
            )
            return self.call(function, (names, feeds, options), feeds, options=options)  # type: ignore[no-any-return]
        except Exception:
            check_output_names(
                () if output_names is None else output_names, self.feeds.output_names
            )  # ONNX Runtime names no other
            raise

    def _run_with_ortvalues(
        self, names: Sequence[str], feeds: dict[str, Any], options: Any
    ) -> list[Any]:
        """A run with dtypes that onnxruntime has no arrays for."""
        __tracebackhide__ = True
        values = {}
        for name, value in feeds.items():
            if not isinstance(value, np.ndarray):
                values[name] = value
            elif value.dtype.kind in "OUT":
                values[name] = texts_to_ortvalue(value)
            else:
                values[name] = onnxruntime.OrtValue.ortvalue_from_numpy(value)
        outputs = self.call(
            self.runtime.run_with_ort_values,
            (list(names), values, options),
            values,
            options=options,
        )
        types = [self.feeds.outputs.get(name) for name in names]
        return [
            from_ortvalue(value, kind.dtype if kind else None)
            for value, kind in zip(outputs, types, strict=True)
        ]
