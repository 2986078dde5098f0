"""Compare a lowered function with its op, by `pyopnb.testing.verification`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

import numpy as np
from onnx import ModelProto, helper, numpy_helper

from pyopnb.common import messages, sanitize
from pyopnb.engine import one_run, ort_capabilities, protos, type_of
from pyopnb.errors import NotLowered
from pyopnb.lowering.trace_op import LoweredOp, without_warnings
from pyopnb.testing import KernelError, OpExample, Subject, draw_trials
from pyopnb.testing import verify as compare

__all__ = ["called", "tries_empty", "verify"]

_Arrays = tuple[np.ndarray | None, ...]
_FLOATS = (np.dtype(np.float16), np.dtype(np.float32), np.dtype(np.float64))

_OPEN_END = 2**63 - 1
_MOST_CONSTANTS = 8
"""The most constants of a body that are tried as inputs, as each adds several examples."""


def called(
    lowered: LoweredOp, subject: Subject, example: OpExample, outputs: Sequence[np.ndarray]
) -> ModelProto:
    """Build a model of one call of a function, for the example's dtypes and ranks."""
    function = lowered.function
    node = subject.node(example)
    # Sizes stay open, as the function is for all of them.
    inputs = [_info(name, array) for name, array in example.feeds().items()]
    results = [_info(f"y{position}", array) for position, array in enumerate(outputs)]
    node.output[:] = [info.name for info in results]
    graph = helper.make_graph([node], "call", inputs, results)
    (imported,) = (entry.version for entry in function.opset_import)
    imports = [helper.make_opsetid("", imported), helper.make_opsetid(function.domain, 1)]
    return helper.make_model(
        graph,
        functions=[function],
        opset_imports=imports,
        ir_version=ort_capabilities.newest_ir_version(),
        producer_name="pyopnb",
    )


def _info(name: str, array: np.ndarray) -> Any:
    # The type of an array has a dtype.
    return helper.make_tensor_value_info(name, type_of(array).dtype.onnx, [None] * array.ndim)  # type: ignore[union-attr]


def verify(
    lowered: LoweredOp,
    subject: Subject,
    examples: Sequence[OpExample],
    *,
    finite: bool,
) -> None:
    """Run a function in plain ONNX Runtime, and compare it with the op.

    Parameters
    ----------
    examples : sequence of OpExample
        All of the same dtypes, ranks and attrs; the op accepts the first.
    finite : bool
        Assume that no array has a NaN.

    Raises
    ------
    NotLowered
        A result differs, or only the function raises.
    """
    first = examples[0]
    with without_warnings():
        outputs = subject.call(first)
    run = _runner(called(lowered, subject, first, outputs), subject)
    # Inputs whose values are part of the function stay as they are.
    variable = [n for n in range(len(first.inputs)) if n not in lowered.constants]
    dims_by_input = subject.dims(first)
    dims = [dims_by_input[position] for position in variable]

    def whole(arrays: _Arrays) -> _Arrays:
        inputs = list(first.inputs)
        for position, array in zip(variable, arrays, strict=True):
            inputs[position] = array
        return tuple(inputs)

    def converted(*arrays: Any) -> Any:
        return run(OpExample(whole(arrays), {}).feeds())

    def original(*arrays: Any) -> Any:
        return subject.call(OpExample(whole(arrays), first.attrs))

    def exact(*arrays: Any) -> Any:
        # Call the class itself, as the op's hints may refuse wider floats.
        value = subject.instance(first).compute(*whole(arrays))
        if isinstance(value, tuple):
            return value
        return (value,)

    tried = [tuple(example.inputs[n] for n in variable) for example in examples]
    trials = draw_trials(
        tried,
        dims=dims,
        constants=_constants(lowered, first),
        finite=finite,
        empty=tries_empty(lowered),
    )
    result = compare(
        original,
        converted,
        trials,
        exact=exact,
        kernel_error=KernelError.ONNX_RUNTIME,
        narrowest=_narrowest_inside(lowered),
        finite=finite,
    )
    if result.disagreement is not None:
        raise NotLowered(
            subject.op.name,
            expected="the results of compute",
            got=str(result.disagreement),
            next=_advice(result.disagreement.trial.inputs),
        )
    shapes = list(map(_shapes, tried))
    for trial, error in result.errors:
        # Some kernels refuse empty inputs; an error is not a wrong number.
        is_empty = any(array is not None and not array.size for array in trial.inputs)
        # A form that a class has written may know that boxes have four numbers, which no hint says.
        is_foreign = lowered.is_written and _shapes(trial.inputs) not in shapes
        if not is_empty and not is_foreign:
            _raise_refusal(error, subject, first)


