"""Compare an export with torch, and let torch run the calls that come out wrong."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from onnx import ModelProto

from pyopnb.common import sanitize
from pyopnb.errors import ModelError
from pyopnb.torch.example import Example
from pyopnb.torch.exporter import Conversion, export_program
from pyopnb.torch.extremes import put_wrong_forms
from pyopnb.torch.mend import mend
from pyopnb.torch.sizes import FixedSize, fix_dimensions, forget_dimensions
from pyopnb.torch.verify import Fault, ModuleComparison

__all__ = ["export_verified"]


def export_verified(conversion: Conversion, example: Example) -> Conversion:
    """Compare an export with torch, and let torch take over the calls at fault.

    Parameters
    ----------
    conversion : Conversion
        Its program is changed where there is a fault.
    example : Example
        On which it is compared.
    """
    conversion = _without_wrong_forms(conversion, example)
    # One comparison for all attempts: they are judged on the same inputs.
    comparison = ModuleComparison(example, foreign=conversion.foreign, limited=conversion.limited)
    conversion = _compared(conversion, comparison, example)
    if comparison.contradicted:
        forget_dimensions(conversion.exported.model.graph, comparison.contradicted)
    # Its model is written again.
    return replace(conversion)


def _compared(conversion: Conversion, comparison: ModuleComparison, example: Example) -> Conversion:

    fault = comparison.fault(conversion.model)
    if fault is not None and not fault.at_other_sizes:
        # Sizes come later, so that an op is not blamed for a loop that only one size fits.
        fault_at_example = functools.partial(comparison.fault, sizes=False)
        mended = _mended(conversion, fault, fault_at_example, example)
        if mended is None:
            return replace(conversion, fault=fault)
        conversion = mended
        fault = comparison.fault(conversion.model)
    if fault is None:
        return conversion
    # The model is wrong at other sizes. Either that is also an op's fault, …
    mended = _mended(conversion, fault, comparison.fault, example)
    if mended is not None:
        return mended
    # … or the steps of forward depend on the size, as in a loop over it.
    wrong = comparison.wrong_sizes(conversion.model)
    places = comparison.open_sizes(conversion.model).places
    feeds = list(comparison.feeds(conversion.model).items())
    fixed = []
    for symbol, text in wrong.items():
        for number, axis, request in places[symbol]:
            name, array = feeds[number]
            if not _is_for_torch_to_decide(request):
                text = f"{sanitize(name)}, axis {axis}, cannot change: {sanitize(text, 400)}"
                return replace(conversion, fault=Fault(text))
            reason = f"as the model is wrong at other sizes: {sanitize(text, 300)}"
            fixed.append(FixedSize(name, axis, array.shape[axis], reason))
    graph = conversion.exported.model.graph
    for symbol in wrong:
        number, axis, _ = places[symbol][0]
        fix_dimensions(graph, symbol, feeds[number][1].shape[axis])
    return replace(conversion, fixed=fixed)


def _without_wrong_forms(conversion: Conversion, example: Example) -> Conversion:
    """Let torch run the calls whose forms are wrong where floats overflow or underflow."""
    holes = put_wrong_forms(conversion.program)
    if not holes:
        return conversion
    latest = export_program(conversion.program, example, [*conversion.holes, *holes])
    return replace(latest, foreign=conversion.foreign, limited=conversion.limited)


def _mended(
    conversion: Conversion,
    reason: Fault,
    fault_of: Callable[[ModelProto], Fault | None],
    example: Example,
) -> Conversion | None:
    """Export again with torch in place of the calls at fault; return None if that does not help."""
    program, latest = conversion.program, conversion

    def check() -> str | None:
        nonlocal latest
        try:
            # With other ops in torch, the exporter may meet others that it lacks, which stay there.
            latest = export_program(program, example, latest.holes)
        except ModelError as error:
            return str(error)
        fault = fault_of(latest.model)
        return None if fault is None else fault.text

    holes = mend(program, reason.text, check)
    if holes and check() is None:
        return replace(latest, holes=latest.holes + holes)
    return None


def _is_for_torch_to_decide(request: Any) -> bool:
    """Tell whether a dimension is open for torch to decide, and not by a user's name."""
    hint = torch.export.Dim.AUTO
    return type(request) is type(hint) and request.type == hint.type
