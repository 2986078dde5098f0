"""ONNX's reference implementation of one operator, as a function of arrays.

``onnx.reference`` evaluates models. Here one operator, in one version and with its attrs, can be called: either the reference
has a class for it, or ONNX defines it by a function of other operators, and that runs.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnx.shape_inference
from onnx import FunctionProto, GraphProto, ModelProto, NodeProto, TypeProto, helper

from pyopnb.errors import InputError, ModelError
from pyopnb.models.attribute_limits import check_attributes
from pyopnb.models.external_data import is_external
from pyopnb.models.functions import check_functions
from pyopnb.models.nodes import full_name, input_types
from pyopnb.models.onnx_schemas import find_schema
from pyopnb.models.tensors import tensors
from pyopnb.onnx_reference.attributes import attribute_for, attributes_to_pass
from pyopnb.onnx_reference.function_bodies import inlined_function, without_absent_inputs
from pyopnb.onnx_reference.mends import as_defined, correction_of, refuse_wrong
from pyopnb.ops.arguments import check_arguments, describe
from pyopnb.ops.dtypes import dtype
from pyopnb.ops.instantiate import add_note
from pyopnb.ops.locks import locked
from pyopnb.ops.messages import hide_internal_frames, plural, sanitize, suggest
from pyopnb.ops.names import MAX_OUTPUTS, canonical_domain, split_name
from pyopnb.ops.op import Version
from pyopnb.ops.types import ANY, TensorType, type_of

__all__ = [
    "Evaluation",
    "StandIn",
    "has_reference",
    "reference",
    "runs_as_newest",
    "schema_of_op",
    "stand_in_class",
]

_MOST_EVALUATORS = (
    16  # of one operator whose definition depends on types; the oldest make room for new ones
)
_COUNT_ATTR = "num_outputs"  # the one attr of ONNX's operators that counts their outputs


@hide_internal_frames
@check_arguments
def reference(
    op: str, *inputs: Any, opset: int | None = None, outputs: int | None = None, **attrs: Any
) -> Any:
    """Run ONNX's reference implementation of one operator.

    Parameters
    ----------
    op : str
        ``"::Celu"`` or ``"ai.onnx.ml::LabelEncoder"``.
    *inputs : array, or list of arrays for a sequence
        None omits an optional input.
    opset : int, optional
        The version of the operator's domain; the newest that the installed onnx knows if not given.
    outputs : int, optional
        Number of outputs; by default the fewest that the operator has.
    **attrs
        As for `node`; None omits an attr.

    Returns
    -------
    array or tuple
        A tuple for several outputs.

    Raises
    ------
    ModelError
        There is no such operator, no reference implementation of it, or it has no such attr.
    Exception
        What the reference implementation raised, unchanged.

    Examples
    --------
    >>> import numpy as np
    >>> reference("::Celu", np.float32([-1, 0, 2]), alpha=2.0)
    array([-0.78693867,  0.        ,  2.        ], dtype=float32)
    >>> values, places = reference("::TopK", np.float32([3, 1, 2]), np.int64([2]))
    >>> values.tolist(), places.tolist()
    ([3.0, 2.0], [0, 2])
    """
    domain, op_type = split_name(op if "::" in op else f"::{op}")
    schema = schema_of_op(domain, op_type, opset)
    _check_given(schema, inputs, outputs, attrs)
    version = schema.since_version if opset is None else opset
    count = _output_count(schema, attrs) if outputs is None else outputs
    evaluation = Evaluation(domain, op_type, version, attrs, count)
    arrays = [_argument(value, schema, place) for place, value in enumerate(inputs)]
    try:
        made = evaluation(*arrays)
    except Exception as error:
        given = ", ".join("None" if array is None else _type_key(array) for array in arrays)
        add_note(error, f"in ONNX's reference implementation of {domain}::{op_type}, on {given}")
        raise
    return made if count > 1 else made[0]


def _check_given(
    schema: Any, inputs: Sequence[Any], outputs: int | None, attrs: Mapping[str, Any]
) -> None:
    """Refuse what the operator's definition does not allow: the reference implementation would raise whatever comes of it."""
    where = f"reference of {schema.domain}::{schema.name}"
    names = [port.name for port in schema.inputs]
    if not schema.min_input <= len(inputs) <= schema.max_input:
        least, most = schema.min_input, schema.max_input
        count = (
            f"{least} to {most} inputs"
            if least < most < 1000
            else f"at least {plural(least, 'input')}"
        )
        expected = f"{plural(least, 'input') if least == most else count} ({', '.join(names)})"
        shown = ", ".join([f'"{schema.domain}::{schema.name}"', *names[: max(1, schema.min_input)]])
        raise ModelError(
            where, expected=expected, got=str(len(inputs)), next=f"pyopnb.reference({shown})"
        )
    single = onnx.defs.OpSchema.FormalParameterOption.Single
    for port, value in zip(schema.inputs, inputs, strict=False):
        if value is None and port.option == single:
            raise ModelError(f"{where}, input {port.name}", expected="an array", got="None")
    absent = [
        name
        for name, attr in schema.attributes.items()
        if attr.required and attrs.get(name) is None
    ]
    if absent:
        raise ModelError(
            f"{where}, attr {absent[0]}",
            expected="a value, as it has no default",
            got="nothing",
            next=f"{absent[0]}=…",
        )
    least, most = max(1, schema.min_output), min(schema.max_output, MAX_OUTPUTS)
    if outputs is not None and not least <= outputs <= most:
        expected = str(least) if least == most else f"{least} to {most}"
        raise ModelError(
            f"{where}, outputs", expected=expected, got=str(outputs), next=f"outputs={least}"
        )


