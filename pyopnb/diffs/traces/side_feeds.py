"""The feeds of two models that are compared: one mapping for both, or one for each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from onnx import ModelProto

from pyopnb.diffs.models.match import pair_names
from pyopnb.engine import argument_checks
from pyopnb.errors import InputError
from pyopnb.traces import reference_run

__all__ = ["feed_both"]

_WHERE = "first_divergence, feeds"


def feed_both(a: ModelProto, b: ModelProto, feeds: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Make the feeds of two models, as arrays of the declared types.

    Parameters
    ----------
    feeds : mapping, pair of mappings or None
        In one mapping, what only one model has goes to that model. Inputs that are not named get
        what the corresponding input of the other model gets.

    Raises
    ------
    InputError
        Feeds are missing, unknown, or of another type than an input.
    """
    if isinstance(feeds, (tuple, list)):
        if len(feeds) != 2:
            expected = "one mapping for both models, or two"
            raise InputError(
                _WHERE, expected=expected, got=str(len(feeds)), next='({"x": x}, {"x": x})'
            )
        for part in feeds:
            argument_checks.check_by_name(part, _WHERE, '({"x": x}, {"x": x})')
        return reference_run.check_feeds(a, feeds[0]), reference_run.check_feeds(b, feeds[1])
    feeds = {} if feeds is None else feeds
    argument_checks.check_by_name(feeds, _WHERE, '{"x": x}')
    inputs = _inputs(a), _inputs(b)
    pairs = pair_names(*inputs)
    # A name that no model has is refused with a's inputs.
    only_b = {name for name in feeds if name in inputs[1] and name not in inputs[0]}
    own = {name: value for name, value in feeds.items() if name not in only_b}
    others = {name: value for name, value in feeds.items() if name in inputs[1]}
    # The input of the other model whose value one gets.
    sources: dict[str, str] = {}
    for name_a, name_b in pairs:
        if name_a not in own and name_b in others:
            own[name_a] = others[name_b]
        if name_b not in others and name_a in own:
            others[name_b] = own[name_a]
            sources[name_b] = name_a
    return reference_run.check_feeds(a, own), _checked(b, others, sources, inputs[0])


def _inputs(model: ModelProto) -> list[str]:
    """List the inputs that are no weights with a default."""
    weights = {tensor.name for tensor in model.graph.initializer}
    return [info.name for info in model.graph.input if info.name not in weights]


def _checked(
    model: ModelProto, feeds: Mapping[str, Any], sources: Mapping[str, str], inputs_a: list[str]
) -> dict[str, Any]:
    """Check b's feeds; where one of a does not fit, say how to give both models their own."""
    try:
        return reference_run.check_feeds(model, feeds)
    except InputError as error:
        name, _, expression = (error.next or "").partition("=")
        source = sources.get(name, name if name in inputs_a else "")
        if not source or not expression:
            raise
        expression = expression.replace(f"({name},", f"({source},")
        if name == source:
            advice = f'({{"{name}": {name}}}, {{"{name}": {expression}}})'
        else:
            advice = f'{{"{source}": {source}, "{name}": {expression}}}'
        where = f"{_WHERE}, input {name} of b"
        raise InputError(where, expected=error.expected, got=error.got, next=advice) from None
