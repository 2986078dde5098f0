"""A run of a module in torch itself, its numbers under the names of the ONNX tensors that they became."""

from __future__ import annotations

import operator
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from onnx import ModelProto

from pyopnb.errors import ModelError
from pyopnb.ops.messages import hide_internal_frames, one_line, sanitize
from pyopnb.ops.op import Version
from pyopnb.ops.registry import registry
from pyopnb.torch.arrays import to_array
from pyopnb.torch.conversion import convert, export_verified, proto_of
from pyopnb.torch.functions import exported_as
from pyopnb.torch.program import calls_in, capture, in_order, is_random
from pyopnb.torch.source import line_of
from pyopnb.torch.verify import feeds_of, first_difference, results_of
from pyopnb.traces.summary import summary_of
from pyopnb.traces.trace import Trace

__all__ = ["Recorder", "trace"]

_ORIGINAL, _CALL = "pkg.torch.onnx.original_node_name", "pkg.torch.onnx.fx_node"
"""What the exporter keeps of a tensor that it renamed, and of the call that became a node."""

_CALLED = re.compile(r"%(?P<name>\w+)")
_ITEM = re.compile(r"(?P<name>\w+?)_(?:_|split_)(?P<place>\d+)")
"""How the exporter names one of several results of a call, where no call of torch takes it out."""

_BATCH_STATISTICS = ("_native_batch_norm_legit_functional", "_native_batch_norm_legit.no_stats")


@hide_internal_frames
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
    """Run a module in torch, and keep what each operation gives, to be compared with a session's trace.

    The module is exported as by `export`, and the program from which the exporter writes its nodes runs in torch, operation by
    operation. `pyopnb.diff` of this trace and of a session's pairs the nodes of the session's model with those that the
    exporter writes, by structure, and where that changed by values and names. Where one operation became several nodes, the
    last of them is compared. An operation that `export` leaves to torch, since it comes out wrong otherwise, is the same node
    here, with a remark.

    Parameters
    ----------
    module : torch.nn.Module
        On the CPU. It is not changed. One in training mode runs as that; what then is not the same in ONNX is among the
        ``remarks`` of the trace.
    args, kwargs, dynamic_shapes, input_names, output_names, ops
        As for `export`.

    Returns
    -------
    Trace
        Its ``model`` is what the exporter writes, its ``values`` are torch's, ``sources`` has the line of the module's source
        and the submodule for each tensor, and ``feeds`` are the tensors among the arguments, for the session's trace.

    Raises
    ------
    InputError
        What was given is no module, no tuple, or a name that is not there.
    ModelError
        The module cannot be captured or exported, or gives other numbers by operations than as a whole.

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
    >>> found = pyopnb.diff(in_torch, pyopnb.trace(model, in_torch.feeds))
    >>> found.origin.op, found.origin.changes
    ('::LayerNormalization', ('attr epsilon: 1e-05 → 0.1',))
    """
    program = capture(module, args, kwargs, dynamic_shapes, any_numbers=True)
    versions = _versions(program)
    given = in_order(module, kwargs)
    exported, _ = convert(program, dynamic_shapes, input_names, output_names, ops)
    mended: dict[Any, str] = {}
    if _repeats(exported.exported_program, module):
        options = dynamic_shapes, input_names, output_names
        verified = export_verified(program, exported, module, args, given, options)
        exported = verified.exported
        for hole in verified.holes:
            mended[hole.node.target] = f"export leaves {hole.op} to torch: {hole.reason}"
    model, low = proto_of(exported), exported.exported_program
    feeds = {name: np.array(array) for name, array in feeds_of(model, args, given).items()}
    recorder = Recorder(low.graph_module)
    results = recorder.results(_inputs(low, args, given))
    _check(low, results, module, args, given)
    values = dict(_values(model, recorder.values))
    calls = dict(_calls(model, low))
    return Trace(
        model,
        feeds=feeds,
        values=values,
        summaries={name: summary_of(value) for name, value in {**feeds, **values}.items()},
        versions=versions,
        runtime=f"torch {torch.__version__}",
        by_model=False,
        sources={name: _source(call) for name, call in calls.items()},
        remarks={name: remark for name, call in calls.items() if (remark := _remark(call, mended))},
    )


# ---- the run -----------------------------------------------------------------------------------------------------------------


class Recorder(torch.fx.Interpreter):  # type: ignore[misc]  # mypy reads no torch
    """Runs a program call by call.

    Attributes
    ----------
    values : dict
        What each call gave, as arrays, by its name in the program: copies, as the module's weights may change.
    """

    def __init__(self, graph_module: Any) -> None:
        super().__init__(graph_module)
        self.values: dict[str, Any] = {}

    def results(self, inputs: Sequence[Any]) -> Any:
        with torch.no_grad():
            return self.run(*inputs)

    def run_node(self, n: Any) -> Any:
        value = super().run_node(n)
        if n.op in ("call_function", "placeholder"):
            self.values[n.name] = _as_arrays(value)
        return value


def _as_arrays(value: Any) -> Any:
    """A tensor as an array, several as a list; None for what has no place in a trace."""
    if isinstance(value, torch.Tensor):
        return np.array(to_array(value))
    if isinstance(value, (list, tuple)):
        return [_as_arrays(item) for item in value]
    return None


