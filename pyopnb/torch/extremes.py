"""Judge the forms of elementwise ops one by one, where floats overflow and underflow.

A module of many ops shows only rounding there, and one op's infinity hides the next op's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch

from pyopnb.common import sanitize
from pyopnb.engine import Session
from pyopnb.testing import KernelError, Trial, number_trial, verify
from pyopnb.torch.arrays import to_array, to_tensor
from pyopnb.torch.calls import Call, Unwritable, as_list, decode, encode
from pyopnb.torch.example import example_of
from pyopnb.torch.exporter import export_program
from pyopnb.torch.holes import Hole, hole_of
from pyopnb.torch.program import calls_in, capture
from pyopnb.torch.stand_in import define
from pyopnb.torch.wrappers import put_node

__all__ = ["put_wrong_forms"]

# The forms of these are right, so they are skipped.
_RIGHT = frozenset(
    """
    _to_copy abs acos add addcdiv addcmul asin atan bitwise_and bitwise_not bitwise_or ceil clamp
    clamp_max clamp_min clone cos cosh div elu eq erf exp expm1 floor ge gelu gt hardsigmoid
    hardswish hardtanh isfinite isinf isnan le leaky_relu lerp log log10 log1p log2 logical_and
    logical_not logical_or logical_xor lt masked_fill maximum minimum mish mul ne neg pow prelu
    reciprocal relu relu6 remainder round rsqrt rsub selu sigmoid sign silu sin sinh softplus sqrt
    square sub tan tanh threshold to trunc where
    """.split()  # noqa: SIM905  # a list of them is a line each
)
# These go along an axis, and still overflow.
_SCANS = ("logcumsumexp",)

_judged: dict[str, str] = {}
"""The fault of the form of a call, by its key; empty where there is none."""


def put_wrong_forms(program: Any) -> list[Hole]:
    """Let torch run the elementwise calls of a program whose forms are wrong somewhere.

    Parameters
    ----------
    program : torch.export.ExportedProgram
        It is changed.
    """
    calls = dict(_judgeable(program))
    unknown = {}
    for call in calls.values():
        if _key(call) not in _judged:
            unknown[_key(call)] = call
    if unknown:
        _judge(list(unknown), list(unknown.values()))
    holes = []
    for node, call in calls.items():
        if _judged[_key(call)]:
            holes.append(hole_of(node, _judged[_key(call)]))
    for hole in holes:
        put_node(hole.node, define(hole.node.target))
    return holes


def _judgeable(program: Any) -> Iterator[tuple[Any, Call]]:
    """Yield the calls whose forms are worth a trial, as nodes of ONNX have them."""
    for node in calls_in(program):
        target = node.target
        if getattr(target, "namespace", "") != "aten":
            continue
        name = target._schema.name.removeprefix("aten::")
        if name in _RIGHT or not (torch.Tag.pointwise in target.tags or name in _SCANS):
            continue
        try:
            call = encode(node)
        except Unwritable:
            continue
        values = [entry.meta["val"] for entry in call.inputs if entry is not None]
        # Numbers that the graph computes, and tensors without axes, decide on dtypes.
        if all(isinstance(value, torch.Tensor) and value.ndim for value in values) and any(
            value.is_floating_point() for value in values
        ):
            yield node, call


def _key(call: Call) -> str:
    dtypes = [None if entry is None else entry.meta["val"].dtype for entry in call.inputs]
    return f"{call.key} {dtypes}"


class _SideBySide(torch.nn.Module):  # type: ignore[misc]
    """Calls, each with tensors of its own."""

    def __init__(self, calls: Sequence[Call]) -> None:
        super().__init__()
        self._calls = calls

    def forward(self, *tensors: Any) -> list[Any]:
        results = []
        for call in self._calls:
            count = len(_present(call))
            results += _results(call, tensors[:count])
            tensors = tensors[count:]
        return results


def _present(call: Call) -> list[Any]:
    return [entry.meta["val"] for entry in call.inputs if entry is not None]


def _results(call: Call, tensors: Sequence[Any]) -> list[Any]:
    ahead = iter(tensors)
    values = [None if entry is None else next(ahead) for entry in call.inputs]
    args, kwargs = decode(call.target, call.attrs, values)
    return as_list(call.target(*args, **kwargs))


def _judge(keys: Sequence[str], calls: Sequence[Call]) -> None:
    """Export calls side by side, and compare the form of each with torch."""
    trials = [_trial(call) for call in calls]
    feeds = [array for trial in trials for array in trial.inputs if array is not None]
    module = _SideBySide(calls).eval()
    example = example_of(module, tuple(map(to_tensor, feeds)), None, None, any_numbers=True)
    model = export_program(capture(example), example, []).model
    try:
        session = Session(model)
    except Exception:  # exceptions of ONNX Runtime have no common base class
        # It also refuses the whole model, and the comparison of that finds out why.
        _judged.update(dict.fromkeys(keys, ""))
        return
    names = [entry.name for entry in session.get_inputs()]
    outputs = [entry.name for entry in session.get_outputs()]
    first, first_output = 0, 0
    for key, call, trial in zip(keys, calls, trials, strict=True):
        numbers = range(first, first + len(trial.inputs))
        wanted = outputs[first_output : first_output + call.outputs]
        first, first_output = numbers.stop, first_output + call.outputs

        def original(*arrays: Any, call: Call = call) -> list[np.ndarray]:
            return list(map(to_array, _results(call, [to_tensor(array) for array in arrays])))

        def converted(*arrays: Any, numbers: Any = numbers, wanted: Any = wanted) -> Any:
            values = dict(zip(names, feeds, strict=True))
            for number, array in zip(numbers, arrays, strict=True):
                values[names[number]] = array
            return session.run(wanted, values)

        verification = verify(original, converted, [trial], kernel_error=KernelError.ELEMENTWISE)
        _judged[key] = sanitize(str(verification.disagreement or ""), 200)


def _trial(call: Call) -> Trial:
    examples = [torch.empty((0,) * value.ndim, dtype=value.dtype) for value in _present(call)]
    is_scan = torch.Tag.pointwise not in call.target.tags
    return number_trial(list(map(to_array, examples)), in_cubes=is_scan)
