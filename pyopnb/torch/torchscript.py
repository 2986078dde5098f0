"""The exporter that traces, ``torch.onnx.export(…, dynamo=False)``: ops are its nodes, and its trap is refused."""

from __future__ import annotations

import inspect
import io
import re
import time
import traceback
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import onnx
import torch
from onnx import ModelProto
from torch.onnx import errors, symbolic_helper

from pyopnb.errors import InputError, ModelError
from pyopnb.models.ort_capabilities import has_op, newest_ir_version
from pyopnb.ops.messages import hide_internal_frames, sanitize, suggest
from pyopnb.ops.names import split_name
from pyopnb.ops.registry import registry
from pyopnb.torch.program import OPAQUE, check_example, check_runs, clone_aliased, in_order, quiet
from pyopnb.torch.source import line_in
from pyopnb.torch.verify import Fault, verify, wrong_sizes

__all__ = ["export_traced", "register", "register_custom_op_symbolic"]

_NAME = re.compile(r"(?P<namespace>\w*)::(?P<name>\w+)")
_versions: dict[str, int] = {}


# ---- ops as nodes ------------------------------------------------------------------------------------------------------------


@hide_internal_frames
def register_custom_op_symbolic(symbolic_name: str, op: str, opset_version: int = 1) -> None:
    """Let ``torch.onnx.export(…, dynamo=False)`` write a torch op as a node that you name.

    The functions that `pyopnb.torch.op` makes are registered already. The exporter asks for the op that torch has traced, which
    may have another name than the function: `torch.inverse` is traced as ``aten::linalg_inv``.

    Parameters
    ----------
    symbolic_name : str
        The torch op: ``"namespace::name"``, or ``"::name"`` for one of torch's own.
    op : str
        ``domain::OpType``, an op of the registry or an operator of ONNX Runtime. It gets the tensors as inputs, and arguments
        that differ from the default as attributes of their names.
    opset_version : int
        The oldest opset of the model for which this holds.

    Raises
    ------
    InputError
        There is no such torch op, or no such op.

    Examples
    --------
    >>> import io, warnings, torch, pyopnb.torch
    >>> pyopnb.torch.register_custom_op_symbolic("::linalg_inv", "com.microsoft::Inverse")
    >>> class Inverse(torch.nn.Module):
    ...     def forward(self, x):
    ...         return torch.inverse(x) + x
    >>> model = pyopnb.torch.export(Inverse().eval(), (torch.eye(3) * 2,), dynamo=False)
    >>> [f"{node.domain}::{node.op_type}" for node in model.graph.node]
    ['com.microsoft::Inverse', '::Add']
    """
    match = _NAME.fullmatch(symbolic_name)
    namespace, name = (match["namespace"] or "aten", match["name"]) if match else ("", "")
    packet = getattr(getattr(torch.ops, namespace), name, None) if match else None
    if packet is None:
        expected = "a torch op, namespace::name, or ::name for one of torch's own"
        raise InputError(
            "symbolic_name",
            expected=expected,
            got=sanitize(repr(symbolic_name)),
            next='"::linalg_inv"',
        )
    domain, op_type = split_name(op)
    known = registry.find(domain, op_type)
    if known is None and not has_op(domain, op_type):
        names = [entry.name for entry in registry]
        expected = "an op of the registry, or an operator of ONNX Runtime"
        raise InputError("op", expected=expected, got=sanitize(op), next=suggest(op, names))
    schemas = [getattr(packet, overload)._schema for overload in packet.overloads()]
    register(
        f"{namespace}::{name}",
        schemas,
        f"{domain}::{op_type}",
        1 if known is None else known.current.opset,
        opset_version,
    )


