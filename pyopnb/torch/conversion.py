"""A torch module as a model for ONNX Runtime, every hole of the exporter filled by torch itself."""

from __future__ import annotations

import itertools
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import onnx_ir
import torch
from onnx import ModelProto

from pyopnb.errors import InputError, ModelError, PyopError
from pyopnb.models.ort_capabilities import has_op, newest_ir_version
from pyopnb.ops.messages import hide_internal_frames, plural, sanitize, suggest
from pyopnb.ops.names import split_name
from pyopnb.ops.registry import registry
from pyopnb.torch.calls import Unwritable, target_name
from pyopnb.torch.exporter_internals import forget_pending_sizes
from pyopnb.torch.functions import exported_as
from pyopnb.torch.holes import Hole, Holes, failed_call, find_holes
from pyopnb.torch.mend import mend
from pyopnb.torch.program import (
    bound_arguments,
    calls_in,
    capture,
    check_buffers,
    check_runs,
    in_order,
    quiet,
    refuse_dynamic_axes,
    where_of,
)
from pyopnb.torch.report import StandIns
from pyopnb.torch.sizes import (
    FixedSize,
    fix_dimensions,
    fixed_by_torch,
    requested_dimensions,
    write_fixed_sizes,
)
from pyopnb.torch.stand_in import define
from pyopnb.torch.torchscript import export_traced
from pyopnb.torch.verify import Fault, feeds_of, wrong_sizes
from pyopnb.torch.verify import verify as verify_numbers
from pyopnb.torch.wrappers import put_node, translations

__all__ = ["VerifiedExport", "convert", "export", "export_verified", "missing", "proto_of"]

_ROUNDS = 50
"""Attempts to export; each finds at least one hole more. Nearly always the second has none."""


