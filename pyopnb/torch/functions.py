"""Turn ops of the registry into torch functions.

They work in eager mode, compiled, and exported as nodes of their own.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch.utils._pytree import tree_leaves, tree_map, tree_map_only

from pyopnb.common import locks, messages, sanitize
from pyopnb.engine import (
    ANY,
    Op,
    TensorType,
    Version,
    dtype,
    find_op,
    instantiate,
    node,
    node_kernel,
    op_schema,
    output_types,
)
from pyopnb.errors import DefinitionError, InputError, ResultError, SchemaChanged
from pyopnb.torch.arrays import to_array, to_tensor
from pyopnb.torch.calls import as_returned, register_op

__all__ = ["TorchFunction", "exported_as", "op"]

_SCALARS = ("int", "float", "bool", "str")

# Names that no attr has.
_TENSORS, _COUNT = "pyopnb_tensors", "pyopnb_count"

_lock = threading.Lock()
_functions: dict[tuple[str, str, int], TorchFunction] = {}
_functions_by_overload: dict[Any, TorchFunction] = {}


@messages.hide_internal_frames
def op(name: str, *, outputs: int | None = None) -> TorchFunction:
    """Turn an op of the registry into a torch function.

    It works eagerly, in `torch.compile` and in `torch.export.export`, and `export` writes it as its
    own node. After a redefinition with the same schema, the function uses the new version. If the
    class has ``backward``, that is also its gradient in torch.

    Parameters
    ----------
    name : str
        ``domain::OpType``.
    outputs : int, optional
        The number of outputs, for an op whose ``compute`` has no return annotation; 1 by default.

    Returns
    -------
    TorchFunction
        Call it with tensors, and with the attrs by name.

    Raises
    ------
    UnknownName
        There is no such op in the registry.
    DefinitionError
        The op has an attr of a kind that a torch op cannot take as an argument.

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
    annotated = version.schema.outputs
    if annotated is not None and outputs not in (None, len(annotated)):
        expected = f"{len(annotated)}, as compute's hint says"
        got, advice = str(outputs), f"outputs={len(annotated)}"
        raise InputError(f"op {version.op}, outputs", expected=expected, got=got, next=advice)
    count = outputs or len(annotated or ()) or 1
    key = version.op, repr(version.schema), count
    return locks.locked(_lock, _function_of, key, version)


def _function_of(key: tuple[str, str, int], version: Version) -> TorchFunction:
    """Return the torch function of an op with that schema.

    An op of torch stays for as long as the process.
    """
    if key not in _functions:
        function = TorchFunction(version, key[2])
        _functions[key] = function
        _functions_by_overload[function.overload] = function
    return _functions[key]


def exported_as(target: Any) -> tuple[str, int] | None:
    """Return the op, and the version of its domain, that a torch op of `op` is exported as."""
    function = _functions_by_overload.get(target)
    return None if function is None else (function.name, function.opset)


