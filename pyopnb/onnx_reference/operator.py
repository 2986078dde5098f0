"""The ONNX reference implementation of one operator, as a function of arrays.

``onnx.reference`` evaluates models. This module calls a single operator in one version and with its
attrs. Either the reference has a class for it, or ONNX defines it as a function of other operators,
and that function runs.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import onnx
from onnx import FunctionProto, GraphProto, ModelProto, NodeProto, TypeProto, helper

from pyopnb.catalog import find_entry
from pyopnb.common import locks, messages, sanitize
from pyopnb.engine import (
    TensorType,
    Version,
    argument_checks,
    check_arguments,
    dtype,
    external_files,
    model_faults,
    model_functions,
    onnx_schemas,
    op_inference,
    op_names,
    protos,
    type_of,
)
from pyopnb.errors import InputError, ModelError
from pyopnb.onnx_reference.attributes import attribute_for, attributes_to_pass
from pyopnb.onnx_reference.corrections.table import corrected_operators, correction_of
from pyopnb.onnx_reference.evaluator_ops import node_class
from pyopnb.onnx_reference.loop import loop_class
from pyopnb.onnx_reference.mends import as_defined, inputs_as_defined
from pyopnb.onnx_reference.refusals import refuse_wrong
from pyopnb.onnx_reference.scan import scan_class

__all__ = [
    "Evaluation",
    "StandIn",
    "has_reference",
    "lack_of_reference",
    "operator_kernel",
    "reference",
    "schema_of_op",
    "stand_in_class",
]

# Of one operator whose definition depends on types.
_MAX_EVALUATORS = 16

# The one attr of the ONNX operators that counts their outputs.
_COUNT_ATTR = "num_outputs"
_OPTION = onnx.defs.OpSchema.FormalParameterOption


@check_arguments
def reference(
    op: str, *inputs: Any, opset: int | None = None, outputs: int | None = None, **attrs: Any
) -> Any:
    """Run the ONNX reference implementation of one operator.

    Parameters
    ----------
    op : str
        ``"::Celu"`` or ``"ai.onnx.ml::LabelEncoder"``; in other domains, an operator of the
        catalog.
    *inputs : array, or list of arrays for a sequence
        None leaves out an optional input. With types in place of arrays, as ``infer`` gets them,
        the types of the outputs are returned.
    opset : int, optional
        The version of the operator's domain. By default, the newest that the installed onnx knows.
    outputs : int, optional
        Number of outputs; by default the fewest that the operator has.
    **attrs
        As for `node`; None leaves the attr out.

    Returns
    -------
    array or tuple
        A tuple for several outputs.

    Raises
    ------
    ModelError
        There is no such operator, it has no reference implementation or no such attr, or the
        reference implementation raised another exception, which is the cause.

    Examples
    --------
    >>> import numpy as np
    >>> reference("::Celu", np.float32([-1, 0, 2]), alpha=2.0)
    array([-0.78693867,  0.        ,  2.        ], dtype=float32)
    >>> values, places = reference("::TopK", np.float32([3, 1, 2]), np.int64([2]))
    >>> values.tolist(), places.tolist()
    ([3.0, 2.0], [0, 2])
    """
    # A skeleton passes None for each input that its node leaves out, and some classes of onnx take
    # no such end.
    while inputs and inputs[-1] is None:
        inputs = inputs[:-1]
    # Without a domain, the name is one of ONNX's own.
    domain, op_type = op_names.split_name(op if "::" in op else f"::{op}")
    if onnx_schemas.find_schema(domain, op_type, opset) is None:
        entry = find_entry(f"{domain}::{op_type}", len(inputs))
        if entry is not None:
            return entry.op_class(**attrs).compute(*inputs)
    schema = schema_of_op(domain, op_type, opset)
    version = schema.since_version if opset is None else opset
    count = _output_count(schema, attrs) if outputs is None else outputs
    evaluation = Evaluation(domain, op_type, version, attrs, min(count, op_names.MAX_OUTPUTS))
    if any(isinstance(value, TensorType) for value in inputs):
        inferred = evaluation.infer(*inputs)
        return inferred if len(inferred) > 1 else inferred[0]
    # Check the call first: the reference implementation would raise an accidental error.
    site = protos.Site(evaluation.node(inputs), GraphProto(), "")
    for fault in model_faults.node_faults(site, evaluation.schema):
        error = fault.error
        where = error.where.replace(site.where, _where(domain, op_type))
        raise ModelError(where, expected=error.expected, got=error.got, next=error.next)
    arrays = [_argument(value, schema, position) for position, value in enumerate(inputs)]
    results = evaluation(*arrays)
    if count > 1:
        return results
    return results[0]


def _where(domain: str, op_type: str) -> str:
    return f"reference of {sanitize(domain)}::{sanitize(op_type)}"


def _argument(value: Any, schema: Any, position: int) -> Any:
    """Convert an argument to an array, or to a list of arrays for a sequence."""
    if value is None:
        return None
    is_sequence = isinstance(value, (list, tuple)) and any(isinstance(v, np.ndarray) for v in value)
    # NumPy text arrays drop trailing zeros.
    element = object if isinstance(value, str) else None
    try:
        if isinstance(value, Mapping):
            raise ValueError("a map")
        arrays = [np.asarray(item, element) for item in (value if is_sequence else [value])]
        for array in arrays:
            dtype(array.dtype)
    except ValueError as error:
        # The lists are ragged, or it is a dtype that ONNX does not have.
        got = (
            argument_checks.describe(value)
            if isinstance(error, InputError)
            else sanitize(str(error))
        )
        port = schema.inputs[min(position, len(schema.inputs) - 1)].name
        where = f"{_where(schema.domain, schema.name)}, input {port}"
        expected, advice = "an array of an ONNX dtype", "np.asarray(…, dtype=…)"
        raise ModelError(where, expected=expected, got=got, next=advice) from None
    if is_sequence:
        return arrays
    return arrays[0]


def _output_count(schema: Any, attrs: Mapping[str, Any]) -> int:
    if not schema.outputs or schema.outputs[-1].option != _OPTION.Variadic:
        return max(1, int(schema.min_output))
    if attrs.get(_COUNT_ATTR):
        return int(attrs[_COUNT_ATTR])
    raise ModelError(
        _where(schema.domain, schema.name),
        expected="outputs=…, because this operator has a variable number of outputs",
        got="nothing",
        next="outputs=2",
    )


# ---- facts from onnx on an operator --------------------------------------------------------------


def schema_of_op(domain: str, op_type: str, opset: int | None) -> Any:
    """Return the operator's definition in that version of its domain.

    Raises
    ------
    ModelError
        The installed onnx knows no such operator, or not in that version.
    """
    schema = onnx_schemas.find_schema(domain, op_type, opset)
    is_ahead = opset is not None and domain == "" and opset > onnx.defs.onnx_opset_version()
    if schema is not None and not schema.deprecated and not is_ahead:
        return schema
    name, where = f"{domain}::{op_type}", _where(domain, op_type)
    names = [f"{s.domain}::{s.name}" for s in onnx.defs.get_all_schemas() if not s.deprecated]
    if schema is not None or name in names:
        got = f"version {opset or 'newest'}"
        newest = onnx.defs.get_schema(op_type, domain=domain).since_version
        advice = f"opset={newest}" if name in names else None
        raise ModelError(where, expected="a version in which ONNX has it", got=got, next=advice)
    expected, advice = f"an operator of onnx {onnx.__version__}", messages.suggest(name, names)
    raise ModelError(where, expected=expected, got="an unknown name", next=advice)


def has_reference(node: NodeProto, opset: int) -> bool:
    """Tell whether the installed onnx can run the node's operator in that version of its domain."""
    return not lack_of_reference(node, opset)