def register(
    name: str, schemas: Sequence[Any], op: str, version: int, opset_version: int = 1
) -> None:
    """Register the node of a torch op that has one of these schemas.

    Parameters
    ----------
    name : str
        ``namespace::name``.
    schemas : sequence of torch.FunctionSchema
    op : str
        ``domain::OpType``; the domain is empty for ONNX's own.
    version : int
        Of the domain.
    opset_version : int
        The oldest opset of the model.
    """
    written = op.removeprefix("::")

    def symbolic(graph: Any, *values: Any) -> Any:
        schema = next((each for each in schemas if len(each.arguments) >= len(values)), schemas[0])
        return _node(graph, written, schema, values)

    if domain := op.rpartition("::")[0]:
        _versions[domain] = version
    with quiet():
        torch.onnx.register_custom_op_symbolic(name, symbolic, opset_version)


def _node(graph: Any, op: str, schema: Any, values: Sequence[Any]) -> Any:
    inputs: list[Any] = []
    attrs: dict[str, Any] = {}
    for argument, value in zip(schema.arguments, values, strict=False):
        kind = str(argument.type)
        if kind in ("Tensor", "Optional[Tensor]"):
            inputs.append(value)
        elif "Tensor" in kind:
            inputs += value.node().inputs()
        else:
            held = _constant(kind, value, argument.name)
            if held is not None and not (
                argument.has_default_value() and held == argument.default_value
            ):
                attrs[f"{argument.name}_{_letter(held)}"] = held
    results = graph.op(op, *inputs, **attrs, outputs=len(schema.returns))
    _set_types(graph, results if isinstance(results, (list, tuple)) else [results])
    return results


def _set_types(graph: Any, results: Sequence[Any]) -> None:
    """Give results the dtype and rank that the tracer saw, without its sizes: the exporter warns of results without a type."""
    traced = [value.type() for value in graph.original_node.outputs()]
    for result, kind in zip(results, traced, strict=False):
        if isinstance(kind, torch.TensorType) and kind.dim() is not None:
            result.setType(kind.with_sizes([None] * kind.dim()))


def _constant(kind: str, value: Any, name: str) -> Any:
    """The value of an argument that no tensor is."""
    base = kind.removeprefix("Optional[").removesuffix("]").removeprefix("List[").removesuffix("]")
    listed = "List[" in kind
    letter = {"float": "f", "str": "s", "number": "f"}.get(base, "i")
    held = _parsed(value, f"{letter}s" if listed and letter != "s" else letter, name)
    return int(held) if isinstance(held, bool) else held


def _parsed(value: Any, letter: str, name: str) -> Any:
    def read(graph: Any, value: Any) -> Any:
        return value

    read.__name__ = name
    return symbolic_helper.parse_args(letter)(read)(None, value)


def _letter(value: Any) -> str:
    first = value[0] if isinstance(value, (list, tuple)) and value else value
    return "s" if isinstance(first, str) else "f" if isinstance(first, float) else "i"


# ---- a module ----------------------------------------------------------------------------------------------------------------


