"""Sessions with attrs of their own that run in the ONNX Runtime session of another."""

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Callable, Collection, Sequence
from typing import Any

from pyopnb.ops.registry import registry
from pyopnb.runtime import _bridge
from pyopnb.runtime.kernel import Kernel
from pyopnb.runtime.session import Session

__all__ = ["SharedSession"]

_numbers = itertools.count(-1, -1)  # of settings; negative, because those of the kernel itself have epochs


class _Lease:
    """The private epochs in which a session runs kernels that it does not own."""

    def __init__(self, kernels: Collection[Kernel]) -> None:
        self.kernels = kernels
        self.epochs: list[int] = []

    def begin(self, settings: dict[int, tuple[int, dict[str, Any]]]) -> int:
        """A new epoch, in which these attrs serve, by the nodes' numbers."""
        # The previous one stays: a run on another thread may have asked for it, and not have begun.
        oldest = _bridge.oldest_epoch()
        self._end([epoch for epoch in self.epochs[:-1] if epoch < oldest])
        epoch = registry.begin_private_epoch()
        for kernel in list(self.kernels):
            kernel.private[epoch] = settings[kernel.number]
        self.epochs.append(epoch)
        _bridge.set_epoch(registry.epoch)
        return epoch

    def end(self) -> None:
        self._end(self.epochs)

    def _end(self, epochs: Sequence[int]) -> None:
        for kernel in list(self.kernels):
            for epoch in epochs:
                kernel.private.pop(epoch, None)
        self.epochs = [epoch for epoch in self.epochs if epoch not in epochs]


class SharedSession(Session):
    """What `Session.with_attrs` returns.

    A run is told apart from the other session's by its epoch, which is never the registry's current one. Whatever rebuilds
    this session gives it an ONNX Runtime session of its own; from then on it shares nothing.
    """

    def __init__(self, base: Session) -> None:
        base._update()
        self._base: Session | None = base
        self._updating = threading.RLock()
        self._begin_attrs()
        self._attr_changes, self._model_values = dict(base._attr_changes), dict(base._model_values)
        # Numbers of their own, so that no instance is the other session's.
        self._settings = {kernel.number: (next(_numbers), base._values(kernel)) for kernel in base._kernels}
        self._share(base)
        self._update()

    def _share(self, base: Session) -> None:
        """Take over what the other session has built."""
        self.__dict__.update({name: value for name, value in vars(base).items() if name not in _OWN})
        self._lease = _Lease(self._kernels)
        self._finalizer = weakref.finalize(self, self._lease.end)
        self._finalizer.atexit = False
        self._epoch = self._begun = -1

    def _update(self) -> int:
        __tracebackhide__ = True
        base = self._base
        if base is None:
            return super()._update()
        if self._sess is not base._sess or self._begun != registry.epoch:
            with self._updating:
                base._update()
                if self._sess is not base._sess:  # it was rebuilt
                    self._finalizer()
                    self._share(base)
                if self._epoch < 0 or any(kernel.op.current.epoch > self._epoch for kernel in self._kernels):
                    self._begin()
                    changes = {change for kernel in list(self._kernels) if (change := kernel.update(self._epoch))}
                    if changes:
                        self._rebuild("; ".join(sorted(changes)))
                else:
                    self._begun = registry.epoch
        return self._epoch

    def _begin(self) -> None:
        self._epoch = self._lease.begin(self._settings)
        self._begun = self._epoch + 1  # what is defined from here on needs another epoch

    def _rebuild(self, reason: str = "") -> None:
        __tracebackhide__ = True
        self._base = None
        self._finalizer()
        super()._rebuild(reason)

    def _values(self, kernel: Kernel) -> dict[str, Any]:
        return super()._values(kernel) if self._base is None else self._settings[kernel.number][1]

    def _adopt(self, adopts: Sequence[tuple[Kernel, Callable[[int, int | None], None]]]) -> None:
        if self._base is None:
            super()._adopt(adopts)
            return
        self._begin()
        number = next(_numbers)
        for kernel, adopt in adopts:
            adopt(number, self._epoch)
            self._settings[kernel.number] = kernel.private[self._epoch]


_OWN = frozenset(
    ("_base", "_updating", "_attr_changes", "_model_values", "_attr_listeners", "_settings", "_lease", "_finalizer", "_begun")
)
