"""Ops for onnx's own ``ReferenceEvaluator``: no runtime, node by node, with the same checks of results."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import onnx
from onnx import FunctionProto, GraphProto, ModelProto, NodeProto, helper

from pyopnb.errors import ModelError
from pyopnb.models.nodes import Site, attribute_values, bodies, linked_attributes
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
from pyopnb.ops.schema import Schema, same_value
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
    """One op as a subclass of ``OpRun``."""
    # The evaluator finds a class by its name. Without op_schema, it would use that of any operator of this name.
    return type(
        op.op_type,
        (_base(),),
        {"op_domain": op.domain, "op_schema": None, "op": op, "__module__": __name__},
    )


@cache
def _base() -> type:
    from onnx.reference.op_run import OpRun

    class EvaluatedNode(OpRun):
        """A node in a ``ReferenceEvaluator``."""

        op: Op

        def __init__(
            self, onnx_node: NodeProto, run_params: dict[str, Any], schema: Any = None
        ) -> None:
            plain = NodeProto()
            plain.CopyFrom(onnx_node)
            del plain.attribute[
                :
            ]  # onnx would convert them: a float to np.float32, a graph to an evaluator
            super().__init__(plain, run_params, schema)
            self.onnx_node = onnx_node
            self.has_linked_attribute = bool(linked_attributes(onnx_node))
            self._evaluated = EvaluatedOp(self.op, onnx_node, run_params)

        def run(self, *args: Any, linked_attributes: Any = None, **_: Any) -> tuple[Any, ...]:
            # OpRun.run relabels what is raised as "issues with types".
            return self._run(*args, **(linked_attributes or {}))

        def _run(self, *args: Any, **linked: Any) -> tuple[Any, ...]:
            return self._evaluated.run(args, linked)

    return EvaluatedNode


class EvaluatedOp:
    """An op at a node of a ``ReferenceEvaluator``."""

    def __init__(self, op: Op, node: NodeProto, run_params: Mapping[str, Any]) -> None:
        self.op, self.node = op, node
        self.where = Site(node, GraphProto(), "").where
        self.values = attribute_values(node, _surrounding_model(node, run_params), self.where)
        self._lock = threading.RLock()
        self._instantiated: tuple[Version, dict[str, Any], object] | None = None

    def _instance(self, linked: dict[str, Any]) -> tuple[Version, object]:
        """Return the instance of the current version; a new one if the function's caller passes other attrs."""
        return locked(self._lock, self._instance_of, self.op.current, linked)

    def _instance_of(self, version: Version, linked: dict[str, Any]) -> tuple[Version, object]:
        if (
            self._instantiated is None
            or self._instantiated[0] is not version
            or not same_value([*self._instantiated[1].items()], [*linked.items()])
        ):
            made = instantiate(version, version.schema, {**self.values, **linked}, self.where)
            self._instantiated = version, linked, made
        return version, self._instantiated[2]

    def run(self, arrays: Sequence[Any], linked: Mapping[str, Any]) -> tuple[Any, ...]:
        names = {a.ref_attr_name: a.name for a in self.node.attribute if a.ref_attr_name}
        version, instance = self._instance(
            {names[k]: _to_python(v) for k, v in linked.items() if k in names}
        )
        schema = version.schema
        given = [_as_input(array) for array in arrays]
        types = [None if array is None else type_of(array) for array in given]
        schema.check_inputs(types, self.where)
        sizes: dict[str, int] = {}
        self._check_sizes(schema, types, sizes)
        promised = promised_types(schema, instance, types, len(self.node.output), self.where)
        if schema.serial:
            return locked(
                self.op.lock, self._compute, version, instance, given, types, promised, sizes
            )
        return self._compute(version, instance, given, types, promised, sizes)

    def _compute(
        self,
        version: Version,
        instance: Any,
        given: Sequence[Any],
        types: Sequence[TensorType | None],
        promised: Sequence[Any],
        hint_sizes: dict[str, int],
    ) -> tuple[Any, ...]:
        """Copies of the checked results; under a serial op's lock, as they may be buffers that its next call writes to."""
        schema = version.schema
        try:
            returned = instance.compute(*(_view_or_copy(array, schema) for array in given))
        except BaseException as error:
            for note in failure_notes(
                error, f"{self.where}, version {version.number}", schema, types
            ):
                add_note(error, note)
            raise
        results = self._checked_count(schema, returned)
        infer_sizes: dict[str, int] = {}
        arrays = [
            self._result(
                schema,
                place,
                results[place],
                promised[place],
                resolve_type(promised[place], ANY, types),
                hint_sizes,
                infer_sizes,
            )
            if name
            else None
            for place, name in enumerate(self.node.output)
        ]
        # Copies, as the next node may write to them, and neither an input nor what the op keeps is ours.
        return tuple(None if array is None else array.copy() for array in arrays)

    def _check_sizes(
        self, schema: Schema, types: Sequence[TensorType | None], sizes: dict[str, int]
    ) -> None:
        for place, got in enumerate(types):
            if got is not None and not schema.port(place).type.accepts(got, sizes):
                port = schema.port(place)
                raise ModelError(
                    f"{self.where}, input {port.name}",
                    expected=f"{port.type}, with one size a symbol",
                    got=str(got),
                    next=f"feed that shape, or change the hint of {port.name} in compute",
                )

    def _checked_count(self, schema: Schema, returned: Any) -> Sequence[Any]:
        outputs = len(self.node.output)
        wanted = outputs if schema.outputs is None else len(schema.outputs)
        if wanted < outputs:
            raise ModelError(
                f"{self.where}, outputs",
                expected=f"at most {wanted}, as compute's hint says",
                got=str(outputs),
                next="change the hint or the node",
            )
        results = returned if isinstance(returned, tuple) else (returned,)
        if len(results) != wanted:
            raise wrong_count(self.where, self.op.current.cls.compute, schema, returned, wanted)  # type: ignore[attr-defined]
        return results

    def _result(
        self,
        schema: Schema,
        place: int,
        value: Any,
        promised: TensorType | None,
        kind: TensorType | None,
        hint_sizes: dict[str, int],
        infer_sizes: dict[str, int],
    ) -> np.ndarray:
        count = len(schema.outputs or self.node.output)
        expected = promised or TensorType(kind.dtype if kind else None, None)
        output = Output(self.where, self.op.current.cls.compute, schema, place, count, expected)  # type: ignore[attr-defined]
        array = (
            np.asarray(value)
            if kind is None or kind.dtype is None
            else output.array(value, kind.dtype)
        )
        hint = schema.outputs[place] if schema.outputs else ANY
        for said, sizes in (
            (hint, hint_sizes),
            (promised if schema.infers and promised else ANY, infer_sizes),
        ):
            if not said.accepts_shape(array.shape, sizes):
                raise replace(output, expected=said).wrong_shape(array)
        return array


