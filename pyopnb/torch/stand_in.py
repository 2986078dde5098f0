"""Define the ops that call torch, for the nodes for which ONNX has no operator."""

from __future__ import annotations

from typing import Any

import torch

from pyopnb.errors import DefinitionError
from pyopnb.ops.names import split_name
from pyopnb.ops.op import Version
from pyopnb.ops.registry import registry
from pyopnb.torch.arrays import to_array, to_tensor
from pyopnb.torch.calls import COMPLEX, DTYPES, decode, op_name, target_name

__all__ = ["PARTS", "TorchOp", "define", "own_memory"]

PARTS = "pyopnb_part"
"""The namespace of the ops that call a part of a module, from `pyopnb.torch.parts`."""

_NAMESPACES_OF_TORCH = ("aten", "prims", "quantized")

# These write to their running statistics, which their schemas do not say.
_WRITING = (
    "aten::batch_norm",
    "aten::instance_norm",
    "aten::native_batch_norm",
    "aten::_batch_norm_impl_index",
)
_PARTS_OF_COMPLEX = {"complex64": "float32", "complex128": "float64", "complex32": "float16"}


class TorchOp:
    """A torch op as an op of ONNX Runtime; `define` makes one class for each.

    The attributes are the op's arguments by name, and those that `pyopnb.torch.calls` tells of.
    """

    target: Any

    def __init__(self, **attrs: Any) -> None:
        self._attrs = attrs
        self._complex = frozenset(attrs.get(COMPLEX, ()))
        self._dtypes = [_PARTS_OF_COMPLEX.get(name, name) for name in attrs.get(DTYPES, ())]

    def infer(self, *types: Any) -> list[str]:
        return [f"{name}[...]" for name in self._dtypes]

    def compute(self, *inputs: Any) -> Any:
        tensors: list[Any] = []
        # Tensors share ONNX Runtime's memory: no op of torch's that is put in writes to its inputs.
        for position, array in enumerate(inputs):
            if array is None:
                tensors.append(None)
            else:
                tensors.append(to_tensor(array, is_complex=position in self._complex))
        args, kwargs = decode(self.target, self._attrs, tensors)
        with torch.no_grad():
            results = self.target(*args, **kwargs)
        if isinstance(results, torch.Tensor):
            return to_array(results)
        # Some ops return a list of one.
        arrays = tuple(map(to_array, results))
        return arrays if len(arrays) > 1 else arrays[0]

    @classmethod
    def _module_source(cls, version: Version) -> str:
        """Write the text of a module that defines the op anew, for `pyopnb.save`."""
        if cls.target.namespace == PARTS:
            raise DefinitionError(
                f"op {version.op}",
                expected="an op with a text",
                got="a part of a module, which lives in this process",
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


def define(target: Any) -> str:
    """Define the op that stands in for a torch op, on first use only, and return its name.

    Parameters
    ----------
    target : torch._ops.OpOverload
    """
    name = op_name(target)
    # Again, it would be a new version.
    if registry.find(*split_name(name)) is None:
        body = {"target": target, "__doc__": f"{target_name(target)}, called in torch itself."}
        if target._schema.name in _WRITING:
            body["copy_inputs"] = True
        registry.define(type(name.partition("::")[2], (TorchOp,), body), name)
    return name


def own_memory(results: Any, inputs: Any) -> Any:
    """Clone the results that share memory with an input, or with another result.

    Parameters
    ----------
    results : torch.Tensor, or list or tuple of them
    inputs : iterable
        Of which the tensors count.

    Returns
    -------
    torch.Tensor, list or tuple
    """
    used = set()
    for value in inputs:
        if isinstance(value, torch.Tensor):
            used.add(value.untyped_storage().data_ptr())
    clones = []
    for result in [results] if isinstance(results, torch.Tensor) else results:
        address = result.untyped_storage().data_ptr()
        clones.append(result.clone() if address in used else result)
        used.add(address)
    if isinstance(results, torch.Tensor):
        return clones[0]
    return clones if isinstance(results, list) else tuple(clones)
