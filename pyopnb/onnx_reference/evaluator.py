"""A whole model in ONNX's reference implementation.

``onnx.reference.ReferenceEvaluator`` walks the graph and its bodies. What each node computes comes from here: an op of the
registry, the operator as `Evaluation` runs it, or, where ONNX has words only, what the caller provides. Calls of functions are
written out before. So a traced run, `pyopnb.reference` and a stand-in of `pyopnb.fill` are one implementation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, helper

from pyopnb.errors import ModelError
from pyopnb.models.edit.inline import inlined_functions
from pyopnb.models.external_data import is_external, with_data
from pyopnb.models.index import sort_nodes
from pyopnb.models.nodes import Site, bodies, imported_versions, nodes_in, path_of_function
from pyopnb.models.tensors import tensors
from pyopnb.onnx_reference.evaluator_ops import evaluated_op
from pyopnb.onnx_reference.loop import loop_class
from pyopnb.onnx_reference.operator import Evaluation, has_reference
from pyopnb.ops.instantiate import add_note
from pyopnb.ops.names import canonical_domain
from pyopnb.ops.op import Op

__all__ = ["Evaluator", "Kernel", "KernelMaker"]

Kernel = Callable[..., Sequence[Any]]
"""What computes a node: its inputs, None for one that is left out, to its outputs."""

KernelMaker = Callable[[NodeProto, Mapping[str, int]], Kernel]
"""Makes the kernel of a node whose operator ONNX defines in words only; the versions are those of the model's domains."""


class Evaluator:
    """A model, node by node.

    Parameters
    ----------
    model : ModelProto
        With the data of its initializers. It is not changed, and its nodes may stand in any order.
    ops : iterable of Op
        What runs the nodes of their names.
    kernels : KernelMaker, optional
        For the operators that ONNX has no reference implementation of.

    Raises
    ------
    ModelError
        A node cannot run, nodes form a cycle, a local function calls itself, or a tensor has its data in a file.
    """

    def __init__(
        self, model: ModelProto, ops: Iterable[Op], kernels: KernelMaker | None = None
    ) -> None:
        # Slow to import, so not at the top of the module.
        from onnx.reference import ReferenceEvaluator

        for tensor in filter(is_external, tensors(model)):
            # Which raises, because onnx would look for its file in the working folder.
            with_data(tensor, None)
        copy = inlined_functions(model)
        for function in copy.functions:
            # onnx inlines no function that imports another version of ONNX's operators than the model.
            raise ModelError(
                path_of_function(function),
                expected="the versions that the model imports",
                got="another version of ONNX's operators",
                next="onnx.version_converter.convert_version(model, …)",
            )
        # What the last node raised.
        self._failures: list[BaseException] = []
        self._names = [info.name for info in copy.graph.output]
        sort_nodes(copy.graph)
        for node in nodes_in(copy.graph):
            node.domain = canonical_domain(node.domain)
        # onnx's evaluator wants the nodes in order, each domain imported once, and no other name of ONNX's own.
        _import_all(copy, nodes_in(copy.graph))
        context = _Context(self, {op.name: op for op in ops}, kernels)
        classes = context.classes(nodes_in(copy.graph))
        self._evaluator: Any = ReferenceEvaluator(copy, new_ops=classes)

    def run(self, feeds: Mapping[str, Any]) -> dict[str, Any]:
        """Return all values of the main graph by name.

        Raises
        ------
        Exception
            What an op or the reference implementation raised, unchanged, with a note that names the node.
        """
        self._failures.clear()
        try:
            with np.errstate(all="ignore"):
                values: dict[str, Any] = self._evaluator.run(None, dict(feeds), intermediate=True)
            return values
        except Exception as error:
            # If, Loop and Scan raise another exception in its place, which says "issues with types".
            if not self._failures or self._failures[0] is error:
                raise
            raise self._failures.pop() from None
        finally:
            self._failures.clear()

    def outputs(self, feeds: Mapping[str, Any]) -> dict[str, Any]:
        """Return the model's outputs by name."""
        values = self.run(feeds)
        return {name: values[name] for name in self._names}

    @contextmanager
    def noting(self, where: str) -> Iterator[None]:
        """Note on what is raised inside which node it was."""
        try:
            yield
        except BaseException as error:
            self._failures[:] = [error]
            add_note(error, f"in {where}")
            raise