def _argument(value: Any, schema: Any, place: int) -> Any:
    try:
        array = _array_of(value)
        for item in array if isinstance(array, list) else [array]:
            if item is not None:
                dtype(item.dtype)
    except ValueError as error:  # ragged, or a dtype that ONNX does not have
        port = schema.inputs[min(place, len(schema.inputs) - 1)].name
        got = describe(value) if isinstance(error, InputError) else sanitize(str(error))
        where = f"reference of {schema.domain}::{schema.name}, input {port}"
        raise ModelError(
            where,
            expected="an array of one of ONNX's dtypes",
            got=got,
            next="np.asarray(…, dtype=…)",
        ) from None
    return array


def _array_of(value: Any) -> Any:
    if value is None or isinstance(value, np.ndarray):
        return value
    if isinstance(value, (list, tuple)) and any(
        isinstance(item, (np.ndarray, type(None))) for item in value
    ):
        return list(value)
    return np.asarray(value, dtype=object if isinstance(value, str) else None)


def _output_count(schema: Any, attrs: Mapping[str, Any]) -> int:
    variadic = (
        schema.outputs
        and schema.outputs[-1].option == onnx.defs.OpSchema.FormalParameterOption.Variadic
    )
    if variadic and attrs.get(_COUNT_ATTR):
        return int(attrs[_COUNT_ATTR])
    if variadic:
        raise ModelError(
            f"reference of {schema.domain}::{schema.name}",
            expected="outputs=…, as the node decides how many there are",
            got="nothing",
            next="outputs=2",
        )
    return max(1, int(schema.min_output))


# ---- what onnx knows of an operator ------------------------------------------------------------------------------------------


def schema_of_op(domain: str, op_type: str, opset: int | None) -> Any:
    """Return the operator's definition in that version of its domain.

    Raises
    ------
    ModelError
        The installed onnx knows no such operator, or not in that version.
    """
    schema = find_schema(domain, op_type, opset)
    ahead = opset is not None and domain == "" and opset > onnx.defs.onnx_opset_version()
    if schema is not None and not schema.deprecated and not ahead:
        return schema
    known = {s.name for s in onnx.defs.get_all_schemas() if s.domain == domain and not s.deprecated}
    where = f"reference of {sanitize(domain)}::{sanitize(op_type)}"
    if op_type in known or schema is not None:
        raise ModelError(
            where, expected="a version in which ONNX has it", got=f"version {opset or 'newest'}"
        )
    names = [f"{s.domain}::{s.name}" for s in onnx.defs.get_all_schemas() if not s.deprecated]
    raise ModelError(
        where,
        expected=f"an operator of onnx {onnx.__version__}",
        got="an unknown name",
        next=suggest(f"{domain}::{op_type}", names) if names else None,
    )