def _inputs(program: Any, args: Any, kwargs: Mapping[str, Any]) -> list[Any]:
    """What the program takes: weights, constants, and the user's arguments, in the order of its inputs."""
    kind = torch.export.graph_signature.InputKind
    leaves = iter(torch.utils._pytree.tree_leaves((args, dict(kwargs))))
    held = {**program.constants, **program.state_dict}
    inputs = []
    for spec in program.graph_signature.input_specs:
        if spec.kind == kind.USER_INPUT:
            leaf = next(leaves)
            inputs.append(leaf.detach().clone() if isinstance(leaf, torch.Tensor) else leaf)
        elif spec.kind == kind.TOKEN:  # an order of effects, of which nothing is computed
            inputs.append(torch.empty(0))
        else:
            inputs.append(held[spec.target])
    return inputs


def _repeats(program: Any, module: Any) -> bool:
    """Whether a module gives the same numbers each time, and stays as it is."""
    if any(part.training for part in module.modules()) or program.graph_signature.buffers_to_mutate:
        return False
    return not any(
        _draws(node) for node in program.graph_module.graph.nodes if node.op == "call_function"
    )


def _check(program: Any, results: Any, module: Any, args: Any, kwargs: Mapping[str, Any]) -> None:
    """Refuse a run that is not what the module gives, where that gives the same each time and does not change the module."""
    if not _repeats(program, module):
        return
    kind = torch.export.graph_signature.OutputKind.USER_OUTPUT
    mine = [
        value
        for spec, value in zip(program.graph_signature.output_specs, results, strict=True)
        if spec.kind == kind
    ]
    theirs = results_of(module, args, kwargs)
    arrays = [value for value in map(_as_arrays, mine) if value is not None]
    if len(arrays) != len(theirs):  # with numbers that are no tensors among them
        return
    for place, pair in enumerate(zip(arrays, theirs, strict=True)):
        if difference := first_difference(*pair):
            where = f"module {sanitize(type(module).__name__)}, output {place}"
            raise ModelError(
                where, expected="the numbers of forward, operation by operation", got=difference
            )


# ---- its tensors in the model ------------------------------------------------------------------------------------------------


def _values(model: ModelProto, values: Mapping[str, Any]) -> Iterator[tuple[str, np.ndarray]]:
    """Torch's numbers by the names of the model's tensors, in the order of its nodes."""
    original = _original_names(model)
    for name in (name for node in model.graph.node for name in node.output if name):
        known = original.get(name, name)
        value = values.get(known)
        if known not in values and (item := _ITEM.fullmatch(known)):
            several, place = values.get(item["name"]), int(item["place"])
            value = several[place] if isinstance(several, list) and place < len(several) else None
        if isinstance(value, np.ndarray):
            yield name, value


def _original_names(model: ModelProto) -> dict[str, str]:
    """By the tensors' names in the model those in torch, where they are others."""
    infos = (*model.graph.value_info, *model.graph.output)
    return {
        info.name: entry.value
        for info in infos
        for entry in info.metadata_props
        if entry.key == _ORIGINAL
    }


def _calls(model: ModelProto, program: Any) -> Iterator[tuple[str, Any]]:
    """The tensors that the model's nodes make, with the calls of torch that they come from."""
    calls = {
        node.name: node for node in program.graph_module.graph.nodes if node.op == "call_function"
    }
    original = _original_names(model)
    for node in model.graph.node:
        told = next((entry.value for entry in node.metadata_props if entry.key == _CALL), "")
        found = _CALLED.match(told)
        of_node = found["name"] if found else ""
        for name in filter(None, node.output):
            known = original.get(name, name)
            item = _ITEM.fullmatch(known)
            names = (known, item["name"] if item else "", of_node)
            if call := next((calls[each] for each in names if each in calls), None):
                yield name, call


def _source(call: Any) -> str:
    """``net.py:13, `z = self.encode(y)`, in encode.norm1 (LayerNorm)``."""
    line, part = line_of(call), _module_of(call)
    return one_line(
        ", ".join(filter(None, (line, f"in {part}" if part else ""))) or sanitize(str(call.target))
    )


def _module_of(call: Any) -> str:
    """The innermost submodule that made a call; empty for the module itself."""
    stack = list((call.meta.get("nn_module_stack") or {}).values())
    path, kind = stack[-1] if stack else ("", "")
    name = kind.__name__ if isinstance(kind, type) else str(kind).rpartition(".")[2]
    return sanitize(f"{path} ({name})") if path else ""


def _remark(call: Any, mended: Mapping[Any, str]) -> str:
    """What a call does in torch that its node does not do alike; empty for nearly all."""
    if call.target is operator.getitem:
        call = call.args[0]
    if call.target in mended:
        return mended[call.target]
    part = _module_of(call) or sanitize(str(call.target))
    if any(name in str(call.target) for name in _BATCH_STATISTICS):
        return f"training mode: {part} normalises by the batch in torch, and by its running statistics as exported"
    return f"random: {part} draws other numbers in each run" if _draws(call) else ""


def _draws(node: Any) -> bool:
    return isinstance(node.target, torch._ops.OpOverload) and is_random(node)


def _versions(program: Any) -> dict[str, Version]:
    """The ops of the registry that the module calls as functions; one that takes an operation's place in ONNX did not run."""
    called = {known[0] for node, _ in calls_in(program) if (known := exported_as(node.target))}
    return {op.name: op.current for op in registry if op.name in called}
