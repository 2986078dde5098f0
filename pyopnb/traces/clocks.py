"""Measure the calls of ``compute``."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

__all__ = ["Clock", "ClockedCall"]


class ClockedCall(NamedTuple):
    """A call of ``compute`` or of a session: nanoseconds of `time.perf_counter_ns`."""

    begin: int
    end: int

    @property
    def took(self) -> float:
        """Return the duration in microseconds."""
        return (self.end - self.begin) / 1000


class Clock:
    """Measures the calls of an op at one node."""

    def __init__(self) -> None:
        self._calls: list[ClockedCall] = []

    def take(self) -> list[ClockedCall]:
        """Return the calls since the last query, and clear them."""
        calls = self._calls[:]
        del self._calls[: len(calls)]
        return calls

    def wrap(self, instance: object, method: str) -> object:
        """Make an object whose ``compute`` calls the instance's method and measures it."""
        return _Clocked(getattr(instance, method), self._calls)


class _Clocked:
    def __init__(self, compute: Callable[..., Any], calls: list[ClockedCall]) -> None:
        self._compute, self._calls = compute, calls

    def compute(self, *arrays: Any) -> Any:
        __tracebackhide__ = True
        begin = time.perf_counter_ns()
        try:
            return self._compute(*arrays)
        finally:
            self._calls.append(ClockedCall(begin, time.perf_counter_ns()))
