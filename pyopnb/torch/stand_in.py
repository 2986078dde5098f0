"""Define the ops that call torch, for the nodes for which ONNX has no operator."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch

from pyopnb.engine import ANY, Version, op_names, registry
from pyopnb.errors import DefinitionError, ModelError
from pyopnb.torch.arrays import to_array, to_tensor
from pyopnb.torch.calls import DTYPES, as_list, decode, op_name, target_name

__all__ = ["PARTS", "OtherResults", "TorchOp", "define", "own_memory"]

PARTS = "pyopnb_part"
"""The namespace of the ops that call a part of a module, from `pyopnb.torch.part_ops`."""

_NAMESPACES_OF_TORCH = ("aten", "prims", "quantized")

# These write to their running statistics, which their schemas do not say.
_WRITING = (
    "aten::batch_norm",
    "aten::instance_norm",
    "aten::native_batch_norm",
    "aten::_batch_norm_impl_index",
)
_PARTS_OF_COMPLEX = {"complex64": "float32", "complex128": "float64", "complex32": "float16"}


class OtherResults(ModelError):
    """A part of a module returned other types or ranks than the model was made for."""


class TorchOp:
    """A torch op as an op of ONNX Runtime; `define` makes one class for each.

    The attributes are the op's arguments by name, and the ones in `pyopnb.torch.calls`.
    """

    target: Any

    # Functions that are called in place of the target: autograd follows them into a part of a
    # module.
    function: Any = None

    def __init_subclass__(cls) -> None:
        types = [str(entry.type) for entry in cls.target._schema.returns]
        is_gradient = "compute" in vars(cls)
        if is_gradient or len(types) == 1 or set(types) != {"Tensor"}:
            return

        def compute(self: TorchOp, *inputs: Any) -> Any:
            return TorchOp.compute(self, *inputs)

        # With a hint, gradients know how many of a node's tensors are results.
        compute.__annotations__["return"] = (str(ANY),) * len(types)
        cls.compute = compute  # type: ignore[method-assign]

    def __init__(self, **attrs: Any) -> None:
        self._attrs = attrs
        self._dtypes = [_PARTS_OF_COMPLEX.get(name, name) for name in attrs.get(DTYPES, ())]

    def infer(self, *types: Any) -> list[str]:
        return [f"{name}[...]" for name in self._dtypes]

    def compute(self, *inputs: Any) -> Any:
        with torch.no_grad():
            results = self._results(_tensors(inputs))
        # Some ops return a list of one.
        arrays = tuple(map(to_array, results))
        return arrays if len(arrays) > 1 else arrays[0]

    def backward(self, inputs: Any, outputs: Any, grads: Any) -> tuple[Any, ...]:
        """Compute the gradients by torch autograd."""
        leaves: dict[int, Any] = {}
        tensors = _tensors(inputs)
        for position, tensor in enumerate(tensors):
            if tensor is not None and tensor.is_floating_point():
                tensors[position] = leaves[position] = torch.nn.Parameter(tensor)
        with torch.enable_grad():
            results = self._results(tensors)
        used, seeds = [], []
        for result, grad in zip(results, grads, strict=True):
            if grad is not None and result.requires_grad:
                used.append(torch.view_as_real(result) if result.is_complex() else result)
                seeds.append(to_tensor(grad))
        gradients: list[Any] = [None] * len(inputs)
        if not leaves:
            return tuple(gradients)
        if not used:
            raise ModelError(
                f"{target_name(self.target)}, backward",
                expected="results that autograd follows to an input",
                got="none, as where forward calls detach or NumPy",
            )
        derived = torch.autograd.grad(used, list(leaves.values()), seeds, allow_unused=True)
        for position, gradient in zip(leaves, derived, strict=True):
            gradients[position] = None if gradient is None else to_array(gradient)
        return tuple(gradients)

    def _results(self, tensors: list[Any]) -> list[Any]:
        args, kwargs = decode(self.target, self._attrs, tensors)
        results = (self.function or self.target)(*args, **kwargs)
        return as_list(results)

    @classmethod
    def _module_source(cls, version: Version) -> str:
        """Write the text of a module that defines the op again, for `pyopnb.save`."""
        if cls.target.namespace == PARTS:
            raise DefinitionError(
                f"op {version.op}",
                expected="an op with a source",
                got="a part of a module, which exists only in this process",
                next="run the %%pyop cell that the warning of export has",
            )
        lines = ["import torch", "", "import pyopnb", "from pyopnb.torch.stand_in import TorchOp"]
        lines += ["", ""]
        namespace = cls.target.namespace
        if namespace not in _NAMESPACES_OF_TORCH:
            lines.append(f"# Import what registers the namespace {namespace} in torch first.")
        lines += [
            f'@pyopnb.pyop("{version.op}")',
            f"class {cls.__name__}(TorchOp):",
            f'    """{cls.__doc__}"""',
            "",
        ]
        if cls.target._schema.name in _WRITING:
            lines.append("    copy_inputs = True")
        lines += [f"    target = {target_name(cls.target)}", ""]
        return "\n".join(lines)


def _tensors(arrays: Any) -> list[Any]:
    """Make tensors that share the ONNX Runtime memory.

    No op of torch that a stand-in calls writes to its inputs.
    """
    return [None if array is None else to_tensor(array) for array in arrays]


def define(target: Any, function: Any = None) -> str:
    """Define the stand-in for a torch op, on first use only, and return its name.

    Parameters
    ----------
    target : torch._ops.OpOverload
    function : callable, optional
        The function in its place, which autograd can follow.
    """
    name = op_name(target)
    # Again, it would be a new version.
    if registry.find(*op_names.split_name(name)) is None:
        doc = f"{target_name(target)}, called in torch itself."
        body = {"target": target, "function": staticmethod(function or target), "__doc__": doc}
        if target._schema.name in _WRITING:
            body["copy_inputs"] = True
        registry.define(type(name.partition("::")[2], (TorchOp,), body), name)
    return name


def own_memory(results: Sequence[Any], inputs: Iterable[Any]) -> list[Any]:
    """Clone the results that share memory with an input, or with another result.

    Parameters
    ----------
    inputs : iterable
        Only tensors among them count.
    """
    used = set()
    for value in inputs:
        if isinstance(value, torch.Tensor):
            used.add(value.untyped_storage().data_ptr())
    clones = []
    for result in results:
        address = result.untyped_storage().data_ptr()
        clones.append(result.clone() if address in used else result)
        used.add(address)
    return clones
