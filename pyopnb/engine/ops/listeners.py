"""Functions that are called when an op was defined or removed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from pyopnb.engine.ops.op import Version

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

    def tell(self, versions: Iterable[Version], removed: Iterable[str] = ()) -> None:
        """Call each listener with each new version, and with the name of each op that was removed.

        Raises
        ------
        Exception
            The first that a listener raised, after all of them were called.
        """
        # A copy, because a listener may subscribe or unsubscribe.
        listeners = list(self._added.values())
        calls: list[tuple[Callable[[Any], None], Any]] = []
        for version in versions:
            calls += [(defined, version) for defined, _ in listeners]
        for name in removed:
            calls += [(on_removed, name) for _, on_removed in listeners if on_removed]
        failures: list[Exception] = []
        for listener, argument in calls:
            # The definition stays, so the other listeners must still be called.
            try:
                listener(argument)
            except Exception as error:
                failures.append(error)
        if failures:
            raise failures[0]
