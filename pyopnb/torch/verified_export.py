"""Compare an export with torch, and let torch run what comes out wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from onnx import ModelProto

from pyopnb.errors import ModelError
from pyopnb.ops.messages import sanitize
from pyopnb.torch.example import Example
from pyopnb.torch.exporter import Conversion, export_program
from pyopnb.torch.mend import mend
from pyopnb.torch.part_ops import parts_in
from pyopnb.torch.program import runs_foreign_code
from pyopnb.torch.sizes import FixedSize, fix_dimensions
from pyopnb.torch.verify import Fault, ModuleComparison

__all__ = ["export_verified"]

_LARGEST = 2**12

_Place = tuple[str, int, Any]
"""An input, an axis, and what the user wants there."""


def export_verified(conversion: Conversion, example: Example) -> Conversion:
    """Compare an export with torch, and let torch take over the calls at fault.

    Parameters
    ----------
    conversion : Conversion
        Its program is changed where there is a fault.
    example : Example
        On which it is compared.

    Returns
    -------
    Conversion
    """
    program = conversion.program
    axes_of = _places_of_dimensions(conversion.model, example.requests)
    parts = parts_in(program)
    foreign = runs_foreign_code(program) or any(part.foreign for part in parts)
    # One comparison for all attempts: they are judged on the same inputs.
    comparison = ModuleComparison(example, _bounds(axes_of), foreign=foreign, limited=bool(parts))

    def fault_of(candidate: Conversion) -> Fault | None:
        return comparison.fault(candidate.model)

    def fault_at_example(candidate: Conversion) -> Fault | None:
        return comparison.fault(candidate.model, sizes=False)

    fault = fault_of(conversion)
    if fault is not None and not fault.at_other_sizes:
        # Sizes come later, so that an op is not blamed for a loop that only one size fits.
        mended = _mended(conversion, fault, fault_at_example, example)
        if mended is None:
            return replace(conversion, fault=fault)
        conversion = mended
        fault = fault_of(conversion)
    if fault is None:
        return conversion
    # The model is wrong at other sizes. Either that is an op's fault as well, …
    mended = _mended(conversion, fault, fault_of, example)
    if mended is not None:
        return mended
    # … or what forward does depends on the size, as a loop over it does.
    wrong = comparison.wrong_sizes(conversion.model)
    for symbol, text in wrong.items():
        if not _may_be_fixed(axes_of[symbol]):
            name, axis, _ = axes_of[symbol][0]
            text = f"{sanitize(name)}, axis {axis}, cannot change: {sanitize(text, 400)}"
            return replace(conversion, fault=Fault(text))
    feeds = comparison.feeds(conversion.model)
    fixed = []
    for symbol, text in wrong.items():
        reason = f"as the model is wrong at other sizes: {sanitize(text, 300)}"
        for name, axis, _ in axes_of[symbol]:
            size = feeds[name].shape[axis]
            fixed.append(FixedSize(name, axis, size, reason))
        fix_dimensions(conversion.exported.model.graph, symbol, size)
    return replace(conversion, fixed=fixed)


def _mended(
    conversion: Conversion,
    reason: Fault,
    fault_of: Callable[[Conversion], Fault | None],
    example: Example,
) -> Conversion | None:
    """Export again with torch in the place of the calls at fault; return None where that does not help."""
    program, latest = conversion.program, conversion

    def check() -> str | None:
        nonlocal latest
        try:
            # With other ops in torch, the exporter may meet others that it lacks, which stay there.
            latest = export_program(program, example, latest.holes)
        except ModelError as error:
            return str(error)
        fault = fault_of(latest)
        return None if fault is None else fault.text

    holes = mend(program, reason.text, check)
    if holes and check() is None:
        return replace(latest, holes=latest.holes + holes)
    return None


# ---- dimensions ------------------------------------------------------------------------------


def _places_of_dimensions(
    model: ModelProto, requests: Sequence[Mapping[int, Any]]
) -> dict[str, list[_Place]]:
    """Find the inputs and axes of each free dimension."""
    axes_of: dict[str, list[_Place]] = {}
    for info, request in zip(model.graph.input, requests, strict=False):
        for axis, dim in enumerate(info.type.tensor_type.shape.dim):
            if dim.dim_param:
                axes_of.setdefault(dim.dim_param, []).append((info.name, axis, request.get(axis)))
    return axes_of


def _bounds(axes_of: Mapping[str, Sequence[_Place]]) -> dict[str, tuple[int, int]]:
    """Read the least and the largest sizes that the user has given to dimensions."""
    bounds = {}
    for symbol, entries in axes_of.items():
        for _, _, request in entries:
            least, largest = getattr(request, "min", None), getattr(request, "max", None)
            if isinstance(least, int) or isinstance(largest, int):
                bounds[symbol] = int(least or 1), int(min(largest or _LARGEST, _LARGEST))
    return bounds


def _may_be_fixed(axes_of: Sequence[_Place]) -> bool:
    """Tell whether a dimension is open for torch to decide, and not by a name of the user's."""
    hint = torch.export.Dim.AUTO
    requests = [request for _, _, request in axes_of]
    return all(type(request) is type(hint) and request.type == hint.type for request in requests)
