"""A model that computes gradients, of a model whose ops have ``backward``."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import GraphProto, ModelProto, helper

from pyopnb.errors import ModelError
from pyopnb.gradients.ranks import name_outputs, types_of, with_ranks
from pyopnb.gradients.scopes import distinguish
from pyopnb.models.edit.inline import inlined_functions
from pyopnb.models.edit.replace import open_for_edit
from pyopnb.models.functions import function_key
from pyopnb.models.io import to_model
from pyopnb.models.nodes import type_of_proto
from pyopnb.models.op_inference import infer_types
from pyopnb.ops.installed import require
from pyopnb.ops.messages import hide_internal_frames, sanitize, suggest, suggest_key
from pyopnb.ops.registry import registry
from pyopnb.runtime.feeds import check_feed, check_names

__all__ = ["grad"]

_FLOATS = ("float16", "float32", "float64")


@hide_internal_frames
def grad(
    model: Any,
    wrt: Sequence[str] | str,
    loss: str | None = None,
    *,
    feeds: Mapping[str, Any] | None = None,
    verify: bool = True,
) -> ModelProto:
    """Make a model that also computes the gradients of one of its outputs.

    ONNX's own operators are derived by the rules of onnx-ad, an op by the ``backward`` of its class, which becomes a node of
    the gradient op. A node between ``wrt`` and the loss that has neither is refused by name; it never counts as zero. Where an
    op declares no rank for an output, neither by a hint nor by ``infer``, it is called with ones to find it.

    Parameters
    ----------
    model : ModelProto, bytes or path
        Local functions are inlined, and operators that onnx-ad derives by their definition (LSTM, Attention) written out.
    wrt : sequence of str, or str
        Names of inputs and initializers, float16, float32 or float64.
    loss : str, optional
        The output to derive, with one element. The only such output if not given.
    feeds : mapping of str to array, optional
        An example of the inputs, at which the gradients are compared first. Others are drawn from the inputs' types; give one
        where few values make sense.
    verify : bool
        Compare the gradients with differences of the loss along random directions, at inputs of several sizes and
        magnitudes. Turn it off for an op whose ``backward`` means to differ, as a straight-through estimator does.

    Returns
    -------
    ModelProto
        It has the outputs of the model, then ``grad_<name>`` for each name of ``wrt``, of its dtype and shape. The
        initializers stay what they are. ``pyopnb.gradients`` in its metadata says what was compared.

    Raises
    ------
    ModelError
        A name that is not there or has no influence on the loss (as `torch.autograd.grad` does), a loss with more than one
        element, a node without a gradient, or a gradient that is wrong.
    InputError
        ``feeds`` are not those of the model.
    ImportError
        onnx-ad is not installed: it comes with the extra ``pyopnb[grad]``.

    Notes
    -----
    At a kink the gradient is that of one side, and of the several elements that are the largest, one gets it all.
    onnx-ad: J. Gillis, https://github.com/yacoda/onnx-ad.

    Examples
    --------
    >>> import numpy as np, pyopnb
    >>> @pyopnb.pyop("doctest::Square")
    ... class Square:
    ...     def compute(self, x):
    ...         return x * x
    ...     def backward(self, inputs, outputs, grads):
    ...         return 2 * inputs[0] * grads[0]
    >>> model = pyopnb.parse('''(float[N] x) => (float loss)
    ...     { s = doctest.Square(x)  loss = ReduceSum<keepdims = 0>(s) }''')
    >>> pyopnb.run(pyopnb.grad(model, "x"), x=[1, 2, 3])
    loss: float32[]
    14.0
    grad_x: float32[3]
    [2. 4. 6.]
    """
    require("onnx_ad", "0.3", "'pyopnb[grad]'")
    from pyopnb.gradients.limits import check_sizes
    from pyopnb.gradients.reverse import reverse

    began = time.perf_counter()
    source = open_for_edit(model, None)
    names = [wrt] if isinstance(wrt, str) else list(wrt)
    proto = _without_functions(source.proto)
    distinguish(proto)
    name_outputs(proto)
    proto = with_ranks(proto)
    check_sizes(proto)
    _check_wrt(proto.graph, names)
    output = _loss(proto.graph, loss)
    example = None if feeds is None else _checked_feeds(proto.graph, feeds)
    reverse(proto, names, output)
    distinguish(proto)
    _check_types(proto)
    source.proto.CopyFrom(proto)
    derived = to_model(source)
    seconds = time.perf_counter() - began
    note = (
        _verified(derived, names, output, example, seconds)
        if verify
        else "not verified: verify=False"
    )
    helper.set_model_props(derived, {**_properties(derived), "pyopnb.gradients": note})
    return derived


def _verified(
    derived: ModelProto,
    names: Sequence[str],
    loss: str,
    feeds: Mapping[str, np.ndarray] | None,
    seconds: float,
) -> str:
    """Compare the gradients with differences; return what was compared, and warn if nothing was."""
    from pyopnb.gradients.verify import verify_gradients

    gradients = {name: f"grad_{name}" for name in names}
    note = verify_gradients(derived, gradients, loss, feeds, seconds)
    if note.startswith("not verified"):
        text = f"grad: {note}. Give an example, feeds={{…}}, or say verify=False."
        warnings.warn(text, UserWarning, stacklevel=4)
    return note


def _properties(model: ModelProto) -> dict[str, str]:
    return {entry.key: entry.value for entry in model.metadata_props}


def _checked_feeds(graph: GraphProto, feeds: Mapping[str, Any]) -> dict[str, np.ndarray]:
    weights = {tensor.name for tensor in graph.initializer}
    inputs = [info for info in graph.input if info.name not in weights]
    types = {info.name: type_of_proto(info.type) for info in inputs}
    check_names(feeds, types)
    return {name: np.asarray(check_feed(name, value, types[name])) for name, value in feeds.items()}


def _without_functions(model: ModelProto) -> ModelProto:
    """The model with local functions inlined, but for those in whose place an op with ``backward`` serves."""
    if not model.functions:
        return model
    copy = ModelProto()
    copy.CopyFrom(model)
    ops = {function_key(f): registry.find(f.domain, f.name) for f in model.functions}
    served = {key for key, op in ops.items() if op is not None and op.current.gradient is not None}
    others = [function for function in model.functions if function_key(function) not in served]
    copy.ClearField("functions")
    copy.functions.extend(others)
    return inlined_functions(copy)


def _check_types(proto: ModelProto) -> None:
    """Refuse gradients that no runtime takes: a rule of onnx-ad may not know of a pool that has more outputs than inputs."""
    try:
        infer_types(proto, strict=True, data_prop=True)
    except onnx.shape_inference.InferenceError as error:
        first = (
            str(error)
            .partition("(op_type:")[2]
            .partition("\n")[0]
            .replace("): [ShapeInferenceError]", ":")
        )
        raise ModelError(
            "model, gradient",
            expected="nodes of onnx-ad's rules whose shapes fit",
            got=sanitize(first or str(error)),
            next="pyopnb.replace(model, …) of what onnx-ad does not derive with an op whose class has backward",
        ) from None


def _check_wrt(graph: GraphProto, names: Sequence[str]) -> None:
    known = {info.name for info in graph.input} | {tensor.name for tensor in graph.initializer}
    made = {output for node in graph.node for output in node.output}
    types = types_of(graph)
    if not names:
        raise ModelError(
            "wrt",
            expected="names of inputs or initializers",
            got="none",
            next=f"wrt={sorted(known)[:3]!r}",
        )
    for place, name in enumerate(names):
        where = f"wrt {sanitize(repr(name))}"
        if name not in known:
            expected = "the name of an input or an initializer"
            got = "the output of a node" if name in made else "no such name"
            raise ModelError(
                where, expected=expected, got=got, next=suggest_key(str(name), sorted(known))
            )
        if name in names[:place]:
            raise ModelError(where, expected="each name once", got="the name twice")
        kind = type_of_proto(types[name])
        if kind.dtype is None or kind.dtype.name not in _FLOATS:
            raise ModelError(
                where, expected=f"{', '.join(_FLOATS[:2])} or {_FLOATS[2]}", got=str(kind)
            )
        if kind.shape is None:
            next_ = "declare its shape: float32[N,3]"
            raise ModelError(
                where, expected="a known rank, for its gradient", got=str(kind), next=next_
            )


def _loss(graph: GraphProto, loss: str | None) -> str:
    types = {info.name: type_of_proto(info.type) for info in graph.output}
    scalars = [
        name
        for name, kind in types.items()
        if kind.shape is not None and all(dim == 1 for dim in kind.shape)
    ]
    scalars = [
        name for name in scalars if (row := types[name].dtype) is not None and row.name in _FLOATS
    ]
    listed = ", ".join(f"{sanitize(name)}: {kind}" for name, kind in types.items())
    if loss is None:
        if len(scalars) == 1:
            return str(scalars[0])
        got = f"{len(scalars)} of them among ({listed})"
        next_ = (
            f"loss={scalars[0]!r}"
            if scalars
            else "a ReduceMean<keepdims = 0> of the output as the loss"
        )
        raise ModelError(
            "loss", expected="one floating-point output with one element", got=got, next=next_
        )
    if loss not in types:
        raise ModelError(
            "loss",
            expected="the name of an output",
            got=sanitize(repr(loss)),
            next=suggest(str(loss), types),
        )
    if loss not in scalars:
        next_ = f"a ReduceMean<keepdims = 0> of '{sanitize(loss)}' as the loss"
        expected = "a floating-point output with one element, known from its shape"
        raise ModelError(
            f"loss '{sanitize(loss)}'", expected=expected, got=str(types[loss]), next=next_
        )
    return loss
