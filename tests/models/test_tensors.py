"""No tensor is forgotten, wherever in a model it is."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import ModelProto, TensorProto

import pyopnb
from pyopnb.engine.models.external_files import original, stub
from pyopnb.engine.models.model_files import read_model, without_weights
from pyopnb.engine.models.protos import is_repeated, tensors


def paths(kind: Any, depth: int) -> Iterator[tuple[str, ...]]:
    """Every way through the format from a message to a tensor, with at most ``depth`` messages in between."""
    for field in kind.fields:
        if field.message_type is TensorProto.DESCRIPTOR:
            yield (field.name,)
        elif field.message_type is not None and depth:
            yield from ((field.name, *rest) for rest in paths(field.message_type, depth - 1))


def put(model: ModelProto, path: tuple[str, ...], tensor: TensorProto) -> None:
    """A tensor at the end of a path, beside others that are there already."""
    message: Any = model
    for name in path:
        repeated = is_repeated(message.DESCRIPTOR.fields_by_name[name])
        message = getattr(message, name).add() if repeated else getattr(message, name)
    message.CopyFrom(tensor)


PATHS = sorted(paths(ModelProto.DESCRIPTOR, 7))


def test_the_paths_are_those_that_are_known() -> None:
    known = {
        ("graph", "initializer"),
        ("graph", "sparse_initializer", "indices"),
        ("graph", "node", "attribute", "t"),
        ("graph", "node", "attribute", "tensors"),
        ("graph", "node", "attribute", "g", "initializer"),
        ("graph", "node", "attribute", "graphs", "node", "attribute", "sparse_tensors", "values"),
        ("functions", "node", "attribute", "sparse_tensor", "values"),
        ("functions", "attribute_proto", "t"),
        ("functions", "attribute_proto", "graphs", "initializer"),
        ("training_info", "initialization", "initializer"),
        ("training_info", "algorithm", "node", "attribute", "t"),
    }
    assert known < set(PATHS) and len(PATHS) > 100


@given(st.lists(st.sampled_from(PATHS), min_size=1, max_size=12, unique=True))
def test_of_several_places_none_hides_another(chosen: list[tuple[str, ...]]) -> None:
    model = ModelProto()
    for place, path in enumerate(chosen):
        put(model, path, TensorProto(name=f"t{place}"))
    assert {t.name for t in tensors(model)} - {""} == {f"t{place}" for place in range(len(chosen))}


@pytest.mark.parametrize("path", PATHS[:: max(1, len(PATHS) // 40)], ids="/".join)
def test_every_place_is_checked(path: tuple[str, ...], tmp_path: pathlib.Path) -> None:
    model = pyopnb.parse("(float[N] x) => (float[N] y) { y = Abs(x) }")
    tensor = TensorProto(name="w", data_type=1, dims=[1], data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value="../secret")
    put(model, path, tensor)
    (tmp_path / "secret").write_bytes(bytes(4))
    inner = tmp_path / "model"
    inner.mkdir()
    (inner / "m.onnx").write_bytes(model.SerializeToString())
    for call in (pyopnb.Session, pyopnb.load, lambda p: pyopnb.save(p, inner / "saved.onnx")):
        with pytest.raises(
            pyopnb.errors.ModelError,
            match=r"initializer w: expected a data file of its own .*, got ../secret, which",
        ):
            call(inner / "m.onnx")
    tensor.external_data.add(key="location", value="x")
    put(model, path, tensor)
    with pytest.raises(pyopnb.errors.ModelError, match="expected one 'location'"):
        read_model(model.SerializeToString(), data=False)


def large(body_tensor: TensorProto) -> ModelProto:
    """A model whose tensor says that it has 4 GB, so that a copy in memory leaves it out, and a body with a namesake."""
    model = pyopnb.parse(
        "(bool c, float[1] w) => (float[1] y) { y = If(c) <then_branch = t () => (float[1] a) { a = Identity(w) },"
        " else_branch = e () => (float[1] b) { b = Neg(w) }> }"
    )
    model.graph.input.pop()
    model.graph.initializer.add(name="w", data_type=1, dims=[2**30])
    model.graph.node[0].attribute[0].g.initializer.append(body_tensor)
    return model


def test_the_name_of_a_tensor_that_was_left_out_exempts_no_other(tmp_path: pathlib.Path) -> None:
    tensor = TensorProto(name="w", data_type=1, dims=[1], data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value="../secret")
    assert without_weights(large(tensor)).taken_out
    for call in (read_model, lambda model, base: pyopnb.Session(model, base_dir=base)):
        with pytest.raises(pyopnb.errors.ModelError, match="expected a data file of its own"):
            call(large(tensor), tmp_path)


def test_only_stubs_of_this_process_are_stubs() -> None:
    tensor = TensorProto(name="w", data_type=1, dims=[1])
    made, known = stub(tensor), {"w": TensorProto(name="w")}
    assert original(made, known) is known["w"] and original(tensor, known) is tensor
    assert original(made, {}) is made, "of a trace's model, whose weights are gone"
    made.external_data[0].value = "taken-out"
    assert original(made, known) is made


def test_save_removes_only_data_files_that_its_own_model_names(tmp_path: pathlib.Path) -> None:
    model = pyopnb.parse("(float[2000] x, float[2000] w) => (float[2000] y) { y = Add(x, w) }")
    model.graph.input.pop()
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.zeros(2000, np.float32), "w"))
    path = tmp_path / "m.onnx"
    pyopnb.save(model, path, external_data=True)
    (mine,) = tmp_path.glob("*.data")
    other = mine.with_name("m.onnx.01234567.data")
    other.write_bytes(b"not ours")
    written = onnx.load(path, load_external_data=False)
    written.graph.initializer[0].external_data.add(key="location", value=other.name)
    path.write_bytes(written.SerializeToString())
    pyopnb.save(model, path, external_data=False)
    assert other.exists(), "of two locations none is trusted"