def has_reference(node: NodeProto, opset: int) -> bool:
    """Tell whether the installed onnx can run the node's operator in that version of its domain."""
    domain = canonical_domain(node.domain)
    # onnx would read external data, wherever the working folder is.
    attrs = {a.name: a for a in node.attribute if not any(map(is_external, tensors(a)))}
    try:
        evaluation = Evaluation(domain, node.op_type, opset, attrs, max(1, len(node.output)))
    except ModelError:
        return False
    return evaluation.exists()


def runs_as_newest(domain: str, op_type: str, opset: int) -> bool:
    """Tell whether the reference runs the newest version in place of this one, although their definitions differ."""
    schema, newest = schema_of_op(domain, op_type, opset), find_schema(domain, op_type)
    if schema.since_version == newest.since_version or schema.doc == newest.doc:
        return False
    classes = {
        name
        for name in _classes(domain)
        if name.rpartition("_")[0] == op_type and name.rpartition("_")[2].isdecimal()
    }
    return not classes


def _classes(domain: str) -> set[str]:
    from onnx.reference.op_run import OpRun

    ahead, names = [OpRun], set()
    while ahead:
        cls = ahead.pop()
        names.add(cls.__name__)
        ahead += cls.__subclasses__()
    return names


def _reference_evaluator(model: ModelProto, new_ops: list[type] | None = None) -> Any:
    """``onnx.reference.ReferenceEvaluator`` of a model that it does not take all memory for, with classes of its own.

    Raises
    ------
    ModelError
        As from `check_functions` and `check_attributes`.
    """
    from onnx.reference import ReferenceEvaluator  # half a second, for those who need it

    check_functions(model)
    check_attributes(model)
    return ReferenceEvaluator(model, new_ops=new_ops)


# ---- one operator ------------------------------------------------------------------------------------------------------------


