"""`lower`: turn an op, or every op in a model, into a function of ONNX operators."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from onnx import FunctionProto, ModelProto

from pyopnb.common import sanitize
from pyopnb.engine import Op, check_arguments, find_op, model_files
from pyopnb.errors import InputError
from pyopnb.lowering.models import lower_model
from pyopnb.lowering.one_op import lower_op, remember
from pyopnb.testing import read_examples

__all__ = ["lower"]


@check_arguments
def lower(
    op: Any,
    /,
    *inputs: Any,
    examples: Sequence[Any] = (),
    opset: int | None = None,
    finite: bool = False,
    strict: bool = False,
    verify: bool = True,
    **attrs: Any,
) -> FunctionProto | ModelProto:
    """Turn an op, or the ops of a model, into functions of the ONNX operators.

    ``compute`` runs once on an example, and its NumPy calls are recorded as a function. The
    function then runs in plain ONNX Runtime and is compared with the op: on the examples, at other
    sizes, on empty arrays, on other values, and on NaN and infinities. It is returned only if all
    of these agree. Rows of a million elements are not tried, because the ONNX Runtime float32
    sums and means are off by 0.1 % there.

    Parameters
    ----------
    op : str, type, ModelProto, bytes or path
        The name of an op in the registry, or its class; or a model.
    *inputs
        For an op: an array for each input, and None for an optional input that is left out. Without
        inputs and examples, some are generated from the hints of ``compute``. For a model: one dict
        of feeds by name. Without it, the model runs on random arrays, and each op is tried on the
        inputs that it gets there.
    examples : sequence
        More examples of an op, with the same dtypes and ranks, as for `check`.
    opset : int, optional
        The version of the ONNX operators. By default, the newest that the installed runtime
        takes, as in `model`. In a model, functions use the version of the model.
    finite : bool
        Assume that no array has NaN or infinities. Then ``max``, ``min`` and ``argmax`` need no
        nodes that check for NaN, and the comparison leaves such values out.
    strict : bool
        For a model: raise if an op cannot become a function. Otherwise it stays a Python node, with
        the warning `StayedInPython`.
    verify : bool
        Whether to compare the results. If False, the function is returned as it was recorded on the
        example, and its ``doc_string`` says that nothing was compared.
    **attrs
        For an op: as for `check`.

    Returns
    -------
    FunctionProto or ModelProto
        For an op: a function for the dtypes, ranks and attrs of the example, and for all sizes. For
        a model: a copy with the functions in it. A `Session` that knows the op runs the op in place
        of the function with its name. Plain ONNX Runtime runs the function, and so does a `Session`
        where one op became several functions.

    Warns
    -----
    StayedInPython
        Lists the Python nodes that are left in the model, each with the reason.

    Raises
    ------
    NotLowered
        A line of ``compute`` cannot be written as ONNX operators, or a result differs. The message
        names the line and what to write instead.
    UnknownName
        There is no such op in the registry.
    InputError
        An example is not made of arrays, or has not one for each of the op's inputs.
    Exception
        The exception that the op raises on the example.

    Examples
    --------
    >>> import numpy as np, pyopnb
    >>> @pyopnb.pyop("doctest::SoftClip")
    ... class SoftClip:
    ...     def __init__(self, limit: float = 1.0):
    ...         self.limit = limit
    ...     def compute(self, x):
    ...         return self.limit * np.tanh(x / self.limit)
    >>> function = lower("doctest::SoftClip", np.float32([-2, 0, 2]))
    >>> [node.op_type for node in function.node]
    ['Constant', 'Div', 'Tanh', 'Mul']
    >>> model = pyopnb.model(
    ...     [pyopnb.node("doctest::SoftClip", "x", "y", limit=2.0)], {"x": "float32[N]"}, "y"
    ... )
    >>> plain = lower(model)
    >>> [(function.domain, function.name) for function in plain.functions]
    [('doctest', 'SoftClip')]
    """
    op, _ = model_files.held_model(op)
    if _is_model(op):
        names = list(map(sanitize, attrs))
        if examples:
            names.append("examples")
        if opset is not None:
            names.append("opset")
        feeds = _feeds(inputs, names)
        return lower_model(op, feeds, finite=finite, strict=strict, compares=verify)
    # An op, with one example in the arguments and more of them in ``examples``.
    target = find_op(op)
    examples_of_op = read_examples(target, inputs, examples, attrs)
    lowered = lower_op(target, examples_of_op, opset=opset, finite=finite, compares=verify)
    remember(target, lowered)
    return lowered.function


def _is_model(value: Any) -> bool:
    # A class is an op; a text with :: is an op's name, and any other one a path.
    if isinstance(value, (type, Op)):
        return False
    if isinstance(value, str):
        return "::" not in value
    return isinstance(value, (ModelProto, bytes, bytearray, os.PathLike))


def _feeds(inputs: Sequence[Any], names: Sequence[str]) -> Mapping[str, Any] | None:
    """Return the feeds of a model; refuse named arguments that an op takes and a model does not."""
    if not names and not inputs:
        return None
    if not names and len(inputs) == 1 and isinstance(inputs[0], Mapping):
        return inputs[0]
    raise InputError(
        "lower of a model",
        expected="feeds in one dict, finite, strict and verify",
        got=", ".join(names) or "other arguments",
        next='{"x": x}',
    )
