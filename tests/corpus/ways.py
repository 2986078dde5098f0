"""The ways that every model of the corpus goes. Each raises AssertionError with the fault, or the exception of pyopnb itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import (
    AttributeProto,
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    ValueInfoProto,
    numpy_helper,
)

import pyopnb

__all__ = ["WAYS"]

Feeds = dict[str, Any]


def _plain(model: ModelProto, feeds: Feeds) -> dict[str, Any]:
    """The result of a plain onnxruntime session."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, feeds), strict=True))


def _exposed(model: ModelProto, feeds: Feeds) -> dict[str, Any]:
    """Every named result of the main graph, as onnxruntime gives it when all of them are outputs."""
    wide = ModelProto()
    wide.CopyFrom(model)
    outputs = {output.name for output in wide.graph.output}
    named = [
        name for node in wide.graph.node for name in node.output if name and name not in outputs
    ]
    wide.graph.output.extend(ValueInfoProto(name=name) for name in named)
    return _plain(wide, feeds)


def _same(a: Any, b: Any) -> bool:
    """Whether two values are equal to the bit: arrays, and lists and maps of results of onnxruntime."""
    if isinstance(a, list) or isinstance(b, list):
        return type(a) is type(b) and len(a) == len(b) and all(map(_same, a, b))
    if isinstance(a, dict) or isinstance(b, dict):
        return type(a) is type(b) and list(a) == list(b) and all(map(_same, a.values(), b.values()))
    if a is None or b is None:
        return a is b
    x, y = np.asarray(a), np.asarray(b)
    if x.dtype != y.dtype or x.shape != y.shape:
        return False
    return x.tolist() == y.tolist() if x.dtype.kind in "OUT" else x.tobytes() == y.tobytes()


def _assert_same(got: dict[str, Any], want: dict[str, Any]) -> None:
    assert list(got) == list(want), f"outputs {list(got)}, expected {list(want)}"
    wrong = [name for name in want if not _same(got[name], want[name])]
    assert not wrong, f"other bits: {', '.join(wrong[:5])}"


def session(model: ModelProto, feeds: Feeds) -> None:
    """Sessions agree with plain onnxruntime, to the bit."""
    _assert_same(dict(pyopnb.Session(model)(feeds).items()), _plain(model, feeds))


def trace(model: ModelProto, feeds: Feeds) -> None:
    """A trace has every named tensor of the main graph, to the bit as onnxruntime gives it."""
    wanted = _exposed(model, feeds)
    traced = pyopnb.Session(model).trace(feeds)
    lacking = [name for name in wanted if name not in traced]
    assert not lacking, f"not in the trace: {', '.join(lacking[:5])}"
    _assert_same({name: traced[name] for name in wanted}, wanted)


def show(model: ModelProto, feeds: Feeds) -> None:
    """The pictures and texts of a model, with all its nodes, and of a trace."""
    shown, traced = pyopnb.show(model), pyopnb.show(pyopnb.Session(model).trace(feeds))
    count = len(model.graph.node)
    assert f"{count} node" in str(shown), f"{str(shown)[:80]!r} does not say {count} nodes"
    for view in (shown, traced):
        assert "<img" in view._repr_html_() or "<svg" in view._repr_html_(), "no picture"


def missing(model: ModelProto, feeds: Feeds) -> None:
    """In a model that onnxruntime has just run, nothing is missing, and nothing is filled."""
    rows = pyopnb.missing(model)
    assert not rows, f"said to be missing: {', '.join(row.op for row in rows)}"
    assert pyopnb.fill(model).graph == model.graph, "the model was changed"


def reference(model: ModelProto, feeds: Feeds) -> None:
    """The ONNX reference evaluator, as a trace has it, agrees with onnxruntime, but for rounding."""
    got, want = pyopnb.trace(model, feeds, on="reference"), _plain(model, feeds)
    wrong = [name for name in want if not _close(got[name], want[name], _digits(model))]
    assert not wrong, f"other values: {', '.join(wrong[:5])}"


def skeletons(model: ModelProto, feeds: Feeds) -> None:
    """The skeleton of each operator of the main graph, as written, runs in the place of its nodes and agrees."""
    want = _plain(model, feeds)
    first: dict[tuple[str, str], NodeProto] = {}
    local = {(function.domain, function.name) for function in model.functions}
    for node in model.graph.node:
        first.setdefault((node.domain, node.op_type), node)
    wrong = []
    for (domain, op_type), node in first.items():
        if (domain, op_type) in local or any(
            a.type in (AttributeProto.GRAPH, AttributeProto.GRAPHS) for a in node.attribute
        ):
            continue  # of a function the calls are seen as its nodes; no op can be given a body that reads outer names
        try:
            if said := _through_skeleton(model, node, feeds, want):
                wrong.append(f"{op_type}: {said}")
        except Exception as error:  # each operator's own failure is reported
            wrong.append(f"{op_type}: {type(error).__name__}: {_brief(error)}")
    assert not wrong, "; ".join(wrong)