class Evaluation:
    """One operator, in one version and with its attrs, as a function of arrays that returns a tuple.

    Parameters
    ----------
    domain, op_type : str
    opset : int
        Version of the domain.
    attrs : mapping
        Name to value, or to AttributeProto.
    outputs : int

    Raises
    ------
    ModelError
        There is no such operator, no reference implementation of it, or it has no such attr.
    """

    def __init__(
        self, domain: str, op_type: str, opset: int, attrs: Mapping[str, Any], outputs: int
    ) -> None:
        opset, attrs = as_defined(domain, op_type, opset, attrs, outputs)
        self._schema = schema_of_op(domain, op_type, opset)
        self._where = f"reference of {full_name(NodeProto(domain=domain, op_type=op_type))}"
        self._opset, self._imports = opset, {"": onnx.defs.onnx_opset_version()}
        self._functions: list[FunctionProto] = []
        for value in attrs.values():
            self._adopt_imports(value)
        self._imports[domain] = self._opset
        self._node = helper.make_node(op_type, [], [f"y{n}" for n in range(outputs)], domain=domain)
        given = {
            name: attribute_for(self._schema, name, value, self._where)
            for name, value in attrs.items()
            if value is not None
        }
        self._node.attribute.extend(attributes_to_pass(self._schema, given))
        refuse_wrong(domain, op_type, self._opset, given, outputs, self._where)
        self._correction = correction_of(domain, op_type, given)
        self._evaluators: dict[Any, Any] = {}
        self._lock = threading.Lock()

    def _adopt_imports(self, value: Any) -> None:
        """Import the versions for which a graph among the attrs was written."""
        if isinstance(value, (list, tuple)):
            for item in value:
                self._adopt_imports(item)
        if not isinstance(value, ModelProto):
            return
        self._functions = list(value.functions)
        for entry in value.opset_import:
            if entry.domain != self._schema.domain:
                self._imports[entry.domain] = entry.version
            elif (
                schema_of_op(entry.domain, self._schema.name, entry.version).since_version
                == self._schema.since_version
            ):
                self._opset = entry.version

    def __call__(self, *inputs: Any) -> tuple[Any, ...]:
        """Return the outputs; None omits an input."""
        if self._correction is not None:
            return self._correction(*inputs)
        present = tuple(value is not None for value in inputs)
        evaluator, names = self._evaluator(present, inputs)
        feeds = {
            name: value for name, value in zip(names, inputs, strict=False) if value is not None
        }
        with np.errstate(all="ignore"):
            return tuple(evaluator.run(None, feeds))

    def infer(self, *given: TensorType | None) -> tuple[TensorType, ...]:
        """Return the outputs' types as far as onnx infers them from the inputs'.

        A model of one node, since onnx follows functions and graph attrs only in a model.
        """
        node = NodeProto()
        node.CopyFrom(self._node)
        node.input.extend("" if kind is None else f"x{n}" for n, kind in enumerate(given))
        inputs = [
            helper.make_tensor_value_info(f"x{n}", kind.dtype.onnx if kind.dtype else 0, kind.shape)
            for n, kind in enumerate(given)
            if kind is not None
        ]
        model = self._model(
            [node], inputs, [onnx.ValueInfoProto(name=name) for name in node.output]
        )
        check_functions(model)
        check_attributes(model)
        known = input_types(
            GraphProto(value_info=onnx.shape_inference.infer_shapes(model).graph.output)
        )
        # onnx invents names for unknown sizes, the same ones for different nodes.
        symbols = {
            dim
            for kind in given
            if kind is not None
            for dim in kind.shape or ()
            if isinstance(dim, str)
        }
        return tuple(_without_invented(known.get(name, ANY), symbols) for name in node.output)

    def exists(self) -> bool:
        """Tell whether there is a reference implementation."""
        try:
            self._direct(tuple(True for _ in self._schema.inputs))
        except (NotImplementedError, ModelError):
            return False
        except (
            RuntimeError,
            ValueError,
            TypeError,
            AttributeError,
        ):  # it needs the inputs' types, or refuses the attrs
            return True
        return True

    def _evaluator(self, present: tuple[bool, ...], inputs: Sequence[Any]) -> Any:
        return locked(self._lock, self._find_evaluator, present, inputs)

    def _find_evaluator(self, present: tuple[bool, ...], inputs: Sequence[Any]) -> Any:
        if None not in self._evaluators:
            self._evaluators[None] = self._definition_kind(present)
        if self._evaluators[None] == "class":
            key: Any = present
        elif self._evaluators[None] == "function":
            key = len(present)
        else:
            key = tuple(_type_key(value) for value in inputs)
        if key not in self._evaluators:
            while len(self._evaluators) > _MOST_EVALUATORS:
                self._evaluators.pop(next(k for k in self._evaluators if k is not None))
            self._evaluators[key] = (
                self._direct(present) if key is present else self._by_function(inputs)
            )
        return self._evaluators[key]

    def _definition_kind(self, present: tuple[bool, ...]) -> str:
        """``class`` where the reference has one; else ``function``, or ``typed`` where that depends on the inputs' types."""
        from onnx.reference.op_run import OpFunction, RuntimeContextError

        try:
            evaluator, _ = self._direct(present)
        except RuntimeContextError:
            return "typed"
        except NotImplementedError as error:
            raise ModelError(
                self._where,
                expected=f"an operator that onnx {onnx.__version__} implements or defines by a function",
                got="a definition in words only",
                next="write it: pyopnb.skeleton(model, node)",
            ) from error
        return "function" if isinstance(evaluator.rt_nodes_[0], OpFunction) else "class"

    def _direct(self, present: tuple[bool, ...]) -> Any:
        names = [f"x{n}" if there else "" for n, there in enumerate(present)]
        node = NodeProto()
        node.CopyFrom(self._node)
        node.input.extend(names)
        return self._evaluator_of(
            [node], [n for n in names if n], node.output, self._imports
        ), names

    def _by_function(self, inputs: Sequence[Any]) -> Any:
        node = NodeProto()
        node.CopyFrom(self._node)
        node.input.extend("" if value is None else f"x{n}" for n, value in enumerate(inputs))
        body = inlined_function(
            self._schema,
            node,
            [None if value is None else _type_proto(value) for value in inputs],
            self._opset,
        )
        if body is None:
            raise ModelError(
                self._where,
                expected="inputs that its definition allows",
                got=", ".join(map(_type_key, inputs)),
            )
        imports = self._imports | {entry.domain: entry.version for entry in body.opset_import}
        names = list(body.input)
        evaluator = self._evaluator_of(
            without_absent_inputs(body, inputs), names, body.output[: len(node.output)], imports
        )
        return evaluator, names

    def _evaluator_of(
        self, nodes: Any, inputs: Any, outputs: Any, imports: Mapping[str, int]
    ) -> Any:
        takes, gives = (
            [onnx.ValueInfoProto(name=name) for name in names] for names in (inputs, outputs)
        )
        return _reference_evaluator(self._model(nodes, takes, gives, imports))

    def _model(
        self, nodes: Any, inputs: Any, outputs: Any, imports: Mapping[str, int] | None = None
    ) -> ModelProto:
        return helper.make_model(
            GraphProto(name="alone", node=nodes, input=inputs, output=outputs),
            functions=self._functions,
            opset_imports=[
                helper.make_opsetid(*pair) for pair in (imports or self._imports).items()
            ],
        )


