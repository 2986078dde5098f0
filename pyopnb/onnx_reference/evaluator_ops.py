"""Ops for onnx's own ``ReferenceEvaluator``: no runtime, node by node, with the same checks of results."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, helper

from pyopnb.errors import ModelError
from pyopnb.models.nodes import Site, attribute_values, bodies
from pyopnb.ops.instantiate import (
    add_note,
    failure_notes,
    instantiate,
)
from pyopnb.ops.locks import locked
from pyopnb.ops.op import Op, Version
from pyopnb.ops.output_types import promised_types, resolve_type
from pyopnb.ops.registry import registry
from pyopnb.ops.returns import Output, wrong_count
from pyopnb.ops.types import ANY, TensorType, type_of

__all__ = ["EvaluatedOp", "evaluated_op", "reference_ops"]


def reference_ops() -> list[type]:
    """Return every op of the registry as a class for ``onnx.reference.ReferenceEvaluator``.

    Pass them as ``new_ops``. They follow the registry: a redefined op is used from the next run on. Attrs, optional inputs,
    read-only views or copies, and the checks of results are those of a `Session`; an op's exception arrives unchanged, with a
    note. The evaluator uses them in bodies but not in local functions: for these, evaluate
    ``onnx.inliner.inline_local_functions(model)``.

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
    return [evaluated_op(op) for op in registry]


def evaluated_op(op: Op) -> type:
    """Make one op a subclass of ``OpRun``."""
    # The evaluator finds a class by its name. Without op_schema, it would use that of any operator of this name.
    attributes = {
        "op_domain": op.domain,
        "op_schema": None,
        "op": op,
        "__module__": __name__,
    }
    return type(op.op_type, (_base(),), attributes)


@cache
def _base() -> type:
    # Slow to import, so not at the top of the module.
    from onnx.reference.op_run import OpRun

    class EvaluatedNode(OpRun):
        """A node in a ``ReferenceEvaluator``."""

        op: Op

        def __init__(
            self, onnx_node: NodeProto, run_params: dict[str, Any], schema: Any = None
        ) -> None:
            # onnx would convert the attributes: a float to np.float32, a graph to an evaluator.
            bare = NodeProto()
            bare.CopyFrom(onnx_node)
            del bare.attribute[:]
            super().__init__(bare, run_params, schema)
            self.onnx_node = onnx_node
            self._evaluated = EvaluatedOp(self.op, onnx_node, run_params)

        def run(self, *args: Any, **_: Any) -> tuple[Any, ...]:
            # OpRun.run relabels what is raised as "issues with types".
            return self._run(*args)

        def _run(self, *args: Any) -> tuple[Any, ...]:
            return self._evaluated.run(args)

    return EvaluatedNode


class EvaluatedOp:
    """An op at a node of a ``ReferenceEvaluator``."""

    def __init__(self, op: Op, node: NodeProto, run_params: Mapping[str, Any]) -> None:
        self.op, self.node = op, node
        self.where = Site(node, GraphProto(), "").where
        self.values = attribute_values(node, _surrounding_model(node, run_params), self.where)
        self._lock = threading.RLock()
        self._instantiated: tuple[Version, object] | None = None

    def run(self, arrays: Sequence[Any]) -> tuple[Any, ...]:
        """Call the op's current version on arrays; None is an input that is left out."""
        version, instance = locked(self._lock, self._instance, self.op.current)
        call = _Call(self, version, instance, list(map(_as_input, arrays)))
        if version.schema.serial:
            return locked(self.op.lock, call.results)
        return call.results()

    def _instance(self, version: Version) -> tuple[Version, object]:
        if self._instantiated is None or self._instantiated[0] is not version:
            instance = instantiate(version, version.schema, self.values, self.where)
            self._instantiated = version, instance
        return self._instantiated


