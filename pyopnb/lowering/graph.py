"""The nodes that a trace records, and the function that they become."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from onnx import FunctionProto, NodeProto, helper, numpy_helper

from pyopnb.lowering.refusal import SourceLine

__all__ = ["Graph"]


class Graph:
    """Nodes in the order in which they were recorded. Equal nodes are recorded once.

    Parameters
    ----------
    opset : int
        Version of the ONNX operators.
    inputs : sequence of str
        Names that are taken.

    Attributes
    ----------
    finite : bool
        Assume that no array has a NaN.
    lines : dict of str to SourceLine
        By output, the user's line that a node comes from.
    """

    def __init__(self, opset: int, inputs: Sequence[str], finite: bool = False) -> None:
        self.opset = opset
        self.finite = finite
        self.inputs = tuple(inputs)
        self.nodes: list[NodeProto] = []
        self.lines: dict[str, SourceLine] = {}
        self._known: dict[bytes, tuple[str, ...]] = {}
        self._taken = set(inputs)

    def add(
        self,
        op_type: str,
        inputs: Sequence[str],
        outputs: int = 1,
        line: SourceLine | None = None,
        **attrs: Any,
    ) -> tuple[str, ...]:
        """Record a node, and name its outputs."""
        node = helper.make_node(op_type, list(inputs), [], **attrs)
        return self._put(node, outputs, line)

    def constant(self, array: np.ndarray) -> str:
        """Record an array as a constant."""
        # ascontiguousarray makes a vector of a scalar.
        values = np.ascontiguousarray(array).reshape(array.shape)
        node = helper.make_node("Constant", [], [], value=numpy_helper.from_array(values))
        return self._put(node)[0]

    def _put(
        self, node: NodeProto, outputs: int = 1, line: SourceLine | None = None
    ) -> tuple[str, ...]:
        """Add a node, or reuse an equal one."""
        # Nodes have no names and no outputs yet, so that equal bytes are equal nodes.
        key = node.SerializeToString(deterministic=True) + bytes([outputs])
        if key in self._known:
            return self._known[key]
        names = tuple(self._name(node.op_type) for _ in range(outputs))
        node.output.extend(names)
        self.nodes.append(node)
        if line is not None:
            self.lines.update(dict.fromkeys(names, line))
        self._known[key] = names
        return names

    def _name(self, op_type: str) -> str:
        name = op_type.lower()
        number = 1
        while name in self._taken:
            number += 1
            name = f"{op_type.lower()}_{number}"
        self._taken.add(name)
        return name

    def needed(self, outputs: Iterable[str]) -> list[NodeProto]:
        """List the nodes that the outputs depend on."""
        # Backwards, as every consumer of a node comes after it.
        requested = set(outputs)
        kept = []
        for node in reversed(self.nodes):
            if requested.intersection(node.output):
                kept.append(node)
                requested.update(node.input)
        return kept[::-1]

    def function(self, domain: str, name: str, outputs: Sequence[str], doc: str) -> FunctionProto:
        """Build a function of the recorded nodes.

        An Identity copies an output that is an input or occurs twice.
        """
        names: list[str] = []
        for output in outputs:
            # In ONNX, each output of a function has a name that no input or other output has.
            if output in self.inputs or output in names:
                (output,) = self.add("Identity", [output])
                while output in names:
                    (output,) = self.add("Identity", [output])
            names.append(output)
        return helper.make_function(
            domain,
            name,
            list(self.inputs),
            names,
            self.needed(names),
            [helper.make_opsetid("", self.opset)],
            doc_string=doc,
        )
