"""A whole model in ONNX's reference implementation.

``onnx.reference.ReferenceEvaluator`` walks the graph and its bodies. What each node computes comes from here: an op of the
registry, the operator as `Evaluation` runs it, a local function by its own versions, or, where ONNX has words only, what the
caller provides. So a traced run, `pyopnb.reference` and a stand-in of `pyopnb.fill` are one implementation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np
from onnx import FunctionProto, GraphProto, ModelProto, NodeProto, helper

from pyopnb.errors import ModelError
from pyopnb.models.attribute_limits import check_attributes
from pyopnb.models.external_data import is_external, with_data
from pyopnb.models.functions import check_functions
from pyopnb.models.index import GraphIndex
from pyopnb.models.nodes import Site, bodies, imported_versions, nodes_in
from pyopnb.models.tensors import tensors
from pyopnb.onnx_reference.evaluator_ops import evaluated_op
from pyopnb.onnx_reference.function_bodies import substitute_attrs, without_absent_inputs
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

        check_functions(model)
        check_attributes(model)
        for tensor in filter(is_external, tensors(model)):
            # Which raises, because onnx would look for its file in the working folder.
            with_data(tensor, None)
        copy = ModelProto()
        copy.CopyFrom(model)
        functions = {}
        for function in copy.functions:
            _sort_nodes(function)
            functions[canonical_domain(function.domain), function.name] = function
        # What the last node raised.
        self._failures: list[BaseException] = []
        self._names = [info.name for info in copy.graph.output]
        _sort_nodes(copy.graph)
        # onnx's evaluator wants the nodes in order, each domain imported once, and no other name of ONNX's own.
        _import_all(copy, nodes_in(copy.graph))
        context = _Context(self, {op.name: op for op in ops}, functions, kernels)
        classes = context.classes(nodes_in(copy.graph))
        # Their calls have classes, so onnx needs no evaluators of its own for them.
        del copy.functions[:]
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
        functions: Mapping[tuple[str, str], FunctionProto],
        kernels: KernelMaker | None,
    ) -> None:
        self.evaluator, self.ops, self.functions, self.kernels = evaluator, ops, functions, kernels

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
        is_onnx_own = bool(bodies(node)) or (domain, op_type) == ("", "Constant")
        if is_onnx_own and (domain, op_type) not in self.functions:
            return None
        # The evaluator finds a class by its name. Without op_schema, it would use that of any operator of this name.
        attributes = {
            "op_domain": domain,
            "op_schema": None,
            "context": self,
            "__module__": __name__,
        }
        return type(op_type, (_base(),), attributes)

    def kernel(self, node: NodeProto, versions: Mapping[str, int]) -> Kernel:
        """Make what computes a node."""
        domain = canonical_domain(node.domain)
        function = self.functions.get((domain, node.op_type))
        if function is not None:
            return _Call(function, node, self)
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


class _Call:
    """A call of a local function, whose body has the versions that the function imports."""

    def __init__(self, function: FunctionProto, node: NodeProto, context: _Context) -> None:
        from onnx.reference import ReferenceEvaluator

        body = FunctionProto()
        body.CopyFrom(function)
        # The node's own attributes come last, so that they win over the function's defaults.
        values = {}
        for attribute in (*function.attribute_proto, *node.attribute):
            values[attribute.name] = attribute
        for inner in list(nodes_in(body)):
            substitute_attrs(inner, values)
        del body.attribute[:], body.attribute_proto[:]
        without_absent_inputs(body, [name or None for name in node.input])
        nodes = list(nodes_in(body))
        _import_all(body, nodes)
        self._outputs = list(body.output)[: len(node.output)]
        self._inputs = list(body.input)
        self._evaluator: Any = ReferenceEvaluator(body, new_ops=context.classes(nodes))

    def __call__(self, *inputs: Any) -> Sequence[Any]:
        feeds = {}
        for name, value in zip(self._inputs, inputs, strict=False):
            if value is not None:
                feeds[name] = value
        outputs: list[Any] = self._evaluator.run(self._outputs, feeds, attributes={})
        return outputs


# ---- what onnx's evaluator needs of a model ----------------------------------------------------


def _sort_nodes(scope: GraphProto | FunctionProto) -> None:
    """Sort the nodes, of bodies as well, and write ONNX's own domain as ``""``."""
    scopes: list[GraphProto | FunctionProto] = [scope]
    # The list grows while it is walked.
    for inner in scopes:
        graph = GraphIndex(inner)
        graph.refuse_cycles()
        if list(graph.order) != list(range(len(inner.node))):
            # As bytes, because protobuf moves the nodes that are still in the list.
            nodes = [graph.nodes[position].SerializeToString() for position in graph.order]
            del inner.node[:]
            inner.node.extend(map(NodeProto.FromString, nodes))
        for node in inner.node:
            node.domain = canonical_domain(node.domain)
            scopes += bodies(node)


def _import_all(scope: ModelProto | FunctionProto, nodes: Iterable[NodeProto]) -> None:
    """Import each domain once, those that ONNX Runtime does without an import of as well."""
    versions = {node.domain: 1 for node in nodes}
    versions.update(imported_versions(scope))
    del scope.opset_import[:]
    for domain, version in versions.items():
        scope.opset_import.append(helper.make_opsetid(domain, version))
