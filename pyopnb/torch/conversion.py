"""Export a torch module as a model for ONNX Runtime, with torch itself where the exporter lacks an op."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from onnx import ModelProto

from pyopnb.errors import ModelError, PyopError
from pyopnb.ops.arguments import check_arguments
from pyopnb.ops.messages import hide_internal_frames, level_of_user, sanitize
from pyopnb.torch.example import (
    bound_arguments,
    check_example,
    in_order,
    widened,
    with_caches,
)
from pyopnb.torch.exporter import ExportOptions, convert, proto_of
from pyopnb.torch.holes import Hole, NoStandIn
from pyopnb.torch.parts import capture_around, capture_narrowed, capture_with_parts
from pyopnb.torch.program import check_buffers
from pyopnb.torch.reports import Report, StandIns, note_holes
from pyopnb.torch.sizes import fixed_by_torch, renamed_by_forward, requested_dimensions
from pyopnb.torch.verified_export import VerifiedExport, export_verified

__all__ = ["export", "missing"]


# The arguments of torch's older exporter, by names of the model and with outputs.
_ADVICE = {"dynamic_axes": "dynamic_shapes={'x': {0: 'batch'}}"}


@hide_internal_frames
@functools.partial(check_arguments, but=("kwargs", "verify"), advice=_ADVICE)
def export(
    module: Any,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    ops: Mapping[Any, str] | None = None,
    verify: bool = True,
) -> ModelProto:
    """Export a torch module as a model that runs in ONNX Runtime.

    It is exported by `torch.export.export` and `torch.onnx.export`. Each call of a torch op for which that
    exporter has no ONNX function becomes a node ``torch.aten::inverse``, an op of the registry that calls
    torch itself. The model is compared with the module on the example, on numbers that are not kind, and
    at other sizes. Where its results are not torch's, or ONNX Runtime cannot run it, the ops at fault call
    torch as well; where that does not help, a part of the module does.

    Parameters
    ----------
    module : torch.nn.Module
        In evaluation mode, on the CPU. It is not changed.
    args : tuple
        Example arguments.
    kwargs : mapping, optional
        Example keyword arguments.
    dynamic_shapes : optional
        As for `torch.export.export`: the dimensions that may change, ``({0: torch.export.Dim("batch")},)``. A
        name alone, ``({0: "batch"},)``, is the name of the dimension in the model. All others are fixed.
    input_names, output_names : sequence of str, optional
        Names in the model.
    ops : mapping, optional
        Torch op to the ``domain::OpType`` that shall take its place: an operator of ONNX Runtime or an op of
        the registry. It gets the tensors as inputs, and arguments that differ from the default as
        attributes of their names.
    verify : bool
        Compare the model with the module. Without it nothing is compared, and the warning says so.

    Returns
    -------
    ModelProto
        For `pyopnb.Session`.

    Warns
    -----
    StandIns
        The calls that run in torch, of which `report` has the whole table; and the dimensions of
        ``dynamic_shapes`` that are numbers in the model, with the line that decides it.

    Raises
    ------
    InputError
        What was given is no module, no tuple, arguments that forward does not have, or a name that is
        not there.
    ModelError
        The module trains, holds NaN, draws random numbers, changes its buffers, has complex inputs or
        outputs, cannot be captured, or its model gives other numbers than torch. Or torch itself does not
        run it on the arguments.

    Examples
    --------
    >>> import warnings, torch, pyopnb, pyopnb.torch
    >>> class Inverse(torch.nn.Module):
    ...     def forward(self, x):
    ...         return torch.inverse(x) + x
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     model = pyopnb.torch.export(Inverse().eval(), (torch.eye(3) * 2,), input_names=["x"])
    >>> messages = [entry.message for entry in caught]
    >>> [m.holes[0].op for m in messages if isinstance(m, pyopnb.torch.StandIns)]
    ['torch.ops.aten.inverse.default']
    >>> pyopnb.Session(model)(x=torch.eye(3) * 4)[0]
    array([[4.25, 0.  , 0.  ],
           [0.  , 4.25, 0.  ],
           [0.  , 0.  , 4.25]], dtype=float32)
    """
    dynamic_shapes = with_caches(module, args, kwargs, dynamic_shapes)
    check_example(module, args, kwargs)
    options = dynamic_shapes, input_names, output_names
    example = args, in_order(module, kwargs)
    wider = widened(module, *example, dynamic_shapes)
    if wider is not None:
        try:
            return _exported(module, example, wider, options, ops, verify)
        except PyopError:
            # What forward does with 1 is something else than with 2 and more, as squeeze() does.
            pass
    return _exported(module, example, example, options, ops, verify)


def _exported(
    module: Any,
    example: tuple[Any, Any],
    captured: tuple[Any, Any],
    options: ExportOptions,
    ops: Mapping[Any, str] | None,
    verify: bool,
) -> ModelProto:
    """Export a module that is captured with some arguments and compared on the user's."""
    program, exported, holes = _converted(module, *captured, options, ops)
    where = f"module {sanitize(type(module).__name__)}"
    check_buffers(program, exported.exported_program, where)
    verified = VerifiedExport(exported, holes, [], None)
    if verify:
        verified = _compared(program, exported, holes, module, example, options)
        problem = verified.problem
        # An op of the user's that is wrong is not replaced by torch.
        if problem and not ops:
            part = _with_part(problem, module, example, captured, options)
            program, verified = part or (program, verified)
    fault = verified.fault
    if fault is not None and fault.error is not None:
        raise fault.error
    if fault is not None:
        expected, suggestion = "torch's numbers in ONNX Runtime", "give the op at fault in ops="
        raise ModelError(where, expected=expected, got=fault.text, next=suggestion)
    model = proto_of(verified.exported)
    names = [entry.name for entry in verified.exported.model.graph.inputs]
    requests = requested_dimensions(options[0], bound_arguments(module, *example))
    fixed = fixed_by_torch(program, names, requests) + verified.fixed
    fixed += renamed_by_forward(verified.exported.model.graph, names, requests)
    if verified.holes or fixed or not verify:
        note_holes(model, verified.holes)
        warning = StandIns(verified.holes, fixed, verified=verify)
        warnings.warn(warning, stacklevel=level_of_user())
    return model


