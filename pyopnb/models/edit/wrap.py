"""Taps: nodes still run in ONNX Runtime, and a Python function sees their inputs and outputs."""

from __future__ import annotations

import builtins
import os
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from onnx import ModelProto, NodeProto

from pyopnb.common import sanitize
from pyopnb.engine import (
    GraphIndex,
    check_arguments,
    model_functions,
    op_names,
    protos,
    registry,
    to_model,
    type_of,
)
from pyopnb.errors import ModelError
from pyopnb.models.edit.node_edits import Where, open_for_edit, put_ops, select_sites
from pyopnb.models.types import Types

__all__ = ["Seen", "wrap"]

_NOTHING = np.zeros((), np.uint8)
"""The output of a tap, which is not read."""


@dataclass(frozen=True, eq=False)
class Seen:
    """One run of one node, as the function of a tap gets it.

    Attributes
    ----------
    node : NodeProto
        The node of the model that was wrapped.
    inputs, outputs : dict
        Read-only arrays by name, in the order of the ports. Optional ports that the node leaves out
        are missing, and so are inputs that no op can take, such as sequences.
    where : str
        The node as messages name it.
    """

    node: NodeProto
    inputs: dict[str, np.ndarray]
    outputs: dict[str, np.ndarray]
    where: str = field(default="")

    def __repr__(self) -> str:
        lines = [f"  {sanitize(name)}: {_describe(array)}" for name, array in self.inputs.items()]
        lines += [f"→ {sanitize(name)}: {_describe(array)}" for name, array in self.outputs.items()]
        return "\n".join([self.where, *lines])


def _describe(array: np.ndarray) -> str:
    text = str(type_of(array))
    if not array.size or array.dtype.kind in "OUT":
        return text
    # float16 and the 8-bit floats overflow in sums, and some have no isfinite.
    values = array
    if array.dtype.kind in "fV":
        values = array.astype(np.float64)
    finite = values[np.isfinite(values)]
    if finite.size:
        text = f"{text}, {finite.min():.6g} … {finite.max():.6g}"
    if finite.size < array.size:
        text = f"{text}, {array.size - finite.size} not finite"
    return text


@check_arguments
def wrap(
    model: ModelProto | bytes | str | os.PathLike[str],
    where: Where,
    function: Callable[[Seen], object],
    *,
    base_dir: str | os.PathLike[str] | None = None,
) -> ModelProto:
    """Copy a model so that a function sees the inputs and outputs of some nodes after each run.

    Parameters
    ----------
    model, where, base_dir
        As for `replace`.
    function : callable
        Called with a `Seen`, during the run and on its thread; its return value is ignored.
        ``print`` prints it, the ``append`` of a list keeps it, and ``breakpoint`` stops in the
        debugger, with ``node``, ``inputs`` and ``outputs`` as local variables. If the function
        raises, the run fails with that exception.

    Returns
    -------
    ModelProto
        A model with ops around the nodes; the original is unchanged.

    Raises
    ------
    ModelError
        No node is selected, a str has two meanings, or an output has a type that no op can pass on,
        such as a sequence.

    Notes
    -----
    The nodes run in ONNX Runtime as before, and their values are not changed. But ONNX Runtime
    cannot fuse a wrapped node with its neighbors, and a fused kernel can round differently.

    For each selected node there is an op of the registry, such as ``pyopnb.tap::Softmax_1``,
    which keeps the function alive. ``pyopnb.registry.remove("pyopnb.tap::Softmax_1")`` releases it
    when no session uses it any more.

    Examples
    --------
    >>> import numpy as np, pyopnb
    >>> model = pyopnb.model(
    ...     [pyopnb.node("Exp", "x", "e"), pyopnb.node("Neg", "e", "y")], {"x": "float32[2]"}, "y"
    ... )
    >>> seen = []
    >>> session = pyopnb.Session(wrap(model, "Exp", seen.append))
    >>> session(x=np.float32([0, 1]))["y"]
    array([-1.       , -2.7182817], dtype=float32)
    >>> seen[0]
    the node of output 'e' (::Exp)
      x: float32[2], 0 … 1
    → e: float32[2], 1 … 2.71828
    """
    source = open_for_edit(model, base_dir)
    sites = select_sites(source.proto, where, model)
    types = Types(source.proto)
    # All nodes are looked at before the first is changed, so that a refusal leaves nothing half
    # done.
    tapped_inputs = [_tappable_inputs(site, types) for site in sites]
    taken = _names(source.proto)
    taps = [
        _tap(site, inputs, taken, function)
        for site, inputs in zip(sites, tapped_inputs, strict=True)
    ]
    put_ops(source.proto, taps)
    for scope in {id(site.scope): site.scope for site in sites}.values():
        model_functions.put_taps_last(scope)
    return to_model(source)


