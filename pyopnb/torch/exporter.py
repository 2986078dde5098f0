"""Run the torch exporter on a program, with torch in place of the calls that it lacks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import onnx_ir
import torch
from onnx import ModelProto

from pyopnb.common import messages, plural, sanitize
from pyopnb.engine import op_names, ort_capabilities, registry
from pyopnb.errors import InputError, ModelError
from pyopnb.torch.arrays import to_array
from pyopnb.torch.attention import zero_masked_rows
from pyopnb.torch.calls import Unwritable, target_name
from pyopnb.torch.example import Example, first_line
from pyopnb.torch.experts import translations_of_experts
from pyopnb.torch.forms import scaled_by_fractions, translations_of_forms, widen_divisions
from pyopnb.torch.functions import exported_as
from pyopnb.torch.holes import Hole, NoStandIn, failed_call, find_holes, hole_of
from pyopnb.torch.nan import write_nan
from pyopnb.torch.part_ops import part_of, parts_in
from pyopnb.torch.program import (
    calls_in,
    fake_mode_of,
    quiet,
    runs_foreign_code,
    where_of,
)
from pyopnb.torch.recurrent import as_onnx, translations_of_sequences
from pyopnb.torch.sizes import FixedSize, write_derived_sizes, write_fixed_sizes
from pyopnb.torch.stand_in import define
from pyopnb.torch.wrappers import put_node, translations

__all__ = ["Conversion", "convert", "export_program"]

_OPSET_OF_TORCH_OPS = 23

# Each attempt to export names at least one op that the exporter lacks.
_ATTEMPTS = 50

_ADVICE = "for node in torch.export.export(module, args).graph.nodes: print(node.target)"


@dataclass(frozen=True)
class Conversion:
    """The result of exporting a program.

    Attributes
    ----------
    program : torch.export.ExportedProgram
    exported : torch.onnx.ONNXProgram
    holes : list of Hole
        The calls that torch has taken over.
    foreign : bool
        Whether the module runs code outside torch.
    limited : bool
        Whether the module may have loops that depend on values, and never end for some.
    fixed : list of FixedSize
        Dimensions that are numbers, since the model was wrong at other sizes.
    fault : Fault or None
        The fault, where nothing helps.
    """

    program: Any
    exported: Any
    holes: list[Hole]
    foreign: bool = False
    limited: bool = False
    fixed: list[FixedSize] = field(default_factory=list)
    fault: Any = None

    @cached_property
    def model(self) -> ModelProto:
        """Write the exporter's model as the installed onnxruntime takes it, and right for NaN."""
        model: ModelProto = self.exported.model_proto
        model.ir_version = min(model.ir_version, ort_capabilities.newest_ir_version())
        write_nan(model)
        return model


def convert(program: Any, example: Example) -> Conversion:
    """Replace the calls that the exporter lacks, export the program, and list these calls.

    Parameters
    ----------
    program : torch.export.ExportedProgram
        It is changed.

    Raises
    ------
    InputError, ModelError
        As from `export`.
    """
    _check_names("input", example.input_names, len(program.graph_signature.user_inputs))
    _check_names("output", example.output_names, len(program.graph_signature.user_outputs))
    # Read first: once our node has replaced a call, the call's own op is no longer in it.
    parts = parts_in(program)
    foreign = runs_foreign_code(program) or any(part.foreign for part in parts)
    _put_functions(program)
    _put_ops(program, example.ops or {})
    zero_masked_rows(program)
    widen_divisions(program)
    holes = _put_parts(program)
    for node in scaled_by_fractions(program):
        holes.append(hole_of(node, "its Resize rounds open sizes otherwise"))
        put_node(node, define(node.target))
    conversion = export_program(program, example, holes)
    return replace(conversion, foreign=foreign, limited=bool(parts))


