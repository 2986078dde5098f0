"""Record a run of a module in torch, under the names of the exported ONNX tensors."""

from __future__ import annotations

import operator
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from onnx import ModelProto

from pyopnb.common import messages, sanitize
from pyopnb.engine import Version, registry
from pyopnb.errors import ModelError
from pyopnb.torch.arrays import to_array
from pyopnb.torch.example import Example, example_of
from pyopnb.torch.exporter import convert
from pyopnb.torch.functions import exported_as
from pyopnb.torch.program import calls_in, capture, is_random, runs_foreign_code
from pyopnb.torch.reports import metadata_of
from pyopnb.torch.source import line_of, submodule_of
from pyopnb.torch.verified_export import export_verified
from pyopnb.torch.verify import ModuleComparison, arrays_of
from pyopnb.traces import Trace

__all__ = ["Recorder", "trace"]

# Metadata of the exporter on a renamed tensor, and on the call that became a node.
_ORIGINAL, _CALL = "pkg.torch.onnx.original_node_name", "pkg.torch.onnx.fx_node"
_CALLED = re.compile(r"%(?P<name>\w+)")

_BATCH_STATISTICS = ("_native_batch_norm_legit_functional", "_native_batch_norm_legit.no_stats")


@messages.hide_internal_frames
def trace(
    module: Any,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    ops: Mapping[Any, str] | None = None,
) -> Trace:
    """Run a module in torch and record the result of each operation.

    The record is compared with the trace of a session.

    The module is exported as in `export`, and the program from which the exporter writes nodes runs
    in torch, operation by operation. `pyopnb.diff` of this trace and a session's trace pairs the
    nodes of the two by structure, and by values and names where the structure has changed. If one
    operation became several nodes, the last of them is compared. An operation that `export` leaves
    to torch because its ONNX form would be wrong is the same node here, with a remark.

    Parameters
    ----------
    module : torch.nn.Module
        On the CPU. It is not changed. In training mode, it runs as in training, and the ``remarks``
        of the trace name the differences in ONNX.
    args, kwargs, dynamic_shapes, input_names, output_names, ops
        As for `export`.

    Returns
    -------
    Trace
        Its ``model`` is the exporter's, and its ``values`` are torch's. ``sources`` has the line of
        the module's source and the submodule for each tensor, and ``feeds`` has the tensors among
        the arguments, to pass to the session's trace.

    Raises
    ------
    InputError
        The module is not a module, ``args`` is not a tuple, or a name does not exist.
    ModelError
        The module cannot be captured or exported, or its operations give other numbers than the
        module as a whole.

    Examples
    --------
    >>> import numpy as np, torch, pyopnb, pyopnb.torch
    >>> class Net(torch.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.norm = torch.nn.LayerNorm(4)
    ...     def forward(self, x):
    ...         return torch.relu(self.norm(x)) * 2
    >>> module, x = Net().eval(), torch.arange(8.0).reshape(2, 4)
    >>> in_torch = pyopnb.torch.trace(module, (x,))
    >>> model = pyopnb.torch.export(module, (x,))
    >>> pyopnb.diff(in_torch, pyopnb.trace(model, in_torch.feeds)).ok
    True
    >>> model.graph.node[0].attribute[1].f = 0.1  # the epsilon of the LayerNormalization
    >>> difference = pyopnb.diff(in_torch, pyopnb.trace(model, in_torch.feeds))
    >>> difference.origin.op, difference.origin.changes
    ('::LayerNormalization', ('attr epsilon: 1e-05 → 0.1',))
    """
    names = input_names, output_names, ops
    example = example_of(module, args, kwargs, dynamic_shapes, *names, any_numbers=True)
    program = capture(example, any_numbers=True)
    versions = _versions(program)
    conversion = convert(program, example)
    mended: dict[Any, str] = {}
    # Modules that draw numbers or train cannot be compared twice.
    repeats = _repeats(conversion.exported.exported_program, module)
    if repeats:
        earlier = len(conversion.holes)
        conversion = export_verified(conversion, example)
        for hole in conversion.holes[earlier:]:
            mended[hole.node.target] = f"export leaves {hole.op} to torch: {hole.reason}"
    model, decomposed = conversion.model, conversion.exported.exported_program
    comparison = ModuleComparison(example, foreign=runs_foreign_code(program))
    # Copies, as the user may write to the example.
    feeds = {name: np.array(array) for name, array in comparison.feeds(model).items()}
    # The decomposed program is the one whose calls the exporter has written as nodes.
    recorder = Recorder(decomposed.graph_module)
    recorder.results(_inputs(decomposed, example.args, example.kwargs))
    if repeats:
        _check_steps(decomposed, comparison, example, len(feeds))
    values, sources, remarks = {}, {}, {}
    original_names = _original_names(model)
    for node in model.graph.node:
        of_node = recorder.calls.get(_called_by(node))
        for name in filter(None, node.output):
            call_name = original_names.get(name, name)
            if call_name in recorder.values:
                values[name] = recorder.values[call_name]
            call = recorder.calls.get(call_name, of_node)
            if call is None:
                continue
            sources[name] = _source(call)
            remark = _remark(call, mended)
            if remark:
                remarks[name] = remark
    return Trace(
        model,
        feeds=feeds,
        values=values,
        versions=versions,
        runtime=f"torch {torch.__version__}",
        by_model=False,
        sources=sources,
        remarks=remarks,
    )


# ---- the run -------------------------------------------------------------------------------------


