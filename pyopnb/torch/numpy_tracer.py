"""Ops whose NumPy torch traces: a second way from ``compute`` to ONNX operators, where that of `pyopnb.lower` refuses."""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from onnx import FunctionProto, ModelProto, TensorProto, helper

from pyopnb.lowering.lower import lower_by
from pyopnb.lowering.tracer import KEEPS, LoweredOp, given_attrs, input_names, open_dims, same_state, state_of, trace_op
from pyopnb.models.edit.inline import inlined_functions
from pyopnb.models.nodes import imported_versions
from pyopnb.ops.errors import NotLowered, hide_internal_frames, one_line, sanitize
from pyopnb.ops.types import type_of
from pyopnb.testing.subject import Example, Subject
from pyopnb.torch.program import quiet

__all__ = ["lower", "trace_by_torch"]

_BY_TORCH = "by torch"
_LONGEST = 160


@hide_internal_frames
def lower(
    op: Any,
    /,
    *inputs: Any,
    examples: Sequence[Any] = (),
    opset: int | None = None,
    finite: bool = False,
    strict: bool = False,
    **attrs: Any,
) -> FunctionProto | ModelProto:
    """As `pyopnb.lower`, and where that refuses an op, torch traces its NumPy.

    `torch.export` knows NumPy that `pyopnb.lower` does not, such as ``np.fft.rfft(x).real``. What it makes is compared with the
    op in the same way; attrs are part of the function. It takes seconds.

    Parameters
    ----------
    op : str, type, ModelProto, bytes or path
    *inputs
    examples : sequence
    opset : int, optional
    finite, strict : bool
    **attrs
        All as for `pyopnb.lower`.

    Returns
    -------
    FunctionProto or ModelProto

    Warns
    -----
    StayedInPython

    Raises
    ------
    NotLowered
        Neither traces the op: the line where ours refuses, and what torch says.
    Exception
        As from `pyopnb.lower`.

    Examples
    --------
    >>> import numpy as np, pyopnb
    >>> @pyopnb.pyop("doctest::Spectrum")
    ... class Spectrum:
    ...     def compute(self, x):
    ...         return np.fft.rfft(x, axis=-1).real.astype(np.float32)
    >>> function = pyopnb.torch.lower("doctest::Spectrum", np.ones((2, 8), np.float32), finite=True)
    >>> "DFT" in [node.op_type for node in function.node]
    True
    """
    options = {"examples": examples, "opset": opset, "finite": finite, "strict": strict}
    return lower_by((trace_op, trace_by_torch), op, inputs, attrs, **options)  # type: ignore[arg-type]  # of their own types each


class _Module(torch.nn.Module):  # type: ignore[misc]  # of torch, which mypy does not read
    """An op as a module: arrays are what torch makes of them while it traces."""

    def __init__(self, instance: Any, given: Sequence[bool]) -> None:
        super().__init__()
        self.instance, self.given = instance, tuple(given)

    def forward(self, *tensors: Any) -> Any:
        rest = iter(tensors)
        value = self.instance.compute(*[next(rest).numpy() if given else None for given in self.given])
        values = value if isinstance(value, tuple) else (value,)
        return tuple(torch.from_numpy(each) for each in values)


