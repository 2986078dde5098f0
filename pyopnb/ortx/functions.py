"""A model called like a function."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto, ValueInfoProto, helper

from pyopnb.errors import InputError, ModelError, UnknownOp
from pyopnb.models.io import read_model, to_model
from pyopnb.models.nodes import attribute_of, type_proto
from pyopnb.ops.messages import plural, sanitize, suggest
from pyopnb.ops.registry import find_op, registry
from pyopnb.ops.types import ANY, TensorType
from pyopnb.ortx.definitions import default_opset_domain, find_overloads
from pyopnb.ortx.models import make_onnx_model
from pyopnb.ortx.optimized import extension_options, has_gpu
from pyopnb.runtime.session.session import Session

__all__ = ["OrtPyFunction", "ort_inference"]


class OrtPyFunction:
    """A model as a function: positional arguments are its inputs, in order, and it returns its output or a tuple of them.

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
        self.execution_providers = (
            ["CUDAExecutionProvider"] if not cpu_only and has_gpu() else ["CPUExecutionProvider"]
        )
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
        return cls(cpu_only=kwargs.pop("cpu_only", None)).create_from_customop(
            op_type, *args, **kwargs
        )

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
            is_array = isinstance(value, (np.ndarray, np.generic))
            self.default_inputs[name] = (
                value if is_array else np.asarray(list(value), dtype=np.uint8)
            )

    @property
    def onnx_model(self) -> ModelProto:
        """Return the model."""
        if self._model is None:
            raise ModelError(
                "OrtPyFunction", expected="a model", got="none", next="OrtPyFunction.from_model(…)"
            )
        return self._model

    @property
    def input_names(self) -> list[str]:
        """Return the names of the inputs, in order."""
        return [value.name for value in self.onnx_model.graph.input]

    @property
    def output_names(self) -> list[str]:
        """Return the names of the outputs, in order."""
        return [value.name for value in self.onnx_model.graph.output]

    def get_ort_session_options(self) -> Any:
        """New options with ``extra_session_options``, in which the ops of the registry are known.

        Returns
        -------
        onnxruntime.SessionOptions
        """
        return extension_options(self.extra_session_options)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        model, feeds = self.onnx_model, self._feeds(args, kwargs)
        if self.ort_session is None:
            options = extension_options(self.extra_session_options, register=False)
            self.ort_session = Session(self._source or model, options, self.execution_providers)
        results = self.ort_session.run(None, feeds)
        return results[0] if len(results) == 1 else tuple(results)

    def _bind(self, source: str | os.PathLike[str] | ModelProto) -> None:
        self._source = source
        self._model = source if isinstance(source, ModelProto) else to_model(read_model(source))
        self.inputs, self.outputs, self.ort_session = (
            list(self._model.graph.input),
            list(self._model.graph.output),
            None,
        )

    def _feeds(self, args: Sequence[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
        open_ = [
            value
            for value in self.inputs
            if value.name not in self.default_inputs and value.name not in kwargs
        ]
        if len(args) > len(open_):
            names = ", ".join(sanitize(value.name) for value in open_)
            expected = (
                f"at most {plural(len(open_), 'positional argument')} ({names or 'all are given'})"
            )
            raise InputError("OrtPyFunction", expected=expected, got=str(len(args)))
        known = [value.name for value in self.inputs]
        for name in kwargs:
            if name not in known:
                next_ = suggest(name, map(sanitize, known))
                raise InputError(
                    "OrtPyFunction", expected="names of inputs", got=sanitize(name), next=next_
                )
        named = {
            value.name: _widened(argument, value)
            for value, argument in zip(open_, args, strict=False)
        }
        defaults = {name: value for name, value in self.default_inputs.items() if name in known}
        return {**defaults, **named, **kwargs}


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


def _widened(argument: Any, value: ValueInfoProto) -> Any:
    """Ints of any width for an input of int64, since NumPy's own were narrower on Windows."""
    is_array = isinstance(argument, (np.ndarray, np.generic))
    if (
        is_array
        and argument.dtype.kind in "biu"
        and value.type.tensor_type.elem_type == TensorProto.INT64
    ):
        return (
            np.asarray(argument).astype(np.int64)
            if np.can_cast(argument.dtype, np.int64)
            else argument
        )
    return argument


def _single_node(op_type: str, attrs: dict[str, Any]) -> Any:
    name = op_type if "::" in op_type else f"{default_opset_domain()}::{op_type}"
    domain, _, plain = name.partition("::")
    op = registry.find(domain, plain)
    if op is None:
        known = (
            suggest(name, [other.name for other in registry])
            if len(registry)
            else "define it: @onnx_op"
        )
        next_ = f"{known}; an operator in C++ is run by onnxruntime_extensions.OrtPyFunction"
        raise UnknownOp(
            "from_customop",
            expected="an op of the registry",
            got=sanitize(repr(op_type)),
            next=next_,
        )
    schema = find_op(op).current.schema
    overloads = find_overloads(name)
    kinds = [
        _open(port.type, overloads[-1].inputs[n] if overloads else 0)
        for n, port in enumerate(schema.inputs)
    ]
    inputs = [_value(port.name, kind) for port, kind in zip(schema.inputs, kinds, strict=True)]
    types = schema.outputs or [
        _open(ANY, n) for n in (overloads[-1].outputs if overloads else (0,))
    ]
    outputs = [_value(f"output{n}", _open(kind, 0, kinds)) for n, kind in enumerate(types)]
    names = [value.name for value in inputs], [value.name for value in outputs]
    node = helper.make_node(plain, *names, plain, domain=domain)
    node.attribute.extend(attribute_of(key, value) for key, value in attrs.items())
    return helper.make_graph([node], plain, inputs, outputs)


def _open(kind: TensorType, number: int, inputs: Sequence[TensorType] = ()) -> TensorType:
    """Complete a type by a dtype: that of an overload, or the first input's."""
    first = next((given.dtype for given in inputs), None)
    return kind if kind.dtype else kind.like(dtype=number or first or "float32")


def _value(name: str, kind: TensorType) -> ValueInfoProto:
    made = ValueInfoProto(name=name)
    made.type.CopyFrom(type_proto(kind))
    return made
