"""A whole model in ONNX's reference implementation.

``onnx.reference.ReferenceEvaluator`` walks the graph and its bodies. What each node computes comes from here: an op of the
registry, the operator as `Evaluation` runs it, a local function by its own versions, or, where ONNX has words only, what the
caller provides. So a traced run, `pyopnb.reference` and a stand-in of `pyopnb.fill` are one implementation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
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
        from onnx.reference import ReferenceEvaluator  # slow to import

        check_functions(model)
        check_attributes(model)
        for tensor in filter(is_external, tensors(model)):
            with_data(
                tensor, None
            )  # which raises: onnx would look for its file in the working folder
        ready = ModelProto()
        ready.CopyFrom(model)
        self._failures: list[BaseException] = []  # what the last node raised
        context = _Context(self, {op.name: op for op in ops}, _functions(ready), kernels)
        self._names = [info.name for info in ready.graph.output]
        _make_ready(ready.graph)
        _import_all(ready, nodes_in(ready.graph))
        classes = context.classes(nodes_in(ready.graph))
        del ready.functions[:]
        self._evaluator: Any = ReferenceEvaluator(ready, new_ops=classes)

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
                found: dict[str, Any] = self._evaluator.run(None, dict(feeds), intermediate=True)
            return found
        except Exception as error:
            # If, Loop and Scan raise another exception in its place, which says "issues with types".
            if not self._failures or self._failures[0] is error:
                raise
            raise self._failures.pop() from None
        finally:
            self._failures.clear()

    def outputs(self, feeds: Mapping[str, Any]) -> dict[str, Any]:
        """Return the model's outputs by name."""
        found = self.run(feeds)
        return {name: found[name] for name in self._names}

    def failed(self, error: BaseException, where: str) -> None:
        """Record what a node raised."""
        self._failures[:] = [error]
        add_note(error, f"in {where}")


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
        found = {(canonical_domain(node.domain), node.op_type): node for node in nodes}
        return [cls for key, node in found.items() if (cls := self._class(*key, node)) is not None]

    def _class(self, domain: str, op_type: str, node: NodeProto) -> type | None:
        op = self.ops.get(f"{domain}::{op_type}")
        if op is not None:
            return evaluated_op(op)
        if (domain, op_type) == ("", "Loop"):
            return loop_class()
        if (domain, op_type) not in self.functions and (
            bodies(node) or (domain, op_type) == ("", "Constant")
        ):
            return None  # it needs the values around it, or has no inputs: onnx's own class
        # The evaluator finds a class by its name. Without op_schema, it would use that of any operator of this name.
        return type(
            op_type,
            (_base(),),
            {"op_domain": domain, "op_schema": None, "context": self, "__module__": __name__},
        )

    def kernel(self, node: NodeProto, versions: Mapping[str, int]) -> Kernel:
        """What computes a node."""
        domain, version = (
            canonical_domain(node.domain),
            versions.get(canonical_domain(node.domain), 1),
        )
        function = self.functions.get((domain, node.op_type))
        if function is not None:
            return _Call(function, node, self)
        outputs = max((place for place, name in enumerate(node.output) if name), default=0) + 1
        if has_reference(node, version):
            return Evaluation(
                domain, node.op_type, version, {a.name: a for a in node.attribute}, outputs
            )
        if self.kernels is None:
            raise ModelError(
                Site(node, GraphProto(), "").where,
                expected="an operator that the installed onnx implements or defines by a function",
                got="one that it knows in words only, or not at all",
                next=f"define it as an op: %%pyop -d {domain}"
                if domain
                else "pyopnb.skeleton(model, node)",
            )
        return self.kernels(node, versions)


