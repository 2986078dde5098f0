"""Whether the runtime has a kernel for an operator and the types of its inputs and outputs, as the runtime decides it."""

from __future__ import annotations

from collections.abc import Sequence

from pyopnb.models.ort_capabilities import Kernel, Operator, Port, kernels
from pyopnb.models.support.ort_types import in_notation, listed

__all__ = ["Kinds", "has_kernel", "lacking", "port_at", "refused", "widened"]

Kinds = Sequence[str | None]
"""A type for each place: ``""`` where nothing is connected, None where nothing is known."""

_HALF, _SINGLE = "tensor(float16)", "tensor(float)"


def port_at(ports: Sequence[Port], place: int) -> Port | None:
    """The port that an input or output belongs to; None where there are too many."""
    if place < len(ports):
        return ports[place]
    return ports[-1] if ports and ports[-1].variadic else None


def refused(operator: Operator, inputs: Kinds, outputs: Kinds) -> str | None:
    """What is wrong where a type is none that this version of the operator may have; None where nothing is."""
    for ports, kinds in ((operator.inputs, inputs), (operator.outputs, outputs)):
        for place, kind in enumerate(kinds):
            port = port_at(ports, place)
            if kind and port and kind not in port.takes:
                return f"{port.name} is {in_notation(kind)}; the operator takes {listed(port.takes)}"
    return None


def has_kernel(operator: Operator, inputs: Kinds, outputs: Kinds) -> bool:
    """Whether one of the runtime's kernels takes these types; what is not known suits every kernel."""
    return any(not _unlike(operator, kernel, inputs, outputs) for kernel in _serving(operator))


def widened(kinds: Kinds) -> list[str | None]:
    """The types after the casts that the runtime puts around a node that has a float16 input and no kernel for it."""
    return [_SINGLE if kind == _HALF else kind for kind in kinds]


def lacking(operator: Operator, inputs: Kinds, outputs: Kinds) -> str | None:
    """Which types the kernels do not take and which they do; None where there is no kernel for any."""
    serving = _serving(operator)
    if not serving:
        return None
    texts = []
    for name, kind in min((_unlike(operator, kernel, inputs, outputs) for kernel in serving), key=len).items():
        taken = frozenset().union(*(dict(kernel.takes).get(name, ()) for kernel in serving))
        texts.append(f"{name} is {in_notation(kind)}; there are kernels for {listed(taken)}")
    return ", ".join(texts)


def _serving(operator: Operator) -> list[Kernel]:
    rows = kernels().get((operator.domain, operator.op_type), ())
    return [kernel for kernel in rows if kernel.serves(operator.since)]


def _unlike(operator: Operator, kernel: Kernel, inputs: Kinds, outputs: Kinds) -> dict[str, str]:
    """The type variables and ports that have a type which the kernel does not take."""
    wrong = {}
    for name, takes in kernel.takes:
        kind = _standing(operator, name, inputs, outputs)
        if kind and kind not in takes:
            wrong[name] = kind
    return wrong


def _standing(operator: Operator, name: str, inputs: Kinds, outputs: Kinds) -> str | None:
    # The runtime looks at the first connected place of a type variable and at no other.
    for ports, kinds in ((operator.inputs, inputs), (operator.outputs, outputs)):
        for place, port in enumerate(ports):
            if name in (port.type, port.name) and place < len(kinds) and kinds[place] != "":
                return kinds[place]
    return None
