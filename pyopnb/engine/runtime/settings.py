"""Attrs of nodes that were changed after a session was built, by the epochs that they serve."""

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from pyopnb.common import locks

__all__ = ["Setting", "Settings", "Values", "numbered"]

_numbers = itertools.count(1)  # 0: as when the kernel was made

Values = tuple[int, dict[str, Any]]
"""A node's attrs with a unique number, by which the node's instance is found."""


def numbered(attrs: dict[str, Any]) -> Values:
    """Pair attrs with a new number of their own."""
    return next(_numbers), attrs


@dataclass(frozen=True, eq=False)
class Setting:
    """The attrs of all nodes at one time, never changed but replaced as a whole.

    Attributes
    ----------
    values : mapping of int
        By the number of the node; the others are as when their kernel was made.
    changes : mapping of int
        The attrs that were set, by the number of the node, for when the session is built again.
    model : mapping of int
        All attrs that the model has at the nodes in ``changes``.
    """

    values: Mapping[int, Values] = field(default_factory=dict)
    changes: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)
    model: Mapping[int, dict[str, Any]] = field(default_factory=dict)


class Settings:
    """The settings of a session by epoch, shared by all kernels of one ONNX Runtime session.

    Attributes
    ----------
    private : mapping of int
        The settings of sessions that share the kernels, by their private epochs. The sessions'
        states own them.
    """

    def __init__(self, first: Setting) -> None:
        # Each setting has the first epoch that it serves.
        self._own: tuple[tuple[int, Setting], ...] = ((0, first),)
        self.private: weakref.WeakValueDictionary[int, Setting] = weakref.WeakValueDictionary()
        self._lock = threading.Lock()

    def at(self, epoch: int) -> Setting:
        """Return the setting that serves runs of an epoch."""
        private = self.private.get(epoch)
        if private is None:
            return self._own_at(epoch)[1]
        return private

    def _own_at(self, epoch: int) -> tuple[int, Setting]:
        return next((entry for entry in reversed(self._own) if entry[0] <= epoch), self._own[0])

    @property
    def newest(self) -> Setting:
        """Return the session's own setting of the next run."""
        return self._own[-1][1]

    def begin(self, epoch: int, setting: Setting) -> None:
        """Put a setting into force from an epoch on."""
        locks.locked(self._lock, self._begin, epoch, setting)

    def _begin(self, epoch: int, setting: Setting) -> None:
        # Runs on other threads read without the lock, so they get a new tuple in one assignment.
        self._own = (*self._own, (epoch, setting))

    def prune(self, oldest: int) -> Collection[Setting]:
        """Drop settings that no run since an epoch can need, and return the rest."""
        return locks.locked(self._lock, self._prune, oldest)

    def _prune(self, oldest: int) -> Collection[Setting]:
        # The setting that served the oldest run stays, and all that came after it.
        since = self._own_at(oldest)[0]
        self._own = tuple(entry for entry in self._own if entry[0] >= since)
        # Other threads add some meanwhile.
        private = [reference() for reference in self.private.valuerefs()]
        return [
            *(setting for _, setting in self._own),
            *(setting for setting in private if setting is not None),
        ]
