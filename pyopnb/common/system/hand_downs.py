"""Give lower rooms things of higher ones by name, imported when they are first used."""

from __future__ import annotations

import importlib
from typing import Any

__all__ = ["hand_down", "handed_down"]

_places: dict[str, str] = {}


def hand_down(**places: str) -> None:
    """Register where things of higher rooms are.

    Parameters
    ----------
    **places : str
        ``module`` or ``module:name``, by the name that lower rooms use.
    """
    _places.update(places)


def handed_down(thing: str) -> Any:
    """Return a thing of a higher room, and import its module at the first request."""
    module, _, name = _places[thing].partition(":")
    imported = importlib.import_module(module)
    return getattr(imported, name) if name else imported
