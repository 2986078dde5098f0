"""Models that also compute gradients, for models whose ops have ``backward``."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from onnx import GraphProto, ModelProto, helper, numpy_helper

from pyopnb.common import messages, require, sanitize
from pyopnb.engine import (
    ModelSource,
    check_arguments,
    external_files,
    feed_checks,
    model_functions,
    protos,
    registry,
    to_model,
)
from pyopnb.errors import ModelError
from pyopnb.gradients.ranks import name_outputs, types_of, with_ranks
from pyopnb.gradients.scopes import distinguish
from pyopnb.models import node_edits

__all__ = ["grad"]

_FLOATS = ("float16", "float32", "float64")


@functools.partial(check_arguments, advice={"wrt": 'wrt=["w"]'})
def grad(
    model: Any,
    wrt: Sequence[str] | str,
    loss: str | None = None,
    *,
    feeds: Mapping[str, Any] | None = None,
    verify: bool = True,
) -> ModelProto:
    """Make a model that also computes the gradients of one of its outputs.

    The ONNX operators are differentiated by the rules of onnx-ad, and an op by the ``backward``
    of its class, which becomes a node of its gradient op. If a node between ``wrt`` and the loss
    has neither, the error names it; its gradient never counts as zero. If neither a hint nor
    ``infer`` gives the rank of an op's output, the op is called once with ones to find it.

    Parameters
    ----------
    model : ModelProto, bytes or path
        Local functions are inlined. Operators that onnx-ad differentiates through their definition
        (LSTM, Attention) are written out.
    wrt : sequence of str, or str
        Names of inputs and initializers, float16, float32 or float64.
    loss : str, optional
        The output to differentiate, which must have one element. By default, the only such output.
    feeds : mapping of str to array, optional
        An example of the inputs, at which the gradients are checked first. Further examples are
        drawn from the inputs' types. Pass one if only few values make sense.
    verify : bool
        Compare the gradients with differences of the loss along random directions, at inputs of
        several sizes and magnitudes. Turn this off for an op whose ``backward`` differs on purpose,
        such as a straight-through estimator.

    Returns
    -------
    ModelProto
        A model with the outputs of the original, then ``grad_<name>`` for each name in ``wrt``,
        with the same dtype and shape. Initializers stay initializers. The metadata entry
        ``pyopnb.gradients`` says what was compared.

    Raises
    ------
    ModelError
        A name does not exist or does not influence the loss (which `torch.autograd.grad` refuses
        too), the loss has more than one element, a node has no gradient, or a gradient is wrong.
    InputError
        ``feeds`` do not fit the model.
    ImportError
        onnx-ad is not installed; it comes with the extra ``pyopnb[grad]``.

    Notes
    -----
    At a kink, the gradient belongs to one side. If several elements share the maximum, one of them
    gets the whole gradient. onnx-ad is by J. Gillis, https://github.com/yacoda/onnx-ad.

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
    from pyopnb.gradients.reverse import reverse

    source = node_edits.open_for_edit(model, None)
    names = [wrt] if isinstance(wrt, str) else list(wrt)
    proto = _without_functions(source.proto)
    distinguish(proto)
    name_outputs(proto)
    proto = with_ranks(proto)
    _check_wrt(proto.graph, names)
    output = _loss(proto.graph, loss)
    example = None if feeds is None else _checked_feeds(proto.graph, feeds)
    # The original for the comparison, before onnx-ad writes any node out.
    original = ModelProto()
    original.CopyFrom(proto)
    reverse(proto, names, output)
    source.proto.CopyFrom(proto)
    derived = to_model(source)
    note = "not verified: verify=False"
    if verify:
        weights = _weights(source, names)
        without = replace(source, proto=original)
        note = _verified(without, derived, names, output, weights, example)
    properties = {entry.key: entry.value for entry in derived.metadata_props}
    helper.set_model_props(derived, {**properties, "pyopnb.gradients": note})
    return derived


def _weights(source: ModelSource, names: Sequence[str]) -> dict[str, np.ndarray]:
    weights = {}
    for tensor in source.proto.graph.initializer:
        if tensor.name in names:
            weights[tensor.name] = numpy_helper.to_array(
                external_files.with_data(tensor, source.folder)
            )
    return weights