def _compared(
    program: Any,
    exported: Any,
    holes: list[Hole],
    module: Any,
    example: tuple[Any, Any],
    options: ExportOptions,
) -> VerifiedExport:
    verified = export_verified(program, exported, module, *example, options)
    return replace(verified, holes=holes + verified.holes)


def _with_part(
    problem: str,
    module: Any,
    example: tuple[Any, Any],
    captured: tuple[Any, Any],
    options: ExportOptions,
) -> tuple[Any, VerifiedExport] | None:
    """Export a module with the part in torch for which the model is wrong; return None where nothing helps."""

    def accept(program: Any) -> tuple[Any, VerifiedExport] | None:
        exported, holes = convert(program, options)
        verified = _compared(program, exported, holes, module, example, options)
        return None if verified.problem else (program, verified)

    refusal = ModelError("module", expected="torch's numbers in ONNX Runtime", got=problem)
    try:
        result: tuple[Any, VerifiedExport] | None = capture_narrowed(
            module, *captured, options[0], refusal, accept
        )
    except ModelError:
        # No op can stand in for what draws random numbers, or changes its module.
        return None
    return result


@hide_internal_frames
@functools.partial(check_arguments, but=("kwargs",), advice=_ADVICE)
def missing(
    module: Any,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
) -> Report:
    """List the calls of a module for which torch's exporter has no ONNX operator.

    Parameters
    ----------
    module : torch.nn.Module
        In evaluation mode. It is not changed.
    args : tuple
        Example arguments.
    kwargs : mapping, optional
        Example keyword arguments.
    dynamic_shapes : optional
        As for `export`.

    Returns
    -------
    Report
        A sequence of `Hole`, empty and false where the exporter has every op.

    Raises
    ------
    InputError, ModelError
        As from `export`.

    Examples
    --------
    >>> import torch, pyopnb.torch
    >>> class Whiten(torch.nn.Module):
    ...     def forward(self, x):
    ...         return torch.linalg.cholesky(x @ x.T + torch.eye(3))
    >>> holes = pyopnb.torch.missing(Whiten().eval(), (torch.ones(3, 3),))
    >>> [(hole.op, hole.types) for hole in holes]
    [('torch.ops.aten.linalg_cholesky.default', '(float32[3,3]) -> float32[3,3]')]
    """
    dynamic_shapes = with_caches(module, args, kwargs, dynamic_shapes)
    _, exported, holes = _converted(module, args, kwargs, (dynamic_shapes, None, None), None)
    model = proto_of(exported)
    note_holes(model, holes)
    return Report(model, {})


def _converted(
    module: Any,
    args: Any,
    kwargs: Mapping[str, Any] | None,
    options: ExportOptions,
    ops: Mapping[Any, str] | None,
) -> tuple[Any, Any, list[Hole]]:
    """Capture and export a module; what can be neither a node nor an op of torch's is a part of it."""
    program = capture_with_parts(module, args, kwargs, options[0])
    try:
        return program, *convert(program, options, ops)
    except NoStandIn as refusal:
        program = capture_around(module, args, kwargs, options[0], refusal)
    return program, *convert(program, options, ops)