def lack_of_reference(node: NodeProto, opset: int) -> str:
    """Say why the reference does not run a node; return nothing where it does."""
    attrs = {}
    for attribute in node.attribute:
        # onnx would read external data, wherever the working folder is.
        if not any(map(external_files.is_external, protos.tensors(attribute))):
            attrs[attribute.name] = attribute
    domain = op_names.canonical_domain(node.domain)
    try:
        evaluation = Evaluation(domain, node.op_type, opset, attrs, max(1, len(node.output)))
    except ModelError as error:
        return f"expected {error.expected}, got {error.got}"
    return "" if evaluation.exists() else "a definition in words only"


# ---- one operator --------------------------------------------------------------------------------


class Evaluation:
    """A function of arrays that runs an operator in one version, with its attrs.

    It returns a tuple.

    Parameters
    ----------
    opset : int
        Version of the domain.
    attrs : mapping
        Name to value, or to AttributeProto.

    Raises
    ------
    ModelError
        There is no such operator, no reference implementation of it, or it has no such attr.
    """

    def __init__(
        self, domain: str, op_type: str, opset: int, attrs: Mapping[str, Any], outputs: int
    ) -> None:
        # Avoid wrong classes of onnx before looking at its schema.
        opset, attrs = as_defined(domain, op_type, opset, attrs, outputs)
        self.schema = schema_of_op(domain, op_type, opset)
        self._where = _where(op_names.canonical_domain(domain), op_type)
        self._opset = opset
        self._imports = {"": onnx.defs.onnx_opset_version()}
        self._functions: list[FunctionProto] = []
        attributes = {}
        for name, value in attrs.items():
            self._adopt_imports(value)
            if value is not None:
                attributes[name] = attribute_for(self.schema, name, value, self._where)
        self._imports[domain] = self._opset
        self._node = helper.make_node(op_type, [], [f"y{n}" for n in range(outputs)], domain=domain)
        self._node.attribute.extend(attributes_to_pass(self.schema, attributes))
        refuse_wrong(domain, op_type, self._opset, attributes, outputs, self._where)
        try:
            self._correction = correction_of(self.schema, attributes, outputs)
        except (TypeError, ValueError) as error:
            # It refuses an attr, or does not know it.
            got = sanitize(str(error))
            raise ModelError(self._where, expected="attrs of this version", got=got) from error
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
            if entry.domain != self.schema.domain:
                self._imports[entry.domain] = entry.version
                continue
            # The body may be newer than the operator, if that is the same in both versions.
            schema = schema_of_op(entry.domain, self.schema.name, entry.version)
            if schema.since_version == self.schema.since_version:
                self._opset = entry.version

    def __call__(self, *inputs: Any) -> tuple[Any, ...]:
        """Return the outputs; None omits an input."""
        # Kernels do not warn of a division by zero either.
        with np.errstate(all="ignore"):
            try:
                return self._run(inputs)
            except ModelError:
                raise
            except Exception as error:
                types = ", ".join(map(_type_text, inputs))
                raise ModelError(
                    self._where,
                    expected="inputs and attrs that the reference implementation can run",
                    got=f"{types}: {type(error).__name__}: {sanitize(str(error))}",
                ) from error

    def _run(self, inputs: Sequence[Any]) -> tuple[Any, ...]:
        if self._correction is not None:
            return self._correction(*inputs)
        mended = inputs_as_defined(self.schema.domain, self.schema.name, inputs)
        evaluator, names = locks.locked(self._lock, self._find_evaluator, mended)
        feeds = {}
        for name, value in zip(names, mended, strict=False):
            if value is not None:
                feeds[name] = value
        return self._as_declared(inputs, list(evaluator.run(None, feeds)))

    def _as_declared(self, inputs: Sequence[Any], results: list[Any]) -> tuple[Any, ...]:
        """Give numbers the dtype that the operator has; some onnx classes give a wider one."""
        dtypes: dict[str, Any] = {"tensor(float)": np.dtype(np.float32)}
        for port, value in zip(self.schema.inputs, inputs, strict=False):
            dtypes.setdefault(port.type_str, getattr(value, "dtype", None))
        for place, value in enumerate(results):
            port = self.schema.outputs[min(place, len(self.schema.outputs) - 1)]
            declared = dtypes.get(port.type_str)
            # The NumPy kind of bfloat16 is V.
            if declared is not None and declared.kind in "fiuV" and isinstance(value, np.ndarray):
                results[place] = value.astype(declared, copy=False)
        return tuple(results)

    def infer(self, *types: TensorType | None) -> tuple[TensorType, ...]:
        """Return the outputs' types as far as onnx infers them from the inputs' types.

        This builds a model of one node, because onnx follows functions and graph attrs only in a
        model.
        """
        inputs = []
        for name, type_ in zip(_input_names(types), types, strict=True):
            if type_ is not None:
                inputs.append(onnx.ValueInfoProto(name=name, type=protos.type_proto(type_)))
        node = self.node(types)
        inferred = op_inference.infer_types(self._model(node, inputs, _value_infos(node.output)))
        return tuple(op_inference.inferred_type(info.type) for info in inferred.graph.output)

    def exists(self) -> bool:
        """Tell whether there is a reference implementation."""
        if self._correction is not None:
            return True
        try:
            # The inputs have no types here, because none are known.
            node = self.node([0] * len(self.schema.inputs))
            self._evaluator(node, _value_infos(filter(None, node.input)))
        except (NotImplementedError, ModelError):
            return False
        except (RuntimeError, ValueError, TypeError, AttributeError):
            # It needs the inputs' types, or refuses the attrs.
            return True
        return True

    def _find_evaluator(self, inputs: Sequence[Any]) -> tuple[Any, list[str]]:
        """Return the evaluator for inputs of these types, and the names of its inputs."""
        names = _input_names(inputs)
        # The function by which ONNX defines some operators depends on the types.
        is_typed = self.schema.has_context_dependent_function
        key = tuple(map(_type_text, inputs)) if is_typed else tuple(names)
        if key not in self._evaluators:
            if len(self._evaluators) >= _MAX_EVALUATORS:
                self._evaluators.clear()
            self._evaluators[key] = self._make_evaluator(inputs, is_typed)
        return self._evaluators[key], names

    def _make_evaluator(self, inputs: Sequence[Any], is_typed: bool) -> Any:
        infos = []
        for name, value in zip(_input_names(inputs), inputs, strict=True):
            if name:
                type_ = _type_proto(value) if is_typed else None
                infos.append(onnx.ValueInfoProto(name=name, type=type_))
        try:
            return self._evaluator(self.node(inputs), infos)
        except NotImplementedError as error:
            raise ModelError(
                self._where,
                expected=f"an operator that onnx {onnx.__version__} implements "
                "or defines by a function",
                got="a definition in words only",
                next="write it: pyopnb.skeleton(model, node)",
            ) from error

    def node(self, inputs: Sequence[object]) -> NodeProto:
        """Return the node for some inputs; None omits one."""
        node = NodeProto()
        node.CopyFrom(self._node)
        node.input.extend(_input_names(inputs))
        return node

    def _evaluator(self, node: NodeProto, inputs: Sequence[onnx.ValueInfoProto]) -> Any:
        # It takes half a second, so only callers who need it import it.
        from onnx.reference import ReferenceEvaluator
        from onnx.reference.op_run import OpFunction

        model = self._model(node, inputs, _value_infos(node.output))
        # It refuses attributes by which the reference would take all memory, or
        # call itself forever.
        model = model_functions.inlined_functions(model)
        if protos.bodies(node):
            return _corrected_evaluator()(model)
        evaluator = ReferenceEvaluator(model)
        is_function = isinstance(evaluator.rt_nodes_[0], OpFunction)
        # In this version, the class of a corrected operator is correct.
        if is_function and (node.domain, node.op_type) not in corrected_operators():
            return _corrected_evaluator()(model)
        return evaluator

    def _model(
        self,
        node: NodeProto,
        inputs: Sequence[onnx.ValueInfoProto],
        outputs: Sequence[onnx.ValueInfoProto],
    ) -> ModelProto:
        return helper.make_model(
            GraphProto(name="alone", node=[node], input=inputs, output=outputs),
            functions=self._functions,
            opset_imports=[helper.make_opsetid(*entry) for entry in self._imports.items()],
        )


