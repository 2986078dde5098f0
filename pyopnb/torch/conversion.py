"""A torch module as a model for ONNX Runtime, every hole of the exporter filled by torch itself."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from onnx import ModelProto

from pyopnb.models.ort_capabilities import has_op, newest_ir_version
from pyopnb.ops.errors import ArgumentError, ModelError, PyopError, hide_internal_frames, plural, sanitize, suggest
from pyopnb.ops.names import split_name
from pyopnb.ops.registry import registry
from pyopnb.torch.calls import Unwritable, target_name
from pyopnb.torch.exporter_internals import forget_pending_sizes, kept_tables
from pyopnb.torch.functions import exported_as
from pyopnb.torch.holes import Hole, Holes, failed_call, find_holes
from pyopnb.torch.mend import mend
from pyopnb.torch.program import calls_in, capture, check_buffers, check_runs, in_order, quiet, where_of
from pyopnb.torch.report import StandIns
from pyopnb.torch.stand_in import define
from pyopnb.torch.torchscript import export_traced
from pyopnb.torch.verify import Fault, verify
from pyopnb.torch.wrappers import put_node, translations

__all__ = ["convert", "export", "missing", "proto_of", "sound"]

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

    Returns
    -------
    ModelProto
        For `pyopnb.Session`.

    Warns
    -----
    StandIns
        The calls that run in torch, with the line of each, and the ``%%pyop`` cell that would replace the op.

    Raises
    ------
    ArgumentError
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
    if not dynamo:
        if ops:
            expected, next_ = "none with dynamo=False", 'pyopnb.torch.register_custom_op_symbolic("::name", "domain::OpType")'
            raise ArgumentError("ops", expected=expected, got=plural(len(ops), "op"), next=next_)
        return export_traced(module, args, kwargs, dynamic_shapes, input_names, output_names)
    program = capture(module, args, kwargs, dynamic_shapes)
    exported, holes = convert(program, dynamic_shapes, input_names, output_names, ops)
    where = f"module {sanitize(type(module).__name__)}"
    check_buffers(program, exported.exported_program, where)
    exported, more, fault = sound(program, exported, module, args, kwargs, (dynamic_shapes, input_names, output_names))
    if fault is not None:
        if fault.error is not None:
            raise fault.error
        raise ModelError(where, expected="torch's numbers in ONNX Runtime", got=fault.text, next="give the op at fault in ops=")
    if holes + more:
        warnings.warn(StandIns(holes + more), stacklevel=3)
    return proto_of(exported)


@hide_internal_frames
def missing(
    module: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any] | None = None, *, dynamic_shapes: Any = None
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
    ArgumentError, ModelError
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
    ArgumentError, ModelError
        As from `export`.
    """
    _check_names("input_names", input_names, program.graph_signature.user_inputs)
    _check_names("output_names", output_names, program.graph_signature.user_outputs)
    _put_functions(program)
    _send(program, ops or {})
    return _fill(program, dynamic_shapes, input_names, output_names)


def sound(
    program: Any, exported: Any, module: Any, args: Any, kwargs: Mapping[str, Any] | None, given: tuple[Any, ...]
) -> tuple[Any, list[Hole], Fault | None]:
    """An export that gives torch's numbers: where it does not, torch takes over the calls at fault.

    Parameters
    ----------
    program : torch.export.ExportedProgram
        It is changed where there is a fault.
    exported : torch.onnx.ONNXProgram
        What `convert` made of it.
    module, args, kwargs
        As for `export`.
    given : tuple
        ``dynamic_shapes``, ``input_names`` and ``output_names``.

    Returns
    -------
    exported : torch.onnx.ONNXProgram
    holes : list of Hole
        The calls that torch has taken over.
    fault : Fault or None
        What is wrong where that does not help; ``exported`` is as it was given then.
    """
    kwargs = in_order(module, kwargs)
    fault = verify(proto_of(exported), module, args, kwargs)
    if fault is None:
        return exported, [], None
    check_runs(module, args, kwargs)
    latest: list[Any] = []
    others: list[Hole] = []

    def check() -> str | None:
        _settle(program)
        try:
            again, holes = _fill(program, *given)
        except ModelError as error:
            return str(error)
        others.extend(holes)
        latest.append(again)
        found = verify(proto_of(again), module, args, kwargs)
        return None if found is None else found.text

    holes = mend(program, fault.text, check)
    if holes and check() is None:
        return latest[-1], holes + others, None
    return exported, [], fault


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