def export_program(program: Any, example: Example, holes: Sequence[Hole]) -> Conversion:
    """Export a program as it is now, as `convert` does after the user's own ops were put in."""
    filled = list(holes)
    for _ in range(_ATTEMPTS):
        try:
            with as_onnx(calls_in(program)):
                _recompile(program)
                return Conversion(program, _call_exporter(program, example), filled)
        except torch.onnx.OnnxExporterError as error:
            further_holes = find_holes(program, error)
            if not further_holes:
                raise _failed(error) from None
        # Torch takes these calls over, and the exporter is asked again.
        for hole in further_holes:
            put_node(hole.node, define(hole.node.target))
        filled += further_holes
    expected = f"an export after {_ATTEMPTS} attempts"
    raise ModelError("module", expected=expected, got=f"{plural(len(filled), 'hole')} and more")


# ---- the torch exporter --------------------------------------------------------------------------


def _call_exporter(program: Any, example: Example) -> Any:
    _forget_pending_sizes(program)
    calls = list(calls_in(program))
    table = {**translations(), **translations_of_sequences(), **translations_of_experts(calls)}
    table.update(translations_of_forms())
    arguments: dict[str, Any] = {
        "dynamo": True,
        "verbose": False,
        "input_names": example.input_names,
        "output_names": example.output_names,
        "dynamic_shapes": example.dynamic_shapes,
        "custom_translation_table": table,
    }
    if any(getattr(node.target, "namespace", "") == "onnx" for node in calls):
        # torch.onnx.ops are operators of this opset, and the exporter's own default is lower.
        arguments["opset_version"] = _OPSET_OF_TORCH_OPS
    with quiet():
        try:
            exported = torch.onnx.export(program, (), **arguments)
        except onnx_ir.passes.PassError:
            # onnxscript's constant folding fails over a split with a size that may change, as
            # chunk(2) of a dynamic dimension is. The model is right without its optimizer.
            _forget_pending_sizes(program)
            exported = torch.onnx.export(program, (), optimize=False, **arguments)
    write_fixed_sizes(exported.model.graph)
    write_derived_sizes(program, exported.model.graph)
    _restore_names(exported, len(example.input_names or ()), len(example.output_names or ()))
    _name_transposed_weights(exported)
    return exported


def _forget_pending_sizes(program: Any) -> None:
    """Let a program be decomposed again.

    Torch complains of sizes that an earlier attempt left open.
    """
    environment = getattr(fake_mode_of(program), "shape_env", None)
    if environment is not None:
        environment.pending_fresh_unbacked_symbols.clear()


def _recompile(program: Any) -> None:
    """Make the code of a program match its graph again."""
    for part in program.graph_module.modules():
        if isinstance(part, torch.fx.GraphModule):
            part.graph.lint()
            part.recompile()


def _restore_names(exported: Any, named_inputs: int, named_outputs: int) -> None:
    """Give an input that is also a result its own name back.

    The exporter calls the result ``x``, and the input ``x_orig``. The first inputs and outputs have
    names from the user, which they keep; the two numbers say how many.
    """
    graph = exported.model.graph
    user_inputs = exported.exported_program.graph_signature.user_inputs
    free_inputs = {id(value) for value in graph.inputs[named_inputs:]}
    for position, result in enumerate(graph.outputs):
        node = result.producer()
        if node is None or node.op_type != "Identity" or not node.inputs[0].is_graph_input():
            continue
        source = node.inputs[0]
        name = source.name.removesuffix("_orig")
        if position >= named_outputs and result.name in (name, source.name):
            result.name = op_names.fresh_name(f"{name}_out", _names_in(graph))
        is_renamed = name in user_inputs and source.name not in user_inputs
        if id(source) in free_inputs and is_renamed and name not in _names_in(graph):
            source.name = name