def _without_invented(kind: TensorType, symbols: Collection[str]) -> TensorType:
    if kind.shape is None:
        return kind
    return kind.like(
        shape=[None if isinstance(dim, str) and dim not in symbols else dim for dim in kind.shape]
    )


class StandIn:
    """ONNX's reference implementation of an operator as an op; `stand_in_class` makes one per operator.

    ``reference_outputs`` is the node's number of outputs, which ``compute`` has no other way to know.
    """

    operator: tuple[str, str, int]

    def __init__(self, reference_outputs: int = 1, **attrs: Any) -> None:
        self._evaluation = Evaluation(*self.operator, attrs, reference_outputs)
        self._attrs = {"reference_outputs": reference_outputs, **attrs}

    def __getstate__(self) -> dict[str, Any]:
        return self._attrs

    def __setstate__(self, attrs: dict[str, Any]) -> None:
        self.__init__(**attrs)  # type: ignore[misc]  # another process makes its own evaluator

    @classmethod
    def _module_source(cls, version: Version) -> str:
        made = f"stand_in_class{cls.operator!r}"
        return f"import pyopnb\nfrom pyopnb.onnx_reference.operator import stand_in_class\n\npyopnb.pyop({version.op!r})({made})\n"

    def infer(self, *given: TensorType | None) -> tuple[TensorType, ...]:
        return self._evaluation.infer(*given)

    def compute(self, *inputs: Any) -> Any:
        results = self._evaluation(*inputs)
        return results if len(results) > 1 else results[0]


def stand_in_class(domain: str, op_type: str, opset: int) -> type[StandIn]:
    """Return the class of an op that runs the reference implementation.

    Examples
    --------
    >>> stand_in_class("", "Celu", 12)(alpha=2.0).compute(np.float32([3]))
    array([3.], dtype=float32)
    """
    doc = f"ONNX's reference implementation of {domain}::{op_type}, version {opset}."
    return type(
        f"{op_type}_{opset}", (StandIn,), {"operator": (domain, op_type, opset), "__doc__": doc}
    )


def _type_proto(value: Any) -> TypeProto:
    if isinstance(value, list):
        return helper.make_sequence_type_proto(_type_proto(value[0]) if value else TypeProto())
    return helper.make_tensor_type_proto(dtype(value.dtype).onnx, value.shape)


def _type_key(value: Any) -> str:
    if isinstance(value, list):
        return f"seq({_type_key(value[0]) if value else ''})"
    return "nothing" if value is None else str(type_of(value))