def _shapes(arrays: _Arrays) -> list[tuple[int, ...] | None]:
    shapes: list[tuple[int, ...] | None] = []
    for array in arrays:
        shapes.append(None if array is None else array.shape)
    return shapes


def _constants(lowered: LoweredOp, example: OpExample) -> list[float]:
    """List the numeric constants of a body, including the example's attrs."""
    numbers = [value for value in example.attrs.values() if type(value) in (int, float)]
    for constant in _constant_arrays(lowered):
        if constant.dtype.kind in "iuf" and constant.size == 1:
            numbers.append(constant.item())
    # Open slices end at 2**63 - 1, which the user did not write and which overflows in products.
    distinct = dict.fromkeys(number for number in numbers if abs(number) < _OPEN_END)
    # 0, 1 and -1 are tried anyway.
    return [number for number in distinct if abs(number) not in (0, 1)][:_MOST_CONSTANTS]


def _constant_arrays(lowered: LoweredOp) -> Iterator[np.ndarray]:
    for node in protos.nodes_in(lowered.function):
        for attribute in node.attribute:
            if node.op_type == "Constant" and attribute.name == "value":
                yield numpy_helper.to_array(attribute.t)


def _narrowest_inside(lowered: LoweredOp) -> np.dtype | None:
    """Return the narrowest float that a function casts to, which limits its accuracy."""
    targets: set[int] = set()
    for node in lowered.function.node:
        if node.op_type == "Cast":
            targets.update(attribute.i for attribute in node.attribute)
    for dtype in _FLOATS:
        if helper.np_dtype_to_tensor_dtype(dtype) in targets:
            return dtype
    return None


def tries_empty(lowered: LoweredOp) -> bool:
    """Tell whether it is safe to run a function on empty arrays, which crash some kernels.

    Returns
    -------
    bool
        False also with Unique along an axis in the function, and with RoiAlign: in 1.32, slices
        without elements and images without pixels end the process. Conv with a kernel of no
        pixels never returns.
    """
    for node in protos.nodes_in(lowered.function):
        has_axis = any(attribute.name == "axis" for attribute in node.attribute)
        if node.op_type in {"Conv", "RoiAlign"} or (node.op_type == "Unique" and has_axis):
            return False
    return ort_capabilities.takes_empty()


def _runner(model: ModelProto, subject: Subject) -> Callable[[Any], list[Any]]:
    try:
        return one_run.kernel_runner(model)
    except Exception as error:  # the runtime exceptions have no base class of their own
        raise NotLowered(
            subject.op.name,
            expected="nodes that ONNX Runtime has kernels for",
            got=messages.one_line(sanitize(error, 300)),
        ) from None


def _raise_refusal(error: Exception, subject: Subject, example: OpExample) -> NoReturn:
    """Refuse an op whose lowered form raises an error where the op does not.

    An example is a reflecting Pad of one element.
    """
    if not type(error).__module__.startswith("onnxruntime."):
        raise error
    raise NotLowered(
        f"{subject.op.name}, for {example}",
        expected="operators that accept the same inputs as compute",
        got=messages.one_line(sanitize(str(error).rpartition("Status Message: ")[2], 300)).rstrip(
            "."
        ),
        next="the sizes that the op has in the hints, float32[3,N], if there are no others",
    ) from None


def _advice(inputs: _Arrays) -> str | None:
    for array in inputs:
        if array is not None and array.dtype in _FLOATS and not np.isfinite(array).all():
            return "finite=True, if no array has NaN or infinity"
    return None
