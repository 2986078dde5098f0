"""Sessions with attrs of their own that run in the ONNX Runtime session of another."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pyopnb.ops.registry import registry
from pyopnb.runtime import _bridge
from pyopnb.runtime.session.session import Session
from pyopnb.runtime.session.state import Built
from pyopnb.runtime.settings import Setting, Settings, numbered

__all__ = ["Lease", "SharedSession"]


class Lease:
    """The private epochs in which a session runs in the ONNX Runtime session of another."""

    def __init__(self, base: Session, settings: Settings) -> None:
        self.base = base
        self._settings = settings
        self._epochs: tuple[int, ...] = ()
        self.finalizer: Any = None  # ends it with the session

    def begin(self, setting: Setting) -> int:
        """A new epoch, in which these attrs serve."""
        # The previous one stays: a run on another thread may have asked for it, and not have begun.
        oldest = _bridge.oldest_epoch()
        self._end([epoch for epoch in self._epochs[:-1] if epoch < oldest])
        epoch = registry.begin_private_epoch()
        self._epochs = (*self._epochs, epoch)
        self._settings.private[epoch] = setting
        return epoch

    def end(self) -> None:
        """Release them all."""
        self._end(self._epochs)

    def _end(self, epochs: Sequence[int]) -> None:
        for epoch in epochs:
            self._settings.private.pop(epoch, None)
        self._epochs = tuple(epoch for epoch in self._epochs if epoch not in epochs)


class SharedSession(Session):
    """What `Session.with_attrs` returns.

    A run is told apart from the other session's by its epoch, which is never the registry's current one. Whatever rebuilds
    this session gives it an ONNX Runtime session of its own; from then on it shares nothing.
    """

    def __init__(self, base: Session) -> None:
        self._prepare()
        self.filled, self.lowered = base.filled, base.lowered
        built = base._update()
        # Numbers of their own, so that no instance is the other session's.
        values = {kernel.number: numbered(built.values(kernel)) for kernel in built.kernels}
        self._share(base, built, replace(built.setting, values=values))
        self._update()

    def _share(self, base: Session, built: Built, setting: Setting) -> Built:
        """Run in what the other session has built, once the kernels are ready for it."""
        lease = Lease(base, built.settings)
        lease.finalizer = weakref.finalize(self, lease.end)
        lease.finalizer.atexit = False
        return self._swap(replace(built, lease=lease, epoch=lease.begin(setting), seen=-1))

    def _swap(self, built: Built) -> Built:
        before = vars(self).get("_built")
        super()._swap(built)
        if before is not None and before.lease is not None and before.lease is not built.lease:
            before.lease.finalizer()
        return built

    def _update(self) -> Built:
        __tracebackhide__ = True
        built = self._built
        lease = built.lease
        if lease is None or (
            built.seen == registry.epoch and built.runtime is lease.base._built.runtime
        ):
            return super()._update()
        return _bridge.locked(self._updating, self._catch_up)  # type: ignore[no-any-return]

    def _catch_up(self) -> Built:
        __tracebackhide__ = True
        built = self._built
        lease = built.lease
        if lease is None:
            return super()._catch_up()
        seen, shared = registry.epoch, lease.base._update()
        if shared.runtime is not built.runtime:  # it was rebuilt
            built = self._share(lease.base, shared, built.setting)
        elif any(kernel.op.current.epoch > built.epoch for kernel in list(built.kernels)):
            built = replace(built, epoch=lease.begin(built.setting))
        if changes := built.changes(built.epoch):
            return self._rebuild(built, built.setting, changes)
        # An epoch of its own makes the next one the registry's; what is defined from then on needs another.
        return self._swap(replace(built, seen=max(seen, built.epoch + 1)))

    def _adopt(self, built: Built, setting: Setting) -> None:
        if built.lease is None:
            super()._adopt(built, setting)
        else:
            self._swap(replace(built, epoch=built.lease.begin(setting), seen=-1))
