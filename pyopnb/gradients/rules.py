"""The reverse rules that hold while `grad` works: those of our ops, those of onnx-ad, and refusals for the rest.

onnx-ad looks a rule up by the op type alone, whatever the domain. So each node that is not one of ONNX's own operators gets an
op type of its own meanwhile. Nothing is registered with onnx-ad, and nothing in its modules is changed, which would need a
lock: the functions of its reverse pass are bound anew, to find this table where they look for their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from onnx import ModelProto, NodeProto
from onnx_ad import UnsupportedOperator, _passes
from onnx_ad._build import FLOAT_TYPES
from onnx_ad.rules import REVERSE, ZERO_DERIVATIVE

from pyopnb.errors import ModelError
from pyopnb.gradients import mends
from pyopnb.gradients.limits import bound
from pyopnb.models.nodes import first_output, full_name, walk
from pyopnb.ops.messages import sanitize
from pyopnb.ops.names import canonical_domain, split_name
from pyopnb.ops.op import Op
from pyopnb.ops.registry import registry
from pyopnb.ops.schema import Schema

__all__ = ["Rules"]

_DOMAIN = "pyopnb.gradients"

_Rule = Callable[[Any, NodeProto, Sequence[Any]], Any]

_NO_PATH: Mapping[str, tuple[int, ...]] = {
    "CastLike": (1,),
    "Dropout": (1,),
    "Pow": (),
}
"""Floating-point inputs whose values have no influence on the outputs, and for which a rule may give nothing."""


class Rules(Mapping[str, _Rule]):
    """The rules for one model, by op type.

    Parameters
    ----------
    model : ModelProto
        It is changed: nodes of other domains than ONNX's, and those that an op of the registry serves, get op types of their
        own.

    Attributes
    ----------
    reverse_nodes : callable
        onnx-ad's reverse pass over nodes, by these rules, in bodies as well.
    """

    def __init__(self, model: ModelProto) -> None:
        self._nodes: dict[str, NodeProto] = {}
        self._ops: dict[str, Op | None] = {}
        for site in list(walk(model)):
            op = registry.find(site.node.domain, site.node.op_type)
            if op is not None or canonical_domain(site.node.domain):
                self._rename(site.node, op)
        self.reverse_nodes: Callable[..., Any] = bound(_passes.reverse_nodes, REVERSE=self)
        self._control = {
            op_type: bound(rule, reverse_nodes=self.reverse_nodes)
            for op_type, rule in REVERSE.items()
            if "reverse_nodes" in getattr(getattr(rule, "__code__", None), "co_names", ())
        }

    def _rename(self, node: NodeProto, op: Op | None) -> None:
        alias = f"n{len(self._nodes)}"
        original = NodeProto()
        original.CopyFrom(node)
        self._nodes[alias], self._ops[alias] = original, op
        node.domain, node.op_type = _DOMAIN, alias

    def restore(self, model: ModelProto) -> None:
        """Give nodes their op types again, and make those that stand for gradients nodes of the gradient ops."""
        for site in walk(model):
            if site.node.domain == _DOMAIN:
                alias, grad, _ = site.node.op_type.partition("Grad")
                original, op = self._nodes[alias], self._ops[alias]
                if grad and op is not None and op.current.gradient is not None:
                    site.node.domain, site.node.op_type = split_name(op.current.gradient.op)
                else:
                    site.node.domain, site.node.op_type = original.domain, original.op_type

    def where(self, node: NodeProto) -> str:
        """A node as messages name it."""
        shown = NodeProto()
        shown.CopyFrom(node)
        if node.domain == _DOMAIN:
            shown.domain, shown.op_type = (
                self._nodes[node.op_type].domain,
                self._nodes[node.op_type].op_type,
            )
        name = (
            f"node '{sanitize(node.name)}'"
            if node.name
            else f"the node of output '{sanitize(first_output(node))}'"
        )
        return f"{name} ({sanitize(full_name(shown))})"

    def __contains__(self, op_type: object) -> bool:
        return True  # a refusal for what is not there

    def __iter__(self) -> Iterator[str]:
        return iter(REVERSE)

    def __len__(self) -> int:
        return len(REVERSE)

    def __getitem__(self, op_type: str) -> _Rule:
        def apply(ctx: Any, node: NodeProto, grads: Sequence[Any]) -> Any:
            return self._apply(op_type, ctx, node, grads)

        return apply

    def check(self, ctx: Any, node: NodeProto) -> None:
        """Refuse a node between ``wrt`` and the loss that has no rule, or whose outputs have unknown ranks.

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
                    got="none that the model, a hint or infer tells",
                    next="def infer(self, x): return x"
                    if node.domain == _DOMAIN
                    else "declare the shapes of the inputs",
                )

    def _apply(self, op_type: str, ctx: Any, node: NodeProto, grads: Sequence[Any]) -> Any:
        try:
            if node.domain == _DOMAIN:
                return self._of_op(ctx, node, grads)
            self.check(ctx, node)
            mends.refuse(ctx, node)
            contributions = self._rule(op_type)(ctx, node, grads)
        except (UnsupportedOperator, mends.Refused) as error:
            raise self._refusal(node, sanitize(str(error))) from None
        except ModelError:
            raise
        except Exception as error:  # a rule of onnx-ad's that does not expect the node
            raise self._refusal(
                node, f"{type(error).__name__} in onnx-ad's rule: {sanitize(error, 100)}"
            ) from error
        if (
            type(contributions) is list
        ):  # of control flow: pairs, each from a rule that was asked inside
            self._check_complete(ctx, node, contributions)
        return contributions

    def _rule(self, op_type: str) -> _Rule:
        return mends.RULES.get(op_type) or self._control.get(op_type) or REVERSE[op_type]

    def _check_complete(self, ctx: Any, node: NodeProto, contributions: Sequence[Any]) -> None:
        """Refuse a rule that has nothing for an input that the outputs depend on: it would count as zero."""
        if node.op_type in ZERO_DERIVATIVE:
            return
        for place, name in enumerate(node.input):
            given = contributions[place] if place < len(contributions) else None
            if name in ctx.wanted and given is None and place not in _NO_PATH.get(node.op_type, ()):
                if _only_integers(ctx, node):
                    continue
                raise self._refusal(
                    node, f"onnx-ad's rule gives nothing for input '{sanitize(name)}'"
                )

    def _refusal(self, node: NodeProto, got: str) -> ModelError:
        name = self._nodes[node.op_type].op_type if node.domain == _DOMAIN else node.op_type
        return ModelError(
            f"{self.where(node)}, gradient",
            expected="an op with a gradient, between wrt and the loss",
            got=got,
            next=f'pyopnb.replace(model, "{sanitize(name)}", "…") with an op whose class has backward',
        )

    # ---- our ops ---------------------------------------------------------------------------------------------------------

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
                next="def backward(self, inputs, outputs, grads): … returns a gradient of each input",
            )
        if _is_variadic(schema) and schema.outputs is None and len(node.output) > 1:
            raise self._refusal(
                node,
                f"{len(node.output)} outputs without a return hint of compute, beside variadic inputs",
            )
        return op

    def _of_op(self, ctx: Any, node: NodeProto, grads: Sequence[Any]) -> list[Any]:
        schema = self._check_op(node).current.schema
        variadic = _is_variadic(schema)
        inputs = [*node.input, *[""] * (0 if variadic else len(schema.inputs) - len(node.input))]
        outputs = [name for name in node.output if name]
        given = [grad for name, grad in zip(node.output, grads, strict=True) if name]
        adjoints = [
            "" if grad is None else ctx.squeeze(ctx.full(grad, name), [ctx.rank(name)])
            for name, grad in zip(outputs, given, strict=True)
        ]
        wanted = [bool(name) and name in ctx.wanted for name in inputs]
        # A variadic op's gradient op returns as many as its node has.
        names = [
            ctx.b.name(f"grad_of_{name}") if want or variadic else ""
            for name, want in zip(inputs, wanted, strict=True)
        ]
        made = NodeProto(
            op_type=f"{node.op_type}Grad",
            domain=_DOMAIN,
            name=f"{node.name}_grad" if node.name else None,
        )
        made.input.extend([*inputs, *outputs, *adjoints])
        made.output.extend(
            names[: max((place + 1 for place, name in enumerate(names) if name), default=0)]
        )
        made.attribute.extend(node.attribute)
        ctx.b.nodes.append(made)
        return [
            ctx.unsqueeze(grad, [ctx.rank(name)]) if want else None
            for name, grad, want in zip(inputs, names, wanted, strict=True)
        ][: len(node.input)]


def _is_variadic(schema: Schema) -> bool:
    return bool(schema.inputs) and schema.inputs[-1].variadic


def _only_integers(ctx: Any, node: NodeProto) -> bool:
    """Whether no output of a node can carry a gradient."""
    return not any(name and ctx.shapes.dtype(name) in FLOAT_TYPES for name in node.output)
