"""Operators that ONNX Runtime lacks and that models in the wild contain, each in its own file.

A file has a class as in a ``%%pyop`` cell, and ``NAMES``: the names, with their domains, that the
operator has in model files. ``import pyopnb`` imports none of them. In a notebook,
``pyopnb.catalog`` displays a table of all operators, and ``pyopnb.catalog("nms")`` a table of
matches.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from pyopnb.common import open_door

__getattr__, __dir__, __all__ = open_door(__name__, __file__)


class _Catalog(ModuleType):
    """The package itself, displayed as a table; entries are imported for that, and not before."""

    def __call__(self, text: str = "") -> Any:
        return self.search(text)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(repr(self.search()))

    def _repr_html_(self) -> str:
        return str(self.search()._repr_html_())


sys.modules[__name__].__class__ = _Catalog