@hide_internal_frames
def export(
    module: Any,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    ops: Mapping[Any, str] | None = None,
    dynamo: bool = True,
    verify: bool = True,
    dynamic_axes: Any = None,
) -> ModelProto:
    """A torch module as a model that runs in ONNX Runtime.

    It is exported by `torch.export.export` and `torch.onnx.export`. Each call of a torch op for which that exporter has no ONNX
    function becomes a node ``torch.aten::inverse``, an op of the registry that calls torch itself. The model is run on the
    example and on numbers a hundredth larger. If its results are not torch's, or ONNX Runtime cannot run it, the ops at fault
    call torch as well; where that does not help it is refused.

    Parameters
    ----------
    module : torch.nn.Module
        In evaluation mode, on the CPU. It is not changed.
    args : tuple
        Example arguments.
    kwargs : mapping, optional
        Example keyword arguments.
    dynamic_shapes : optional
        As for `torch.export.export`: the dimensions that may change, ``({0: torch.export.Dim("batch")},)``. A name alone,
        ``({0: "batch"},)``, is the name of the dimension in the model. All others are fixed.
    input_names, output_names : sequence of str, optional
        Names in the model.
    ops : mapping, optional
        Torch op to the ``domain::OpType`` that shall take its place: an operator of ONNX Runtime or an op of the registry. It
        gets the tensors as inputs, and arguments that differ from the default as attributes of their names.
    dynamo : bool
        As for `torch.onnx.export`: without it, its older exporter traces the module, and nothing is filled. Its trap is
        refused: NumPy in forward, which it makes a constant. Ops are sent elsewhere by `register_custom_op_symbolic`.
    verify : bool
        Compare the model with the module on the example, on floats beside it and at other sizes of each
        free dimension. Without it nothing is compared, and the warning says so.
    dynamic_axes : optional
        Refused: ``dynamic_shapes`` has taken its place.

    Returns
    -------
    ModelProto
        For `pyopnb.Session`.

    Warns
    -----
    StandIns
        The calls that run in torch, with the line of each, and the ``%%pyop`` cell that would replace the op; and the
        dimensions of ``dynamic_shapes`` that are numbers in the model, with the line that decides it.

    Raises
    ------
    InputError
        What was given is no module, no tuple, arguments that forward does not have, or a name that is not there.
    ModelError
        The module trains, holds NaN, draws random numbers, changes its buffers, has complex inputs or outputs, cannot be
        captured, or its model gives other numbers than torch. Or torch itself does not run it on the arguments.

    Examples
    --------
    >>> import warnings, torch, pyopnb, pyopnb.torch
    >>> class Inverse(torch.nn.Module):
    ...     def forward(self, x):
    ...         return torch.inverse(x) + x
    >>> with warnings.catch_warnings(record=True) as said:
    ...     warnings.simplefilter("always")
    ...     model = pyopnb.torch.export(Inverse().eval(), (torch.eye(3) * 2,), input_names=["x"])
    >>> [entry.holes[0].op for entry in (each.message for each in said) if isinstance(entry, pyopnb.torch.StandIns)]
    ['torch.ops.aten.inverse.default']
    >>> pyopnb.Session(model)(x=torch.eye(3) * 4)[0]
    array([[4.25, 0.  , 0.  ],
           [0.  , 4.25, 0.  ],
           [0.  , 0.  , 4.25]], dtype=float32)
    """
    if dynamic_axes is not None:
        refuse_dynamic_axes(dynamic_axes)
    if not dynamo:
        if ops:
            expected, next_ = (
                "none with dynamo=False",
                'pyopnb.torch.register_custom_op_symbolic("::name", "domain::OpType")',
            )
            raise InputError("ops", expected=expected, got=plural(len(ops), "op"), next=next_)
        return export_traced(module, args, kwargs, dynamic_shapes, input_names, output_names)
    started = time.monotonic()
    program = capture(module, args, kwargs, dynamic_shapes)
    exported, holes = convert(program, dynamic_shapes, input_names, output_names, ops)
    where = f"module {sanitize(type(module).__name__)}"
    check_buffers(program, exported.exported_program, where)
    arguments = bound_arguments(module, args, in_order(module, kwargs))
    names = [entry.name for entry in exported.model.graph.inputs]
    fixed = fixed_by_torch(program, names, requested_dimensions(dynamic_shapes, arguments))
    if verify:
        options = dynamic_shapes, input_names, output_names
        share = _SHARE * (time.monotonic() - started)
        verified = export_verified(program, exported, module, args, kwargs, options, share)
        exported, fault = verified.exported, verified.fault
        if fault is not None:
            if fault.error is not None:
                raise fault.error
            next_ = "give the op at fault in ops="
            raise ModelError(
                where, expected="torch's numbers in ONNX Runtime", got=fault.text, next=next_
            )
        holes = holes + verified.holes
        fixed = fixed + verified.fixed
    if holes or fixed or not verify:
        warnings.warn(StandIns(holes, fixed, verified=verify), stacklevel=3)
    return proto_of(exported)


_SHARE = 0.3
"""Of the time of an export, how much more may pass with trials of other sizes."""


@hide_internal_frames
def missing(
    module: Any,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
) -> Holes:
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
    Holes
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
    >>> [(hole.op, hole.types) for hole in pyopnb.torch.missing(Whiten().eval(), (torch.ones(3, 3),))]
    [('torch.ops.aten.linalg_cholesky.default', '(float32[3,3]) -> float32[3,3]')]
    """
    program = capture(module, args, kwargs, dynamic_shapes)
    return Holes(convert(program, dynamic_shapes)[1])


# ---- the exporter ------------------------------------------------------------------------------------------------------------


def convert(
    program: Any,
    dynamic_shapes: Any,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    ops: Mapping[Any, str] | None = None,
) -> tuple[Any, list[Hole]]:
    """What the exporter makes of a program, after what it lacks was replaced, and what that was.

    Parameters
    ----------
    program : torch.export.ExportedProgram
        It is changed.
    dynamic_shapes, input_names, output_names, ops
        As for `export`.

    Returns
    -------
    tuple of torch.onnx.ONNXProgram and a list of Hole

    Raises
    ------
    InputError, ModelError
        As from `export`.
    """
    _check_names("input_names", input_names, program.graph_signature.user_inputs)
    _check_names("output_names", output_names, program.graph_signature.user_outputs)
    _put_functions(program)
    _send(program, ops or {})
    return _fill(program, dynamic_shapes, input_names, output_names)


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
        What is wrong where nothing helps; ``exported`` is as it was given then.
    """

    exported: Any
    holes: list[Hole]
    fixed: list[FixedSize]
    fault: Fault | None