@cache
def _corrected_evaluator() -> Any:
    """Return an evaluator that corrects the nodes in bodies and in functions of ONNX."""
    from onnx.reference import ReferenceEvaluator

    classes = [loop_class(), scan_class()]
    classes += [node_class(*operator, operator_kernel) for operator in corrected_operators()]

    class CorrectedEvaluator(ReferenceEvaluator):
        """It makes an evaluator of its own class for each body and each function."""

        def __init__(self, proto: Any, *, new_ops: Sequence[type] | None = None, **options: Any):
            super().__init__(proto, new_ops=[*(new_ops or ()), *classes], **options)

    return CorrectedEvaluator


def operator_kernel(node: NodeProto, versions: Mapping[str, int]) -> Evaluation:
    """Make the function that computes a node; the versions belong to the domains."""
    attrs = {attribute.name: attribute for attribute in node.attribute}
    positions = [position for position, name in enumerate(node.output) if name]
    count = max(positions, default=0) + 1
    return Evaluation(node.domain, node.op_type, versions.get(node.domain, 1), attrs, count)


def _input_names(inputs: Sequence[object]) -> list[str]:
    """Name a node's inputs; an omitted one has the empty name, as in a model."""
    return ["" if value is None else f"x{position}" for position, value in enumerate(inputs)]