def export_traced(
    module: Any,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None,
    dynamic_shapes: Any,
    input_names: Sequence[str] | None,
    output_names: Sequence[str] | None,
) -> ModelProto:
    """A module as a model by the exporter that traces, which fills nothing.

    Parameters
    ----------
    module, args, kwargs, dynamic_shapes, input_names, output_names
        As for `pyopnb.torch.export`.

    Returns
    -------
    ModelProto

    Raises
    ------
    InputError, ModelError
        As from `pyopnb.torch.export`. A line that makes a result of the example a constant is named.
    """
    check_example(module, args, kwargs)
    args, kwargs = clone_aliased(args, in_order(module, kwargs))
    names = list(input_names or _names(module, args, kwargs))
    file, where = io.BytesIO(), f"module {sanitize(type(module).__name__)}"
    with _constants() as lines:
        try:
            torch.onnx.export(
                module,
                args,
                file,
                kwargs=kwargs,
                dynamo=False,
                verbose=False,
                input_names=names,
                output_names=output_names,
                dynamic_axes=_axes(dynamic_shapes, names, len(args)),
                custom_opsets={
                    domain: version for domain, version in _versions.items() if version != 1
                },
            )
        except errors.UnsupportedOperatorError as error:
            raise _lacks(error, where) from error
        except Exception:  # of forward, or many of the tracer's own
            check_runs(module, args, kwargs)
            raise
    baked = next((line for line, text in lines if "to a NumPy array" in text), None)
    if baked is not None:
        raise _constant_result(
            f"{where}, {baked}",
            "NumPy, whose result for the example would be a constant of the model",
        )
    model = onnx.load_model_from_string(file.getvalue())
    model.ir_version = min(model.ir_version, newest_ir_version())
    fault = verify(model, module, args, kwargs)
    if fault is None:
        wrong = wrong_sizes(model, module, args, kwargs, {}, time.monotonic())
        fault = next((Fault(sanitize(text, 400)) for text in wrong.values()), None)
    if fault is None:
        return model
    if lines:
        got = f"what stays that of the example. The model: {fault.text}"
        raise _constant_result(f"{where}, {lines[0][0]}", sanitize(got, 600)) from fault.error
    if fault.error is not None:
        raise fault.error
    next_ = "leave out dynamo=False: that exporter's holes are filled"
    raise ModelError(where, expected="torch's numbers in ONNX Runtime", got=fault.text, next=next_)


@contextmanager
def _constants() -> Iterator[list[tuple[str, str]]]:
    """Collects the user's lines at which the tracer sees values leave torch, with what it says; other warnings are dropped."""
    lines: list[tuple[str, str]] = []

    def kept(message: Any, category: Any, *others: Any, **more: Any) -> None:
        if issubclass(category, torch.jit.TracerWarning):  # its own place may be a line of torch
            stack = [(frame.filename, frame.lineno or 0) for frame in traceback.extract_stack()]
            lines.append((line_in(stack[before:]), str(message)))

    before = len(traceback.extract_stack())
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = kept
        yield lines


def _constant_result(where: str, got: str) -> ModelError:
    return ModelError(where, expected="torch ops, which follow the arguments", got=got, next=OPAQUE)


def _lacks(error: Exception, where: str) -> ModelError:
    next_ = "leave out dynamo=False, or pyopnb.torch.register_custom_op_symbolic"
    got = sanitize(str(error).partition(". ")[0], 300)
    return ModelError(where, expected="ops that torch's older exporter has", got=got, next=next_)


def _names(module: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[str]:
    """The names of forward's parameters, numbered where one holds several tensors."""
    given = inspect.signature(module.forward).bind(*args, **kwargs).arguments
    names = []
    for name, value in given.items():
        count = sum(
            isinstance(leaf, torch.Tensor) for leaf in torch.utils._pytree.tree_leaves(value)
        )
        names += [name] if count == 1 else [f"{name}_{place}" for place in range(count)]
    return names


def _axes(dynamic_shapes: Any, names: Sequence[str], count: int) -> dict[str, dict[int, str]]:
    """Which dimensions may change, by the names of inputs."""
    if dynamic_shapes is None:
        return {}
    entries = (
        dict(dynamic_shapes)
        if isinstance(dynamic_shapes, Mapping)
        else dict(zip(names, dynamic_shapes, strict=False))
    )
    if not all(
        name in names and (entry is None or isinstance(entry, Mapping))
        for name, entry in entries.items()
    ):
        expected = "a dict of dimensions for each argument, where it traces"
        raise InputError(
            "dynamic_shapes",
            expected=expected,
            got=sanitize(repr(dynamic_shapes), 200),
            next="({0: 'batch'},)",
        )
    axes = {
        name: {dim: getattr(size, "__name__", str(size)) for dim, size in (entry or {}).items()}
        for name, entry in entries.items()
    }
    return {name: entry for name, entry in axes.items() if entry}