@cache
def _base() -> type:
    from onnx.reference.op_run import OpRun

    class Node(OpRun):
        """A node in the evaluator."""

        context: _Context

        def __init__(
            self, onnx_node: NodeProto, run_params: dict[str, Any], schema: Any = None
        ) -> None:
            plain = NodeProto()
            plain.CopyFrom(onnx_node)
            del plain.attribute[:]  # the kernel reads them
            super().__init__(plain, run_params, schema)
            self.onnx_node = onnx_node
            self._where = Site(onnx_node, GraphProto(), "").where
            with _noting(self.context.evaluator, self._where):
                self._kernel = self.context.kernel(onnx_node, run_params["opsets"])

        def run(self, *args: Any, **_: Any) -> tuple[Any, ...]:
            # OpRun.run relabels what is raised as "issues with types".
            return self._run(*args)

        def _run(self, *args: Any) -> tuple[Any, ...]:
            with _noting(self.context.evaluator, self._where):
                made = [*self._kernel(*args), *[None] * len(self.onnx_node.output)]
                # What is left out has the name "", by which other nodes leave an input out.
                return tuple(
                    value if name else None
                    for name, value in zip(self.onnx_node.output, made, strict=False)
                )

    return Node


class _noting:  # noqa: N801  # a context manager, read as a verb
    """What is raised inside gets a note that names the node."""

    def __init__(self, evaluator: Evaluator, where: str) -> None:
        self._evaluator, self._where = evaluator, where

    def __enter__(self) -> None: ...

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if error is not None:
            self._evaluator.failed(error, self._where)


class _Call:
    """A call of a local function, whose body has the versions that the function imports."""

    def __init__(self, function: FunctionProto, node: NodeProto, context: _Context) -> None:
        from onnx.reference import ReferenceEvaluator

        body = FunctionProto()
        body.CopyFrom(function)
        given = {a.name: a for a in (*function.attribute_proto, *node.attribute)}
        for inner in list(nodes_in(body)):
            substitute_attrs(inner, given)
        del body.attribute[:], body.attribute_proto[:]
        absent = [*node.input, *[""] * len(body.input)][: len(body.input)]
        without_absent_inputs(body, [name or None for name in absent])
        inside = list(nodes_in(body))
        _import_all(body, inside)
        self._outputs = list(body.output)[: len(node.output)]
        self._inputs = list(body.input)
        self._evaluator: Any = ReferenceEvaluator(body, new_ops=context.classes(inside))

    def __call__(self, *inputs: Any) -> Sequence[Any]:
        feeds = {
            name: value
            for name, value in zip(self._inputs, inputs, strict=False)
            if value is not None
        }
        made: list[Any] = self._evaluator.run(self._outputs, feeds, attributes={})
        return made


# ---- what onnx's evaluator needs of a model ----------------------------------------------------------------------------------


def _functions(model: ModelProto) -> dict[tuple[str, str], FunctionProto]:
    found = {
        (canonical_domain(function.domain), function.name): function for function in model.functions
    }
    for function in found.values():
        _make_ready(function)
    return found


def _make_ready(scope: GraphProto | FunctionProto) -> None:
    """Sort the nodes, of bodies as well, and write ONNX's own domain as ``""``."""
    scopes: list[GraphProto | FunctionProto] = [scope]
    for each in scopes:  # grows while it is walked
        graph = GraphIndex(each)
        graph.refuse_cycles()
        if list(graph.order) != list(range(len(each.node))):
            nodes = [graph.nodes[place].SerializeToString() for place in graph.order]
            del each.node[:]
            each.node.extend(map(NodeProto.FromString, nodes))
        for node in each.node:
            node.domain = canonical_domain(node.domain)
            scopes += bodies(node)


def _import_all(scope: ModelProto | FunctionProto, nodes: Iterable[NodeProto]) -> None:
    """Import each domain once, those that ONNX Runtime does without an import of as well."""
    versions = dict.fromkeys((node.domain for node in nodes), 1) | imported_versions(scope)
    del scope.opset_import[:]
    scope.opset_import.extend(helper.make_opsetid(*pair) for pair in versions.items())