def trace_by_torch(
    subject: Subject, example: Example, expected: Sequence[np.ndarray], *, opset: int, finite: bool = False, sizes: bool = False
) -> LoweredOp:
    """Trace an op by `torch.export`, as `trace_op` does by itself.

    Parameters
    ----------
    subject : Subject
    example : Example
    expected : sequence of ndarray
    opset : int
    finite : bool
        Not needed.
    sizes : bool

    Returns
    -------
    LoweredOp

    Raises
    ------
    NotLowered
    """
    _check_state(subject, example)
    given = [array is not None for array in example.inputs]
    arrays = [array.copy() for array in example.inputs if array is not None]
    dims = [open_dims(subject, place, array.ndim) for place, array in enumerate(example.inputs) if array is not None]
    names = input_names(subject, example)
    if any(array.dtype.kind not in "biuf" for array in arrays):
        raise NotLowered(_BY_TORCH, expected="inputs of bool, integers or floats", got=str(example))
    free = [{} if sizes else {axis: torch.export.Dim.AUTO for axis, size in enumerate(each) if size is None} for each in dims]
    with _silent():
        try:
            module, tensors = _Module(subject.instance(example), given), tuple(map(torch.from_numpy, arrays))
            program = torch.export.export(module, tensors, dynamic_shapes=(tuple(free),), strict=True)
            kept = [name for name, there in zip(names, given, strict=True) if there]
            exported = torch.onnx.export(program, dynamo=True, verbose=False, opset_version=opset, input_names=kept)
        except Exception as error:  # torch has no base class for them
            raise NotLowered(_BY_TORCH, expected="what torch.export traces", got=_cause(error)) from error
    model = inlined_functions(exported.model_proto)
    _check_sizes(model, free)
    function = _function(subject, model, names, expected, opset)
    function.doc_string = f"Lowered by torch from {subject.version}, for {', '.join(str(kind) for kind in example.types)}."
    fixed = given_attrs(subject, example)
    return LoweredOp(function, fixed, frozenset(fixed.keys() - example.attrs.keys()), (), {})


def _check_state(subject: Subject, example: Example) -> None:
    """Refuse an op that keeps something: torch would make a constant of it."""
    instance = subject.instance(example)
    before = state_of(instance)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        instance.compute(*example.copies())
    if not same_state(before, state_of(instance)):
        raise NotLowered(_BY_TORCH, **KEEPS)


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """Without what torch warns of and prints: a refusal tells it."""
    with (
        quiet(),
        warnings.catch_warnings(),
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
    ):
        warnings.simplefilter("ignore")
        yield


def _cause(error: BaseException) -> str:
    while error.__cause__ is not None:
        error = error.__cause__
    said = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    return one_line(sanitize(f"{type(error).__name__}, {said}", _LONGEST)).rstrip(".")


def _check_sizes(model: ModelProto, free: Sequence[dict[int, Any]]) -> None:
    """Refuse a program in which torch has fixed a size that can change."""
    for info, axes in zip(model.graph.input, free, strict=True):
        for axis in axes:
            dim = info.type.tensor_type.shape.dim[axis]
            if dim.HasField("dim_value"):
                got = f"{sanitize(info.name)} with size {dim.dim_value} along axis {axis}, which torch takes for fixed"
                raise NotLowered(
                    _BY_TORCH, expected="sizes that can change", got=got, next="an example with sizes of 2 and more"
                )


def _function(
    subject: Subject, model: ModelProto, names: Sequence[str], expected: Sequence[np.ndarray], opset: int
) -> FunctionProto:
    """The graph of a model as a function, its outputs in the dtypes of the op's."""
    imported = imported_versions(model)
    if set(imported) != {""} or imported[""] != opset:
        got = ", ".join(f"{name or 'ai.onnx'} {version}" for name, version in imported.items())
        raise NotLowered(_BY_TORCH, expected=f"operators of opset {opset} of ONNX", got=got)
    nodes = [helper.make_node("Constant", [], [tensor.name], value=tensor) for tensor in model.graph.initializer]
    nodes += model.graph.node
    taken = {name for node in nodes for name in (*node.input, *node.output)} | set(names)
    outputs = []
    for info, array in zip(model.graph.output, expected, strict=True):
        to = type_of(array).dtype.onnx  # type: ignore[union-attr]  # arrays have one
        outputs.append(_unused(f"{info.name}_as_{TensorProto.DataType.Name(to).lower()}", taken))
        nodes.append(
            helper.make_node("Cast", [info.name], [outputs[-1]], to=to) if _differs(info, to) else _same(info, outputs[-1])
        )
    domain, name = subject.op.domain, subject.op.op_type
    return helper.make_function(domain, name, list(names), outputs, nodes, [helper.make_opsetid("", opset)])


def _differs(info: Any, to: int) -> bool:
    return bool(info.type.tensor_type.elem_type != to)


def _same(info: Any, output: str) -> Any:
    return helper.make_node("Identity", [info.name], [output])


def _unused(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    taken.add(name)
    return name
