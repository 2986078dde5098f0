"""Find reverse rules while `grad` works: our ops', onnx-ad's, and refusals for all others.

onnx-ad looks a rule up by the op type alone, for every domain. So each node that is not one of
the ONNX operators gets an op type of its own meanwhile. Nothing is registered with onnx-ad, and
nothing in its modules is changed, which would need a lock: the functions of its reverse pass are
bound again, to find this table where they look for their own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from onnx import ModelProto, NodeProto
from onnx_ad import UnsupportedOperator, _passes
from onnx_ad._build import FLOAT_TYPES
from onnx_ad.rules import REVERSE, ZERO_DERIVATIVE

from pyopnb.engine.models.nodes import first_output, full_name, type_of_proto, walk
from pyopnb.engine.ops.messages import sanitize
from pyopnb.engine.ops.names import canonical_domain, split_name
from pyopnb.engine.ops.op import Op
from pyopnb.engine.ops.registry import registry
from pyopnb.engine.ops.schema import Schema
from pyopnb.errors import ModelError
from pyopnb.gradients import mends
from pyopnb.gradients.limits import bound

__all__ = ["Rules"]

_DOMAIN = "pyopnb.gradients"

_Rule = Callable[[Any, NodeProto, Sequence[Any]], Any]

_NO_PATH: Mapping[str, tuple[int, ...]] = {
    "CastLike": (1,),
    "Dropout": (1,),
    "Pow": (),
}
"""Positions of floating-point inputs without influence, for which a rule may give nothing."""


class Rules:
    """The rules for one model, by op type.

    Parameters
    ----------
    model : ModelProto
        It is changed: nodes of other domains than ONNX's, and nodes that an op of the registry
        serves, get op types of their own.

    Attributes
    ----------
    reverse_nodes : callable
        The reverse pass of onnx-ad over nodes, by these rules, also in bodies.
    """

    def __init__(self, model: ModelProto) -> None:
        self._free_input = _free_input(model)
        self._nodes: dict[str, NodeProto] = {}
        self._ops: dict[str, Op | None] = {}
        for site in list(walk(model)):
            op = registry.find(site.node.domain, site.node.op_type)
            if op is not None or canonical_domain(site.node.domain):
                self._rename(site.node, op)
        if self._nodes:
            # Shape inference gives up at a node of a domain that is not imported.
            model.opset_import.add(domain=_DOMAIN, version=1)
        self.reverse_nodes: Callable[..., Any] = bound(_passes.reverse_nodes, REVERSE=self)
        # Rules of If, Loop and Scan derive their bodies, which must also find this table.
        self._control: dict[str, _Rule] = {}
        for op_type, rule in REVERSE.items():
            code = getattr(rule, "__code__", None)
            if code is not None and "reverse_nodes" in code.co_names:
                self._control[op_type] = bound(rule, reverse_nodes=self.reverse_nodes)

    def _rename(self, node: NodeProto, op: Op | None) -> None:
        alias = f"n{len(self._nodes)}"
        original = NodeProto()
        original.CopyFrom(node)
        self._nodes[alias], self._ops[alias] = original, op
        node.domain, node.op_type = _DOMAIN, alias

    def restore(self, model: ModelProto) -> None:
        """Give nodes their op types back, and gradient nodes the type of a gradient op."""
        for position, entry in enumerate(model.opset_import):
            if entry.domain == _DOMAIN:
                del model.opset_import[position]
                break
        for site in walk(model):
            if site.node.domain != _DOMAIN:
                continue
            alias, grad, _ = site.node.op_type.partition("Grad")
            original, op = self._nodes[alias], self._ops[alias]
            site.node.domain, site.node.op_type = original.domain, original.op_type
            if grad and op is not None and op.current.gradient is not None:
                site.node.domain, site.node.op_type = split_name(op.current.gradient.op)

    def _original(self, node: NodeProto) -> NodeProto:
        return self._nodes[node.op_type] if node.domain == _DOMAIN else node

    def where(self, node: NodeProto) -> str:
        """Name a node as messages do."""
        name = f"the node of output '{sanitize(first_output(node))}'"
        if node.name:
            name = f"node '{sanitize(node.name)}'"
        return f"{name} ({sanitize(full_name(self._original(node)))})"

    def __contains__(self, op_type: object) -> bool:
        # For an op type that is not there, the rule is a refusal.
        return True

    def __getitem__(self, op_type: str) -> _Rule:
        return partial(self._apply, op_type)

    def check(self, ctx: Any, node: NodeProto) -> None:
        """Refuse a node between ``wrt`` and the loss that has no rule or outputs of unknown rank.

        Raises
        ------
        ModelError
        """
        if node.domain == _DOMAIN:
            self._check_op(node)
        elif node.op_type not in REVERSE and node.op_type not in mends.RULES:
            raise self._refusal(node, "no rule in onnx-ad, and no backward")
        for name in node.output:
            if name and ctx.is_float(name) and ctx.shapes.shape(name) is None:
                raise ModelError(
                    f"{self.where(node)}, output {sanitize(name)}",
                    expected="a known rank, for its gradient",
                    got="an unknown one",
                    next="declare the shapes of the inputs; in an op, def infer(self, x): return x",
                )

    def _apply(self, op_type: str, ctx: Any, node: NodeProto, grads: Sequence[Any]) -> Any:
        try:
            if node.domain == _DOMAIN:
                return self._of_op(ctx, node, grads)
            self.check(ctx, node)
            mends.refuse(ctx, node)
            ctx.node = node
            rule = mends.RULES.get(op_type) or self._control.get(op_type) or REVERSE[op_type]
            contributions = rule(ctx, node, grads)
        except (UnsupportedOperator, mends.Refused) as error:
            raise self._refusal(node, sanitize(str(error))) from None
        except ModelError:
            raise
        except Exception as error:
            # A rule of onnx-ad's that does not expect the node.
            got = f"{type(error).__name__} in onnx-ad's rule: {sanitize(error, 100)}"
            raise self._refusal(node, got) from error
        # Control flow gives pairs instead of a list, each from a rule that was asked inside.
        if type(contributions) is list:
            self._check_complete(ctx, node, contributions)
        return contributions

    def _check_complete(self, ctx: Any, node: NodeProto, contributions: Sequence[Any]) -> None:
        """Refuse a rule that gives nothing for an input with influence, which counts as zero."""
        if node.op_type in ZERO_DERIVATIVE or _only_integers(ctx, node):
            return
        without_influence = _NO_PATH.get(node.op_type, ())
        for position, name in enumerate(node.input):
            if name not in ctx.wanted or position in without_influence:
                continue
            if position >= len(contributions) or contributions[position] is None:
                got = f"onnx-ad's rule gives nothing for input '{sanitize(name)}'"
                raise self._refusal(node, got)

    def _refusal(self, node: NodeProto, got: str) -> ModelError:
        name = sanitize(self._original(node).op_type)
        advice = f'pyopnb.replace(model, "{name}", "…") with an op whose class has backward'
        if "declared" in got and self._free_input:
            tool = "onnxruntime.tools.onnx_model_utils.make_input_shape_fixed"
            advice = f"fixed sizes: {tool}(model.graph, {self._free_input})"
        return ModelError(
            f"{self.where(node)}, gradient",
            expected="an op with a gradient, between wrt and the loss",
            got=got,
            next=advice,
        )

    # ---- our ops -----------------------------------------------------------------------------

    def _check_op(self, node: NodeProto) -> Op:
        op = self._ops[node.op_type]
        if op is None:
            raise self._refusal(node, "no rule in onnx-ad, and no op in the registry")
        schema = op.current.schema
        if op.current.gradient is None:
            raise ModelError(
                f"{self.where(node)}, gradient",
                expected="backward in its class",
                got=f"{op.current}, which has none",
                next=(
                    "def backward(self, inputs, outputs, grads): … returns a gradient of each input"
                ),
            )
        if _is_variadic(schema) and schema.outputs is None and len(node.output) > 1:
            got = (
                f"{len(node.output)} outputs without a return hint of compute, "
                "beside variadic inputs"
            )
            raise self._refusal(node, got)
        return op

    def _of_op(self, ctx: Any, node: NodeProto, grads: Sequence[Any]) -> list[Any]:
        """Append a node of an op's gradient op, which takes inputs, outputs and their gradients."""
        schema = self._check_op(node).current.schema
        variadic = _is_variadic(schema)
        inputs = list(node.input)
        if not variadic:
            inputs += [""] * (len(schema.inputs) - len(inputs))
        outputs, adjoints = [], []
        for name, grad in zip(node.output, grads, strict=True):
            if name:
                outputs.append(name)
                adjoint = ""
                if grad is not None:
                    adjoint = ctx.squeeze(ctx.full(grad, name), [ctx.rank(name)])
                adjoints.append(adjoint)
        # The gradient op of a variadic op returns as many gradients as its node has inputs.
        names: list[str] = []
        contributions: list[Any] = []
        for name in inputs:
            is_wanted = bool(name) and name in ctx.wanted
            names.append(ctx.b.name(f"grad_of_{name}") if is_wanted or variadic else "")
            contributions.append(names[-1] if is_wanted else None)
        while names and not names[-1]:
            names.pop()
        gradient = NodeProto(op_type=f"{node.op_type}Grad", domain=_DOMAIN)
        if node.name:
            gradient.name = f"{node.name}_grad"
        gradient.input.extend([*inputs, *outputs, *adjoints])
        gradient.output.extend(names)
        gradient.attribute.extend(node.attribute)
        ctx.b.nodes.append(gradient)
        for position, name in enumerate(inputs):
            if contributions[position] is not None:
                contributions[position] = ctx.unsqueeze(contributions[position], [ctx.rank(name)])
        return contributions[: len(node.input)]


def _free_input(model: ModelProto) -> str:
    """Write an input whose shape is not fixed with a fixed one; empty if all are fixed."""
    for info in model.graph.input:
        shape = type_of_proto(info.type).shape or ()
        sizes = [size if isinstance(size, int) else 1 for size in shape]
        if sizes != list(shape):
            return f'"{sanitize(info.name)}", {sizes}'
    return ""


def _is_variadic(schema: Schema) -> bool:
    return bool(schema.inputs) and schema.inputs[-1].variadic


def _only_integers(ctx: Any, node: NodeProto) -> bool:
    """Tell whether no output of a node can carry a gradient."""
    dtypes = {ctx.shapes.dtype(name) for name in node.output if name}
    return not dtypes.intersection(FLOAT_TYPES)
