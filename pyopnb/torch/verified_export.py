"""Compare an export with torch, and let torch run what comes out wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from onnx import ModelProto

from pyopnb.errors import ModelError
from pyopnb.ops.messages import sanitize
from pyopnb.torch.example import bound_arguments
from pyopnb.torch.exporter import ExportOptions, export_program, proto_of
from pyopnb.torch.holes import Hole
from pyopnb.torch.mend import mend
from pyopnb.torch.part_ops import parts_in
from pyopnb.torch.program import runs_foreign_code
from pyopnb.torch.sizes import FixedSize, fix_dimensions, requested_dimensions
from pyopnb.torch.verify import Fault, ModuleComparison

__all__ = ["VerifiedExport", "export_verified"]

_LARGEST = 2**12

_Place = tuple[str, int, Any]
"""An input, an axis, and what the user wants there."""


@dataclass(frozen=True)
class VerifiedExport:
    """An export that was compared with torch.

    Attributes
    ----------
    exported : torch.onnx.ONNXProgram
    holes : list of Hole
        The calls that torch has taken over.
    fixed : list of FixedSize
        Dimensions that are numbers, since the model was wrong at other sizes.
    fault : Fault or None
        What is wrong where nothing helps.
    """

    exported: Any
    holes: list[Hole]
    fixed: list[FixedSize]
    fault: Fault | None

    @property
    def problem(self) -> str:
        """Say what is wrong with the model, or why sizes of it had to be fixed; empty where nothing is."""
        if self.fault is not None:
            return self.fault.text
        return self.fixed[0].reason if self.fixed else ""


def export_verified(
    program: Any,
    exported: Any,
    module: Any,
    args: Any,
    kwargs: Mapping[str, Any],
    options: ExportOptions,
) -> VerifiedExport:
    """Compare an export with torch, and let torch take over the calls at fault.

    Parameters
    ----------
    program : torch.export.ExportedProgram
        It is changed where there is a fault.
    exported : torch.onnx.ONNXProgram
        What `convert` made of it.
    module, args, kwargs
        As for `export`, the keywords in the order of forward's parameters.
    options : tuple
        ``dynamic_shapes``, ``input_names`` and ``output_names``.

    Returns
    -------
    VerifiedExport
    """
    requests = requested_dimensions(options[0], bound_arguments(module, args, kwargs))
    axes_of = _places_of_dimensions(proto_of(exported), requests)
    parts = parts_in(program)
    foreign = runs_foreign_code(program) or any(part.foreign for part in parts)
    # One comparison for all attempts: they are judged on the same inputs.
    comparison = ModuleComparison(
        module, args, kwargs, _bounds(axes_of), foreign=foreign, limited=bool(parts)
    )

    def fault_of(candidate: Any) -> Fault | None:
        return comparison.fault(proto_of(candidate))

    def fault_at_example(candidate: Any) -> Fault | None:
        return comparison.fault(proto_of(candidate), sizes=False)

    fault = fault_of(exported)
    holes: list[Hole] = []
    if fault is not None and not fault.at_other_sizes:
        # Sizes come later, so that an op is not blamed for a loop that only one size fits.
        mended, holes = _mended(program, fault.text, fault_at_example, options)
        if mended is None:
            return VerifiedExport(exported, [], [], fault)
        exported = mended
        fault = fault_of(exported)
    if fault is None:
        return VerifiedExport(exported, holes, [], None)
    # The model is wrong at other sizes. Either that is an op's fault as well, …
    mended, more_holes = _mended(program, fault.text, fault_of, options)
    if mended is not None:
        return VerifiedExport(mended, holes + more_holes, [], None)
    # … or what forward does depends on the size, as a loop over it does.
    wrong = comparison.wrong_sizes(proto_of(exported))
    for symbol, text in wrong.items():
        if not _may_be_fixed(axes_of[symbol]):
            name, axis, _ = axes_of[symbol][0]
            text = f"{sanitize(name)}, axis {axis}, cannot change: {sanitize(text, 400)}"
            return VerifiedExport(exported, [], [], Fault(text))
    feeds = comparison.feeds(proto_of(exported))
    fixed = []
    for symbol, text in wrong.items():
        reason = f"as the model is wrong at other sizes: {sanitize(text, 300)}"
        for name, axis, _ in axes_of[symbol]:
            size = feeds[name].shape[axis]
            fixed.append(FixedSize(name, axis, size, reason))
        fix_dimensions(exported.model.graph, symbol, size)
    return VerifiedExport(exported, holes, fixed, None)


def _mended(
    program: Any, reason: str, fault_of: Callable[[Any], Fault | None], options: ExportOptions
) -> tuple[Any, list[Hole]]:
    """Export again with torch in the place of the calls at fault; return None where that does not help."""
    latest: list[Any] = []
    filled: list[Hole] = []

    def check() -> str | None:
        try:
            exported, holes = export_program(program, options)
        except ModelError as error:
            return str(error)
        latest.append(exported)
        # With other ops in torch, the exporter may meet others that it lacks.
        filled.extend(holes)
        fault = fault_of(exported)
        return None if fault is None else fault.text

    holes = mend(program, reason, check)
    if holes and check() is None:
        return latest[-1], holes + filled
    return None, []


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