class _Call:
    """One call of an op, with the checks that a `Session` makes."""

    def __init__(
        self, node: EvaluatedOp, version: Version, instance: Any, inputs: Sequence[Any]
    ) -> None:
        self.where, self.outputs = node.where, node.node.output
        self.version, self.instance, self.inputs = version, instance, inputs
        self.schema = version.schema
        self.types = [None if array is None else type_of(array) for array in inputs]
        self.schema.check_inputs(self.types, self.where)
        # Sizes of the symbols in hints, and of those in what infer returns.
        self.hint_sizes: dict[str, int] = {}
        self.infer_sizes: dict[str, int] = {}
        self._check_sizes()
        # The inputs' types are exact here, so infer may promise more than it did for the graph.
        self.promised = promised_types(
            self.schema, instance, self.types, len(self.outputs), self.where
        )

    def _check_sizes(self) -> None:
        for position, type_ in enumerate(self.types):
            if type_ is None:
                continue
            port = self.schema.port(position)
            if not port.type.accepts(type_, self.hint_sizes):
                raise ModelError(
                    f"{self.where}, input {port.name}",
                    expected=f"{port.type}, with one size a symbol",
                    got=str(type_),
                    next=f"feed that shape, or change the hint of {port.name} in compute",
                )

    def results(self) -> tuple[Any, ...]:
        """Return copies of the checked results; under a serial op's lock, as its next call may write to them."""
        try:
            returned = self.instance.compute(*map(self._view_or_copy, self.inputs))
        except BaseException as error:
            where = f"{self.where}, version {self.version.number}"
            for note in failure_notes(error, where, self.schema, self.types):
                add_note(error, note)
            raise
        values = self._checked_count(returned)
        results: list[Any] = []
        for position, name in enumerate(self.outputs):
            # Copies, as the next node may write to them, and neither an input nor what the op keeps is ours.
            results.append(self._checked(position, values[position]).copy() if name else None)
        return tuple(results)

    def _view_or_copy(self, array: Any) -> Any:
        """Return an input as ``compute`` gets it: a read-only view, or a writable copy."""
        if array is None:
            return None
        if self.schema.copy_inputs:
            return array.copy()
        view = array.view()
        view.flags.writeable = False
        return view

    def _checked_count(self, returned: Any) -> Sequence[Any]:
        self.schema.check_outputs(len(self.outputs), self.where)
        count = len(self.schema.outputs or self.outputs)
        values: Sequence[Any] = returned
        if not isinstance(returned, tuple):
            values = (returned,)
        if len(values) != count:
            raise wrong_count(self.where, self._function, returned, count)
        return values

    @property
    def _function(self) -> Any:
        return self.version.cls.compute  # type: ignore[attr-defined]  # it was called

    def _checked(self, position: int, value: Any) -> np.ndarray:
        """Check the dtype and the shape of a result."""
        promise = self.promised[position]
        type_ = resolve_type(promise, ANY, self.types)
        element = None
        if type_ is not None:
            element = type_.dtype
        output = Output(
            self.where,
            self._function,
            self.schema,
            position,
            len(self.schema.outputs or self.outputs),
            promise or TensorType(element, None),
        )
        # Without a promised dtype, the result has the one that it comes with.
        if element is None:
            array = np.asarray(value)
        else:
            array = output.array(value, element)
        # Hint and infer name their symbols each by itself, so their sizes are counted apart.
        hint = ANY
        if self.schema.outputs:
            hint = self.schema.outputs[position]
        if not hint.accepts_shape(array.shape, self.hint_sizes):
            raise replace(output, expected=hint).wrong_shape(array)
        inferred = ANY
        if self.schema.infers and promise is not None:
            inferred = promise
        if not inferred.accepts_shape(array.shape, self.infer_sizes):
            raise output.wrong_shape(array)
        return array


def _as_input(array: Any) -> np.ndarray | None:
    """Return a value of the evaluator's as an op gets it: texts as objects, and None where it is left out."""
    if array is None:
        return None
    tensor = np.asarray(array)
    if tensor.dtype.kind in "UT":
        return np.asarray(tensor, object)
    return tensor


def _surrounding_model(node: NodeProto, run_params: Mapping[str, Any]) -> ModelProto:
    """Return a model with the opset imports for the node's graph attrs."""
    model = ModelProto()
    if not bodies(node):
        return model
    for domain, version in run_params["opsets"].items():
        model.opset_import.append(helper.make_opsetid(domain, version))
    oldest = helper.find_min_ir_version_for(model.opset_import, ignore_unknown=True)
    model.ir_version = max(oldest, 8)
    model.graph.SetInParent()
    return model
