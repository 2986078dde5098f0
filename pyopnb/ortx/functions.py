"""Call a model like a function."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import onnxruntime
from onnx import GraphProto, ModelProto, TensorProto, ValueInfoProto, helper

from pyopnb.errors import InputError, ModelError, UnknownOp
from pyopnb.models.io import read_model, to_model
from pyopnb.models.nodes import attribute_of, type_proto
from pyopnb.ops.messages import plural, sanitize, suggest
from pyopnb.ops.registry import registry
from pyopnb.ops.types import ANY, TensorType
from pyopnb.ortx.definitions import default_opset_domain, find_overloads
from pyopnb.ortx.models import make_onnx_model
from pyopnb.runtime.callbacks import get_library_path
from pyopnb.runtime.session.session import Session

__all__ = ["OrtPyFunction", "ort_inference"]


class OrtPyFunction:
    """A model as a function of its inputs, in order, that returns its output or a tuple of them.

    Parameters
    ----------
    path_or_model : path or ModelProto, optional
    cpu_only : bool, optional
        Also where onnxruntime is a build for a GPU.

    Attributes
    ----------
    ort_session : pyopnb.Session or None
        An ``onnxruntime.InferenceSession``; None until it is needed. An op's exception arrives from it as itself.
    extra_session_options : dict
        Attributes of the ``SessionOptions`` that it is made with.
    default_inputs : dict
        See `add_default_input`.

    Raises
    ------
    ModelError
        There is no model.

    Examples
    --------
    >>> import pyopnb
    >>> add = OrtPyFunction(pyopnb.parse("(float[N] a, float[N] b) => (float[N] c) { c = Add(a, b) }"))
    >>> add([1, 2], [3, 4])
    array([4., 6.], dtype=float32)
    """

    def __init__(
        self,
        path_or_model: str | os.PathLike[str] | ModelProto | None = None,
        cpu_only: bool | None = None,
    ) -> None:
        self.ort_session: Session | None = None
        self.default_inputs: dict[str, Any] = {}
        self.extra_session_options: dict[str, Any] = {}
        self.execution_providers = ["CPUExecutionProvider"]
        if not cpu_only and onnxruntime.get_device() == "GPU":
            self.execution_providers = ["CUDAExecutionProvider"]
        self._source: str | os.PathLike[str] | ModelProto | None = path_or_model
        self._model: ModelProto | None = None
        self.inputs: list[ValueInfoProto] = []
        self.outputs: list[ValueInfoProto] = []
        if path_or_model is not None:
            self._bind(path_or_model)

    @classmethod
    def from_model(
        cls, path_or_model: str | os.PathLike[str] | ModelProto, *args: Any, **kwargs: Any
    ) -> OrtPyFunction:
        """Make the function of a model.

        Parameters
        ----------
        path_or_model : path or ModelProto
        *args, **kwargs
            ``cpu_only`` : bool.

        Returns
        -------
        OrtPyFunction
        """
        return cls(path_or_model, kwargs.get("cpu_only"))

    @classmethod
    def from_customop(cls, op_type: str, *args: Any, **kwargs: Any) -> OrtPyFunction:
        """Make the function of a model that is one node.

        Parameters
        ----------
        op_type : str
            An op of the registry; without a domain, one of ``ai.onnx.contrib``.
        **kwargs
            The node's attributes, and ``cpu_only``.

        Returns
        -------
        OrtPyFunction

        Raises
        ------
        UnknownOp
            No op of that name is in the registry.
        """
        function = cls(cpu_only=kwargs.pop("cpu_only", None))
        return function.create_from_customop(op_type, *args, **kwargs)

    def create_from_customop(self, op_type: str, *args: Any, **kwargs: Any) -> OrtPyFunction:
        """Make this the function of a model that is one node; see `from_customop`.

        Parameters
        ----------
        op_type : str
        **kwargs
            The node's attributes.

        Returns
        -------
        OrtPyFunction
            This one.
        """
        self._bind(make_onnx_model(_single_node(op_type, kwargs)))
        return self

    def add_default_input(self, **kwargs: Any) -> None:
        """Give inputs values that no call gives them.

        Parameters
        ----------
        **kwargs
            Arrays by the names of inputs. Anything else is taken for bytes.
        """
        for name, value in kwargs.items():
            if not isinstance(value, (np.ndarray, np.generic)):
                value = np.asarray(list(value), dtype=np.uint8)
            self.default_inputs[name] = value

    @property
    def onnx_model(self) -> ModelProto:
        """Return the model."""
        if self._model is None:
            suggestion = "OrtPyFunction.from_model(…)"
            raise ModelError("OrtPyFunction", expected="a model", got="none", next=suggestion)
        return self._model

    @property
    def input_names(self) -> list[str]:
        """Return the names of the inputs, in order."""
        return _names(self.onnx_model.graph.input)

    @property
    def output_names(self) -> list[str]:
        """Return the names of the outputs, in order."""
        return _names(self.onnx_model.graph.output)

    def get_ort_session_options(self) -> Any:
        """Make options with ``extra_session_options``, in which the ops of the registry are names_left.

        Returns
        -------
        onnxruntime.SessionOptions
        """
        options = self._options()
        options.register_custom_ops_library(get_library_path())
        return options

    def _options(self) -> Any:
        options = onnxruntime.SessionOptions()
        for name, value in self.extra_session_options.items():
            setattr(options, name, value)
        return options

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        model, feeds = self.onnx_model, self._feeds(args, kwargs)
        # Made for the first call, since the options may be set after the model.
        if self.ort_session is None:
            source = self._source or model
            self.ort_session = Session(source, self._options(), self.execution_providers)
        results = self.ort_session.run(None, feeds)
        return results[0] if len(results) == 1 else tuple(results)

    def _bind(self, source: str | os.PathLike[str] | ModelProto) -> None:
        self._source = source
        self._model = source if isinstance(source, ModelProto) else to_model(read_model(source))
        self.inputs = list(self._model.graph.input)
        self.outputs = list(self._model.graph.output)
        self.ort_session = None

    def _feeds(self, args: Sequence[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
        names = _names(self.inputs)
        for name in kwargs:
            if name not in names:
                suggestion = suggest(name, map(sanitize, names))
                expected, got = "names of inputs", sanitize(name)
                raise InputError("OrtPyFunction", expected=expected, got=got, next=suggestion)
        # What has a default, or is given by name, is passed over by position.
        positional = []
        for value in self.inputs:
            if value.name not in self.default_inputs and value.name not in kwargs:
                positional.append(value)
        if len(args) > len(positional):
            names_left = ", ".join(map(sanitize, _names(positional))) or "all are given"
            expected = f"at most {plural(len(positional), 'positional argument')} ({names_left})"
            raise InputError("OrtPyFunction", expected=expected, got=str(len(args)))
        feeds = {}
        # Defaults stay when another model is bound, which need not have such inputs.
        for name, default in self.default_inputs.items():
            if name in names:
                feeds[name] = default
        # The session tells of inputs that are still missing.
        for value, argument in zip(positional, args, strict=False):
            feeds[value.name] = _widened(argument, value)
        return {**feeds, **kwargs}


def ort_inference(
    model: str | os.PathLike[str] | ModelProto, *args: Any, cpu_only: bool = True, **kwargs: Any
) -> Any:
    """Run a model once.

    Parameters
    ----------
    model : path or ModelProto
    *args
        Its inputs, in order.
    cpu_only : bool
    **kwargs
        Inputs by name.

    Returns
    -------
    ndarray, or tuple of ndarray
    """
    return OrtPyFunction(model, cpu_only=cpu_only)(*args, **kwargs)


def _names(values: Iterable[ValueInfoProto]) -> list[str]:
    return [value.name for value in values]


def _widened(argument: Any, value: ValueInfoProto) -> Any:
    """Widen ints for an input of int64, since NumPy's own were narrower on Windows."""
    is_array = isinstance(argument, (np.ndarray, np.generic))
    if not is_array or value.type.tensor_type.elem_type != TensorProto.INT64:
        return argument
    is_narrower = argument.dtype.kind in "biu" and np.can_cast(argument.dtype, np.int64)
    return np.asarray(argument).astype(np.int64) if is_narrower else argument


