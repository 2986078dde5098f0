"""What `pyopnb.netron` gives to a notebook, and what no name can do to it."""

from __future__ import annotations

import base64
import functools
import gc
import gzip
import html
import json
from html.parser import HTMLParser

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from onnx import ModelProto, helper

import pyopnb
from pyopnb.display.netron_page.view import MIME, clicked

SMALL = "(float[N] x) => (float[N] y) { a = Abs(x)  y = Neg(a) }"
HOSTILE = "</script></iframe><script>alert(1)</script>\"'><img src=x onerror=alert(1)> <!-- ]]> & \x00\x1b ‮"


class Elements(HTMLParser):
    """The elements of some HTML, with their attributes, and the text between them."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.text = [], ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text += data

    def all(self, tag):
        return [attrs for name, attrs in self.elements if name == tag]


def named(name):
    """A small model in which everything that can be named has this name."""
    model = pyopnb.parse(SMALL)
    model.graph.name = model.graph.node[0].name = model.graph.node[1].op_type = model.doc_string = (
        name
    )
    model.producer_name = model.graph.input[0].doc_string = name
    model.graph.node[0].attribute.append(helper.make_attribute(name or "a", name))
    model.metadata_props.add(key=name, value=name)
    return model


def unpacked(text):
    return gzip.decompress(base64.b64decode(text))


def test_a_bundle():
    model = pyopnb.parse(SMALL)
    bundle = pyopnb.netron(model, name="small", height=300)._repr_mimebundle_()
    assert set(bundle) == {MIME, "text/html", "text/plain"}
    assert bundle["text/plain"] == "<Netron: small: 2 nodes>"
    content = json.loads(json.dumps(bundle[MIME]))
    assert (content["name"], content["height"], content["caption"]) == (
        "small",
        300,
        "small: 2 nodes",
    )
    shown = ModelProto.FromString(unpacked(content["model"]))
    assert [node.op_type for node in shown.graph.node] == ["Abs", "Neg"]
    assert {entry["name"] for entry in content["documentation"]} == {"Abs", "Neg"}


def test_html_that_is_netron_or_the_picture():
    page = Elements(pyopnb.netron(pyopnb.parse(SMALL), height=300)._repr_mimebundle_()["text/html"])
    (frame,) = page.all("iframe")
    assert (
        frame["sandbox"] == "allow-scripts allow-downloads"
    )  # not allow-same-origin: a model must not reach the notebook
    assert "height:300px" in frame["style"]
    (picture,) = page.all("img")
    assert picture["src"].startswith("data:image/svg+xml;base64,") and picture["alt"]
    inner = Elements(frame["srcdoc"])
    data = {script["id"] for script in inner.all("script") if script.get("id")}
    assert data == {"pyopnb-netron", "pyopnb-model"}


@functools.cache
def page_of_plain():
    return Elements(
        pyopnb.netron(pyopnb.parse(SMALL), name="plain")._repr_mimebundle_()["text/html"]
    )


def harmless(model, name):
    view = pyopnb.netron(model, name=name)
    plain = page_of_plain()
    bundle = view._repr_mimebundle_()
    page = Elements(bundle["text/html"])
    if isinstance(model, ModelProto):
        assert [tag for tag, _ in page.elements] == [tag for tag, _ in plain.elements]
        assert [set(attrs) for _, attrs in page.elements] == [
            set(attrs) for _, attrs in plain.elements
        ]
    inner, before = (Elements(each.all("iframe")[0]["srcdoc"]) for each in (page, plain))
    assert inner.elements == before.elements  # the model is in the text of two scripts, as base64
    json.dumps(bundle[MIME])
    return bundle


@pytest.mark.one_python  # 4 s, of our own escaping
@settings(max_examples=10)
@given(st.text(max_size=40))
@example(HOSTILE)
@example("x" * 10_000)
@example("</script>" * 2000)
def test_no_name_breaks_out(name):
    bundle = harmless(named(name), name)
    assert len(bundle["text/plain"]) < 1000


def test_traces_and_diffs_have_their_colors():
    model = pyopnb.parse(SMALL)
    model.graph.node[0].name = HOSTILE
    trace = pyopnb.Session(model).trace(x=np.float32([1, -4]), times=False)
    colors = pyopnb.netron(trace)._repr_mimebundle_()[MIME]["colors"]
    assert colors["legend"]["title"] == "largest |x|" and len(colors["legend"]["stops"]) == 9
    scale = pyopnb.show(trace).canvas.scale
    assert {name: fill for name, (fill, _, _) in colors["nodes"].items()} == dict.fromkeys(
        [HOSTILE, "(Neg of y)"], scale.color(4)
    )
    assert "float32[2]  " in colors["nodes"]["(Neg of y)"][2]
    other = pyopnb.parse(SMALL.replace("Neg", "Exp"))
    other.graph.node[0].name = HOSTILE
    changed = pyopnb.netron(pyopnb.diff(model, other))
    assert "changed" in changed._repr_mimebundle_()[MIME]["colors"]["nodes"]["(Exp of y)"][2]
    run = pyopnb.diff(trace, pyopnb.Session(other).trace(x=np.float32([1, -4]), times=False))
    assert "origin" in str(pyopnb.netron(run)._repr_mimebundle_()[MIME]["colors"])
    assert pyopnb.netron(model)._repr_mimebundle_()[MIME]["colors"] == {"nodes": {}}
    harmless(trace, HOSTILE)


def test_a_page_of_its_own(tmp_path):
    view = pyopnb.netron(pyopnb.parse(SMALL))
    view.save(tmp_path / "net.html")
    page = (tmp_path / "net.html").read_text("utf-8")
    assert html.escape(page) in view._repr_mimebundle_()["text/html"]
    with pytest.raises(
        pyopnb.errors.InputError, match=r"expected a path that ends in \.html, got \.svg"
    ):
        view.save(tmp_path / "net.svg")


class TestClicks:
    def test_reach_functions_with_the_original_node(self):
        model = pyopnb.parse(SMALL)
        view = pyopnb.netron(model)
        assert view.selected is None
        seen = []
        assert view.on_select(seen.append) == seen.append
        clicked(view._id, "(Neg of y)")
        assert seen == [model.graph.node[1]] and seen[0] is view.selected is model.graph.node[1]

    def test_of_what_is_not_there_are_nothing(self):
        view = pyopnb.netron(pyopnb.parse(SMALL))
        view.on_select(lambda node: pytest.fail("called"))
        clicked(view._id, "nobody")
        clicked("0" * 32, "(Neg of y)")
        assert view.selected is None

    def test_raise_what_a_function_raises(self):
        view = pyopnb.netron(pyopnb.parse(SMALL))
        view.on_select(lambda node: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            clicked(view._id, "(Neg of y)")
        assert view.selected.op_type == "Neg"

    def test_do_not_keep_a_view_alive(self):
        view = pyopnb.netron(pyopnb.parse(SMALL))
        called, key = [], view._id
        view.on_select(called.append)
        del view
        gc.collect()
        clicked(key, "(Neg of y)")
        assert called == []


def test_marimo_gets_one_drawing():
    """It drops styles, so the picture that they hide would be below the frame."""
    kind, text = pyopnb.netron(pyopnb.parse(SMALL))._mime_()
    assert kind == "text/html"
    assert (text.count("<iframe"), text.count("<img")) == (1, 0)
