"""Ask the installed ONNX Runtime which models it takes.

Below `pyopnb.engine.runtime`, this is the only module that imports onnxruntime. The runtime is
asked, so that no table can go stale: it loads a model of one node with falling version numbers
until it accepts one, and it lists its operators and kernels.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import onnx
from onnx import NodeProto, TensorProto, TypeProto, helper

from pyopnb.engine.ops.op_names import canonical_domain

__all__ = [
    "Operator",
    "RuntimeKernel",
    "RuntimePort",
    "compares_int64",
    "has_op",
    "kernel_refusal",
    "kernels",
    "newest_ir_version",
    "newest_loaded_ir",
    "newest_opset",
    "newest_version",
    "operator_at",
    "operators",
    "port_at",
    "runtime_version",
    "schema_domains",
    "takes_empty",
]


_SIGNATURE = re.compile(
    # GCC and clang print the whole signature, MSVC the name alone.
    r".*(OpKernelInfo ?&\)|<lambda\(\)>|\[(?:with )?\w+ = [^]]*\])|^\S+:\d+ \S+(?= )",
    re.DOTALL,
)
"""In a text of the runtime, the file and the function that raised."""


def _loads(opset: int, ir_version: int, domain: str = "") -> bool:
    import onnxruntime

    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "trial", [x], [y])
    imports = [helper.make_opsetid(*entry) for entry in ({"": 7} | {domain: opset}).items()]
    model = helper.make_model(graph, opset_imports=imports, ir_version=ir_version)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        onnxruntime.InferenceSession(
            model.SerializeToString(),
            options,
            providers=["CPUExecutionProvider"],
            enable_fallback=0,
        )
    except Exception:
        # The runtime exceptions have no common base class; any of them means no.
        return False
    return True


@cache
def newest_ir_version() -> int:
    """Return the newest IR version that onnxruntime loads and onnx writes, as installed."""
    return next((n for n in range(onnx.IR_VERSION, 3, -1) if _loads(7, n)), 3)


@cache
def newest_loaded_ir() -> int:
    """Return the newest IR version that the installed onnxruntime loads.

    The installed onnx need not write it yet.
    """
    newest = newest_ir_version()
    while _loads(7, newest + 1):
        newest += 1
    return newest


def runtime_version() -> str:
    """Return the version of the installed onnxruntime, whether for the CPU or another device."""
    import onnxruntime

    return str(onnxruntime.__version__)


def kernel_refusal(node: NodeProto, types: Sequence[TypeProto], version: int) -> str:
    """Return why the runtime kernel of a node cannot be made; empty where it can.

    Parameters
    ----------
    node : NodeProto
        Of the ONNX domain. Only its attributes are looked at, and which inputs it has.
    types : sequence of TypeProto
        Types of the inputs.
    version : int
        Of the ONNX operators.
    """
    import onnxruntime

    alone = NodeProto(op_type=node.op_type, attribute=node.attribute)
    alone.input.extend(f"x{place}" if name else "" for place, name in enumerate(node.input))
    alone.output.extend(f"y{place}" if name else "" for place, name in enumerate(node.output))
    inputs = []
    for name, type_ in zip(alone.input, types, strict=True):
        if name:
            inputs.append(onnx.ValueInfoProto(name=name, type=type_))
    outputs = [onnx.ValueInfoProto(name=name) for name in alone.output if name]
    graph = helper.make_graph([alone], "alone", inputs, outputs)
    imports = [helper.make_opsetid("", version)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=newest_ir_version())
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
    except Exception as error:
        # Any other text is about the node itself, which is for the runtime to refuse.
        _, found, said = str(error).partition("Exception during initialization: ")
        return _SIGNATURE.sub("", said).strip() if found else ""
    return ""


@cache
def takes_empty() -> bool:
    """Tell whether kernels of the installed onnxruntime can be trusted with empty tensors.

    Trying it may end the process, so the version decides. In 1.25 TopK divides by the number of
    elements, and MatMul leaves its result uninitialized. 1.32 was tried and does neither.
    """
    import onnxruntime

    major, minor = onnxruntime.__version__.split(".")[:2]
    return (int(major), int(minor)) >= (1, 32)


@cache
def compares_int64() -> bool:
    """Tell whether Max and Min of the installed onnxruntime compare all 64 bits of int64.

    In 1.25 they compare the lower 32 bits where an input has more than one element; 1.32
    compares all of them.
    """
    import onnxruntime

    x, y, z = (helper.make_tensor_value_info(name, TensorProto.INT64, [64]) for name in "xyz")
    graph = helper.make_graph([helper.make_node("Max", ["x", "y"], ["z"])], "trial", [x, y], [z])
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=newest_ir_version()
    )
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    # The lower half of this number is -1, which is less than 0.
    large = np.full(64, 2**32 - 1, np.int64)
    (result,) = session.run(None, {"x": large, "y": np.zeros(64, np.int64)})
    return bool((result == large).all())


@cache
def newest_opset() -> int:
    """Return the newest version of the ONNX operators that onnxruntime loads and onnx knows.

    Both as installed.
    """
    return next(
        (n for n in range(onnx.defs.onnx_opset_version(), 7, -1) if _loads(n, newest_ir_version())),
        7,
    )


def has_op(domain: str, op_type: str) -> bool:
    """Tell whether the installed onnxruntime has an operator, in any version."""
    return (domain, op_type) in operators()


@cache
def schema_domains() -> dict[str, int]:
    """Return the domains of the installed onnxruntime operators.

    Returns
    -------
    dict of str to int
        The newest version in which an operator of the domain changed.
    """
    newest: dict[str, int] = {}
    for (domain, _), rows in operators().items():
        newest[domain] = max(newest.get(domain, 1), rows[-1].since)
    return newest


@cache
def newest_version(domain: str) -> int | None:
    """Return the newest version of a domain that the installed onnxruntime loads.

    The runtime lists operators of versions that it does not load yet, and may load versions that
    the installed onnx lacks.

    Returns
    -------
    int or None
        None if the runtime has no operator of that domain.
    """
    domain = canonical_domain(domain)
    # The list of operators gives the upper end; loading a model decides.
    listed = schema_domains().get(domain)
    if listed is None:
        return None
    return next((n for n in range(listed, 0, -1) if _loads(n, newest_ir_version(), domain)), 1)


@dataclass(frozen=True, slots=True)
class RuntimePort:
    """An input or output of one of the runtime operators.

    Attributes
    ----------
    type : str
        A type variable (``T``), or a type in the runtime notation (``tensor(int64)``).
    takes : frozenset of str
        The types that it takes, in the runtime notation.
    variadic : bool
        Whether it takes all further inputs or outputs.
    homogeneous : bool
        Whether all of a variadic port have the same type.
    """

    name: str
    type: str
    takes: frozenset[str]
    variadic: bool
    homogeneous: bool


@dataclass(frozen=True, slots=True)
class Operator:
    """One version of an operator that the runtime knows, with or without a kernel.

    Attributes
    ----------
    since : int
        The version of the domain that it came with.
    """

    domain: str
    op_type: str
    since: int
    inputs: tuple[RuntimePort, ...]
    outputs: tuple[RuntimePort, ...]
    attributes: frozenset[str]
    deprecated: bool


@dataclass(frozen=True, slots=True)
class RuntimeKernel:
    """A kernel for the CPU.

    Attributes
    ----------
    first, last : int
        The versions of the domain that it serves.
    takes : tuple of (str, frozenset of str)
        Type variables or names of ports, and the types that they may be.
    """

    first: int
    last: int
    takes: tuple[tuple[str, frozenset[str]], ...]

    def serves(self, since: int) -> bool:
        """Tell whether it serves the version of an operator that came with a version of the domain.

        A kernel without a last version serves only its first one: a later one may
        have another meaning.
        """
        return self.first == since or (self.first < since <= self.last != _NO_END)


_NO_END = 2**31 - 1


@cache
def kernels() -> Mapping[tuple[str, str], tuple[RuntimeKernel, ...]]:
    """Return the CPU kernels of the installed onnxruntime.

    Returns
    -------
    mapping of (str, str) to tuple of RuntimeKernel
        By domain and op type.
    """
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    by_name: dict[tuple[str, str], list[RuntimeKernel]] = {}
    for row in state.get_all_opkernel_def():
        if row.provider == "CPUExecutionProvider":
            takes = tuple(
                (name, frozenset(types)) for name, types in sorted(row.type_constraints.items())
            )
            by_name.setdefault((row.domain, row.op_name), []).append(
                RuntimeKernel(row.version_range[0], row.version_range[1], takes)
            )
    return {key: tuple(rows) for key, rows in by_name.items()}


@cache
def operators() -> Mapping[tuple[str, str], tuple[Operator, ...]]:
    """Return the operators that the installed onnxruntime knows.

    Returns
    -------
    mapping of (str, str) to tuple of Operator
        By domain and op type, the oldest version first.
    """
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    by_name: dict[tuple[str, str], list[Operator]] = {}
    for row in sorted(state.get_all_operator_schema(), key=lambda row: row.since_version):
        inputs, outputs = (tuple(map(_port, ports)) for ports in (row.inputs, row.outputs))
        operator = Operator(
            row.domain,
            row.name,
            row.since_version,
            inputs,
            outputs,
            frozenset(row.attributes),
            bool(row.deprecated),
        )
        by_name.setdefault((row.domain, row.name), []).append(operator)
    return {key: tuple(rows) for key, rows in by_name.items()}


def _port(row: Any) -> RuntimePort:
    variadic = row.option == type(row.option).Variadic
    return RuntimePort(
        row.name, row.typeStr, frozenset(row.types), variadic, bool(row.isHomogeneous)
    )


def operator_at(domain: str, op_type: str, version: int) -> Operator | None:
    """Return an operator in a version of its domain.

    Returns
    -------
    Operator or None
        None if the domain does not have it in that version.
    """
    rows = operators().get((domain, op_type), ())
    return next((row for row in reversed(rows) if row.since <= version), None)


def port_at(ports: Sequence[RuntimePort], place: int) -> RuntimePort | None:
    """Return the port of the n-th input or output; None where the operator has fewer."""
    if place < len(ports):
        return ports[place]
    if ports and ports[-1].variadic:
        return ports[-1]
    return None
