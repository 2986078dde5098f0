"""Objects whose items are found by name."""

from __future__ import annotations

from typing import Any

__all__ = ["NamedItems"]


class NamedItems:
    """Base class of objects with ``self[name]``, which raises a KeyError for an unknown name."""

    __slots__ = ()

    # Without it, Python asks for the items 0, 1, 2 and so on.
    __iter__ = None

    def __getitem__(self, name: str) -> Any:
        raise NotImplementedError

    def __contains__(self, name: object) -> bool:
        if not isinstance(name, str):
            return False
        try:
            self[name]
        except KeyError:
            return False
        return True
