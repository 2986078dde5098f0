"""Run one node in ONNX Runtime, as a function of arrays.

It serves nodes of ops, and of operators that ONNX defines in words only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from onnx import GraphProto, NodeProto, TensorProto, TypeProto, ValueInfoProto, helper

from pyopnb.engine.models.model_files import ModelSource
from pyopnb.engine.models.ort_capabilities import newest_ir_version, newest_opset, newest_version
from pyopnb.engine.models.protos import first_output, type_proto
from pyopnb.engine.ops.op import Op
from pyopnb.engine.ops.op_names import canonical_domain
from pyopnb.engine.ops.op_sources import ReceivedOps
from pyopnb.engine.ops.types import TensorType, type_of
from pyopnb.engine.runtime.runtime_options import CPU, new_options
from pyopnb.engine.runtime.session.build import build_state
from pyopnb.engine.runtime.session.config import SessionConfig
from pyopnb.engine.runtime.session.session import Session
from pyopnb.engine.runtime.session.state import SessionState

__all__ = ["Kernel", "NodeKernel"]

Kernel = Callable[..., Sequence[Any]]
"""A function of a node's inputs that returns its outputs; None means that one is left out."""

_KEYS: dict[type, int] = {str: TensorProto.STRING, int: TensorProto.INT64}
_ITEMS: dict[type, int] = {
    str: TensorProto.STRING,
    int: TensorProto.INT64,
    float: TensorProto.FLOAT,
}


class NodeKernel:
    """A node in sessions of its own, one for each combination of input types that it meets.

    Parameters
    ----------
    node : NodeProto
        Without bodies, unless an op runs it.
    versions : mapping
        Of the domains that the model imports.
    op : Op, optional
        The op that runs the node.
    short : bool
        Whether sessions are kept for short runs: without optimization and spinning threads.
    """

    def __init__(
        self,
        node: NodeProto,
        versions: Mapping[str, int],
        op: Op | None = None,
        *,
        short: bool = False,
    ) -> None:
        self._op, self._short = op, short or op is not None
        self._node = NodeProto()
        self._node.CopyFrom(node)
        # Messages name the node as the model does, although its outputs have other names here.
        self._node.name = node.name or first_output(node)
        # Name the outputs by position, so that none has the name of an input. Omitted outputs stay
        # omitted.
        self._node.output[:] = [
            f"y{number}" if name else "" for number, name in enumerate(node.output)
        ]
        # ONNX Runtime runs nothing if it is asked for no output, but an input can be an output.
        self._outputs = list(filter(None, self._node.output)) or ["x0"]
        domain = canonical_domain(node.domain)
        imports = {"": versions.get("", 1), domain: versions.get(domain, 1)}
        if op is not None:
            # A graph among its attrs may use any of the domains.
            imports = {domain: op.current.opset, "": newest_opset(), **versions}
        self._imports = [
            helper.make_opsetid(d, min(v, newest_version(d) or v)) for d, v in imports.items()
        ]
        self._sessions: dict[Any, Session] = {}

    def __call__(self, *inputs: Any) -> Sequence[Any]:
        """Run the node; None means an omitted input or output.

        Raises
        ------
        Exception
            The exception of ONNX Runtime, as from a `Session`.
        """
        __tracebackhide__ = True
        return self.run(self.session(inputs), inputs)

    def run(self, session: Session, inputs: Sequence[Any]) -> Sequence[Any]:
        """Run the node in the session that `session` returned for inputs of these types."""
        __tracebackhide__ = True
        feeds = {f"x{n}": value for n, value in enumerate(inputs) if value is not None}
        results = dict(zip(self._outputs, session.run(self._outputs, feeds), strict=True))
        return [results.get(name) for name in self._node.output]

    def session(self, inputs: Sequence[Any]) -> Session:
        """Return the session for inputs of these types, which is made for the first of them."""
        __tracebackhide__ = True
        # The key has no sizes, so batches of several sizes share a session.
        key = tuple(map(_key, inputs))
        session = self._sessions.get(key)
        if session is None:
            # Another thread may have been faster, and an op has one instance a node.
            session = self._sessions.setdefault(key, self._session(inputs))
        return session

    def _session(self, inputs: Sequence[Any]) -> Session:
        __tracebackhide__ = True
        types = {f"x{n}": _type(value) for n, value in enumerate(inputs) if value is not None}
        node = NodeProto()
        node.CopyFrom(self._node)
        node.input[:] = ["" if value is None else f"x{n}" for n, value in enumerate(inputs)]
        if self._op is not None:
            # The sizes have names, as in most models, for which `infer` of an op is written.
            dims = [dim for type_ in types.values() for dim in type_.tensor_type.shape.dim]
            for number, dim in enumerate(dims):
                dim.dim_param = f"N{number}"
        graph = GraphProto(
            name="alone",
            node=[node],
            input=[ValueInfoProto(name=name, type=type_) for name, type_ in types.items()],
            output=[ValueInfoProto(name=name) for name in self._outputs],
        )
        model = helper.make_model(
            graph, opset_imports=self._imports, ir_version=newest_ir_version()
        )
        # Optimizing a single node gains nothing, and a Python op has no use for threads.
        threads = 0 if self._op is None else 1
        options = new_options("no" if self._short else "all", threads=threads)
        if self._short:
            # Many sessions are kept: their idle threads must not spin.
            options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        # The op itself, which the registry may not have, or not in this version. Without one,
        # an op that has the operator's name does not come in place of the kernel.
        ops = ReceivedOps([] if self._op is None else [self._op], {})
        config = SessionConfig(options, [CPU], None, {}, frozenset(), ops=ops)

        def build() -> SessionState:
            __tracebackhide__ = True
            return build_state(config, ModelSource(model))

        return Session._with_state((), (), build)


def _key(value: Any) -> Any:
    """Make a dictionary key of the type of a value."""
    if isinstance(value, np.ndarray):
        return value.dtype, value.ndim
    return None if value is None else _type(value).SerializeToString()


def _type(value: Any) -> TypeProto:
    """Return the type of a value, without the sizes of a tensor."""
    # An empty sequence does not show its element type; float is as good as any.
    if isinstance(value, list):
        return helper.make_sequence_type_proto(
            _type(value[0]) if value else helper.make_tensor_type_proto(1, None)
        )
    if isinstance(value, dict):
        key, item = next(iter(value.items()), ("", 0.0))
        return helper.make_map_type_proto(
            _KEYS[type(key)], helper.make_tensor_type_proto(_ITEMS[type(item)], [])
        )
    tensor_type = type_of(np.asarray(value))
    return type_proto(
        TensorType(tensor_type.dtype, tensor_type.shape and (None,) * len(tensor_type.shape))
    )
