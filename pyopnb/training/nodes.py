"""Add nodes to a graph, under names that it does not have."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import GraphProto, helper, numpy_helper

from pyopnb.engine import GraphIndex

__all__ = ["Nodes"]


class Nodes:
    """Appends nodes and constants to a graph.

    Parameters
    ----------
    graph : GraphProto
        It is changed.
    prefix : str
        Of the new names.
    """

    def __init__(self, graph: GraphProto, prefix: str) -> None:
        index = GraphIndex(graph)
        names_in_use = {*index.declared_inputs, *index.initializers, *index.producers}
        # A model that was trained before may have tensors with this prefix.
        while any(name.startswith(prefix) for name in names_in_use):
            prefix = f"_{prefix}"
        self._graph, self._prefix, self._count = graph, prefix, 0
        self._constants: dict[tuple[Any, str], str] = {}

    def name(self, stem: str) -> str:
        """Return a name that is not in use."""
        self._count += 1
        return f"{self._prefix}/{stem}_{self._count}"

    def fixed(self, stem: str) -> str:
        """Return the name for ``stem``, which has a slash; it is always the same."""
        return f"{self._prefix}/{stem}"

    def add(self, op: str, *inputs: str, to: str = "", **attrs: Any) -> str:
        """Append a node with one output; return its name."""
        output = to or self.name(op)
        node = helper.make_node(op, list(inputs), [output], name=output, **attrs)
        self._graph.node.append(node)
        return output

    def constant(self, value: Any, dtype: str) -> str:
        """Return the name of an initializer, the same one for equal values."""
        array = np.asarray(value, dtype)
        # Optimizers ask for the same few numbers for each weight.
        key = (array.tobytes(), f"{dtype}{array.shape}")
        if key not in self._constants:
            self._constants[key] = self.name("constant")
            self._graph.initializer.append(numpy_helper.from_array(array, self._constants[key]))
        return self._constants[key]

    def cast(self, value: str, dtype: str) -> str:
        """Append a Cast; return the name of its output."""
        output = self.name(dtype)
        number = _number(dtype)
        node = helper.make_node("Cast", [value], [output], name=output, to=number)
        self._graph.node.append(node)
        return output

    def output(self, name: str, dtype: str, shape: tuple[int, ...]) -> None:
        """Declare an output of the graph."""
        self._graph.output.append(helper.make_tensor_value_info(name, _number(dtype), shape))

    def input(self, name: str, dtype: str, shape: tuple[int | str | None, ...]) -> None:
        """Declare an input of the graph."""
        self._graph.input.append(helper.make_tensor_value_info(name, _number(dtype), shape))


def _number(dtype: str) -> int:
    return int(helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))
