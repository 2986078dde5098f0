"""A name that is not UTF-8, or a version that no one wrote, is refused where the model is read, with the way to it."""

from __future__ import annotations

import re
from typing import Any

import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import ModelProto

import pyopnb
from pyopnb.engine.models.model_files import as_proto, open_readonly, read_model
from pyopnb.engine.models.names import check_names
from pyopnb.engine.models.protos import is_repeated

MARK = "QQQQ"
BROKEN = MARK.encode().replace(b"Q", b"\xff")


def texts(kind: Any, depth: int) -> Any:
    """Every way to a text, with at most ``depth`` messages in between."""
    for field in kind.fields:
        if field.type == field.TYPE_STRING:
            yield (field.name,)
        elif field.message_type is not None and depth:
            yield from ((field.name, *rest) for rest in texts(field.message_type, depth - 1))


PATHS = sorted(texts(ModelProto.DESCRIPTOR, 5))


def broken(path: tuple[str, ...]) -> ModelProto:
    model = pyopnb.parse("(float[N] x) => (float[N] y) { y = Abs(x) }")
    message: Any = model
    for name in path[:-1]:
        repeated = is_repeated(message.DESCRIPTOR.fields_by_name[name])
        message = getattr(message, name).add() if repeated else getattr(message, name)
    if is_repeated(message.DESCRIPTOR.fields_by_name[path[-1]]):
        getattr(message, path[-1]).append(MARK)
    else:
        setattr(message, path[-1], MARK)
    return ModelProto.FromString(model.SerializeToString().replace(MARK.encode(), BROKEN))


@given(st.sampled_from(PATHS))
def test_every_name_is_looked_at(path: tuple[str, ...]) -> None:
    model = broken(path)
    if path[-1] == "doc_string":
        check_names(model, "model")
        return
    got = re.escape(str(BROKEN))
    for read in (read_model, open_readonly, as_proto):
        with pytest.raises(
            pyopnb.errors.ModelError,
            match=rf"^model, \w+\.{path[-1]}: expected names in UTF-8, got {got}",
        ):
            read(model)
    with pytest.raises(pyopnb.errors.ModelError, match=rf"^model bytes, \w+\.{path[-1]}"):
        read_model(model.SerializeToString())


@pytest.mark.parametrize("version", [-1, 2**31, 2**63 - 1, -(2**63)])
def test_a_version_that_no_one_wrote(version: int) -> None:
    model = pyopnb.parse("(float[N] x) => (float[N] y) { y = Abs(x) }")
    model.opset_import[0].version = version
    for call in (pyopnb.Session, pyopnb.load, lambda model: pyopnb.wrap(model, "Abs", print)):
        with pytest.raises(
            pyopnb.errors.ModelError,
            match=f"import of ai.onnx: expected a version up to 2147483647, got {version}",
        ):
            call(model)
    assert pyopnb.show(model) and len(pyopnb.missing(model)) == 1, (
        "what only looks says what it sees"
    )
    model.opset_import[0].version = 20
    model.functions.add(name="F", domain="l").opset_import.add(domain="m", version=version)
    with pytest.raises(
        pyopnb.errors.ModelError, match="model, function F, import of m: expected a version"
    ):
        pyopnb.Session(model)


def nested(depth: int) -> onnx.ModelProto:
    """An If in an If in an If …, made in place: no function of protobuf copies or reads one that is deeper than a file can be."""
    model = onnx.ModelProto(ir_version=8, opset_import=[onnx.helper.make_opsetid("", 17)])
    graph = model.graph
    graph.name = "g"
    graph.input.append(onnx.helper.make_tensor_value_info("x", 1, ["N"]))
    graph.input.append(onnx.helper.make_tensor_value_info("c", 9, []))
    graph.output.append(onnx.helper.make_tensor_value_info("y0", 1, None))
    for level in range(depth):
        node = graph.node.add(op_type="If", input=["c"], output=[f"y{level}"])
        other = node.attribute.add(name="else_branch", type=onnx.AttributeProto.GRAPH).g
        other.name = "e"
        other.node.add(op_type="Identity", input=["x"], output=[f"e{level}"])
        other.output.add(name=f"e{level}")
        graph = node.attribute.add(name="then_branch", type=onnx.AttributeProto.GRAPH).g
        graph.name = f"t{level}"
        graph.output.add(name=f"y{level + 1}")
    graph.node.add(op_type="Identity", input=["x"], output=[f"y{depth}"])
    return model


@pytest.mark.parametrize("depth", [33, 1000])
@pytest.mark.parametrize(
    "name", ["netron", "diff", "show", "text", "missing", "Session", "fill", "skeleton", "save"]
)
def test_a_model_deeper_than_a_file_can_be(depth, name, tmp_path):
    model = nested(depth)
    more = {"diff": [model], "skeleton": ["y0"], "save": [tmp_path / "m.onnx"]}.get(name, [])
    with pytest.raises(
        pyopnb.errors.ModelError,
        match=r"model: expected graphs, .* nested at most 100 deep, .*, got more\.",
    ):
        getattr(pyopnb, name)(model, *more)


def test_the_deepest_model_is_read():
    # Not in a session: onnxruntime 1.25 takes forever over 32 nested Ifs, even without pyopnb.
    model = nested(32)
    assert not pyopnb.missing(model)
    assert pyopnb.diff(model, model).verdict == "identical"
