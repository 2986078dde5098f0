"""Torch's exporter makes its tables once for many exports, and again where they changed; it has its own functions back each time."""

import threading

import pytest
import torch
from onnxscript import opset18
from onnxscript.function_libs.torch_lib import registration
from torch import nn
from torch._export import utils
from torch.onnx._internal.exporter import _registration

import pyopnb.torch
from pyopnb.torch import exporter_internals
from pyopnb.torch.exporter_internals import kept_tables

REGISTRY = _registration.ONNXRegistry


class Inverse(nn.Module):
    def forward(self, x):
        return torch.inverse(x) + 1


def types():
    model = pyopnb.torch.export(Inverse().eval(), (torch.full((1, 1), 4.0),))
    return [node.op_type for node in model.graph.node]


def theirs():
    return vars(REGISTRY)["from_torchlib"], utils._materialize_cpp_cia_ops, torch._ops.Callable


@pytest.fixture
def made(monkeypatch):
    """How often torch has asked onnxscript for its functions, which takes a second."""
    calls, asked = [], _registration.onnxscript_apis.get_torchlib_ops
    monkeypatch.setattr(_registration.onnxscript_apis, "get_torchlib_ops", lambda: calls.append(1) or asked(), raising=False)
    return calls


def one_by_one(x):
    return opset18.Reciprocal(x)


def test_a_table_serves_until_its_functions_change(made):
    before = theirs()
    with pytest.warns(pyopnb.torch.StandIns):
        assert types() == ["inverse", "Add"]
    made.clear()
    with pytest.warns(pyopnb.torch.StandIns):
        types()
    assert made == []
    registration.torch_op("aten::inverse", trace_only=True)(one_by_one)
    try:
        assert types() == ["Reciprocal", "Add"]
        assert made == [1]
    finally:
        del registration.default_registry._registry["aten::inverse"]
    assert theirs() == before


def test_what_one_export_registers_is_not_in_the_next():
    with kept_tables():
        REGISTRY.from_torchlib().register_op(torch.ops.aten.inverse.default, one_by_one)
        assert not REGISTRY.from_torchlib().is_registered(torch.ops.aten.inverse.default)


def test_the_kept_table_is_that_of_torch():
    def written(table):
        return table.opset_version, {name: [entry.onnx_function for entry in found] for name, found in table.functions.items()}

    of_torch = written(REGISTRY.from_torchlib())
    with kept_tables():
        assert written(REGISTRY.from_torchlib()) == of_torch
        assert written(REGISTRY().from_torchlib(opset_version=18))[0] == 18


def test_an_op_that_torch_gets_later_is_in_the_table(made):
    registration.torch_op("pyopnb_test::later", trace_only=True)(one_by_one)
    try:
        with kept_tables():
            assert "pyopnb_test::later" not in REGISTRY.from_torchlib().functions
            later = torch.library.custom_op(
                "pyopnb_test::later", lambda x: x + x, mutates_args=(), schema="(Tensor x) -> Tensor"
            )
            made.clear()
            assert "pyopnb_test::later" in REGISTRY.from_torchlib().functions
            REGISTRY.from_torchlib()
            assert made == [1]
            del later
    finally:
        del registration.default_registry._registry["pyopnb_test::later"]


def test_composite_ops_that_are_registered_between_exports_are_found(monkeypatch):
    walked = []
    monkeypatch.setattr(utils, "_materialize_cpp_cia_ops", lambda: walked.append(1))
    monkeypatch.setattr(exporter_internals, "_seen", [])
    library = torch.library.Library("pyopnb_walk", "DEF")
    for n, schema in enumerate(("first(Tensor x) -> Tensor", "second(Tensor x) -> Tensor")):
        library.define(schema)
        library.impl(schema.partition("(")[0], torch.neg, "CompositeImplicitAutograd")
        for _ in range(2):
            with kept_tables():
                utils._materialize_cpp_cia_ops()
                utils._materialize_cpp_cia_ops()
        assert walked == [1] * (n + 1)
    library._destroy()


def test_torch_has_its_functions_back_when_the_last_thread_leaves():
    before = theirs()
    inside, leave = threading.Event(), threading.Event()

    def other():
        with kept_tables():
            inside.set()
            leave.wait()

    thread = threading.Thread(target=other, daemon=True)
    thread.start()
    inside.wait()
    with pytest.raises(RuntimeError, match="in the middle"), kept_tables():
        raise RuntimeError("in the middle")
    assert theirs() != before
    leave.set()
    thread.join()
    assert theirs() == before


def test_a_function_that_someone_puts_in_meanwhile_stays(monkeypatch):
    monkeypatch.setattr(utils, "_materialize_cpp_cia_ops", utils._materialize_cpp_cia_ops)
    with kept_tables():
        utils._materialize_cpp_cia_ops = other = lambda: None
    assert utils._materialize_cpp_cia_ops is other


def test_a_torch_that_has_them_elsewhere_exports_as_well(monkeypatch):
    monkeypatch.delattr(utils, "_materialize_cpp_cia_ops")
    before = vars(REGISTRY)["from_torchlib"]
    with kept_tables():
        assert vars(REGISTRY)["from_torchlib"] is before