def export_verified(
    program: Any,
    exported: Any,
    module: Any,
    args: Any,
    kwargs: Mapping[str, Any] | None,
    options: tuple[Any, ...],
    share: float = 0.0,
) -> VerifiedExport:
    """Compare an export with torch, and let torch take over the calls at fault.

    Parameters
    ----------
    program : torch.export.ExportedProgram
        It is changed where there is a fault.
    exported : torch.onnx.ONNXProgram
        What `convert` made of it.
    module, args, kwargs
        As for `export`.
    options : tuple
        ``dynamic_shapes``, ``input_names`` and ``output_names``.
    share : float
        Seconds for sizes beyond the first trials.

    Returns
    -------
    VerifiedExport
    """
    kwargs = in_order(module, kwargs)
    requests = requested_dimensions(options[0], bound_arguments(module, args, kwargs))

    def numbers(candidate: Any) -> Fault | None:
        return verify_numbers(proto_of(candidate), module, args, kwargs)

    def sizes(candidate: Any) -> dict[str, str]:
        model = proto_of(candidate)
        bounds = _bounds(_places(model, requests))
        return wrong_sizes(model, module, args, kwargs, bounds, time.monotonic() + share)

    def numbers_and_sizes(candidate: Any) -> Fault | None:
        fault = numbers(candidate)
        if fault is not None:
            return fault
        return next((Fault(text) for text in sizes(candidate).values()), None)

    holes: list[Hole] = []
    fault = numbers(exported)
    if fault is not None:
        check_runs(module, args, kwargs)
        mended, holes = _mended(program, fault.text, numbers, options)
        if mended is None:
            return VerifiedExport(exported, [], [], fault)
        exported = mended
    wrong = sizes(exported)
    if not wrong:
        return VerifiedExport(exported, holes, [], None)
    mended, more = _mended(program, next(iter(wrong.values())), numbers_and_sizes, options)
    if mended is not None:
        return VerifiedExport(mended, holes + more, [], None)
    places = _places(proto_of(exported), requests)
    promised = next((symbol for symbol in wrong if not _may_be_fixed(places[symbol])), None)
    if promised is not None:
        name, axis, _ = places[promised][0]
        text = f"{sanitize(name)}, axis {axis}, cannot change: {sanitize(wrong[promised], 400)}"
        return VerifiedExport(exported, [], [], Fault(text))
    return VerifiedExport(exported, holes, _fix(exported, places, wrong, args, kwargs), None)


def _mended(
    program: Any, reason: str, fault: Callable[[Any], Fault | None], options: tuple[Any, ...]
) -> tuple[Any, list[Hole]]:
    """Export again with torch in the place of the calls at fault; None where that does not help."""
    latest: list[Any] = []
    filled: list[Hole] = []

    def check() -> str | None:
        _settle(program)
        try:
            again, holes = _fill(program, *options)
        except ModelError as error:
            return str(error)
        filled.extend(holes)
        latest.append(again)
        found = fault(again)
        return None if found is None else found.text

    holes = mend(program, reason, check)
    if holes and check() is None:
        return latest[-1], holes + filled
    return None, []


_Place = tuple[str, int, Any]
"""An input, an axis, and what the user wants there."""


def _places(model: ModelProto, requests: Sequence[Mapping[int, Any]]) -> dict[str, list[_Place]]:
    """Find the inputs and axes of each free dimension."""
    places: dict[str, list[_Place]] = {}
    for info, request in zip(model.graph.input, requests, strict=False):
        for axis, dim in enumerate(info.type.tensor_type.shape.dim):
            if dim.dim_param:
                places.setdefault(dim.dim_param, []).append((info.name, axis, request.get(axis)))
    return places


def _bounds(places: Mapping[str, Sequence[_Place]]) -> dict[str, tuple[int, int]]:
    """Read the least and the largest sizes that the user has given to dimensions."""
    bounds = {}
    for symbol, entries in places.items():
        for _, _, request in entries:
            least, largest = getattr(request, "min", None), getattr(request, "max", None)
            if isinstance(least, int) or isinstance(largest, int):
                bounds[symbol] = int(least or 1), int(min(largest or _LARGEST, _LARGEST))
    return bounds


