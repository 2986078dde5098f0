"""`lower`: turn an op, or every op in a model, into a function of ONNX operators."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from onnx import FunctionProto, ModelProto

from pyopnb.errors import InputError
from pyopnb.lowering.models import lower_model
from pyopnb.lowering.one_op import lower_op, remember
from pyopnb.models.holders import held_model
from pyopnb.ops.arguments import check_arguments
from pyopnb.ops.messages import hide_internal_frames, sanitize
from pyopnb.ops.op import Op
from pyopnb.ops.registry import find_op
from pyopnb.testing.subject import read_examples

__all__ = ["lower"]


@hide_internal_frames
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
    """Turn an op, or the ops of a model, into functions of ONNX's own operators.

    ``compute`` runs once on an example, and its NumPy calls are recorded. The function is
    then run in plain ONNX Runtime and compared with the op: on the examples, at other sizes,
    without elements, on other values, with NaN and infinities. It is returned if all agree.
    Rows of a million elements are not tried, as ONNX Runtime's own float32 sums and means
    are off by 0.1 % there.

    Parameters
    ----------
    op : str, type, ModelProto, bytes or path
        The name of an op in the registry, or its class; or a model.
    *inputs
        Of an op: an array for each input, None for one that is left out. Without inputs and
        examples, some are generated from the hints of ``compute``. Of a model: feeds by name, one
        dict. Without it, the ops are tried on what a run on random arrays gives them.
    examples : sequence
        As for `check`: more examples of an op, of the same dtypes and ranks.
    opset : int, optional
        The version of ONNX's own operators; the newest that the installed runtime takes if not
        given, as in `model`. The functions of a model have the model's.
    finite : bool
        Assume that no array has NaN or infinities: ``max``, ``min`` and ``argmax`` then need no
        nodes that check for NaN, and such values are not compared.
    strict : bool
        Of a model: raise for an op that cannot become a function. Otherwise it stays as it is, with
        the warning `StayedInPython`.
    verify : bool
        Whether to compare the results. Without it the function is returned as it was traced, after
        NumPy has run once on the example, and its ``doc_string`` says that nothing was compared.
    **attrs
        Of an op: as for `check`.

    Returns
    -------
    FunctionProto or ModelProto
        Of an op: a function for the dtypes, ranks and attrs of the example, for all sizes. Of a
        model: a copy with the functions in it. In a `Session` that knows the op, the op serves in
        place of the function of its name; everywhere else, and for each further function of one
        op, the function does.

    Warns
    -----
    StayedInPython
        The Python nodes left in a model, each with the reason.

    Raises
    ------
    NotLowered
        A line of ``compute`` has no ONNX operators: it says which, and what to write instead.
        Or a result differs.
    UnknownName
        The registry has no such op.
    InputError
        An example is not made of arrays, or their number is not that of the op's inputs.
    Exception
        What the op raises on the example.

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
    >>> model = pyopnb.model([pyopnb.node("doctest::SoftClip", "x", "y", limit=2.0)], {"x": "float32[N]"}, "y")
    >>> plain = lower(model)
    >>> [(function.domain, function.name) for function in plain.functions]
    [('doctest', 'SoftClip')]
    """
    op, _ = held_model(op)
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
