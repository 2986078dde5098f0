"""What the sidebar can say: ONNX's operators at the version that the model means, and our ops from their classes."""

from __future__ import annotations

import pyopnb
from pyopnb.display.netron import assets
from pyopnb.display.netron.op_docs import document_ops

MODEL = "(float[N,3] x) => (float[N,3] y) { a = Abs(x)  y = demo.SoftClip<limit = 2.0>(a) }"


def define(name="demo::SoftClip"):
    @pyopnb.pyop(name)
    class SoftClip:
        """Clip x smoothly to ±limit, where a<b.

        Second paragraph.
        """

        def __init__(self, limit: float, mode: str = "tanh", scale: float = 1.0):
            self.limit = limit

        def compute(self, x: "float32[N,3]", bias=None, *more) -> "float32[N,3]":
            return x


def entries(model):
    return {
        (e["module"], e["name"]): e
        for e in document_ops(model, assets.read_assets().documentation())
    }


def test_our_op():
    define()
    entry = entries(pyopnb.parse(MODEL))["demo", "SoftClip"]
    assert entry["description"].startswith(
        "Clip x smoothly to ±limit, where a&lt;b.\n\nSecond paragraph."
    )
    assert "demo::SoftClip, version 1" in entry["description"]
    assert entry["attributes"] == [
        {"name": "limit", "type": "float", "required": True, "description": "Required."},
        {"name": "mode", "type": "str", "required": False, "description": "Default: 'tanh'."},
        {"name": "scale", "type": "float", "required": False, "description": "Default: 1.0."},
    ]
    assert entry["inputs"] == [
        {"name": "x", "type": "float32[N,3]"},
        {"name": "bias", "option": "optional"},
        {"name": "more", "list": True, "option": "variadic"},
    ]
    assert entry["outputs"] == [{"name": "output 0", "type": "float32[N,3]"}]


def test_only_what_the_model_uses():
    define()
    define("demo::Other")
    assert set(entries(pyopnb.parse(MODEL))) == {("ai.onnx", "Abs"), ("demo", "SoftClip")}


def test_the_version_that_the_model_means():
    model = pyopnb.parse(MODEL)
    for imported, version in ((5, 1), (6, 6), (12, 6), (13, 13)):
        model.opset_import[0].version = imported
        assert entries(model)["ai.onnx", "Abs"]["version"] == version


def test_an_op_without_an_import_is_still_found():
    # Netron takes entries up to the imported version, which is 0 for it where there is no import; the retired PyOp's models are so.
    define()
    model = pyopnb.parse(MODEL)
    kept = [opset for opset in model.opset_import if opset.domain != "demo"]
    del model.opset_import[:]
    model.opset_import.extend(kept)
    assert entries(model)["demo", "SoftClip"]["version"] == 0


def test_ours_in_the_place_of_onnxs():
    define("::Abs")
    assert "version 1" in entries(pyopnb.parse(MODEL))["ai.onnx", "Abs"]["description"]
