"""The rules for NumPy's functions, which record the nodes of a call, and the reasons where there are none.

The table stands below the traced classes, and the rules in `numpy` above them: that keeps one from
importing the other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

__all__ = ["BRACKETS", "METADATA", "REASONS", "TABLE", "Rule", "lowers", "name_of"]

Rule = Callable[..., Any]
_Rule = TypeVar("_Rule", bound=Rule)

TABLE: dict[Any, Rule] = {}
"""Function or ufunc → what records its nodes, called with NumPy's own result and the arguments."""

BRACKETS: dict[str, Rule] = {}
"""What an array's brackets do: ``"read"`` and ``"write"``."""

METADATA = {
    np.result_type,
    np.can_cast,
    np.iscomplexobj,
    np.isrealobj,
    np.min_scalar_type,
    np.common_type,
}
"""Functions that look at dtypes alone."""

REASONS: dict[Any, tuple[str, str | None]] = {}
"""Function → why there is no way, and what to write instead."""


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