def _through_skeleton(
    model: ModelProto, node: NodeProto, feeds: Feeds, want: dict[str, Any]
) -> str:
    if _without_tensor(model) & {*node.input, *node.output}:
        return _refused(model, node)
    text = str(pyopnb.skeleton(model, node))
    head, _, body = text.partition("\n")
    if "raise NotImplementedError" in body or "No custom op of ONNX Runtime can have" in body:
        return ""  # the skeleton itself says that it is not done, or that no op can do it
    namespace: dict[str, Any] = {"__name__": "cell"}
    exec(body, namespace)
    name = f"pyopnb::{node.op_type}"
    assert head == "%%pyop", f"the cell's first line is {head!r}"
    pyopnb.pyop(name)(namespace[node.op_type])
    try:
        got = dict(
            pyopnb.Session(pyopnb.replace(model, f"{node.domain}::{node.op_type}", name))(
                feeds
            ).items()
        )
    finally:
        pyopnb.registry.remove(name)
    wrong = [output for output in want if not _close(got[output], want[output], _digits(model))]
    return f"other values: {', '.join(wrong)}" if wrong else ""


def _without_tensor(model: ModelProto) -> set[str]:
    """The values of the main graph that are sequences, maps or optionals, which no custom op can have."""
    graph = onnx.shape_inference.infer_shapes(model).graph
    return {
        info.name
        for info in (*graph.input, *graph.value_info, *graph.output)
        if not info.type.HasField("tensor_type")
    }


def _refused(model: ModelProto, node: NodeProto) -> str:
    """Empty if the skeleton of a node that no op can replace is refused, and the message says why."""
    try:
        cell = pyopnb.skeleton(model, node)
    except pyopnb.errors.ModelError as error:
        return (
            ""
            if "expected a tensor, because an op can get nothing else, got a value of type"
            in str(error)
            else str(error)
        )
    return f"not refused, although no op can have its values: {_brief(cell)}"


def _digits(model: ModelProto) -> float:
    """The part of the largest number by which rounding may be off: as for float16 where weights are float16."""
    coarse = {TensorProto.FLOAT16, TensorProto.BFLOAT16} & {
        tensor.data_type for tensor in model.graph.initializer
    }
    return 2e-2 if coarse else 2e-4


def _close(got: Any, want: Any, digits: float) -> bool:
    """Whether a result agrees, but for rounding: errors are judged by the largest number of the tensor."""
    if isinstance(want, (list, tuple)):
        return len(got) == len(want) and all(
            _close(one, other, digits) for one, other in zip(got, want, strict=True)
        )
    if isinstance(want, dict):
        return list(got) == list(want) and _close([*got.values()], [*want.values()], digits)
    got, want = np.asarray(got), np.asarray(want)
    if got.shape != want.shape or got.dtype != want.dtype:
        return False
    if want.dtype.kind not in "fV":
        return bool((got == want).all())
    scale = float(np.abs(want[np.isfinite(want)].astype(np.float64)).max(initial=1e-30))
    bound = (2e-2 if want.dtype.itemsize < 4 else digits) * scale
    return bool(
        np.allclose(
            got.astype(np.float64), want.astype(np.float64), rtol=0, atol=bound, equal_nan=True
        )
    )


def text(model: ModelProto, feeds: Feeds) -> None:
    """The text of a model, read back, computes the same bits."""
    again = pyopnb.parse(pyopnb.text(model, most=100_000_000))
    _assert_same(_plain(again, feeds), _plain(model, feeds))


def saved(model: ModelProto, feeds: Feeds) -> None:
    """A saved model, with its weights inside or beside it, gives the same bits in a session."""
    want = _plain(model, feeds)
    for external in (False, True):
        with TemporaryDirectory() as folder:
            path = Path(folder) / "model.onnx"
            pyopnb.save(model, path, external_data=external)
            _assert_same(dict(pyopnb.Session(path)(feeds).items()), want)
            _assert_same(
                dict(pyopnb.Session(pyopnb.load(path).model, base_dir=folder)(feeds).items()), want
            )


