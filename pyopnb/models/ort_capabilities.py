"""What the installed ONNX Runtime can take, asked of itself: the one module of this room that imports onnxruntime.

There is no table here that could go stale. A one-node model is offered to the runtime with the newest version number that
there can be, then with lower ones, until it is taken; its operators and kernels the runtime lists itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import onnx
from onnx import TensorProto, helper

from pyopnb.ops.registry import canonical_domain

__all__ = [
    "Kernel",
    "Operator",
    "Port",
    "has_op",
    "kernels",
    "newest_ir_version",
    "newest_opset",
    "newest_version",
    "operator_at",
    "operators",
    "schema_domains",
]


def _taken(opset: int, ir_version: int, domain: str = "") -> bool:
    import onnxruntime

    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "trial", [x], [y])
    imports = [helper.make_opsetid(*entry) for entry in ({"": 7} | {domain: opset}).items()]
    model = helper.make_model(graph, opset_imports=imports, ir_version=ir_version)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"], enable_fallback=0)
    except Exception:  # the runtime's own exception types share no base class; any refusal is the answer no
        return False
    return True


@cache
def newest_ir_version() -> int:
    """The newest IR version that the installed onnxruntime loads and the installed onnx writes."""
    return next((n for n in range(onnx.IR_VERSION, 3, -1) if _taken(7, n)), 3)


@cache
def newest_opset() -> int:
    """The newest version of ONNX's own operators that the installed onnxruntime loads and the installed onnx knows."""
    return next((n for n in range(onnx.defs.onnx_opset_version(), 7, -1) if _taken(n, newest_ir_version())), 7)


@cache
def _ops() -> frozenset[tuple[str, str]]:
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    return frozenset((schema.domain, schema.name) for schema in state.get_all_operator_schema())


def has_op(domain: str, op_type: str) -> bool:
    """Whether the installed onnxruntime brings that operator, in any version."""
    return (domain, op_type) in _ops()


@cache
def schema_domains() -> dict[str, int]:
    """The domains whose operators the installed onnxruntime brings, with the newest version in which one changed."""
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    newest: dict[str, int] = {}
    for schema in state.get_all_operator_schema():
        newest[schema.domain] = max(newest.get(schema.domain, 1), schema.since_version)
    return newest


@cache
def newest_version(domain: str) -> int | None:
    """The newest version of a domain that the installed onnxruntime loads; None for a domain of which it has no operator.

    The runtime lists operators of versions that it does not take yet, and may take one that the installed onnx does not know.
    """
    domain = canonical_domain(domain)
    listed = schema_domains().get(domain)
    if listed is None:
        return None
    return next((n for n in range(listed, 0, -1) if _taken(n, newest_ir_version(), domain)), 1)


@dataclass(frozen=True, slots=True)
class Port:
    """An input or output of one of the runtime's operators.

    Attributes
    ----------
    name : str
    type : str
        The name of a type variable (``T``), or a type as the runtime writes it (``tensor(int64)``).
    takes : frozenset of str
        The types that may be there, as the runtime writes them.
    variadic : bool
        Whether it stands for all that follow.
    homogeneous : bool
        Whether all that a variadic port stands for have one type.
    """

    name: str
    type: str
    takes: frozenset[str]
    variadic: bool
    homogeneous: bool


@dataclass(frozen=True, slots=True)
class Operator:
    """One version of an operator that the runtime knows, with or without a kernel."""

    domain: str
    op_type: str
    since: int
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    attributes: frozenset[str]
    deprecated: bool


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel for the CPU.

    Attributes
    ----------
    first, last : int
        The versions of the operator that it serves.
    takes : tuple of (str, frozenset of str)
        Type variables, or names of ports, and the types that may stand there.
    """

    first: int
    last: int
    takes: tuple[tuple[str, frozenset[str]], ...]

    def serves(self, since: int) -> bool:
        """Whether it serves the version of an operator that came with that version of the domain.

        A kernel without an end serves the version that it names and no later one: that may mean something else.
        """
        return self.first == since or (self.first < since <= self.last != _NO_END)


_NO_END = 2**31 - 1


@cache
def kernels() -> Mapping[tuple[str, str], tuple[Kernel, ...]]:
    """The CPU kernels of the installed onnxruntime, by domain and op type."""
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    found: dict[tuple[str, str], list[Kernel]] = {}
    for row in state.get_all_opkernel_def():
        if row.provider == "CPUExecutionProvider":
            takes = tuple((name, frozenset(types)) for name, types in sorted(row.type_constraints.items()))
            found.setdefault((row.domain, row.op_name), []).append(Kernel(row.version_range[0], row.version_range[1], takes))
    return {key: tuple(rows) for key, rows in found.items()}


@cache
def operators() -> Mapping[tuple[str, str], tuple[Operator, ...]]:
    """The operators that the installed onnxruntime knows, by domain and op type, the oldest version first."""
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    found: dict[tuple[str, str], list[Operator]] = {}
    for row in sorted(state.get_all_operator_schema(), key=lambda row: row.since_version):
        inputs, outputs = (tuple(map(_port, ports)) for ports in (row.inputs, row.outputs))
        made = Operator(
            row.domain, row.name, row.since_version, inputs, outputs, frozenset(row.attributes), bool(row.deprecated)
        )
        found.setdefault((row.domain, row.name), []).append(made)
    return {key: tuple(rows) for key, rows in found.items()}


def _port(row: Any) -> Port:
    variadic = row.option == type(row.option).Variadic
    return Port(row.name, row.typeStr, frozenset(row.types), variadic, bool(row.isHomogeneous))


def operator_at(domain: str, op_type: str, version: int) -> Operator | None:
    """What the operator is in that version of its domain; None where it is not there yet."""
    rows = operators().get((domain, op_type), ())
    return next((row for row in reversed(rows) if row.since <= version), None)
