"""Tables of the rules for the NumPy functions, and of the reasons why a function has no rule.

A rule records the nodes of a call. The traced classes import these tables, and the rules in `numpy`
import the traced classes, so there is no circle of imports.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

__all__ = ["BRACKETS", "METADATA", "REASONS", "TABLE", "Rule", "lowers", "name_of"]

Rule = Callable[..., Any]
_Rule = TypeVar("_Rule", bound=Rule)

TABLE: dict[Any, Rule] = {}
"""Function or ufunc → its rule, which is called with the NumPy result and the arguments."""

BRACKETS: dict[str, Rule] = {}
"""The rules for an array's brackets: ``"read"`` and ``"write"``."""

METADATA = {
    np.result_type,
    np.can_cast,
    np.iscomplexobj,
    np.isrealobj,
    np.min_scalar_type,
    np.common_type,
}
"""Functions that only look at dtypes."""

REASONS: dict[Any, tuple[str, str | None]] = {}
"""Function → why it has no rule, and the alternative."""


def lowers(*functions: Any) -> Callable[[_Rule], _Rule]:
    """Register the rule that records the nodes of some functions."""

    def register(rule: _Rule) -> _Rule:
        TABLE.update(dict.fromkeys(functions, rule))
        return rule

    return register


def name_of(function: Any) -> str:
    """Name a function as the user types it."""
    # A ufunc does not know its module.
    module = getattr(function, "__module__", None) or "numpy"
    if isinstance(function, np.ufunc):
        module = "scipy.special"
        if getattr(np, function.__name__, None) is function:
            module = "numpy"
    for internal, public in (("numpy", "np"), ("._core", ""), ("np.fromnumeric", "np")):
        module = module.replace(internal, public)
    return f"{module}.{getattr(function, '__name__', function)}"
