"""Ops of the registry as functions of torch: eager, compiled, and exported as the node that they are."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from pyopnb.errors import DefinitionError, InputError, ResultError, SchemaChanged
from pyopnb.models.build import node
from pyopnb.onnx_reference.evaluator_ops import EvaluatedOp
from pyopnb.ops.dtypes import DType, dtype
from pyopnb.ops.instantiate import instantiate
from pyopnb.ops.locks import locked
from pyopnb.ops.messages import hide_internal_frames, sanitize, suggest
from pyopnb.ops.op import Version
from pyopnb.ops.output_types import promised_types, resolve_type
from pyopnb.ops.registry import find_op
from pyopnb.ops.schema import REQUIRED, Attr, Port, Schema
from pyopnb.ops.types import ANY, Dim, TensorType
from pyopnb.torch.arrays import to_array, to_tensor
from pyopnb.torch.torchscript import register

__all__ = ["TorchFunction", "exported_as", "op"]

_KINDS = {name: name for name in ("int", "float", "bool", "str")} | {
    f"list[{name}]": f"{name}[]" for name in ("int", "float", "bool", "str")
}
_numbers = itertools.count(1)
_lock = threading.Lock()
_functions: dict[tuple[str, str, int], TorchFunction] = {}
_by_target: dict[Any, TorchFunction] = {}


@hide_internal_frames
def op(name: str, *, outputs: int | None = None) -> TorchFunction:
    """An op of the registry as a function of torch.

    It runs eagerly, under `torch.compile` and `torch.export.export`, and `export` writes it as the node that it is. A new
    version of the op with the same schema serves the function from then on. Where the class has ``backward``, that is its
    gradient in torch, too.

    Parameters
    ----------
    name : str
        ``domain::OpType``.
    outputs : int, optional
        How many there are, for an op whose ``compute`` has no return annotation; 1 if not given.

    Returns
    -------
    TorchFunction

    Raises
    ------
    UnknownOp
        The registry has no such op.
    DefinitionError
        It has an attr that no argument of a torch op can be.

    Examples
    --------
    >>> import numpy as np, torch, pyopnb, pyopnb.torch
    >>> @pyopnb.pyop("demo::SoftClip")
    ... class SoftClip:
    ...     def __init__(self, limit: float = 1.0):
    ...         self.limit = limit
    ...     def compute(self, x):
    ...         return self.limit * np.tanh(x / self.limit)
    ...     def infer(self, x):
    ...         return x
    ...     def backward(self, inputs, outputs, grads):
    ...         return grads[0] * (1 - (outputs[0] / self.limit) ** 2)
    >>> soft_clip = pyopnb.torch.op("demo::SoftClip")
    >>> x = torch.tensor([-8.0, 0.5, 8.0], requires_grad=True)
    >>> y = soft_clip(x, limit=2.0)
    >>> y.detach()
    tensor([-1.9987,  0.4898,  1.9987])
    >>> y.sum().backward()
    >>> x.grad
    tensor([0.0013, 0.9400, 0.0013])
    """
    version = find_op(name).current
    count = _count(version.schema, outputs, version.op)
    key = version.op, repr(version.schema), count
    return locked(_lock, _function_of, key, version)


def _function_of(key: tuple[str, str, int], version: Version) -> TorchFunction:
    if key not in _functions:
        _functions[key] = TorchFunction(version, key[2])
        _by_target[_functions[key].overload] = _functions[key]
    return _functions[key]


def exported_as(target: Any) -> tuple[str, int] | None:
    """The op and the version of its domain that a torch op of `op` is exported as; None for other torch ops."""
    found = _by_target.get(target)
    return None if found is None else (found.name, found.opset)


def _count(schema: Schema, outputs: int | None, name: str) -> int:
    hinted = None if schema.outputs is None else len(schema.outputs)
    if outputs is not None and hinted not in (None, outputs):
        raise InputError(
            f"op {name}, outputs", expected=f"{hinted}, as compute's hint says", got=str(outputs)
        )
    return outputs or hinted or 1


class TorchFunction:
    """An op of the registry as a function of torch; `op` makes them.

    Attributes
    ----------
    name : str
        ``domain::OpType``.
    opset : int
        Of the domain.
    overload : torch._ops.OpOverload
        The torch op, for whoever works with graphs.
    """

    def __init__(self, version: Version, outputs: int) -> None:
        self.name, self.opset = version.op, version.opset
        self._schema, self._outputs = version.schema, outputs
        self._number = version.number
        self._attrs = tuple(attr.name for attr in version.schema.attrs)
        self._defaults = {
            attr.name: attr.default for attr in version.schema.attrs if attr.default is not REQUIRED
        }
        self._fixed = sum(not port.variadic for port in version.schema.inputs)
        self._variadic = self._fixed < len(version.schema.inputs)
        self._evaluated: dict[str, EvaluatedOp] = {}
        self._gradients: dict[str, EvaluatedOp] = {}
        namespace = "pyopnb_" + "".join(
            letter if letter.isalnum() else "_" for letter in version.op.partition("::")[0]
        )
        name = f"{namespace}::{version.op.partition('::')[2]}_{next(_numbers)}"
        made = torch.library.custom_op(
            name, self._run, mutates_args=(), schema=_torch_schema(version, outputs)
        )
        made.register_fake(self._fake)
        made.register_autograd(self._backward, setup_context=_keep_for_backward)
        made.register_vmap(self._no_vmap)
        # An op of its own, so that the compiler does not look into it either.
        attrs = f", *, {_attrs(version)}" if version.schema.attrs else ""
        schema = f"(Tensor?[] {_TENSORS}, int {_COUNT}{attrs}) -> Tensor[]"
        self._gradient = torch.library.custom_op(
            f"{name}_backward", self._run_gradient, mutates_args=(), schema=schema
        )
        self._gradient.register_fake(_fake_gradient)
        self.overload = getattr(getattr(torch.ops, namespace), name.partition("::")[2]).default
        register(name, [self.overload._schema], self.name, self.opset)

    def __repr__(self) -> str:
        return f"{self.name}, version {self._number}, as a function of torch: {self._schema}"

    def __call__(self, *inputs: Any, **attrs: Any) -> Any:
        """Call the op.

        Parameters
        ----------
        *inputs : torch.Tensor
            None leaves an optional one out.
        **attrs
            By name.

        Returns
        -------
        torch.Tensor, or tuple of torch.Tensor
        """
        if any([name not in self._attrs for name in attrs]):  # torch.compile follows a list
            raise self._unknown(attrs)
        given = list(inputs)
        if self._variadic:
            given = [*given[: self._fixed], given[self._fixed :]]
        return self.overload(*given, **{**self._defaults, **attrs})

    def opcheck(self, *inputs: Any, **attrs: Any) -> dict[str, str]:
        """Let torch check the op on example inputs: its schema, its shapes without data, and its way through the compiler.

        Parameters
        ----------
        *inputs : torch.Tensor
        **attrs
            By name.

        Returns
        -------
        dict of str to str
            ``"SUCCESS"`` for each check.

        Raises
        ------
        torch.testing._internal.optests.generate_tests.OpCheckError
            A check failed.
        """
        given = (
            [*inputs[: self._fixed], list(inputs[self._fixed :])]
            if self._variadic
            else list(inputs)
        )
        return dict(torch.library.opcheck(self.overload, tuple(given), {**self._defaults, **attrs}))

    def _unknown(self, attrs: Mapping[str, Any]) -> InputError:
        name = next(name for name in attrs if name not in self._attrs)
        expected = f"one of {', '.join(self._attrs)}" if self._attrs else "no attrs"
        next_ = suggest(name, self._attrs) if self._attrs else None
        return InputError(
            f"op {self.name}, attr {sanitize(name)}",
            expected=expected,
            got=sanitize(name),
            next=next_,
        )

    def _current(self) -> Version:
        """The version that serves, which must have the schema of this function."""
        version = find_op(self.name).current
        if version.schema != self._schema:
            raise SchemaChanged(
                f"op {self.name}, function of version {self._number}",
                expected=str(self._schema),
                got=f"{version.schema} (version {version.number})",
                next=f'pyopnb.torch.op("{self.name}")',
            )
        return version

    # ---- what torch calls --------------------------------------------------------------------------------------------------

    def _run(self, *given: Any, **attrs: Any) -> Any:
        self._current()
        tensors = _flat(given)
        device = next(
            (tensor.device for tensor in tensors if tensor is not None), torch.device("cpu")
        )
        arrays = [None if tensor is None else to_array(tensor) for tensor in tensors]
        results = [
            to_tensor(np.asarray(array)).to(device) for array in self._at(attrs).run(arrays, {})
        ]
        return results[0] if self._outputs == 1 else tuple(results)

    def _at(self, attrs: Mapping[str, Any]) -> EvaluatedOp:
        """The op at a node with these attrs."""
        key, outputs = repr(sorted(attrs.items())), [f"y{n}" for n in range(self._outputs)]
        return locked(
            _lock, _kept, self._evaluated, key, self.name, len(self._schema.inputs), outputs, attrs
        )

    def _fake(self, *given: Any, **attrs: Any) -> Any:
        version, where = self._current(), f"op {self.name}"
        tensors = _flat(given)
        sizes: dict[str, Any] = {}
        types = [None if tensor is None else _type(tensor, sizes) for tensor in tensors]
        self._schema.check_inputs(types, where)
        values = {name: value for name, value in attrs.items() if value is not None}
        instance = instantiate(version, version.schema, values, where)
        promised = promised_types(version.schema, instance, types, self._outputs, where)
        first = next(tensor for tensor in tensors if tensor is not None)
        made = []
        for place, promise in enumerate(promised):
            kind = resolve_type(promise, ANY, types)
            if kind is None or kind.dtype is None or kind.shape is None:
                raise ResultError(
                    f"{where}, output {place}",
                    expected="a type that infer or the hint of compute says, with its rank, where torch traces",
                    got=str(kind or ANY),
                    next="def infer(self, x): return x",
                )
            made.append(
                first.new_empty(
                    [_size(dim, sizes) for dim in kind.shape], dtype=_torch_dtype(kind.dtype)
                )
            )
        return made[0] if self._outputs == 1 else tuple(made)

    def _backward(self, ctx: Any, *gradients: Any) -> Any:
        """Gradients of the arguments, for autograd."""
        if self._current().gradient is None:
            raise DefinitionError(
                f"op {self.name}",
                expected="an op with a gradient",
                got="one without",
                next="def backward(self, inputs, outputs, grads) in its class; or with torch.no_grad(): …, or x.detach()",
            )
        tensors = [*ctx.saved_tensors, *gradients]
        count = len(ctx.saved_tensors) - self._outputs
        found = iter(self._gradient(tensors, count, **ctx.pyopnb_attrs))
        # Of each argument one; of a list of tensors a list.
        return tuple(
            [_wanted(next(found), need) for need in needs]
            if isinstance(needs, (list, tuple))
            else _wanted(next(found), needs)
            for needs in ctx.needs_input_grad[: len(self._schema.inputs)]
        )

    def _run_gradient(self, tensors: Sequence[Any], count: int, **attrs: Any) -> list[Any]:
        gradient = self._current().gradient
        if gradient is None:
            raise SchemaChanged(
                f"op {self.name}", expected="its backward", got=f"{self._current()}, which has none"
            )
        device = next(tensor.device for tensor in tensors if tensor is not None)
        arrays = [None if tensor is None else to_array(tensor) for tensor in tensors]
        wanted = [tensor is not None and tensor.is_floating_point() for tensor in tensors[:count]]
        results = self._gradient_at(gradient.op, attrs, len(tensors), wanted).run(arrays, {})
        return [
            torch.zeros(0) if array is None else to_tensor(np.asarray(array)).to(device)
            for array in results
        ]

    def _gradient_at(
        self, name: str, attrs: Mapping[str, Any], count: int, wanted: Sequence[bool]
    ) -> EvaluatedOp:
        """The gradient op at a node with these attrs and outputs."""
        outputs = [f"grad{n}" if want else "" for n, want in enumerate(wanted)]
        key = repr((sorted(attrs.items()), count, wanted))
        return locked(_lock, _kept, self._gradients, key, name, count, outputs, attrs)

    def _no_vmap(self, info: Any, dims: Any, *given: Any, **attrs: Any) -> Any:
        raise DefinitionError(
            f"op {self.name}",
            expected="an op that torch.vmap can batch",
            got="one that takes whole arrays",
            next="give the op the batch as a dimension of its inputs",
        )


def _kept(
    kept: dict[str, EvaluatedOp],
    key: str,
    name: str,
    count: int,
    outputs: Sequence[str],
    attrs: Mapping[str, Any],
) -> EvaluatedOp:
    """The op of that name at a node, made where it is not kept or its op is another one now."""
    op = find_op(name)
    if key not in kept or kept[key].op is not op:
        values = {attr: value for attr, value in attrs.items() if value is not None}
        kept[key] = EvaluatedOp(op, node(name, ["x"] * count, outputs, **values), {})
    return kept[key]


# ---- schemas -----------------------------------------------------------------------------------------------------------------


def _torch_schema(version: Version, outputs: int) -> str:
    schema, where = version.schema, f"op {version.op}"
    if not schema.inputs:
        raise DefinitionError(where, expected="an input, as a function of torch", got="none")
    if schema.open_attrs:
        raise DefinitionError(
            f"{where}, __init__", expected="attrs by name, as a function of torch", got="**attrs"
        )
    arguments = [_port(port) for port in schema.inputs] + (
        ["*", _attrs(version)] if schema.attrs else []
    )
    returns = "Tensor" if outputs == 1 else f"({', '.join(['Tensor'] * outputs)})"
    return f"({', '.join(arguments)}) -> {returns}"


def _attrs(version: Version) -> str:
    return ", ".join(
        f"{_kind(attr, f'op {version.op}')} {attr.name}" for attr in version.schema.attrs
    )


def _port(port: Port) -> str:
    return f"Tensor[] {port.name}" if port.variadic else f"Tensor{'?' * port.optional} {port.name}"


def _kind(attr: Attr, where: str) -> str:
    if attr.kind not in _KINDS:
        raise DefinitionError(
            f"{where}, attr {attr.name}",
            expected="int, float, bool, str or a list of them, as a function of torch",
            got=attr.kind,
            next=f"annotate it: {attr.name}: float",
        )
    return f"{_KINDS[attr.kind]}{'?' * (attr.default is None)}"


def _flat(given: Sequence[Any]) -> list[Any]:
    return list(_each(given))


def _each(given: Sequence[Any]) -> Iterator[Any]:
    for value in given:
        if isinstance(value, (list, tuple)):
            yield from value
        else:
            yield value


# ---- gradients ---------------------------------------------------------------------------------------------------------------

# Names that no attr has.
_TENSORS, _COUNT = "pyopnb_tensors", "pyopnb_count"


def _keep_for_backward(
    ctx: Any, inputs: tuple[Any, ...], output: Any, keyword_only_inputs: Any = None
) -> None:
    outputs = output if isinstance(output, tuple) else (output,)
    ctx.save_for_backward(*_flat(inputs), *outputs)
    ctx.pyopnb_attrs = dict(keyword_only_inputs or {})


def _fake_gradient(tensors: Sequence[Any], count: int, **attrs: Any) -> list[Any]:
    return [
        tensor.new_empty(tensor.shape)
        if tensor is not None and tensor.is_floating_point()
        else torch.empty(0)
        for tensor in tensors[:count]
    ]


def _wanted(gradient: Any, need: bool) -> Any:
    return gradient if need else None


# ---- types -------------------------------------------------------------------------------------------------------------------


def _type(tensor: Any, sizes: dict[str, Any]) -> TensorType:
    """The type of a fake tensor; ``sizes`` gets what each of its symbols stands for."""
    dims: list[Dim] = []
    for size in tensor.shape:
        if isinstance(size, int):
            dims.append(size)
        else:
            symbol = next(
                (name for name, known in sizes.items() if known.node.expr == size.node.expr),
                f"n{len(sizes)}",
            )
            sizes[symbol] = size
            dims.append(symbol)
    return TensorType(dtype(str(tensor.dtype).removeprefix("torch.")), tuple(dims))


def _size(dim: Dim, sizes: dict[str, Any]) -> Any:
    if isinstance(dim, int):
        return dim
    if dim is None:
        return torch.library.get_ctx().new_dynamic_size()
    if (
        dim not in sizes
    ):  # a symbol of the op's own: a size that the values decide, the same wherever it stands
        sizes[dim] = torch.library.get_ctx().new_dynamic_size()
    return sizes[dim]


def _torch_dtype(row: DType) -> Any:
    found = getattr(torch, row.name, None)
    if found is None:
        raise ResultError("torch", expected="a dtype that torch has", got=row.name)
    return found