def _fill(program: Any, dynamic_shapes: Any, input_names: Any, output_names: Any) -> tuple[Any, list[Hole]]:
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
                raise ModelError(refused.line or "module", expected=expected, got=refused.reason) from error
        for hole in holes:
            put_node(hole.node, define(hole.node.target))
        _settle(program)
        filled += holes
    raise ModelError("module", expected=f"an export after {_ROUNDS} attempts", got=f"{plural(len(filled), 'hole')} and more")


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
    with quiet(), kept_tables():
        exported = torch.onnx.export(
            program,
            (),
            dynamo=True,
            verbose=False,
            input_names=input_names,
            output_names=output_names,
            dynamic_shapes=dynamic_shapes,
            custom_translation_table=dict(translations()),
        )
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
            result.name = next(free for n in itertools.count() if (free := f"{name}_out{n or ''}") not in taken)
        if id(source) in own and name in known and source.name not in known and name not in _names_in(graph):
            source.name = name


def _names_in(graph: Any) -> set[str]:
    return {value.name for value in graph.inputs} | {value.name for node in graph for value in node.outputs}


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
    return ModelError(where, expected="a program that the exporter takes", got=got, next="see the error above, of torch")


def _check_names(where: str, names: Sequence[str] | None, ends: Sequence[Any]) -> None:
    """Refuse more names than there are inputs or outputs, which the exporter would drop."""
    if isinstance(names, str):
        raise ArgumentError(where, expected="a list of names", got=sanitize(repr(names)), next=f"[{sanitize(repr(names))}]")
    if names is not None and (twice := [name for place, name in enumerate(names) if name in names[:place]]):
        raise ArgumentError(where, expected="each name once", got=f"{sanitize(repr(twice[0]))} twice")
    if names is not None and len(names) > len(ends):
        kind = where.partition("_")[0]
        got = f"{len(names)}: {', '.join(map(str, names))}"
        raise ArgumentError(where, expected=f"names of {plural(len(ends), kind)}", got=sanitize(got, 200))


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
        raise ModelError(f"{where_of(node, around)}, as {op}", expected=error.expected, got=error.got) from None


# ---- ops= --------------------------------------------------------------------------------------------------------------------


def _send(program: Any, ops: Mapping[Any, str]) -> None:
    """Replace the calls for which the user named an op."""
    if not ops:
        return
    calls = list(calls_in(program))
    for key, op in ops.items():
        mine = [(node, around) for node, around in calls if key in (node.target, getattr(node.target, "overloadpacket", None))]
        if not mine:
            called = sorted({target_name(node.target) for node, _ in calls if isinstance(node.target, torch._ops.OpOverload)})
            got = target_name(key) if isinstance(key, (torch._ops.OpOverload, torch._ops.OpOverloadPacket)) else repr(key)
            next_ = suggest(got, called) if called else None
            raise ArgumentError("ops", expected="a torch op that the module calls", got=sanitize(got), next=next_)
        domain, op_type = split_name(op)
        known = registry.find(domain, op_type)
        if known is None and not has_op(domain, op_type):
            names = [entry.name for entry in registry]
            expected = "an op of the registry, or an operator of ONNX Runtime"
            raise ArgumentError(f"ops, {target_name(key)}", expected=expected, got=sanitize(op), next=suggest(op, names))
        for node, around in mine:
            _put(node, around, op, 1 if known is None else known.current.opset)
    _settle(program)