def _as_input(array: Any) -> Any:
    if array is None:
        return None
    array = np.asarray(array)
    return array.astype(object) if array.dtype.kind in "UT" else array


def _view_or_copy(array: Any, schema: Schema) -> Any:
    """Return an input as ``compute`` gets it: a read-only view, or a writable copy."""
    if array is None:
        return None
    if schema.copy_inputs:
        return array.copy()
    view = array.view()
    view.flags.writeable = False
    return view


def _to_python(value: Any) -> Any:
    """Return an attr from a function's caller as Python types; onnx passes NumPy's."""
    if isinstance(value, list):
        return [_to_python(item) for item in value]
    return value.item() if isinstance(value, np.generic) else value


def _surrounding_model(node: NodeProto, run_params: Mapping[str, Any]) -> ModelProto:
    """Return the opset imports and local functions for the node's graph attrs."""
    if not bodies(node):
        return ModelProto()
    imports = [
        helper.make_opsetid(domain, version) for domain, version in run_params["opsets"].items()
    ]
    held = (
        getattr(held, "proto_", None) for held in run_params.get("existing_functions", {}).values()
    )
    functions = [proto for proto in held if isinstance(proto, FunctionProto)]
    oldest = helper.find_min_ir_version_for(imports, ignore_unknown=True)
    return ModelProto(
        ir_version=max(oldest, 8),
        opset_import=imports,
        functions=functions,
        graph=onnx.GraphProto(),
    )
