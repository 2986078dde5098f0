"""ATen, the node that the torch exporter writes for a function that ONNX lacks.

Defined in pytorch/pytorch v2.3.1, torch/onnx/_internal/jit_utils.py. The attribute ``operator``
names the function, and its arguments are inputs in their order, or attributes of their names (for
embedding_bag, and for all before torch 1.12). The functions that are files here run in NumPy, and
all others by torch, which has to be installed. Tested against torch, to 1e-6.
"""

import importlib

import numpy as np

from pyopnb.catalog.index import find_entry

NAMES = ("org.pytorch.aten::ATen", "::ATen")


class ATen:
    """Run a function of torch, and give as many of its results as the node has outputs."""

    further_results = True

    def __init__(self, operator: str, overload_name: str = "", **arguments):
        self.operator = operator
        self.overload = overload_name or "default"
        # NumPy arrays, as all other arguments come as inputs.
        self.by_name = {name: np.asarray(value) for name, value in arguments.items()}

    def infer(self, *inputs):
        function = self._in_numpy(inputs)
        if function is not None:
            return function.infer(*inputs, **self.by_name)
        # Only the function knows the number and the types of its results.
        return ("any[...]",) * 8

    def compute(self, *inputs):
        function = self._in_numpy(inputs)
        if function is not None:
            return function.compute(*inputs, **self.by_name)
        return self._by_torch(inputs)

    def _in_numpy(self, inputs):
        """Return the operator of the catalog that is the function; None if there is none."""
        entry = find_entry(f"org.pytorch.aten::{self.operator}", len(inputs))
        return None if entry is None else entry.op_class()

    def _by_torch(self, inputs):
        """Call the function; arguments without an attribute are the inputs in their order."""
        try:
            torch = importlib.import_module("torch")
        except ModuleNotFoundError as error:
            raise ValueError(f"{self.operator} needs torch. Type: pip install torch") from error
        function = getattr(getattr(torch.ops.aten, self.operator), self.overload)
        waiting = list(inputs)
        arguments = {}
        for declared in function._schema.arguments:
            if declared.name in self.by_name:
                value = self.by_name[declared.name]
            elif waiting:
                value = waiting.pop(0)
            else:
                continue
            arguments[declared.name] = _convert(torch, value, str(declared.type))
        results = function(**arguments)
        if isinstance(results, torch.Tensor):
            return results.numpy()
        return tuple(result.numpy() for result in results)

    lowered_opset = 20
    lowered_finite = True

    def lowered(self, *inputs):
        # Functions that torch alone computes have no form.
        function = self._in_numpy(inputs)
        if not hasattr(function, "lowered"):
            raise NotImplementedError(f"{self.operator} of torch")
        return function.lowered(*inputs, **self.by_name)


def _convert(torch, value, declared):
    """Convert an input to the kind that a torch function declares: a tensor, a list or a number."""
    if value is None:
        return None
    if "Tensor" in declared:
        # torch may write into its arguments, and the input belongs to the runtime.
        return torch.from_numpy(np.array(value))
    if "List" in declared:
        return value.tolist()
    return value.item()