def divergence(model: ModelProto, feeds: Feeds) -> None:
    """A copy with other weights in one node: that node is the first divergence, of two traces and of the bisection."""
    copy, origins = _perturbed(model, feeds)
    a, b = (pyopnb.Session(proto).trace(feeds) for proto in (model, copy))
    found = pyopnb.diff(a, b)
    assert found.origins, "no origin"
    named = [{tensor.b for tensor in step.outputs} for step in found.origins]
    assert all(outputs & origins for outputs in named), (
        f"origins {[s.name for s in found.origins]}, expected {origins}"
    )
    bisected = pyopnb.first_divergence(model, copy, feeds)
    assert bisected.origin is not None, "the bisection found none"
    outputs = {tensor.b for tensor in bisected.origin.outputs}
    assert outputs & origins, f"the bisection found {bisected.origin.name}, expected {origins}"


def _perturbed(model: ModelProto, feeds: Feeds) -> tuple[ModelProto, set[str]]:
    """A copy with one weight changed so that an output changes much; and the outputs of the nodes where that begins."""
    before, outputs = _exposed(model, feeds), [output.name for output in model.graph.output]
    for place in _from_the_middle(len(list(_weights(model)))):
        copy = ModelProto()
        copy.CopyFrom(model)
        _, change = list(_weights(copy))[place]
        change()
        try:
            after = _exposed(copy, feeds)
        except Exception:  # not every number in a model is a weight: the next is tried
            continue
        if not any(_far(before[output], after[output]) for output in outputs):
            continue
        changed = {key for key in before if not _same(before[key], after[key])}
        begun: set[str] = set()
        constants: set[str] = (
            set()
        )  # a diff may name a constant's reader, in which the other number is a change of its own
        for node in copy.graph.node:
            if set(node.output) & changed and not (set(node.input) & changed) - constants:
                begun.update(node.output)
                constants.update(node.output if node.op_type == "Constant" else ())
        return copy, begun
    raise AssertionError(f"no weight of the {model.graph.name or 'graph'} changes an output")


def _from_the_middle(count: int) -> list[int]:
    return sorted(range(count), key=lambda place: abs(place - count // 2))


def _far(a: Any, b: Any) -> bool:
    """Whether two results are much apart, so that no tolerance hides it."""
    if isinstance(a, (list, dict)):
        a, b = ([*v.values()] if isinstance(v, dict) else v for v in (a, b))
        return len(a) != len(b) or any(map(_far, a, b))
    a, b = np.asarray(a), np.asarray(b)
    if a.shape != b.shape:
        return True
    if a.dtype.kind != "f":
        return bool((a != b).any())
    return bool(np.abs(a - b).max(initial=0) > 0.02 * np.abs(a).max(initial=1e-30))


def _weights(model: ModelProto) -> Iterator[tuple[str, Callable[[], None]]]:
    """The parts that may be changed: float tensors of initializers and constants, and floats of a node, also in bodies."""
    graphs = list(_graphs(model.graph))
    nodes = [node for graph in graphs for node in graph.node]
    constants = [
        attribute.t for node in nodes for attribute in node.attribute if attribute.HasField("t")
    ]
    for tensor in [*(tensor for graph in graphs for tensor in graph.initializer), *constants]:
        if tensor.data_type in (1, 10, 11) and np.prod(tensor.dims, dtype=int):
            yield tensor.name, lambda tensor=tensor: _change_tensor(tensor)
    for node in nodes:
        for attribute in node.attribute:
            if attribute.floats:
                yield node.name, lambda attribute=attribute: _change_floats(attribute)
            elif attribute.type == AttributeProto.FLOAT:
                yield (
                    node.name,
                    lambda attribute=attribute: setattr(attribute, "f", attribute.f * 3 + 1),
                )


def _graphs(graph: GraphProto) -> Iterator[GraphProto]:
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            for inner in [*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs]:
                yield from _graphs(inner)


def _change_tensor(tensor: onnx.TensorProto) -> None:
    array = numpy_helper.to_array(tensor)
    tensor.CopyFrom(numpy_helper.from_array((array * 1.5 + 0.25).astype(array.dtype), tensor.name))


def _change_floats(attribute: AttributeProto) -> None:
    attribute.floats[:] = [value * 1.5 + 0.25 for value in attribute.floats]


def _brief(error: BaseException) -> str:
    return " ".join(str(error).split())[:120]


WAYS: dict[str, Callable[[ModelProto, Feeds], None]] = {
    "session": session,
    "trace": trace,
    "show": show,
    "missing": missing,
    "reference": reference,
    "skeletons": skeletons,
    "text": text,
    "save": saved,
    "divergence": divergence,
}
