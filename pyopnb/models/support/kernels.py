"""Tell whether the runtime has a kernel for an operator and the types of its ports.

The rules are the runtime's own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pyopnb.engine import DTYPES, ort_capabilities, ort_types

__all__ = [
    "Kinds",
    "float16_as_float32",
    "has_kernel",
    "type_mismatch",
    "unserved_types",
]

Kinds = Sequence[str | None]
"""A type for each input or output: ``""`` if nothing is connected, None if it is unknown."""

_HALF, _SINGLE = "tensor(float16)", "tensor(float)"


def type_mismatch(operator: ort_capabilities.Operator, inputs: Kinds, outputs: Kinds) -> str | None:
    """Describe the first type that this version of the operator does not take; None if all fit."""
    for ports, kinds in ((operator.inputs, inputs), (operator.outputs, outputs)):
        for number, type_text in enumerate(kinds):
            port = ort_capabilities.port_at(ports, number)
            if type_text and port and type_text not in port.takes:
                return (
                    f"{port.name} is {ort_types.to_notation(type_text)}; "
                    f"the operator takes {_join_types(port.takes)}"
                )
    return None


def has_kernel(operator: ort_capabilities.Operator, inputs: Kinds, outputs: Kinds) -> bool:
    """Tell whether a kernel of the runtime takes these types; unknown types always fit."""
    return any(
        not _mismatches(operator, kernel, inputs, outputs) for kernel in _kernels_for(operator)
    )


def float16_as_float32(kinds: Kinds) -> list[str | None]:
    """Return types with float32 in place of float16.

    The runtime inserts such casts around a node with a float16 input and no kernel for it.
    """
    return [_SINGLE if type_text == _HALF else type_text for type_text in kinds]


def unserved_types(
    operator: ort_capabilities.Operator, inputs: Kinds, outputs: Kinds
) -> str | None:
    """Describe the types that no kernel takes, with the types that kernels do take.

    The answer is None if the operator has no kernel at all.
    """
    # A cast would most easily reach the kernel that accepts most of the types.
    serving = _kernels_for(operator)
    if not serving:
        return None
    wrong = [_mismatches(operator, kernel, inputs, outputs) for kernel in serving]
    least = min(wrong, key=len)
    # Another kernel may take that type, and refuse others.
    near = [
        dict(kernel.takes)
        for kernel, names in zip(serving, wrong, strict=True)
        if names.keys() <= least.keys()
    ]
    texts = []
    for name, type_text in least.items():
        dtypes = frozenset().union(*(takes.get(name, ()) for takes in near))
        if type_text.startswith("tensor("):
            # A tensor cannot be cast to a sequence or an optional.
            dtypes = frozenset(text for text in dtypes if text.startswith("tensor("))
        texts.append(
            f"{name} is {ort_types.to_notation(type_text)}; "
            f"there are kernels for {_join_types(dtypes)}"
        )
    return ", ".join(texts)


def _kernels_for(operator: ort_capabilities.Operator) -> list[ort_capabilities.RuntimeKernel]:
    rows = ort_capabilities.kernels().get((operator.domain, operator.op_type), ())
    return [kernel for kernel in rows if kernel.serves(operator.since)]


def _mismatches(
    operator: ort_capabilities.Operator,
    kernel: ort_capabilities.RuntimeKernel,
    inputs: Kinds,
    outputs: Kinds,
) -> dict[str, str]:
    """Map type variables and ports whose type the kernel does not take to that type."""
    wrong = {}
    for name, takes in kernel.takes:
        type_text = _bound_type(operator, name, inputs, outputs)
        if type_text and type_text not in takes:
            wrong[name] = type_text
    return wrong


def _bound_type(
    operator: ort_capabilities.Operator, name: str, inputs: Kinds, outputs: Kinds
) -> str | None:
    # The runtime looks only at the first connected input or output of a type variable.
    for ports, kinds in ((operator.inputs, inputs), (operator.outputs, outputs)):
        for number, port in enumerate(ports):
            if name in (port.type, port.name) and number < len(kinds) and kinds[number] != "":
                return kinds[number]
    return None


def _join_types(kinds: Iterable[str]) -> str:
    """Return types in our notation, comma-separated, in the order of the table of dtypes."""
    order = {row.name: number for number, row in enumerate(DTYPES)}
    names = map(ort_types.to_notation, kinds)
    return ", ".join(sorted(names, key=lambda name: (order.get(name, len(order)), name)))
