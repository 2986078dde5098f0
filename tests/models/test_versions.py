"""Versions newer than the runtime takes: some are lowered, and some refused because the model needs them."""

from __future__ import annotations

import onnx
import pytest
from onnx import ModelProto, TensorProto, helper

import pyopnb
from pyopnb.engine.models import opset_versions as versions
from pyopnb.engine.models import ort_capabilities
from pyopnb.engine.models.opset_versions import changed_in, lower_versions, new_imports
from pyopnb.engine.models.ort_capabilities import newest_loaded_ir, newest_version

NEWER_IR = newest_loaded_ir() + 1


def relu(ir_version: int = NEWER_IR, opset: int = 20) -> ModelProto:
    return onnx.parser.parse_model(f"""<ir_version: {ir_version}, opset_import: ["" : {opset}]>
        g (float[2] x) => (float[2] y) {{ y = Relu(x) }}""")


@pytest.fixture
def older_runtime(monkeypatch):
    """A runtime that takes opset 12 and version 2 of ai.onnx.ml, so that no onnx is too old for these tests."""
    newest = {"": 12, "ai.onnx.ml": 2}
    for module in (versions, ort_capabilities):
        monkeypatch.setattr(
            module, "newest_version", lambda domain: newest.get({"ai.onnx": ""}.get(domain, domain))
        )
        monkeypatch.setattr(module, "newest_opset", lambda: 12)
    monkeypatch.setattr(versions, "_TAKEN", {})


# ---- operators ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("op_type", "version", "older", "since"),
    [
        ("Relu", 14, 13, None),  # 14 only allows integers
        ("Relu", 13, 6, None),  # 13 only allows bfloat16
        ("Softmax", 13, 12, 13),  # over one axis, and no longer over all from that axis on
        ("Softmax", 20, 12, 13),
        ("Softmax", 13, 13, None),
        ("ReduceSum", 12, 1, 11),  # negative axes
        ("Gelu", 20, 19, 20),  # it came
        ("Upsample", 10, 9, 10),  # it went
        ("Nonsense", 20, 1, None),
        ("Range", 27, 11, None),  # 27 only adds dtypes, and an attr for these
    ],
)
def test_what_changed(op_type: str, version: int, older: int, since: int | None) -> None:
    assert changed_in("", op_type, version, older) == since


def test_numbers_alone_are_lowered(older_runtime: None) -> None:
    model = relu(8)
    before = model.graph.SerializeToString()
    assert lower_versions(model) == ("opset 20 → 12",)
    assert model.opset_import[0].version == 12
    assert model.graph.SerializeToString() == before


@pytest.fixture
def exp(monkeypatch):
    """A model of Exp, in a runtime that takes opset 20, and whose Exp has kernels up to version 12."""
    rows = {
        ("", name): (ort_capabilities.RuntimeKernel(6, last, ()),)
        for name, last in (("Exp", 12), ("Gelu", 20), ("Softmax", 20))
    }
    monkeypatch.setattr(versions, "kernels", lambda: rows)
    monkeypatch.setattr(versions, "newest_opset", lambda: 20)
    monkeypatch.setattr(versions, "_TAKEN", {})
    model = relu(8)
    model.graph.node[0].op_type = "Exp"
    return model


def test_a_version_that_is_taken_without_a_kernel_is_lowered_to_one_with_it(
    exp: ModelProto,
) -> None:
    assert [(new.domain, new.newest) for new in new_imports(exp)] == [("", 12)]
    assert lower_versions(exp) == ("opset 20 → 12",)
    assert list(new_imports(exp)) == []


@pytest.mark.parametrize(
    ("nodes", "function", "where"),
    [
        (
            "[choose] y = If(c) <then_branch = t () => (b) { [inside] b = Softmax(x) }, else_branch = e () => (b) { b = Relu(x) }>",
            "",
            "If 'choose', then_branch",
        ),
        (
            "y = local.F(x)",
            '<domain: "local", opset_import: ["ai.onnx" : 20]> F (a) => (b) { [inside] b = Softmax(a) }',
            "function local::F",
        ),
    ],
)
def test_bodies_and_functions_are_looked_into(older_runtime, nodes, function, where) -> None:
    opset = 12 if function else 20
    text = f"""<ir_version: 8, opset_import: ["" : {opset}, "local" : 1]>
        g (float[2] x, bool c) => (float[2] y) {{ {nodes} }} {function}"""
    said = rf"node 'inside' \(::Softmax, in {where}\)"
    with pytest.raises(pyopnb.errors.ModelError, match=said):
        lower_versions(onnx.parser.parse_model(text))
    model = onnx.parser.parse_model(text.replace("Softmax", "Relu"))
    assert lower_versions(model) == ("opset 20 → 12",)
    lowered = model.functions[0] if function else model
    assert lowered.opset_import[0].version == 12


def test_a_version_that_onnx_does_not_know() -> None:
    version = max(onnx.defs.onnx_opset_version(), newest_version("")) + 1
    model = relu(8, version)
    with pytest.raises(
        pyopnb.errors.ModelError,
        match=r"import of ai\.onnx: .* cannot say what changed\. Try: pip install -U onnx",
    ):
        lower_versions(model)
    model.graph.node[0].domain = "local"  # an import that no node needs
    assert lower_versions(model) == (f"opset {version} → {newest_version('')}",)


# ---- the IR version ----------------------------------------------------------------------------------------------------------


def test_an_ir_version_that_nothing_needs() -> None:
    for version in (NEWER_IR, 99):
        model = relu(version)
        model.configuration.add(name="two", num_devices=2)
        model.graph.node[0].device_configurations.add(configuration_id="two")
        model.graph.initializer.append(helper.make_tensor("w", TensorProto.INT4, [2], [1, 2]))
        model.metadata_props.add(key="k", value="v")
        assert lower_versions(model) == (f"IR version {version} → {newest_loaded_ir()}",)
        assert model.ir_version == newest_loaded_ir()


NEW_DTYPE = 28  # float6e3m2 of IR version 14, which an old onnx does not know either


def in_input(model: ModelProto) -> None:
    model.graph.input[0].type.tensor_type.elem_type = NEW_DTYPE


def in_sequence(model: ModelProto) -> None:
    model.graph.value_info.add().type.sequence_type.elem_type.optional_type.elem_type.tensor_type.elem_type = NEW_DTYPE


def in_attribute(model: ModelProto) -> None:
    model.graph.node[0].attribute.add(name="value").t.data_type = NEW_DTYPE


def in_body_of_function(model: ModelProto) -> None:
    body = model.functions.add(name="F").node.add().attribute.add(name="body").g
    body.initializer.add(data_type=NEW_DTYPE)


@pytest.mark.parametrize("put", [in_input, in_sequence, in_attribute, in_body_of_function])
def test_a_dtype_of_a_newer_ir_version_needs_it(put) -> None:
    model = relu()
    put(model)
    with pytest.raises(
        pyopnb.errors.ModelError,
        match=rf"got IR version {NEWER_IR} .*lacks: the dtype (28|float6e3m2)",
    ):
        lower_versions(model)


def test_a_field_that_onnx_does_not_know_needs_it() -> None:
    model = relu()
    node = model.graph.node[0].SerializeToString() + b"\xf8\x3f\x07"  # field 1023, a varint
    model.graph.node[0].ParseFromString(node)
    with pytest.raises(pyopnb.errors.ModelError, match="lacks: a field of a NodeProto"):
        lower_versions(model)
