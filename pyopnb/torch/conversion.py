"""Export a torch module as a model for ONNX Runtime.

Where the exporter lacks an op, a node calls torch itself.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from onnx import ModelProto

from pyopnb.common import messages
from pyopnb.engine import check_arguments
from pyopnb.errors import ModelError, PyopError
from pyopnb.torch.example import Example, enlarged, example_of, widened
from pyopnb.torch.exporter import Conversion, convert
from pyopnb.torch.holes import NoStandIn
from pyopnb.torch.parts import capture_around, capture_narrowed, capture_with_parts, fixed_sizes
from pyopnb.torch.program import check_buffers
from pyopnb.torch.reports import Report, StandIns, note_holes
from pyopnb.torch.sizes import fixed_by_torch, renamed_by_forward
from pyopnb.torch.verified_export import export_verified

__all__ = ["export", "missing"]


# The arguments of the older torch exporter, by names of the model and with outputs.
_ADVICE = {"dynamic_axes": "dynamic_shapes={'x': {0: 'batch'}}"}


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

    `torch.export.export` and `torch.onnx.export` do the work. If that exporter has no ONNX function
    for a torch op, each call of it becomes a node such as ``torch.aten::inverse``, an op of the
    registry that calls torch itself. The model is then compared with the module on the example, on
    difficult numbers, and at other sizes. If its results differ from torch's, or ONNX Runtime
    cannot run it, the ops at fault also call torch, or if that does not help, a part of the
    module.

    Parameters
    ----------
    module : torch.nn.Module
        In evaluation mode, on the CPU. It is not changed.
    args : tuple
        Example arguments.
    kwargs : mapping, optional
        Example keyword arguments.
    dynamic_shapes : optional
        The dimensions that may change, as for `torch.export.export`: ``({0:
        torch.export.Dim("batch")},)``, or ``({0: "batch"},)`` with just a name for the model. All
        other dimensions are fixed.
    input_names, output_names : sequence of str, optional
        Names in the model.
    ops : mapping, optional
        For a torch op, the ``domain::OpType`` to write instead: an operator of ONNX Runtime or an
        op of the registry. Its inputs are the tensors, and its attributes are the arguments that
        differ from their defaults, by name.
    verify : bool
        Compare the model with the module. If False, nothing is compared, and a warning says so.

    Returns
    -------
    ModelProto
        A model for `pyopnb.Session`.

    Warns
    -----
    StandIns
        Lists the calls that run in torch (`report` has the whole table), and the dimensions of
        ``dynamic_shapes`` that became fixed numbers in the model, with the line that fixes them.

    Raises
    ------
    InputError
        The module is not a module, ``args`` is not a tuple, forward does not have such arguments,
        or a name does not exist.
    ModelError
        The module is in training mode, contains NaN, draws random numbers, changes its buffers, has
        complex inputs or outputs, cannot be captured, or its model differs from torch. Or torch
        itself cannot run it on the arguments.

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
    names = input_names, output_names, ops
    example = example_of(module, args, kwargs, dynamic_shapes, *names)
    wider = widened(example)
    if wider is not None:
        try:
            return _exported(example, wider, verify)
        except PyopError:
            # Forward does something else with 1 than with 2 and more, as squeeze() does.
            pass
    return _exported(example, example, verify)


def _exported(example: Example, captured: Example, verify: bool) -> ModelProto:
    """Export a module that is captured with some arguments and compared on the user's own."""
    conversion = _converted(captured)
    check_buffers(conversion.program, conversion.exported.exported_program, example.where)
    if verify:
        conversion = export_verified(conversion, example)
        problem = _problem(conversion)
        # A user's op that is wrong is not replaced by torch.
        if problem and not example.ops:
            conversion = _with_part(problem, example, captured) or conversion
    fault = conversion.fault
    if fault is not None and fault.error is not None:
        raise fault.error
    if fault is not None:
        expected, suggestion = "the same numbers as in torch", "give the op at fault in ops="
        raise ModelError(example.where, expected=expected, got=fault.text, next=suggestion)
    model, graph = conversion.model, conversion.exported.model.graph
    names = [entry.name for entry in graph.inputs]
    fixed = list(fixed_by_torch(conversion.program, names, example.requests).values())
    fixed += conversion.fixed + renamed_by_forward(graph, names, example.requests)
    if conversion.holes or fixed or not verify:
        note_holes(model, conversion.holes)
        warning = StandIns(conversion.holes, fixed, verified=verify)
        warnings.warn(warning, stacklevel=messages.level_of_user())
    return model


def _problem(conversion: Conversion) -> str:
    """Say what is wrong with a model, or why some of its sizes had to be fixed.

    The text is empty if nothing is wrong and no size is fixed.
    """
    if conversion.fault is not None:
        return str(conversion.fault.text)
    return conversion.fixed[0].reason if conversion.fixed else ""


def _with_part(problem: str, example: Example, captured: Example) -> Conversion | None:
    """Export a module again, with the part in torch for which the model is wrong.

    None is returned if no such part helps.
    """

    def accept(program: Any) -> Conversion | None:
        conversion = export_verified(convert(program, captured), example)
        return None if _problem(conversion) else conversion

    refusal = ModelError("module", expected="the same numbers as in torch", got=problem)
    try:
        result: Conversion | None = capture_narrowed(captured, refusal, accept)
    except ModelError:
        # No op can replace a part that draws random numbers, or changes its module.
        return None
    return result


@functools.partial(check_arguments, but=("kwargs",), advice=_ADVICE)
def missing(
    module: Any,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
) -> Report:
    """List the calls of a module for which the torch exporter has no ONNX operator.

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
        A sequence of `Hole`, which is empty if the exporter has every op.

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
    conversion = _converted(example_of(module, args, kwargs, dynamic_shapes))
    note_holes(conversion.model, conversion.holes)
    return Report(conversion.model)


def _converted(example: Example) -> Conversion:
    """Capture and export a module, with parts in torch where neither a node nor an op will do."""
    program = capture_with_parts(example)
    fixed = fixed_sizes(program, example)
    try:
        conversion = convert(program, example)
    except NoStandIn as refusal:
        program = capture_around(example, refusal)
        conversion = convert(program, example)
    # The exporter's decompositions also fix sizes, where their result is 1 in the example.
    places = fixed_sizes(program, example).keys() - fixed.keys()
    larger = enlarged(example, sorted(places))
    if larger is not None:
        try:
            program = capture_with_parts(larger)
            general = convert(program, larger)
        except ModelError:
            return conversion
        if places.isdisjoint(fixed_sizes(program, example)):
            return general
    return conversion