class _Context:
    """What is known of a model while the classes of its nodes are made."""

    def __init__(
        self,
        evaluator: Evaluator,
        ops: Mapping[str, Op],
        kernels: KernelMaker | None,
    ) -> None:
        self.evaluator, self.ops, self.kernels = evaluator, ops, kernels

    def classes(self, nodes: Iterable[NodeProto]) -> list[type]:
        """Return a class for ``new_ops`` for each op type among these nodes that onnx's own classes do not serve."""
        # The evaluator asks once an op type, so one node stands for all of them.
        by_type = {(canonical_domain(node.domain), node.op_type): node for node in nodes}
        classes = []
        for (domain, op_type), node in by_type.items():
            cls = self._class(domain, op_type, node)
            if cls is not None:
                classes.append(cls)
        return classes

    def _class(self, domain: str, op_type: str, node: NodeProto) -> type | None:
        op = self.ops.get(f"{domain}::{op_type}")
        if op is not None:
            return evaluated_op(op)
        if (domain, op_type) == ("", "Loop"):
            return loop_class()
        # onnx's own classes see the values around a body.
        if bodies(node) or (domain, op_type) == ("", "Constant"):
            return None
        # The evaluator finds a class by its name. Without op_schema, it would use that of any operator of this name.
        attributes = {
            "op_domain": domain,
            "op_schema": None,
            "context": self,
            "__module__": __name__,
        }
        # Python refuses such a character in the name of a class.
        return type(op_type.replace("\0", ""), (_base(),), attributes)

    def kernel(self, node: NodeProto, versions: Mapping[str, int]) -> Kernel:
        """Make what computes a node."""
        domain = canonical_domain(node.domain)
        version = versions.get(domain, 1)
        if has_reference(node, version):
            attrs = {attribute.name: attribute for attribute in node.attribute}
            positions = [position for position, name in enumerate(node.output) if name]
            return Evaluation(domain, node.op_type, version, attrs, max(positions, default=0) + 1)
        if self.kernels is not None:
            return self.kernels(node, versions)
        raise ModelError(
            Site(node, GraphProto(), "").where,
            expected="an operator that the installed onnx implements or defines by a function",
            got="one that it knows in words only, or not at all",
            next=f"define it as an op: %%pyop -d {domain}"
            if domain
            else "pyopnb.skeleton(model, node)",
        )


@cache
def _base() -> type:
    from onnx.reference.op_run import OpRun

    class Node(OpRun):
        """A node in the evaluator."""

        context: _Context

        def __init__(
            self, onnx_node: NodeProto, run_params: dict[str, Any], schema: Any = None
        ) -> None:
            bare = NodeProto()
            bare.CopyFrom(onnx_node)
            # The kernel reads them.
            del bare.attribute[:]
            super().__init__(bare, run_params, schema)
            self.onnx_node = onnx_node
            self._where = Site(onnx_node, GraphProto(), "").where
            with self.context.evaluator.noting(self._where):
                self._kernel = self.context.kernel(onnx_node, run_params["opsets"])

        def run(self, *args: Any, **_: Any) -> tuple[Any, ...]:
            # OpRun.run relabels what is raised as "issues with types".
            return self._run(*args)

        def _run(self, *args: Any) -> tuple[Any, ...]:
            with self.context.evaluator.noting(self._where):
                values = list(self._kernel(*args))
            outputs: list[Any] = []
            for position, name in enumerate(self.onnx_node.output):
                # What is left out has the name "", by which other nodes leave an input out.
                outputs.append(values[position] if name and position < len(values) else None)
            return tuple(outputs)

    return Node


# ---- what onnx's evaluator needs of a model ----------------------------------------------------


def _import_all(scope: ModelProto, nodes: Iterable[NodeProto]) -> None:
    """Import each domain once, those that ONNX Runtime does without an import of as well."""
    versions = {node.domain: 1 for node in nodes}
    versions.update(imported_versions(scope))
    del scope.opset_import[:]
    for domain, version in versions.items():
        scope.opset_import.append(helper.make_opsetid(domain, version))
