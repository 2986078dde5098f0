"""Functions that are called when an op was defined or removed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from pyopnb.ops.op import Version

__all__ = ["Listeners"]


class Listeners:
    """The listeners of a registry, in the order in which they were added."""

    def __init__(self) -> None:
        self._added: dict[
            object, tuple[Callable[[Version], None], Callable[[str], None] | None]
        ] = {}

    def __len__(self) -> int:
        return len(self._added)

    def add(
        self, defined: Callable[[Version], None], removed: Callable[[str], None] | None
    ) -> Callable[[], None]:
        """Add a pair of functions.

        Parameters
        ----------
        defined : callable
            Called with each new `Version`.
        removed : callable or None
            Called with the name of an op.

        Returns
        -------
        callable
            Takes them out again.
        """
        # One function may be added twice, so it cannot be the key.
        key = object()
        self._added[key] = defined, removed

        def unsubscribe() -> None:
            self._added.pop(key, None)

        return unsubscribe

    def defined(self, versions: Iterable[Version]) -> None:
        """Call each listener with each version.

        Parameters
        ----------
        versions : iterable of Version

        Raises
        ------
        Exception
            The first that a listener raises, after all of them were called.
        """
        # A copy, because a listener may subscribe or unsubscribe.
        listeners = [defined for defined, _ in list(self._added.values())]
        _call_all(listeners, versions)

    def removed(self, names: Iterable[str]) -> None:
        """Call each listener with the name of each op that was removed.

        Parameters
        ----------
        names : iterable of str

        Raises
        ------
        Exception
            As for `defined`.
        """
        listeners = [removed for _, removed in list(self._added.values()) if removed]
        _call_all(listeners, names)


def _call_all(listeners: Sequence[Callable[[Any], None]], arguments: Iterable[Any]) -> None:
    failures: list[Exception] = []
    for argument in arguments:
        for listener in listeners:
            # The definition stands, so the other listeners must be called all the same.
            try:
                listener(argument)
            except Exception as error:
                failures.append(error)
    if failures:
        raise failures[0]