# ---- a model of one node ---------------------------------------------------------------------


def _single_node(op_type: str, attrs: dict[str, Any]) -> GraphProto:
    """Build the graph of one node of an op, in the dtypes of its newest overload."""
    name = op_type if "::" in op_type else f"{default_opset_domain()}::{op_type}"
    domain, _, plain_name = name.partition("::")
    op = registry.find(domain, plain_name)
    if op is None:
        raise _unknown_op(op_type, name)
    schema = op.current.schema
    overloads = find_overloads(name)
    inputs, outputs = [], []
    first_dtype: Any = None
    for position, port in enumerate(schema.inputs):
        # An op that is a class has no overloads, and its ports say their types.
        number = overloads[-1].inputs[position] if overloads else 0
        input_type = _with_dtype(port.type, number or first_dtype)
        first_dtype = first_dtype or input_type.dtype
        inputs.append(_value_info(port.name, input_type))
    output_types = list(schema.outputs or ())
    if not output_types and overloads:
        # The overloads differ in their outputs, so the schema does not say them.
        for number in overloads[-1].outputs:
            output_types.append(_with_dtype(ANY, number or first_dtype))
    for position, output_type in enumerate(output_types or [ANY]):
        outputs.append(_value_info(f"output{position}", _with_dtype(output_type, first_dtype)))
    node = helper.make_node(plain_name, _names(inputs), _names(outputs), plain_name, domain=domain)
    for key, value in attrs.items():
        node.attribute.append(attribute_of(key, value))
    return helper.make_graph([node], plain_name, inputs, outputs)


def _unknown_op(op_type: str, name: str) -> UnknownOp:
    suggestion = "define it: @onnx_op"
    if len(registry):
        suggestion = str(suggest(name, [op.name for op in registry]))
    return UnknownOp(
        "from_customop",
        expected="an op of the registry",
        got=sanitize(repr(op_type)),
        next=f"{suggestion}; an operator in C++ is run by onnxruntime_extensions.OrtPyFunction",
    )


def _with_dtype(port_type: TensorType, dtype: Any) -> TensorType:
    """Complete a type that takes any dtype; with float32 where nothing says another."""
    return port_type if port_type.dtype else port_type.like(dtype=dtype or "float32")


def _value_info(name: str, value_type: TensorType) -> ValueInfoProto:
    info = ValueInfoProto(name=name)
    info.type.CopyFrom(type_proto(value_type))
    return info