def _verified(
    original: ModelSource,
    derived: ModelProto,
    names: Sequence[str],
    loss: str,
    weights: Mapping[str, np.ndarray],
    feeds: Mapping[str, np.ndarray] | None,
) -> str:
    """Compare the gradients with differences; return the names, and warn if there are none."""
    # Sessions and drawn inputs are needed only here, after onnx-ad is known to be installed.
    from pyopnb.gradients.verify import verify_gradients

    gradients = {name: f"grad_{name}" for name in names}
    note = verify_gradients(original, derived, gradients, loss, weights, feeds)
    if note.startswith("not verified"):
        text = f"grad: {note}. Give an example, feeds={{…}}, or say verify=False."
        warnings.warn(text, UserWarning, stacklevel=4)
    return note


def _checked_feeds(graph: GraphProto, feeds: Mapping[str, Any]) -> dict[str, np.ndarray]:
    # An initializer that is also an input is a default, and need not be fed.
    weights = {tensor.name for tensor in graph.initializer}
    types = {}
    for info in graph.input:
        if info.name not in weights:
            types[info.name] = protos.type_of_proto(info.type)
    feed_checks.check_names(feeds, types)
    return {
        name: np.asarray(feed_checks.check_feed(name, value, types[name]))
        for name, value in feeds.items()
    }


def _without_functions(model: ModelProto) -> ModelProto:
    """Inline local functions, except functions that an op with ``backward`` replaces."""
    if not model.functions:
        return model
    copy = ModelProto()
    copy.CopyFrom(model)
    copy.ClearField("functions")
    for function in model.functions:
        op = registry.find(function.domain, function.name)
        if op is None or op.current.gradient is None:
            copy.functions.append(function)
    return model_functions.inlined_functions(copy)


def _check_wrt(graph: GraphProto, names: Sequence[str]) -> None:
    types = types_of(graph)
    sources = {value.name for value in (*graph.input, *graph.initializer)}
    if not names:
        expected = "names of inputs or initializers"
        raise ModelError("wrt", expected=expected, got="none", next=f"wrt={sorted(sources)[:3]!r}")
    for position, name in enumerate(names):
        where = f"wrt {sanitize(repr(name))}"
        if name not in sources:
            expected = "the name of an input or an initializer"
            advice = messages.suggest_key(str(name), sorted(sources))
            raise ModelError(where, expected=expected, got="none of that name", next=advice)
        if name in names[:position]:
            advice = f"wrt={sanitize(repr(list(dict.fromkeys(names))))}"
            raise ModelError(where, expected="each name once", got="the name twice", next=advice)
        tensor_type = protos.type_of_proto(types[name])
        if tensor_type.dtype is None or tensor_type.dtype.name not in _FLOATS:
            expected, advice = "float16, float32 or float64", "the name of an input of floats"
            raise ModelError(where, expected=expected, got=str(tensor_type), next=advice)
        if tensor_type.shape is None:
            expected, advice = "a known rank, for its gradient", "declare its shape: float32[N,3]"
            raise ModelError(where, expected=expected, got=str(tensor_type), next=advice)


def _loss(graph: GraphProto, loss: str | None) -> str:
    """Return the output to derive: the one that was asked for, or the only scalar."""
    types = {info.name: protos.type_of_proto(info.type) for info in graph.output}
    scalars: list[str] = []
    for name, tensor_type in types.items():
        is_float = tensor_type.dtype is not None and tensor_type.dtype.name in _FLOATS
        if is_float and tensor_type.shape is not None and set(tensor_type.shape) <= {1}:
            scalars.append(name)
    if loss is None and len(scalars) == 1:
        return scalars[0]
    if loss in scalars:
        return loss
    listed = ", ".join(f"{name}: {types[name]}" for name in types)
    if scalars:
        advice = f'loss="{scalars[0]}"'
    else:
        first = sanitize(next(iter(types), "y"))
        advice = f"a last node in the model: loss = ReduceMean<keepdims = 0>({first})"
    raise ModelError(
        "loss" if loss is None else f"loss '{loss}'",
        expected="one floating-point output with one element",
        got=f"{len(scalars)} of them among ({listed})",
        next=advice,
    )