class TorchFunction:
    """An op of the registry as a torch function; created by `op`.

    Attributes
    ----------
    name : str
        ``domain::OpType``.
    opset : int
        The version of the domain.
    overload : torch._ops.OpOverload
        The torch op, for work on graphs.
    """

    def __init__(self, version: Version, outputs: int) -> None:
        self.name, self.opset = version.op, version.opset
        self._schema, self._outputs = version.schema, outputs
        self._number = version.number
        attrs = version.schema.attrs
        self._defaults = {a.name: a.default for a in attrs if a.default is not op_schema.REQUIRED}
        self._attrs = tuple(attr.name for attr in attrs)
        self._fixed_inputs = sum(not port.variadic for port in version.schema.inputs)
        self._is_variadic = self._fixed_inputs < len(version.schema.inputs)
        self._kernels: dict[str, tuple[Op, node_kernel.Kernel]] = {}
        namespace, _, name = version.op.partition("::")
        namespace = f"pyopnb_{namespace}"
        schema = _torch_schema(version, outputs)
        self.overload = register_op(namespace, name, self._run, self._fake, schema)
        torch.library.register_autograd(
            self.overload, self._backward, setup_context=_keep_for_backward
        )
        # The gradient is an op of its own, so that the compiler does not look into it either.
        parameters = [f"Tensor?[] {_TENSORS}", f"int {_COUNT}"]
        if version.schema.attrs:
            parameters += ["*", _torch_attrs(version)]
        schema = f"({', '.join(parameters)}) -> Tensor[]"
        self._gradient = register_op(
            namespace, f"{name}_backward", self._run_gradient, _fake_gradient, schema
        )

    def __repr__(self) -> str:
        return f"{self.name}, version {self._number}, as a function of torch: {self._schema}"

    def __call__(self, /, *inputs: Any, **attrs: Any) -> Any:
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
            A tuple if the op has several outputs.
        """
        # torch.compile follows a loop, but no generator.
        for name in attrs:
            if name not in self._attrs:
                raise self._unknown(attrs)
        return self.overload(*self._grouped(inputs), **{**self._defaults, **attrs})

    def _grouped(self, inputs: Sequence[Any]) -> list[Any]:
        """Put variadic inputs into a list, as the torch schemas have them."""
        if not self._is_variadic:
            return list(inputs)
        return [*inputs[: self._fixed_inputs], list(inputs[self._fixed_inputs :])]

    def _unknown(self, attrs: Mapping[str, Any]) -> InputError:
        name = sanitize(min(set(attrs) - set(self._attrs)))
        expected = f"one of {', '.join(self._attrs)}" if self._attrs else "no attrs"
        advice = messages.suggest(name, self._attrs) if self._attrs else f"leave {name} out"
        return InputError(f"op {self.name}, attr {name}", expected=expected, got=name, next=advice)

    def _current(self) -> Version:
        """Return the version that serves, which must have the schema of this function."""
        version = find_op(self.name).current
        if version.schema != self._schema:
            raise SchemaChanged(
                f"op {self.name}, function of version {self._number}",
                expected=str(self._schema),
                got=f"{version.schema} (version {version.number})",
                next=f'pyopnb.torch.op("{self.name}")',
            )
        return version

    # ---- called by torch -------------------------------------------------------------------------

    def _run(self, *arguments: Any, **attrs: Any) -> Any:
        # A new version with other attrs or types cannot serve a schema that torch has fixed.
        self._current()
        outputs = [f"y{number}" for number in range(self._outputs)]
        count = len(self._schema.inputs)
        tensors = tree_leaves(arguments)
        results = self._evaluate(self.name, tensors, count, outputs, attrs)
        return as_returned(results)

    def _evaluate(
        self,
        name: str,
        tensors: Sequence[Any],
        count: int,
        outputs: Sequence[str],
        attrs: Mapping[str, Any],
    ) -> list[Any]:
        """Run an op at a node with these attrs; an output without a name is an empty tensor."""
        key = repr((name, count, outputs, sorted(attrs.items())))
        kernel = locks.locked(_lock, self._kernel, key, name, count, outputs, attrs)
        devices = [tensor.device for tensor in tensors if tensor is not None]
        results = []
        for array in kernel(*tree_map_only(torch.Tensor, to_array, list(tensors))):
            # In torch, no gradient can be left out, so an empty tensor takes its place.
            tensor = torch.zeros(0)
            if array is not None:
                tensor = to_tensor(np.asarray(array))
            # The ONNX Runtime results are on the CPU, and torch expects them where the inputs are.
            results.append(tensor.to(devices[0]))
        return results

    def _kernel(
        self, key: str, name: str, count: int, outputs: Sequence[str], attrs: Mapping[str, Any]
    ) -> node_kernel.Kernel:
        """Return the op at a node, made again where the registry now has another."""
        registered = find_op(name)
        if key not in self._kernels or self._kernels[key][0] is not registered:
            # An attr that is None is one that the node does not have.
            proto = node(name, ["x"] * count, outputs, **_without_none(attrs))
            self._kernels[key] = registered, node_kernel.NodeKernel(proto, {}, registered)
        return self._kernels[key][1]

    def _fake(self, *arguments: Any, **attrs: Any) -> Any:
        """Make empty results of the right types, where torch traces."""
        version, where = self._current(), f"op {self.name}"
        tensors = tree_leaves(arguments)
        sizes: dict[str, Any] = {}
        types = tree_map_only(torch.Tensor, functools.partial(_type, sizes=sizes), tensors)
        # Attrs that a class cannot take are refused here, before anything runs.
        self._schema.check_inputs(types, where)
        instance = instantiate(version, version.schema, _without_none(attrs), where)
        promises = output_types.promised_types(
            version.schema, instance, types, self._outputs, where
        )
        first = next(tensor for tensor in tensors if tensor is not None)
        results = []
        for number, promise in enumerate(promises):
            result_type = output_types.resolve_type(promise, ANY, types)
            if result_type is None or result_type.dtype is None or result_type.shape is None:
                raise ResultError(
                    f"{where}, output {number}",
                    expected=(
                        "a rank in the hint of compute or from infer, which torch needs to trace"
                    ),
                    got=str(result_type or ANY),
                    next="def infer(self, x): return x",
                )
            shape = [_size(dim, sizes) for dim in result_type.shape]
            results.append(first.new_empty(shape, dtype=_torch_dtype(result_type.dtype.name)))
        return as_returned(results)

    def _backward(self, ctx: Any, *gradients: Any) -> Any:
        """Return the gradients of the arguments, for autograd."""
        if self._current().gradient is None:
            raise DefinitionError(
                f"op {self.name}",
                expected="an op with a gradient",
                got="one without",
                next=(
                    "def backward(self, inputs, outputs, grads) in its class; "
                    "or with torch.no_grad(): …, or x.detach()"
                ),
            )
        tensors = [*ctx.saved_tensors, *gradients]
        # Inputs and outputs were saved in one list.
        count = len(ctx.saved_tensors) - self._outputs
        ahead = iter(self._gradient(tensors, count, **ctx.pyopnb_attrs))

        def gradient(needs: bool) -> Any:
            # There is one for each argument, needed or not.
            derived = next(ahead)
            return derived if needs else None

        needs = ctx.needs_input_grad[: len(self._schema.inputs)]
        return tree_map(gradient, tuple(needs))

    def _run_gradient(self, tensors: Sequence[Any], count: int, **attrs: Any) -> list[Any]:
        gradient = self._current().gradient
        if gradient is None:
            where, got = f"op {self.name}", f"{self._current()}, which has none"
            raise SchemaChanged(where, expected="its backward", got=got)
        outputs = []
        for number, tensor in enumerate(tensors[:count]):
            if tensor is not None and tensor.is_floating_point():
                outputs.append(f"grad{number}")
            else:
                # An output without a name is not computed.
                outputs.append("")
        return self._evaluate(gradient.op, tensors, len(tensors), outputs, attrs)


# ---- schemas -------------------------------------------------------------------------------------


def _torch_schema(version: Version, outputs: int) -> str:
    schema, where = version.schema, f"op {version.op}"
    if not schema.inputs:
        raise DefinitionError(where, expected="an input, as a function of torch", got="none")
    if schema.open_attrs:
        expected = "attrs by name, as a function of torch"
        advice = "def __init__(self, alpha: float = 1.0)"
        raise DefinitionError(f"{where}, __init__", expected=expected, got="**attrs", next=advice)
    parameters = []
    for port in schema.inputs:
        if port.variadic:
            parameters.append(f"Tensor[] {port.name}")
        else:
            parameters.append(f"Tensor{'?' * port.optional} {port.name}")
    if schema.attrs:
        parameters += ["*", _torch_attrs(version)]
    returns = "Tensor" if outputs == 1 else f"({', '.join(['Tensor'] * outputs)})"
    return f"({', '.join(parameters)}) -> {returns}"


def _torch_attrs(version: Version) -> str:
    texts = []
    for attr in version.schema.attrs:
        texts.append(f"{_torch_attr_type(attr, f'op {version.op}')} {attr.name}")
    return ", ".join(texts)


def _torch_attr_type(attr: op_schema.Attr, where: str) -> str:
    base = attr.kind.removeprefix("list[").removesuffix("]")
    if base not in _SCALARS:
        raise DefinitionError(
            f"{where}, attr {attr.name}",
            expected="int, float, bool, str or a list of them, as a function of torch",
            got=attr.kind,
            next=f"annotate it: {attr.name}: float",
        )
    brackets = "[]" if base != attr.kind else ""
    return f"{base}{brackets}{'?' * (attr.default is None)}"


def _without_none(attrs: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in attrs.items() if value is not None}


# ---- gradients -----------------------------------------------------------------------------------


def _keep_for_backward(
    ctx: Any, inputs: tuple[Any, ...], output: Any, keyword_only_inputs: Any = None
) -> None:
    # backward of an op also gets its outputs: for tanh, it needs nothing else.
    ctx.save_for_backward(*tree_leaves((inputs, output)))
    ctx.pyopnb_attrs = dict(keyword_only_inputs or {})


def _fake_gradient(tensors: Sequence[Any], count: int, **attrs: Any) -> list[Any]:
    gradients = []
    for tensor in tensors[:count]:
        if tensor is not None and tensor.is_floating_point():
            gradients.append(tensor.new_empty(tensor.shape))
        else:
            gradients.append(torch.empty(0))
    return gradients


# ---- types ---------------------------------------------------------------------------------------


def _type(tensor: Any, sizes: dict[str, Any]) -> TensorType:
    """Return the type of a fake tensor; ``sizes`` gets the torch size behind each symbol."""
    dims: list[int | str | None] = []
    for size in tensor.shape:
        dims.append(size if isinstance(size, int) else _symbol(size, sizes))
    return TensorType(dtype(str(tensor.dtype).removeprefix("torch.")), tuple(dims))


def _symbol(size: Any, sizes: dict[str, Any]) -> str:
    """Name a size that may change; equal sizes get the same name."""
    for name, known_size in sizes.items():
        if known_size.node.expr == size.node.expr:
            return name
    name = f"n{len(sizes)}"
    sizes[name] = size
    return name


def _size(dim: int | str | None, sizes: dict[str, Any]) -> Any:
    if isinstance(dim, int):
        return dim
    if dim is None:
        return torch.library.get_ctx().new_dynamic_size()
    # A symbol of the op itself is a size that the values decide, the same in each place.
    if dim not in sizes:
        sizes[dim] = torch.library.get_ctx().new_dynamic_size()
    return sizes[dim]


def _torch_dtype(name: str) -> Any:
    torch_dtype = getattr(torch, name, None)
    if torch_dtype is None:
        raise ResultError("torch", expected="a dtype that torch has", got=name)
    return torch_dtype
