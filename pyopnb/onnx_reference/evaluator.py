"""A whole model in the ONNX reference implementation.

``onnx.reference.ReferenceEvaluator`` walks the graph and its bodies. Each node is computed by an op
of the registry, by `Evaluation`, or if ONNX defines the operator in words only, by ONNX Runtime's
kernel. Calls of functions are expanded before. So a traced run, `pyopnb.reference` and a stand-in
of `pyopnb.fill` share one implementation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, helper

from pyopnb.common import sanitize
from pyopnb.engine import (
    GraphIndex,
    Op,
    add_note,
    external_files,
    model_functions,
    node_kernel,
    op_names,
    protos,
)
from pyopnb.errors import ModelError
from pyopnb.onnx_reference.evaluator_ops import node_class
from pyopnb.onnx_reference.loop import loop_class
from pyopnb.onnx_reference.operator import has_reference, operator_kernel
from pyopnb.onnx_reference.scan import scan_class

__all__ = ["Evaluator"]


class Evaluator:
    """A model, node by node.

    Parameters
    ----------
    model : ModelProto
        With the data of its initializers. It is not changed, and its nodes may be in any order.
    ops : iterable of Op
        Each runs the nodes that have its name.

    Attributes
    ----------
    computed : dict
        The values by name that nodes without bodies have computed in the last run, if it failed.

    Raises
    ------
    ModelError
        A node cannot run, nodes form a cycle, a local function calls itself, or a tensor
        has its data in a file.
    """

    def __init__(self, model: ModelProto, ops: Iterable[Op]) -> None:
        # Slow to import, so not at the top of the module.
        from onnx.reference import ReferenceEvaluator

        for tensor in filter(external_files.is_external, protos.tensors(model)):
            # Which raises, because onnx would look for its file in the working folder.
            external_files.with_data(tensor, None)
        copy = model_functions.inlined_functions(model)
        for function in copy.functions:
            # onnx inlines no function that imports another version of ONNX's
            # operators than the model.
            raise ModelError(
                protos.path_of_function(function),
                expected="the versions that the model imports",
                got="another version of the ONNX operators",
                next="onnx.version_converter.convert_version(model, …)",
            )
        # Up to onnx 1.23 at least, its evaluator asks them for a field that they do not have.
        for sparse in copy.graph.sparse_initializer:
            raise ModelError(
                f"initializer {sparse.values.name}",
                expected="a dense one: the ONNX evaluator reads no others",
                got="a sparse one",
                next="trace it on onnxruntime",
            )
        # The exception that the last node raised.
        self._failures: list[BaseException] = []
        self.computed: dict[str, Any] = {}
        self._names = [info.name for info in copy.graph.output]
        GraphIndex.sort_nodes(copy.graph)
        for node in protos.nodes_in(copy.graph):
            node.domain = op_names.canonical_domain(node.domain)
        # The onnx evaluator wants the nodes in order, each domain imported once, and no
        # other name of ONNX's own.
        _import_all(copy, protos.nodes_in(copy.graph))
        self._ops = {op.name: op for op in ops}
        # The evaluator asks once for each op type, so one of its nodes is enough.
        by_type = {(node.domain, node.op_type): node for node in protos.nodes_in(copy.graph)}
        classes = []
        for (domain, op_type), node in by_type.items():
            if (domain, op_type) == ("", "Loop"):
                classes.append(loop_class())
            elif (domain, op_type) == ("", "Scan"):
                classes.append(scan_class())
            elif f"{domain}::{op_type}" in self._ops or not (
                protos.bodies(node) or protos.is_constant(node)
            ):
                # The onnx classes see the values around a body.
                classes.append(node_class(domain, op_type, self._kernel))
        self._evaluator: Any = ReferenceEvaluator(copy, new_ops=classes)

    def _kernel(self, node: NodeProto, versions: Mapping[str, int]) -> node_kernel.Kernel:
        """Make the kernel of a node, which adds the node's name to exceptions as a note."""
        where = protos.Site(node, GraphProto(), "").where
        with self._noting(where):
            kernel = self._make_kernel(node, versions)

        def noted(*inputs: Any) -> Sequence[Any]:
            with self._noting(where):
                results = kernel(*inputs)
            self.computed.update(zip(node.output, results, strict=False))
            return results

        return noted

    def _make_kernel(self, node: NodeProto, versions: Mapping[str, int]) -> node_kernel.Kernel:
        op = self._ops.get(f"{node.domain}::{node.op_type}")
        version = versions.get(node.domain, 1)
        # ONNX defines some operators in words only; for them, there is the runtime kernel.
        if op is not None or not has_reference(node, version):
            return node_kernel.NodeKernel(node, versions, op)
        return operator_kernel(node, versions)

    def run(self, feeds: Mapping[str, Any]) -> dict[str, Any]:
        """Return all values of the main graph by name.

        Raises
        ------
        Exception
            The exception of an op or the reference implementation, unchanged, with a note
            that names the node.
        """
        self._failures.clear()
        self.computed.clear()
        try:
            with np.errstate(all="ignore"):
                values: dict[str, Any] = self._evaluator.run(None, dict(feeds), intermediate=True)
            self.computed.clear()
            return values
        except Exception as error:
            # If, Loop and Scan raise another exception in its place, which says
            # "issues with types".
            if not self._failures:
                # The onnx classes of If, Constant and the like, which run around the kernels.
                raise ModelError(
                    "onnx.reference",
                    expected="a model that it can run",
                    got=f"{type(error).__name__}: {sanitize(str(error))}",
                    next="trace it on onnxruntime",
                ) from error
            if self._failures[0] is error:
                raise
            raise self._failures.pop() from None
        finally:
            self._failures.clear()

    def outputs(self, feeds: Mapping[str, Any]) -> dict[str, Any]:
        """Return the model's outputs by name."""
        values = self.run(feeds)
        return {name: values[name] for name in self._names}

    @contextmanager
    def _noting(self, where: str) -> Iterator[None]:
        """Add a note with the node's name to an exception that is raised inside."""
        try:
            yield
        except BaseException as error:
            self._failures[:] = [error]
            # A session has noted it already, with version and types. It names a node by its output
            # where the node has no name.
            name = where.removeprefix("the node of output ")
            if not any(name in note for note in getattr(error, "__notes__", ())):
                add_note(error, f"in {where}")
            raise


# ---- requirements of the onnx evaluator ----------------------------------------------------------


def _import_all(scope: ModelProto, nodes: Iterable[NodeProto]) -> None:
    """Import each domain once, also the ones for which ONNX Runtime needs no import."""
    versions = {node.domain: 1 for node in nodes}
    versions.update(protos.imported_versions(scope))
    del scope.opset_import[:]
    for domain, version in versions.items():
        scope.opset_import.append(helper.make_opsetid(domain, version))
