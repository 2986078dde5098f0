"""What lower rooms use of higher ones: handed down by name, and imported when it is first used."""

from __future__ import annotations

import importlib
from typing import Any

__all__ = ["hand_down", "handed_down"]

_places: dict[str, str] = {}


def hand_down(**places: str) -> None:
    """Say where a thing of a higher room is.

    Parameters
    ----------
    **places : str
        ``module`` or ``module:name``, by what lower rooms call it.
    """
    _places.update(places)


def handed_down(thing: str) -> Any:
    """Return a thing of a higher room; its module is imported when it is first asked for."""
    module, _, name = _places[thing].partition(":")
    imported = importlib.import_module(module)
    return getattr(imported, name) if name else imported