class Recorder(torch.fx.Interpreter):  # type: ignore[misc]  # mypy reads no torch
    """Runs a program call by call.

    Attributes
    ----------
    values : dict of str to ndarray
        The result of each call, by its name in the program: copies, as the
        module's weights may change.
    calls : dict of str to torch.fx.Node
        The calls that gave them, by the same names.
    """

    def __init__(self, graph_module: Any) -> None:
        super().__init__(graph_module)
        self.values: dict[str, np.ndarray] = {}
        self.calls: dict[str, Any] = {}

    def results(self, inputs: Sequence[Any]) -> Any:
        with torch.no_grad():
            return self.run(*inputs)

    def run_node(self, n: Any) -> Any:
        value = super().run_node(n)
        if n.op in ("call_function", "placeholder"):
            self._keep((n.name,), n, value)
        return value

    def _keep(self, names: Sequence[str], call: Any, value: Any) -> None:
        """Keep a result under each of its names."""
        if call.op == "call_function":
            self.calls.update(dict.fromkeys(names, call))
        if isinstance(value, torch.Tensor):
            self.values.update(dict.fromkeys(names, np.array(to_array(value))))
        elif isinstance(value, (list, tuple)):
            for position, item in enumerate(value):
                # The exporter gives one of several results this name, if no torch call takes it
                # out.
                stems = [f"{name}{infix}" for name in names for infix in ("__", "_split_")]
                self._keep([f"{stem}{position}" for stem in stems], call, item)


def _inputs(program: Any, args: Any, kwargs: Mapping[str, Any]) -> list[Any]:
    """List the inputs of a program: weights, constants and the user's arguments, in its order."""
    input_kinds = torch.export.graph_signature.InputKind
    leaves = iter(torch.utils._pytree.tree_leaves((args, dict(kwargs))))
    weights = {**program.constants, **program.state_dict}
    inputs = []
    for spec in program.graph_signature.input_specs:
        if spec.kind == input_kinds.USER_INPUT:
            leaf = next(leaves)
            # forward may write to its arguments.
            inputs.append(leaf.detach().clone() if isinstance(leaf, torch.Tensor) else leaf)
        elif spec.kind == input_kinds.TOKEN:
            # It expresses an order of effects, and nothing is computed from it.
            inputs.append(torch.empty(0))
        else:
            inputs.append(weights[spec.target])
    return inputs


def _repeats(program: Any, module: Any) -> bool:
    """Tell whether a module gives the same numbers each time, and stays as it is."""
    if any(part.training for part in module.modules()) or program.graph_signature.buffers_to_mutate:
        return False
    nodes = program.graph_module.graph.nodes
    return not any(_draws(node) for node in nodes if node.op == "call_function")


def _check_steps(program: Any, comparison: ModuleComparison, example: Example, count: int) -> None:
    """Refuse a run, operation by operation, with other results than the module.

    Parameters
    ----------
    program : torch.export.ExportedProgram
        Of a module that gives the same each time.
    count : int
        How many inputs there are.
    """
    user_output = torch.export.graph_signature.OutputKind.USER_OUTPUT

    def by_steps(*arrays: np.ndarray) -> list[np.ndarray]:
        args, kwargs = example.with_arrays(arrays)
        interpreter = torch.fx.Interpreter(program.graph_module)
        with torch.no_grad():
            results = interpreter.run(*_inputs(program, args, kwargs))
        specs = program.graph_signature.output_specs
        pairs = zip(specs, results, strict=True)
        return arrays_of([value for spec, value in pairs if spec.kind == user_output])

    fault = comparison.fault_of_steps(by_steps, count)
    if fault is not None:
        expected = "the numbers of forward, operation by operation"
        raise ModelError(example.where, expected=expected, got=fault.text)


# ---- its tensors in the model --------------------------------------------------------------------


def _original_names(model: ModelProto) -> dict[str, str]:
    """Find the torch names of the tensors that the exporter renamed."""
    names = {}
    for info in (*model.graph.value_info, *model.graph.output):
        name = metadata_of(info).get(_ORIGINAL)
        if name is not None:
            names[info.name] = name
    return names


def _called_by(node: Any) -> str:
    """Read the name of the call that became a node."""
    match = _CALLED.match(metadata_of(node).get(_CALL, ""))
    return "" if match is None else match["name"]


# ---- how a call is described ---------------------------------------------------------------------


def _source(call: Any) -> str:
    """Name the line and the submodule of an operation.

    Such as ``net.py:13, `z = self.encode(y)`, in encode.norm1 (LayerNorm)``.
    """
    line, submodule = line_of(call), submodule_of(call)
    if submodule:
        line = f"{line}, in {submodule}" if line else f"in {submodule}"
    return messages.one_line(line or sanitize(str(call.target)))


def _remark(call: Any, mended: Mapping[Any, str]) -> str:
    """Say how a call differs from its node; for nearly all calls, say nothing."""
    # One of several results is taken out by a call of its own.
    if call.target is operator.getitem:
        call = call.args[0]
    if call.target in mended:
        return mended[call.target]
    name = submodule_of(call) or sanitize(str(call.target))
    if any(target in str(call.target) for target in _BATCH_STATISTICS):
        return (
            f"training mode: {name} normalizes by the batch in torch, "
            "and by its running statistics as exported"
        )
    return f"random: {name} draws other numbers in each run" if _draws(call) else ""


def _draws(node: Any) -> bool:
    return isinstance(node.target, torch._ops.OpOverload) and is_random(node)


def _versions(program: Any) -> dict[str, Version]:
    """List the ops of the registry that ran, as the module calls them as functions."""
    called = set()
    for node in calls_in(program):
        function = exported_as(node.target)
        if function is not None:
            called.add(function[0])
    return {op.name: op.current for op in registry if op.name in called}