def _tappable_inputs(site: protos.Site, types: Types) -> list[str]:
    """Return the inputs that an op can take; an output that no op can pass on is refused."""
    # ONNX Runtime knows the types that are unknown here, and refuses them when the session is made.
    for name in filter(None, site.node.output):
        uncarried = types.uncarried(site.scope, name)
        if uncarried:
            raise ModelError(
                f"{site.where}, output {name}",
                expected="a tensor of a dtype that ONNX Runtime gives to custom ops",
                got=uncarried,
                next="wrap the nodes that take it apart",
            )
    inputs = dict.fromkeys(filter(None, site.node.input))
    return [name for name in inputs if not types.uncarried(site.scope, name)]


def _names(proto: ModelProto) -> set[str]:
    """Return all names of values in a model.

    Bodies see the names of the graphs around them, so a new name must differ from all of these.
    """
    names: set[str] = set()
    for site in protos.walk(proto):
        names.update(site.node.input, site.node.output)
    for scope in (proto.graph, *proto.functions):
        for graph in GraphIndex(scope).walk():
            names.update(graph.declared_inputs, graph.outputs, graph.initializers)
    return names


def _tap(
    site: protos.Site, inputs: list[str], taken: set[str], function: Callable[[Seen], object]
) -> tuple[protos.Site, str]:
    """Append a tap that looks at a node's inputs and outputs.

    No other node reads from the tap. ONNX Runtime may need the values of the node's outputs for the
    types of others, and knows as much about them as without it.

    Returns
    -------
    site : Site
        The site of the tap.
    name : str
        The name of its op.
    """
    node, scope = site.node, site.scope
    outputs = [name for name in node.output if name]
    original = NodeProto()
    original.CopyFrom(node)
    cls = _tap_class(function, original, site.where, inputs, outputs)
    name = _op_name(node.op_type)
    number = name.rpartition("_")[2]
    output = op_names.fresh_name(f"{protos.first_output(node)}_tap_{number}", taken)
    taken.add(output)
    tap = scope.node.add(input=[*inputs, *outputs], output=[output])
    tap.name = node.name and f"{node.name} (tap {number})"
    registry.define(cls, name)
    return protos.Site(tap, scope, site.path), name


_numbers: Counter[str] = Counter()


def _op_name(op_type: str) -> str:
    stem = re.sub(r"\W|^(?=\d)", "_", op_type, flags=re.ASCII)[:100]
    # A number never comes twice: a session may still use a removed op.
    _numbers[stem] += 1
    return f"{model_functions.TAP_DOMAIN}::{stem}_{_numbers[stem]}"


def _tap_class(
    function: Callable[[Seen], object],
    node: NodeProto,
    where: str,
    inputs: list[str],
    outputs: list[str],
) -> type:
    stops = function is builtins.breakpoint

    class Tap:
        def compute(self, *arrays):  # type: ignore[no-untyped-def]  # an op's hints are its schema
            inputs_by_name = dict(zip(inputs, arrays, strict=False))
            outputs_by_name = dict(zip(outputs, arrays[len(inputs) :], strict=True))
            if stops:
                _stop(node, inputs_by_name, outputs_by_name)
            else:
                function(Seen(node, inputs_by_name, outputs_by_name, where))
            return _NOTHING

    Tap.compute.__annotations__["return"] = "uint8[]"
    Tap.__doc__ = f"Shows {where} to a function."
    return Tap


def _stop(node: NodeProto, inputs: dict[str, np.ndarray], outputs: dict[str, np.ndarray]) -> None:
    """Stop in the debugger, with ``node``, ``inputs`` and ``outputs`` as local variables.

    The debugger's command ``c`` continues the run.
    """
    breakpoint()
    # The debugger stops at the line after the call.
    return