def _name_transposed_weights(exported: Any) -> None:
    """Name a weight that the exporter has transposed after the module's: ``line.weight.T``.

    It is ``val_0`` otherwise, and trained weights would not find back to the module.
    """
    initializers = exported.model.graph.initializers
    weights_by_shape: dict[tuple[int, ...], list[tuple[str, np.ndarray]]] = {}
    for name, weight in exported.exported_program.state_dict.items():
        if weight.dim() == 2 and name not in initializers:
            array = to_array(weight.detach()).T
            weights_by_shape.setdefault(array.shape, []).append((name, array))
    for value in list(initializers.values()):
        weights = weights_by_shape.get(tuple(value.const_value.shape), [])
        for position, (name, array) in enumerate(weights):
            if np.array_equal(value.const_value.numpy(), array):
                value.name = f"{name}.T"
                del weights[position]
                break


def _names_in(graph: Any) -> set[str]:
    names = {value.name for value in graph.inputs}
    for node in graph:
        names |= {value.name for value in node.outputs}
    return names


# ---- refusals ------------------------------------------------------------------------------------


def _failed(error: BaseException) -> NoStandIn:
    """Make the error for a program that the exporter refuses for another reason than an op."""
    failed, cause = failed_call(error)
    where = "torch.onnx.export"
    if failed is not None:
        where = f"{where}, {sanitize(failed.name)}"
    return NoStandIn(
        where,
        expected="a program that the exporter takes",
        got=sanitize(first_line(cause), 400),
        next="torch.onnx.export(module, args), whose own error says more",
    )


def _check_names(end: str, names: Sequence[str] | None, count: int) -> None:
    """Refuse names that are given twice, and more than there are, which the exporter would drop."""
    if names is None:
        return
    is_list = not isinstance(names, str) and len(set(names)) == len(names) <= count
    if not is_list:
        expected = f"a list of at most {plural(count, 'name')}, each once"
        got, advice = sanitize(repr(names), 200), f'{end}_names=["x"]'
        raise InputError(f"{end}_names", expected=expected, got=got, next=advice)


# ---- the user's own ops --------------------------------------------------------------------------


def _put_functions(program: Any) -> None:
    """Replace the calls of functions that `pyopnb.torch.op` made."""
    for node in list(calls_in(program)):
        function = exported_as(node.target)
        if function is not None:
            # None is the default of an attr that the node does not have.
            node.kwargs = {name: value for name, value in node.kwargs.items() if value is not None}
            _put(node, *function)


def _put_parts(program: Any) -> list[Hole]:
    """Replace the calls of submodules that torch could not capture."""
    holes = []
    for node in list(calls_in(program)):
        part = part_of(node)
        if part is None:
            continue
        hole = hole_of(node, part.reason)
        line, path = part.line or hole.line, part.path or hole.path
        holes.append(replace(hole, line=line, path=path, remedy=part.remedy))
        put_node(node, define(node.target, part.function))
    return holes


def _put_ops(program: Any, ops: Mapping[Any, str]) -> None:
    """Replace the calls for which the user named an op."""
    calls = list(calls_in(program))
    for key, op in ops.items():
        matching = [
            node
            for node in calls
            if key in (node.target, getattr(node.target, "overloadpacket", None))
        ]
        if not matching:
            expected = "a torch op that the module calls"
            got = sanitize(key if isinstance(key, str) else target_name(key))
            raise InputError("ops", expected=expected, got=got, next=_ADVICE)
        domain, op_type = op_names.split_name(op)
        registered = registry.find(domain, op_type)
        if registered is None and not ort_capabilities.has_op(domain, op_type):
            raise InputError(
                f"ops, {target_name(key)}",
                expected="an op of the registry, or an operator of ONNX Runtime",
                got=sanitize(op),
                next=messages.closest(op, [entry.name for entry in registry])
                or "define it: %%pyop",
            )
        version = 1
        if registered is not None:
            version = registered.current.opset
        for node in matching:
            _put(node, op, version)


def _put(node: Any, op: str, version: int) -> None:
    try:
        put_node(node, op, version=version, natural=True)
    except Unwritable as error:
        where = f"{where_of(node)}, as {op}"
        raise ModelError(where, expected=error.expected, got=error.got) from None
