"""Find the types of a node's outputs by the op's ``infer``, by its hints, or without either."""

from __future__ import annotations

from collections.abc import Sequence

from pyopnb.common import plural, sanitize
from pyopnb.engine.ops.instantiate import add_note
from pyopnb.engine.ops.op_schema import Schema
from pyopnb.engine.ops.types import ANY, TensorType, tensor_type
from pyopnb.errors import InputError, ResultError

__all__ = ["promised_types", "resolve_type"]


def promised_types(
    schema: Schema,
    instance: object,
    inputs: Sequence[TensorType | None],
    count: int | None,
    where: str,
) -> tuple[TensorType | None, ...]:
    """Return the types that an op declares for a node's outputs, by its hints and ``infer``.

    Parameters
    ----------
    instance : object
        An instance of the op's class; not looked at where that has no ``infer``.
    inputs : sequence of (TensorType or None)
        Types of the inputs; None for one that is left out.
    count : int or None
        Number of outputs; None for as many as the op declares.
    where : str
        The node, for errors.

    Returns
    -------
    tuple of (TensorType or None)
        One an output; None where the op declares nothing.

    Raises
    ------
    ResultError
        ``infer`` returned something that is not a type, or that contradicts the hints.
    Exception
        The exception of ``infer``, with a note that names the node.
    """
    hints = schema.hinted(inputs) or ()
    types = hints
    if schema.infers:
        try:
            returned = instance.infer(*inputs)  # type: ignore[attr-defined]  # it has one
            types = _merge(_read_types(returned, count or 0, where), hints, where)
        except BaseException as error:
            add_note(error, f"in {where}, infer")
            raise
    # A node can have fewer outputs than the op declares; further outputs have no declared type.
    promises: list[TensorType | None] = []
    for position in range(len(types) if count is None else count):
        is_known = position < len(types) and types[position] != ANY
        promises.append(types[position] if is_known else None)
    return tuple(promises)


def _read_types(returned: object, count: int, where: str) -> tuple[TensorType, ...]:
    """Read the result of ``infer`` as at least ``count`` types."""
    # For one output, `infer` may return the type alone.
    items = returned if isinstance(returned, (tuple, list)) else (returned,)
    try:
        types = tuple(map(tensor_type, items))
    except InputError as error:
        raise ResultError(
            f"{where}, infer",
            expected="types, as float32[N,3] or x.like(shape=…)",
            got=sanitize(repr(returned)),
            next="return one type per output",
        ) from error
    if len(types) < count:
        raise ResultError(
            f"{where}, infer",
            expected=plural(count, "type"),
            got=str(len(types)),
            next="one type per output",
        )
    return types


def _merge(
    types: Sequence[TensorType], hints: Sequence[TensorType], where: str
) -> tuple[TensorType, ...]:
    """Complete the types of ``infer`` by the hints, and refuse types that contradict them."""
    merged = []
    for position, inferred in enumerate(types):
        hint = hints[position] if position < len(hints) else ANY
        if not hint.accepts(inferred):
            raise ResultError(
                f"{where}, infer, output {position}",
                expected=f"{hint} (the hint of compute)",
                got=str(inferred),
                next="let infer and the hint say the same",
            )
        shape = hint.shape if inferred.shape is None else inferred.shape
        merged.append(TensorType(inferred.dtype or hint.dtype, shape))
    return tuple(merged)


def resolve_type(
    promise: TensorType | None, declared: TensorType, inputs: Sequence[TensorType | None]
) -> TensorType | None:
    """Resolve the type of an output: the op's, else the model's, else the first input's dtype.

    Parameters
    ----------
    promise : TensorType or None
        As `promised_types` returns it.
    declared : TensorType
        The model's.
    inputs : sequence of (TensorType or None)
        Types of the inputs.

    Returns
    -------
    TensorType or None
        None where nothing is known.
    """
    first = next((type_.dtype for type_ in inputs if type_), None)
    # Most ops keep the dtype of their input, so an undeclared output gets that one.
    if promise is not None:
        dtype = promise.dtype or declared.dtype or first
        return TensorType(dtype, promise.shape)
    if declared.dtype is not None:
        return declared
    return TensorType(first, None) if first is not None else None
