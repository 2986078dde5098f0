"""Find reverse rules while `grad` works: for our ops, from onnx-ad, and refusals for all others.

onnx-ad looks a rule up by the op type alone, for every domain, in one table of the process. So
each node that is not one of the ONNX operators gets an op type of its own meanwhile, and for each
op type a rule is registered once that asks the `Rules` of the `grad` that it works for. For all
other callers of onnx-ad, it is the rule that was there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import onnx
from onnx import ModelProto, NodeProto, TensorProto, TypeProto, helper
from onnx_ad import UnsupportedOperator
from onnx_ad.rules import REVERSE, ZERO_DERIVATIVE, reverse_rule

from pyopnb.common import sanitize
from pyopnb.engine import Op, op_names, op_schema, protos, registry
from pyopnb.errors import ModelError
from pyopnb.gradients import mends
from pyopnb.gradients.sizes import NamedSizes, SizedContext

__all__ = ["FLOATS", "Rules"]

FLOATS = (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16)
"""Types that carry a gradient."""

_DOMAIN = "pyopnb.gradients"
_NODE = "PyopnbNode"
_NUMBER = "pyopnb_number"
_GRADIENT = "PyopnbGradient"

_NO_PATH: Mapping[str, tuple[int, ...]] = {
    "CastLike": (1,),
    "Dropout": (1,),
    "Pow": (),
}
"""Positions of floating-point inputs without influence, for which a rule may give nothing."""


class Rules:
    """The rules for one model.

    Parameters
    ----------
    model : ModelProto
        It is changed: nodes of other domains, and nodes that an op of the registry
        serves, get an op type of their own.
    types : mapping of str to TypeProto
        The types of its tensors.
    """

    def __init__(self, model: ModelProto, types: Mapping[str, TypeProto]) -> None:
        self._free_input = _free_input(model)
        self._path: Sequence[NodeProto] = ()
        self._nodes: list[tuple[str, str, Op | None]] = []
        results: list[str] = []
        for site in list(protos.walk(model)):
            op = registry.find(site.node.domain, site.node.op_type)
            is_onnx = (
                not op_names.canonical_domain(site.node.domain) and site.node.op_type in REVERSE
            )
            if op is not None or not is_onnx:
                self.hide(site.node, op)
                results += site.node.output
        self.sizes = NamedSizes(types, results)
        # Shape inference gives up at a node of a domain that is not imported.
        model.opset_import.add(domain=_DOMAIN, version=1)

    def hide(self, node: NodeProto, op: Op | None = None) -> None:
        """Give a node an op type of its own, which onnx-ad neither evaluates nor expands."""
        number = helper.make_attribute(_NUMBER, len(self._nodes))
        self._nodes.append((node.domain, node.op_type, op))
        # One op type for all, as a rule is registered for good; the number tells them apart.
        node.domain, node.op_type = _DOMAIN, _NODE
        node.attribute.append(number)

    @contextmanager
    def used(self, path: Sequence[NodeProto]) -> Iterator[None]:
        """Have onnx-ad find these rules, for the nodes between ``wrt`` and the loss."""
        self._path = path
        token = _rules.set(self)
        try:
            yield
        finally:
            _rules.reset(token)

    def restore(self, model: ModelProto) -> None:
        """Give nodes their op types back, and gradient nodes the type of a gradient op."""
        for position, entry in enumerate(model.opset_import):
            if entry.domain == _DOMAIN:
                del model.opset_import[position]
                break
        for site in protos.walk(model):
            node = site.node
            if node.domain != _DOMAIN:
                continue
            is_gradient = node.op_type == _GRADIENT
            node.domain, node.op_type, op = self._take_number(node)
            if is_gradient and op is not None and op.current.gradient is not None:
                node.domain, node.op_type = op_names.split_name(op.current.gradient.op)

    def _take_number(self, node: NodeProto) -> tuple[str, str, Op | None]:
        number = 0
        for position, attribute in enumerate(node.attribute):
            if attribute.name == _NUMBER:
                number = attribute.i
                del node.attribute[position]
                break
        return self._nodes[number]

    def _original(self, node: NodeProto) -> tuple[NodeProto, Op | None]:
        # onnx-ad may have renamed its inputs, as in the branch of an If that is always taken.
        if node.domain != _DOMAIN:
            return node, None
        original = NodeProto()
        original.CopyFrom(node)
        original.domain, original.op_type, op = self._take_number(original)
        return original, op

    def where(self, node: NodeProto) -> str:
        """Name a node as messages do."""
        name = f"the node of output '{sanitize(protos.first_output(node))}'"
        if node.name:
            name = f"node '{sanitize(node.name)}'"
        return f"{name} ({sanitize(protos.full_name(self._original(node)[0]))})"

    def apply(self, ctx: Any, node: NodeProto, grads: Sequence[Any]) -> Any:
        """Derive a node, or refuse it."""
        # onnx-ad begins at the loss, where ranks are unknown because of nodes before it.
        path, self._path = self._path, ()
        for earlier in (*path, node):
            self._check_ranks(ctx, earlier)
        # A rule of If, Loop or Scan hands its context on.
        if not protos.bodies(node):
            ctx = SizedContext(ctx, node, self.sizes)
        try:
            if node.domain == _DOMAIN:
                return self._of_op(ctx, node, grads)
            rule = _ONNX_AD.get(node.op_type)
            if rule is None:
                raise mends.Refused(_NO_RULE)
            mends.refuse(ctx, node)
            mend = mends.RULES.get(node.op_type)
            contributions = mend(rule, ctx, node, grads) if mend else rule(ctx, node, grads)
        except (UnsupportedOperator, mends.Refused) as error:
            raise self._refusal(node, sanitize(str(error))) from None
        except ModelError:
            raise
        except Exception as error:
            # A rule of onnx-ad that does not expect the node.
            got = f"{type(error).__name__} in the rule of onnx-ad: {sanitize(error, 100)}"
            raise self._refusal(node, got) from error
        # Control flow gives pairs instead of a list, each from a rule that was asked inside.
        if type(contributions) is list:
            self._check_complete(ctx, node, contributions)
        return contributions

    def _check_ranks(self, ctx: Any, node: NodeProto) -> None:
        """Refuse a node with outputs of unknown rank."""
        if node.domain == _DOMAIN:
            self._check_op(node)
        for name in node.output:
            # A sequence counts as a float of unknown rank: onnx-ad knows tensors only.
            if name and ctx.is_float(name) and ctx.shapes.shape(name) is None:
                if node.domain != _DOMAIN and node.op_type not in _ONNX_AD:
                    raise self._refusal(node, _NO_RULE)
                raise ModelError(
                    f"{self.where(node)}, output {name}",
                    expected="a known rank, for its gradient",
                    got="an unknown one",
                    next="declare the shapes of the inputs; in an op, def infer(self, x): return x",
                )

    def _check_complete(self, ctx: Any, node: NodeProto, contributions: Sequence[Any]) -> None:
        """Refuse a rule that gives nothing for an input with influence, which counts as zero."""
        if node.op_type in ZERO_DERIVATIVE or _only_integers(ctx, node):
            return
        without_influence = _NO_PATH.get(node.op_type, ())
        for position, name in enumerate(node.input):
            if name not in ctx.wanted or position in without_influence:
                continue
            if position >= len(contributions) or contributions[position] is None:
                got = f"the rule of onnx-ad gives nothing for input '{sanitize(name)}'"
                raise self._refusal(node, got)

    def _refusal(self, node: NodeProto, got: str) -> ModelError:
        name = sanitize(self._original(node)[0].op_type)
        advice = f'pyopnb.replace(model, "{name}", "…") with an op whose class has backward'
        # Where the rule lacks a size only, fixing that of an input is less work than an op.
        if "declared" in got and self._free_input:
            tool = "onnxruntime.tools.onnx_model_utils.make_input_shape_fixed"
            advice = f"fixed sizes: {tool}(model.graph, {self._free_input})"
        return ModelError(
            f"{self.where(node)}, gradient",
            expected="an op with a gradient, between wrt and the loss",
            got=got,
            next=advice,
        )

    # ---- our ops ---------------------------------------------------------------------------------

    def _check_op(self, node: NodeProto) -> Op:
        _, op = self._original(node)
        if op is None:
            raise self._refusal(node, "no rule in onnx-ad, and no op in the registry")
        # What follows concerns nodes between wrt and the loss: all others need no backward.
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
            # An output that is left out tells backward's op that nothing reads this gradient.
            names.append(ctx.b.name(f"grad_of_{name}") if is_wanted or variadic else "")
            contributions.append(names[-1] if is_wanted else None)
        while names and not names[-1]:
            names.pop()
        gradient = NodeProto(op_type=_GRADIENT, domain=_DOMAIN)
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
        shape = protos.type_of_proto(info.type).shape or ()
        sizes = [size if isinstance(size, int) else 1 for size in shape]
        if sizes != list(shape):
            return f'"{sanitize(info.name)}", {sizes}'
    return ""


def _is_variadic(schema: op_schema.Schema) -> bool:
    return bool(schema.inputs) and schema.inputs[-1].variadic


def _only_integers(ctx: Any, node: NodeProto) -> bool:
    """Tell whether no output of a node can carry a gradient."""
    dtypes = {ctx.shapes.dtype(name) for name in node.output if name}
    return not dtypes.intersection(FLOATS)


# ---- the table of onnx-ad ------------------------------------------------------------------------

_ONNX_AD: Mapping[str, mends.Rule] = dict(REVERSE)
_NO_RULE = "no rule in onnx-ad, and no backward"
_rules: ContextVar[Rules | None] = ContextVar("pyopnb.gradients.rules", default=None)


def _derive(ctx: Any, node: NodeProto, grads: Sequence[Any]) -> Any:
    rules = _rules.get()
    if rules is not None:
        return rules.apply(ctx, node, grads)
    rule = _ONNX_AD.get(node.op_type)
    if rule is None:
        raise UnsupportedOperator(f"no reverse rule for {node.op_type}")
    return rule(ctx, node, grads)


# Also the operators without a rule: onnx-ad would name one that it has met, and no advice.
_operators = {schema.name for schema in onnx.defs.get_all_schemas() if not schema.domain}
reverse_rule(_NODE, *_operators, *_ONNX_AD)(_derive)
