"""The outputs of one run, by name."""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, KeysView, Mapping, ValuesView
from typing import Any

import numpy as np

from pyopnb.common import Displayable, messages, sanitize
from pyopnb.engine.ops.argument_checks import check_by_name, index_error
from pyopnb.engine.ops.types import type_of
from pyopnb.errors import UnknownName

__all__ = ["Result"]


class Result(Displayable):
    """The outputs of one run: arrays by name, in the order of the model's outputs.

    Parameters
    ----------
    arrays : Mapping
        The value of each output: an array, a list of arrays for a sequence, None for an empty
        optional.

    Examples
    --------
    >>> result = Result({"y": np.zeros(2, np.float32), "n": np.int64(2)})
    >>> y, n = result
    >>> result["y"] is y, result[0] is y, "y" in result, len(result), list(result.keys())
    (True, True, True, 2, ['y', 'n'])
    >>> result
    y: float32[2]
    [0. 0.]
    n: int64[]
    2
    """

    __slots__ = ("_arrays",)

    def __init__(self, arrays: Mapping[str, Any]) -> None:
        check_by_name(arrays, "Result, arrays", '{"y": y}')
        self._arrays = dict(arrays)

    def __getitem__(self, key: str | int) -> Any:
        if isinstance(key, str):
            if key in self._arrays:
                return self._arrays[key]
            advice = messages.suggest_key(key, self._arrays)
            if messages.closest(key, self._arrays) is None:
                name = sanitize(repr(key))
                inside = f"session.trace(feeds, only={name})[{name}] for a tensor inside the model"
                advice = f"{advice}, or {inside}" if advice else inside
            raise UnknownName(
                "result",
                expected=", ".join(self._arrays) or "no outputs",
                got=key,
                next=advice,
            )
        try:
            return list(self._arrays.values())[key]
        except TypeError:
            raise index_error("result", "output", key, self._arrays) from None

    def __iter__(self) -> Iterator[Any]:
        return iter(self._arrays.values())

    def __len__(self) -> int:
        return len(self._arrays)

    def __contains__(self, name: object) -> bool:
        """Tell whether there is an output of this name."""
        return isinstance(name, str) and name in self._arrays

    def get(self, name: str, default: Any = None) -> Any:
        """Return an output by name, or something else if there is none of that name.

        Parameters
        ----------
        name : str
            The output.
        default : object, optional
            What to return if there is no such output.

        Returns
        -------
        object
            An array, or the list or dict of an output that is not a tensor.
        """
        return self._arrays.get(name, default)

    def keys(self) -> KeysView[str]:
        """Return the names of the outputs; ``dict(result)`` needs it.

        Returns
        -------
        KeysView of str
            In the order of the model's outputs.
        """
        return self._arrays.keys()

    # Completion of ``result["``.
    _ipython_key_completions_ = keys  # The IPython protocol, for ``result["``

    def items(self) -> ItemsView[str, Any]:
        """Return pairs of name and array.

        Returns
        -------
        ItemsView
            In the order of the model's outputs.
        """
        return self._arrays.items()

    def values(self) -> ValuesView[Any]:
        """Return the outputs without their names.

        Returns
        -------
        ValuesView
            In the order of the model's outputs.
        """
        return self._arrays.values()

    def __repr__(self) -> str:
        texts = [_format_output(name, value) for name, value in self._arrays.items()]
        return "\n".join(texts) or "no outputs"


def _format_output(name: str, value: Any) -> str:
    if not isinstance(value, (np.ndarray, np.generic)):
        return f"{sanitize(name)}: {type(value).__name__}\n{value!r}"
    # A result is shown at the end of a cell, so a large array is cut short.
    with np.printoptions(threshold=100, edgeitems=3):
        return f"{sanitize(name)}: {type_of(value)}\n{value}"
