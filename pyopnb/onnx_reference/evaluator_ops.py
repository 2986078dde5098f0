"""Registered ops as classes for the onnx ``ReferenceEvaluator``.

Each node runs in a session of its own, with the checks that a session makes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from onnx import NodeProto, helper

from pyopnb.engine import Op, node_kernel, registry

__all__ = ["KernelMaker", "node_class", "reference_ops"]

KernelMaker = Callable[[NodeProto, Mapping[str, int]], node_kernel.Kernel]
"""Makes the function that computes a node; the versions belong to the model's domains."""


def reference_ops() -> list[type]:
    """Return every op of the registry as a class for ``onnx.reference.ReferenceEvaluator``.

    Pass them as ``new_ops``. They follow the registry: a redefined op is used from the next run on.
    Attrs, optional inputs, read-only views or copies, and the checks of results are as in a
    `Session`; an op's exception arrives unchanged, with a note. The evaluator uses them in bodies
    but not in local functions: for these, evaluate ``onnx.inliner.inline_local_functions(model)``.

    Returns
    -------
    list of type
        Subclasses of ``onnx.reference.op_run.OpRun``, for ``new_ops``.

    Examples
    --------
    >>> import numpy as np, pyopnb
    >>> from onnx.reference import ReferenceEvaluator
    >>> @pyopnb.pyop("doctest::Twice")
    ... class Twice:
    ...     def compute(self, x):
    ...         return x * 2
    >>> model = pyopnb.model([pyopnb.node("doctest::Twice", "x", "y")], {"x": "float32[N]"}, "y")
    >>> ReferenceEvaluator(model, new_ops=reference_ops()).run(None, {"x": np.float32([1, 2])})
    [array([2., 4.], dtype=float32)]
    """
    return [_op_class(op) for op in registry]


def _op_class(op: Op) -> type:
    return node_class(
        op.domain, op.op_type, lambda node, versions: node_kernel.NodeKernel(node, versions, op)
    )


def node_class(domain: str, op_type: str, make_kernel: KernelMaker) -> type:
    """Make a class for ``new_ops`` that runs the nodes of an operator by kernels.

    Parameters
    ----------
    make_kernel : callable
        Called once for each node.
    """
    # The evaluator finds a class by its name. Without op_schema, it would use the schema of any
    # operator of this name.
    attributes = {
        "op_domain": domain,
        "op_schema": None,
        "make_kernel": staticmethod(make_kernel),
        "__module__": __name__,
    }
    # Python refuses such a character in the name of a class.
    return type(op_type.replace("\0", ""), (_base(),), attributes)


@cache
def _base() -> type:
    # Slow to import, so not at the top of the module.
    from onnx.reference.op_run import OpRun

    class EvaluatedNode(OpRun):
        """A node in a ``ReferenceEvaluator``."""

        make_kernel: KernelMaker

        def __init__(
            self, onnx_node: NodeProto, run_params: dict[str, Any], schema: Any = None
        ) -> None:
            # The kernel reads the attributes. onnx would convert them: a float to np.float32, a
            # graph to an evaluator.
            bare = NodeProto()
            bare.CopyFrom(onnx_node)
            del bare.attribute[:]
            super().__init__(bare, run_params, schema)
            self.onnx_node = onnx_node
            # In a function of an ONNX operator, attributes may come from the node that calls it.
            self.has_linked_attribute = any(attr.ref_attr_name for attr in onnx_node.attribute)
            if not self.has_linked_attribute:
                self._kernel = self.make_kernel(onnx_node, run_params["opsets"])

        def run(
            self, *args: Any, linked_attributes: Mapping[str, Any] | None = None, **_: Any
        ) -> tuple[Any, ...]:
            # OpRun.run relabels exceptions as "issues with types".
            if linked_attributes is None:
                return self._run(self._kernel, *args)
            node = NodeProto()
            node.CopyFrom(self.onnx_node)
            del node.attribute[:]
            for attr in self.onnx_node.attribute:
                value = linked_attributes.get(attr.ref_attr_name)
                if not attr.ref_attr_name:
                    node.attribute.append(attr)
                elif value is not None:
                    node.attribute.append(helper.make_attribute(attr.name, value))
            return self._run(self.make_kernel(node, self.run_params["opsets"]), *args)

        def _run(self, kernel: node_kernel.Kernel, *args: Any) -> tuple[Any, ...]:
            values = list(kernel(*args))
            outputs: list[Any] = []
            for position, name in enumerate(self.onnx_node.output):
                # An omitted output has the empty name, by which other nodes omit an input.
                outputs.append(values[position] if name and position < len(values) else None)
            return tuple(outputs)

    return EvaluatedNode