_LARGEST = 2**12


def _may_be_fixed(places: Sequence[_Place]) -> bool:
    """Tell whether a dimension is open for torch to decide, and not by a name of the user's."""
    hint = torch.export.Dim.AUTO
    return all(
        type(request) is type(hint) and request.type == hint.type for _, _, request in places
    )


def _fix(
    exported: Any,
    places: Mapping[str, Sequence[_Place]],
    wrong: Mapping[str, str],
    args: Any,
    kwargs: Any,
) -> list[FixedSize]:
    feeds = feeds_of(proto_of(exported), args, kwargs)
    fixed = []
    for symbol, text in wrong.items():
        for name, axis, _ in places[symbol]:
            size = feeds[name].shape[axis]
            fixed.append(
                FixedSize(
                    name, axis, size, f"as the model is wrong at other sizes: {sanitize(text, 300)}"
                )
            )
        fix_dimensions(exported.model.graph, symbol, size)
    return fixed


def proto_of(exported: Any) -> ModelProto:
    """The model that the exporter made, in an IR version that the installed onnxruntime takes.

    Parameters
    ----------
    exported : torch.onnx.ONNXProgram

    Returns
    -------
    ModelProto
    """
    model: ModelProto = exported.model_proto
    model.ir_version = min(model.ir_version, newest_ir_version())
    return model


def _fill(
    program: Any, dynamic_shapes: Any, input_names: Any, output_names: Any
) -> tuple[Any, list[Hole]]:
    """What the exporter makes of a program, after what it lacks was replaced, and what that was."""
    filled: list[Hole] = []
    for _ in range(_ROUNDS):
        try:
            return _exported(program, dynamic_shapes, input_names, output_names), filled
        except torch.onnx.OnnxExporterError as error:
            holes = _holes(program, error)
            if not holes:
                raise _failed(error) from error
            refused = next((hole for hole in holes if hole.target.namespace == "pyopnb"), None)
            if refused is not None:  # what stands in for an op already
                expected = "an op of the exporter's, or one that torch can stand in for"
                raise ModelError(
                    refused.line or "module", expected=expected, got=refused.reason
                ) from error
        for hole in holes:
            put_node(hole.node, define(hole.node.target))
        _settle(program)
        filled += holes
    raise ModelError(
        "module",
        expected=f"an export after {_ROUNDS} attempts",
        got=f"{plural(len(filled), 'hole')} and more",
    )


def _holes(program: Any, failure: BaseException) -> list[Hole]:
    forget_pending_sizes(program)
    try:
        with quiet():
            return find_holes(program, failure)
    except PyopError:
        raise
    except Exception as error:  # of torch, which takes the program apart
        raise _failed(error) from error


def _exported(program: Any, dynamic_shapes: Any, input_names: Any, output_names: Any) -> Any:
    forget_pending_sizes(program)
    options: dict[str, Any] = {
        "dynamo": True,
        "verbose": False,
        "input_names": input_names,
        "output_names": output_names,
        "dynamic_shapes": dynamic_shapes,
        "custom_translation_table": dict(translations()),
    }
    with quiet():
        try:
            exported = torch.onnx.export(program, (), **options)
        except onnx_ir.passes.PassError:
            # onnxscript's constant folding fails over a split with a size that may change, as
            # chunk(2) of a dynamic dimension is. Its optimiser is not needed to be right.
            forget_pending_sizes(program)
            exported = torch.onnx.export(program, (), optimize=False, **options)
    write_fixed_sizes(exported.model.graph)
    _name_returned(exported, len(input_names or ()), len(output_names or ()))
    return exported


def _name_returned(exported: Any, inputs: int, outputs: int) -> None:
    """Give an input that is a result as well its own name back; the exporter calls the result x, and the input x_orig.

    The user has named so many of the inputs and outputs, which keep these names.
    """
    graph, known = exported.model.graph, exported.exported_program.graph_signature.user_inputs
    own = {id(value) for value in graph.inputs[inputs:]}
    for place, result in enumerate(graph.outputs):
        node = result.producer()
        source = node.inputs[0] if node is not None and node.op_type == "Identity" else None
        if source is None or not source.is_graph_input():
            continue
        name = source.name.removesuffix("_orig")
        if place >= outputs and result.name in (name, source.name):
            taken = _names_in(graph)
            result.name = next(
                free for n in itertools.count() if (free := f"{name}_out{n or ''}") not in taken
            )
        if (
            id(source) in own
            and name in known
            and source.name not in known
            and name not in _names_in(graph)
        ):
            source.name = name