def _value_infos(names: Iterable[str]) -> list[onnx.ValueInfoProto]:
    return [onnx.ValueInfoProto(name=name) for name in names]


class StandIn:
    """An op that runs the ONNX reference implementation of an operator.

    `stand_in_class` makes a subclass for each operator. ``reference_outputs`` is the node's number
    of outputs, which ``compute`` has no other way to know.
    """

    operator: tuple[str, str, int]

    def __init__(self, reference_outputs: int = 1, **attrs: Any) -> None:
        self._evaluation = Evaluation(*self.operator, attrs, reference_outputs)
        self._attrs = {"reference_outputs": reference_outputs, **attrs}

    def __getstate__(self) -> dict[str, Any]:
        return self._attrs

    def __setstate__(self, attrs: dict[str, Any]) -> None:
        # The evaluator has a lock, so each process makes its own.
        self.__init__(**attrs)  # type: ignore[misc]

    @classmethod
    def _module_source(cls, version: Version) -> str:
        return (
            "import pyopnb\nfrom pyopnb.onnx_reference.operator import stand_in_class\n\n"
            f"pyopnb.pyop({version.op!r})(stand_in_class{cls.operator!r})\n"
        )

    def infer(self, *types: TensorType | None) -> tuple[TensorType, ...]:
        return self._evaluation.infer(*types)

    def compute(self, *inputs: Any) -> Any:
        results = self._evaluation(*inputs)
        if len(results) > 1:
            return results
        return results[0]


def stand_in_class(domain: str, op_type: str, opset: int) -> type[StandIn]:
    """Return the class of an op that runs the reference implementation.

    Examples
    --------
    >>> stand_in_class("", "Celu", 12)(alpha=2.0).compute(np.float32([3]))
    array([3.], dtype=float32)
    """
    doc = f"The ONNX reference implementation of {domain}::{op_type}, version {opset}."
    attributes = {"operator": (domain, op_type, opset), "__doc__": doc}
    return type(f"{op_type}_{opset}", (StandIn,), attributes)


def _type_proto(value: Any) -> TypeProto | None:
    if value is None:
        return None
    if isinstance(value, list):
        # An empty sequence has elements of no known type.
        element = None
        if value:
            element = _type_proto(value[0])
        return helper.make_sequence_type_proto(element or TypeProto())
    return helper.make_tensor_type_proto(dtype(value.dtype).onnx, value.shape)


def _type_text(value: Any) -> str:
    if value is None:
        return "None"
    if isinstance(value, list):
        return f"seq({', '.join(map(_type_text, value[:1]))})"
    return str(type_of(value))
