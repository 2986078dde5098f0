"""The states of a session: ready or outdated, with an ONNX Runtime session of its own or in that of another."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import onnxruntime
from onnx import ModelProto

from pyopnb.errors import RunRefused
from pyopnb.models.io import ModelSource, read_model
from pyopnb.models.markers import remove_markers
from pyopnb.ops.registry import registry
from pyopnb.runtime import _bridge
from pyopnb.runtime.exceptions import call_runtime
from pyopnb.runtime.feeds import Feeds, check_output_names
from pyopnb.runtime.options import QUIET, SHRINKAGE, check_run_options, shrinks_arena
from pyopnb.runtime.ortvalues import from_ortvalue, texts_to_ortvalue
from pyopnb.runtime.session.config import SessionConfig
from pyopnb.runtime.settings import Setting, Settings, numbered

if TYPE_CHECKING:
    from pyopnb.runtime.kernel import Kernel

__all__ = ["SessionState", "SharedState"]


@dataclass(frozen=True, eq=False)
class SessionState:
    """What a session runs in: ONNX Runtime's session and all that belongs to it.

    A `Session` has one state at a time and goes to another by one assignment, so that a run, an interrupt or another thread
    meets the old state or the new one. A state is *ready* when it serves the registry's newest versions. When it is not,
    `advance` makes the next one, unless outputs have changed: then the session is built again from its `config`. The state
    of a session that `Session.with_attrs` made is a `SharedState`.

    Attributes
    ----------
    config : SessionConfig
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
        Whether ONNX Runtime runs all of it on the CPU.
    """

    config: SessionConfig
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

    @property
    def setting(self) -> Setting:
        """Return the attrs that serve its runs."""
        return self.settings.at(self.epoch)

    def values(self, kernel: Kernel) -> dict[str, Any]:
        """Return the attrs that the next run uses at a node."""
        return kernel.values_in(self.setting)[1]

    @property
    def is_ready(self) -> bool:
        """Tell whether the state serves the registry's newest versions."""
        return self.seen == registry.epoch

    def advance(self) -> tuple[SessionState, str]:
        """Prepare the next state, and name the outputs whose change forces a rebuild."""
        __tracebackhide__ = True
        # Read once; later definitions wait for the next run.
        epoch = registry.epoch
        changes = self.update_kernels(epoch)
        return replace(self, epoch=epoch, seen=epoch), changes

    def with_setting(self, setting: Setting) -> SessionState:
        """Put prepared attrs into force from the next run on."""
        epoch = registry.begin_epoch()
        # No run begins in that epoch before the change is whole, as the caller has the session's lock.
        self.settings.begin(epoch, setting)
        # Another thread may have defined an op before that epoch, so the new state is not ready.
        return replace(self, epoch=epoch, seen=-1)

    def update_kernels(self, epoch: int) -> str:
        """Prepare the kernels for an epoch, and name those whose outputs changed."""
        __tracebackhide__ = True
        changes = {kernel.update(epoch) for kernel in list(self.kernels)}
        return "; ".join(sorted(change for change in changes if change is not None))

    def source(self) -> ModelSource:
        """Reread the model as the session runs it."""
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
        """Raise if an op still holds inputs whose memory the run is about to free."""
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
        """Run in these versions and with these attrs; see `Session.run`."""
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
        """Run with dtypes that onnxruntime has no arrays for."""
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
            from_ortvalue(value, tensor_type.dtype if tensor_type else None)
            for value, tensor_type in zip(outputs, types, strict=True)
        ]


# ---- a state in the ONNX Runtime session of another session -------------------------------------


class _Lease:
    """The private epochs in which a session runs in the ONNX Runtime session of another."""

    def __init__(self, base: Any, settings: Settings) -> None:
        self.base = base
        self._settings = settings
        self._epochs: tuple[int, ...] = ()

    def begin(self, setting: Setting) -> int:
        """Begin an epoch with these attrs."""
        # The previous one stays: a run on another thread may have asked for it, and not have begun.
        oldest = _bridge.oldest_epoch()
        self._end([epoch for epoch in self._epochs[:-1] if epoch < oldest])
        epoch = registry.begin_private_epoch()
        self._epochs = (*self._epochs, epoch)
        self._settings.private[epoch] = setting
        return epoch

    def end(self) -> None:
        """Release all epochs."""
        self._end(self._epochs)

    def _end(self, epochs: Sequence[int]) -> None:
        for epoch in epochs:
            self._settings.private.pop(epoch, None)
        self._epochs = tuple(epoch for epoch in self._epochs if epoch not in epochs)


@dataclass(frozen=True, eq=False)
class SharedState(SessionState):
    """The state of a session with attrs of its own that runs in the ONNX Runtime session of another.

    A run is told apart from the other session's by its epoch, which is never the registry's current one. A rebuild gives
    the session an ONNX Runtime session of its own; from then on it shares nothing.

    Attributes
    ----------
    lease : Lease
    """

    lease: _Lease

    @classmethod
    def of(cls, base: Any) -> SharedState:
        """Share what a session runs in, beginning with its attrs.

        Parameters
        ----------
        base : Session
        """
        state = base._update()
        # Under numbers of their own, so that no instance is the other session's.
        values = {kernel.number: numbered(state.values(kernel)) for kernel in state.kernels}
        return cls._with_lease(base, state, replace(state.setting, values=values))

    @classmethod
    def _with_lease(cls, base: Any, state: SessionState, setting: Setting) -> SharedState:
        lease = _Lease(base, state.settings)
        fields = {name: getattr(state, name) for name in SessionState.__dataclass_fields__}
        return cls(**{**fields, "epoch": lease.begin(setting), "seen": -1}, lease=lease)

    @property
    def is_ready(self) -> bool:
        """Tell whether it serves the newest versions, and the other session was not rebuilt."""
        return self.seen == registry.epoch and self.runtime is self.lease.base._state.runtime

    def advance(self) -> tuple[SessionState, str]:
        """Make the next state ready, and say which outputs changed."""
        __tracebackhide__ = True
        state = self
        lease = self.lease
        seen = registry.epoch
        base_state = lease.base._update()
        if base_state.runtime is not self.runtime:  # the other session was rebuilt
            state = self._with_lease(lease.base, base_state, self.setting)
        elif any(kernel.op.current.epoch > self.epoch for kernel in list(self.kernels)):
            state = replace(self, epoch=lease.begin(self.setting))
        changes = state.update_kernels(state.epoch)
        # An epoch of its own makes the next one the registry's; what is defined from then on needs another.
        return replace(state, seen=max(seen, state.epoch + 1)), changes

    def with_setting(self, setting: Setting) -> SharedState:
        """Put prepared attrs into force from the next run on."""
        return replace(self, epoch=self.lease.begin(setting), seen=-1)
