"""``Scan`` as ONNX defines it, along any axes, in both directions, and with the batch of version 8.

The onnx class (tried: 1.23.2, the newest) scans the first axis forward, raises for anything else,
and gives the batch of version 8 to the body.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pyopnb.onnx_reference.loop import body_class, checked, stacked

__all__ = ["scan_class"]


def scan_class() -> type:
    """Return the class of Scan."""
    return body_class("Scan", _run)


def _run(op: Any, *inputs: Any, context: Any = None, **options: Any) -> tuple[Any, ...]:
    options = {name: options[name] for name in options if name not in _ATTRS}
    if op.run_params["opsets"].get("", 1) < 9:
        return checked(op, _scan_batch(op, inputs, context, options))
    return checked(op, _scan(op, inputs, context, options, "scan_input_directions"))


_ATTRS = (
    "body",
    "directions",
    "num_scan_inputs",
    "scan_input_axes",
    "scan_input_directions",
    "scan_output_axes",
    "scan_output_directions",
)


def _scan(
    op: Any, inputs: Sequence[Any], context: Any, options: dict[str, Any], directions: str
) -> list[Any]:
    # OpRun sets it from the node's attributes.
    evaluator = op.body
    count = op.num_scan_inputs
    states, scanned = list(inputs[:-count]), list(inputs[-count:])
    for place, axis in enumerate(_items(op, "scan_input_axes", count)):
        scanned[place] = np.moveaxis(scanned[place], axis, 0)
    for place, is_backward in enumerate(_items(op, directions, count)):
        if is_backward:
            scanned[place] = scanned[place][::-1]
    rows = []
    for items in zip(*scanned, strict=True):
        values = dict(context or {})
        values.update(zip(evaluator.input_names, [*states, *items], strict=True))
        results = op._run_body(values, **options)
        states, row = list(results[: len(states)]), results[len(states) :]
        rows.append(row)
    outputs = stacked(rows, evaluator.proto_.output[len(states) :])
    axes = _items(op, "scan_output_axes", len(outputs))
    backward = _items(op, "scan_output_directions", len(outputs))
    for place, axis in enumerate(axes):
        if backward[place]:
            outputs[place] = outputs[place][::-1]
        outputs[place] = np.moveaxis(outputs[place], 0, axis)
    return [*states, *outputs]


def _scan_batch(op: Any, inputs: Sequence[Any], context: Any, options: dict[str, Any]) -> list[Any]:
    """Scan each element of a batch for as long as it is, and fill up with zeros."""
    lengths, *tensors = inputs
    longest = tensors[-1].shape[1]
    count = op.num_scan_inputs
    batch = []
    for place in range(len(tensors[-1])):
        length = longest if lengths is None else int(lengths[place])
        states = [tensor[place] for tensor in tensors[:-count]]
        scanned = [tensor[place, :length] for tensor in tensors[-count:]]
        results = _scan(op, [*states, *scanned], context, options, "directions")
        for position in range(len(states), len(results)):
            rest = [(0, longest - length), *[(0, 0)] * (results[position].ndim - 1)]
            results[position] = np.pad(results[position], rest)
        batch.append(results)
    return [np.stack(column) for column in zip(*batch, strict=True)]


def _items(op: Any, name: str, count: int) -> list[int]:
    """Return an attr that has an integer for each input or output."""
    given = list(getattr(op, name, None) or [])
    return given + [0] * (count - len(given))
