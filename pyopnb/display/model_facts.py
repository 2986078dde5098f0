"""What a model is, in a few lines: its parameters, operators and work, and what cannot run."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence

from onnx import NodeProto

from pyopnb.common import plural, sanitize
from pyopnb.display.model_info import Scope, title_of
from pyopnb.display.svg.axes import quantity
from pyopnb.engine import DTYPES, protos
from pyopnb.errors import ModelError
from pyopnb.models import missing

__all__ = ["model_facts"]

# A line names this many operators.
_MOST = 12


def model_facts(main: Scope, nodes: Sequence[NodeProto]) -> Iterator[str]:
    """Say what a model is.

    Parameters
    ----------
    main : Scope
        The graph of the model.
    nodes : sequence of NodeProto
        With the ones in bodies and functions.
    """
    model = main.info.model
    counts: Counter[int] = Counter()
    for tensor in protos.tensors(model):
        counts[tensor.data_type] += math.prod(tensor.dims)
    for dtype in DTYPES:
        count = counts[dtype.onnx]
        if count:
            yield f"{count:,} {dtype.name} parameters, {quantity(count * dtype.bits / 8, 'B')}"
    kinds = Counter(map(title_of, nodes)).most_common(_MOST)
    yield ", ".join(f"{count:,} × {kind}" for kind, count in kinds)
    yield from _work(main)
    if model.producer_name:
        yield f"made by {sanitize(model.producer_name, 40)} {sanitize(model.producer_version, 20)}"
    try:
        rows = missing(model)
    except ModelError:  # a broken graph is drawn, and the remarks say what is wrong
        return
    if rows:
        names = dict.fromkeys(f"{row.op} ({row.kind})" for row in rows)
        yield f"ONNX Runtime cannot run {plural(len(rows), 'node')}: {', '.join(names)}"


def _work(main: Scope) -> Iterator[str]:
    """Count the multiply-adds of the nodes that do most of the work."""
    total = 0
    symbols = set()
    for node in main.nodes:
        op = title_of(node)
        if op not in ("Conv", "Gemm", "MatMul"):
            continue
        shapes = [main.shape_of(name) for name in (*node.input[:2], *node.output[:1])]
        if len(shapes) < 3 or None in shapes:
            continue
        a, weights, output = (shape or () for shape in shapes)
        sizes = (*output, *a[-1:])
        if op == "Conv":
            sizes = (*output, *weights[1:])
        elif op == "Gemm":
            # It may read a transposed.
            sizes = (*a, *output[-1:])
        symbols |= {sanitize(size or "?", 20) for size in sizes if not isinstance(size, int)}
        total += math.prod(size for size in sizes if isinstance(size, int))
    if total:
        words = f"{quantity(total, 'MAC')} (multiply-adds) in Conv, Gemm and MatMul"
        if symbols:
            words += f" for {', '.join(sorted(symbols))} = 1"
        yield words