def _names_in(graph: Any) -> set[str]:
    return {value.name for value in graph.inputs} | {
        value.name for node in graph for value in node.outputs
    }


def _settle(program: Any) -> None:
    """Make the code of a program that of its graph again."""
    for part in program.graph_module.modules():
        if isinstance(part, torch.fx.GraphModule):
            part.graph.lint()
            part.recompile()


def _failed(error: BaseException) -> ModelError:
    """The error for what the exporter refuses for another reason than an op."""
    named, cause = failed_call(error), error
    while cause.__cause__ is not None:
        cause = cause.__cause__
    said = str(cause).strip().partition("\n")[0]
    where = f"torch.onnx.export{f', {sanitize(named[0])}' if named else ''}"
    got = sanitize(f"{type(cause).__name__}: {said}", 400)
    return ModelError(
        where,
        expected="a program that the exporter takes",
        got=got,
        next="see the error above, of torch",
    )


def _check_names(where: str, names: Sequence[str] | None, ends: Sequence[Any]) -> None:
    """Refuse more names than there are inputs or outputs, which the exporter would drop."""
    if isinstance(names, str):
        raise InputError(
            where,
            expected="a list of names",
            got=sanitize(repr(names)),
            next=f"[{sanitize(repr(names))}]",
        )
    if names is not None and (
        twice := [name for place, name in enumerate(names) if name in names[:place]]
    ):
        raise InputError(where, expected="each name once", got=f"{sanitize(repr(twice[0]))} twice")
    if names is not None and len(names) > len(ends):
        kind = where.partition("_")[0]
        got = f"{len(names)}: {', '.join(map(str, names))}"
        raise InputError(
            where, expected=f"names of {plural(len(ends), kind)}", got=sanitize(got, 200)
        )


def _put_functions(program: Any) -> None:
    """Replace the calls of functions that `pyopnb.torch.op` made."""
    for node, around in list(calls_in(program)):
        known = exported_as(node.target)
        if known is not None:
            node.kwargs = {name: value for name, value in node.kwargs.items() if value is not None}
            _put(node, around, *known)


def _put(node: Any, around: tuple[Any, ...], op: str, version: int) -> None:
    try:
        put_node(node, op, version=version, natural=True)
    except Unwritable as error:
        raise ModelError(
            f"{where_of(node, around)}, as {op}", expected=error.expected, got=error.got
        ) from None


# ---- ops= --------------------------------------------------------------------------------------------------------------------


def _send(program: Any, ops: Mapping[Any, str]) -> None:
    """Replace the calls for which the user named an op."""
    if not ops:
        return
    calls = list(calls_in(program))
    for key, op in ops.items():
        mine = [
            (node, around)
            for node, around in calls
            if key in (node.target, getattr(node.target, "overloadpacket", None))
        ]
        if not mine:
            called = sorted(
                {
                    target_name(node.target)
                    for node, _ in calls
                    if isinstance(node.target, torch._ops.OpOverload)
                }
            )
            got = (
                target_name(key)
                if isinstance(key, (torch._ops.OpOverload, torch._ops.OpOverloadPacket))
                else repr(key)
            )
            next_ = suggest(got, called) if called else None
            raise InputError(
                "ops", expected="a torch op that the module calls", got=sanitize(got), next=next_
            )
        domain, op_type = split_name(op)
        known = registry.find(domain, op_type)
        if known is None and not has_op(domain, op_type):
            names = [entry.name for entry in registry]
            expected = "an op of the registry, or an operator of ONNX Runtime"
            raise InputError(
                f"ops, {target_name(key)}",
                expected=expected,
                got=sanitize(op),
                next=suggest(op, names),
            )
        for node, around in mine:
            _put(node, around, op, 1 if known is None else known.current.opset)
    _settle(program)
