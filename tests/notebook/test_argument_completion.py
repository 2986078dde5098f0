"""Completion of feeds, tensors, attrs and names of ops, wherever they are typed."""

from __future__ import annotations

import pytest
from IPython.core.completer import provisionalcompleter

import pyopnb

OPS = ["demo::SoftClip", "pyopnb::Other"]
NODES = ["Abs", "Add", "a", "demo::SoftClip", "y", "z"]


@pytest.fixture(scope="module", params=[True, False], ids=["jedi", "no jedi"])
def jedi(request):
    return request.param


@pytest.fixture
def offered(define, shell, jedi, monkeypatch):
    """What is offered at the end of a text."""
    monkeypatch.setattr(shell.Completer, "use_jedi", jedi)
    define("import numpy as np, pyopnb\nfrom pyopnb import call, run")
    define(
        "%%pyop -q -d demo\nclass SoftClip:\n    def __init__(self, limit=1.0, power=1): ...\n    def compute(self, x): return x"
    )
    define("%%pyop -q\nclass Other:\n    def compute(self, x): return x")
    define(
        "%%onnx -q model\n(float[N] x, float[N] other) => (y, z) { a = Abs(x) y = demo.SoftClip(a) z = Add(x, other) }"
    )
    define(
        "session = pyopnb.Session(model)\nx = np.float32([1])\nr = session(x=x, other=x)\ntrace = session.trace(x=x, other=x)"
    )

    def offered(text):
        with provisionalcompleter():
            return [match.text for match in shell.Completer.completions(text, len(text))]

    return offered


ALONE = [
    ("session(", ["x=", "other="]),
    ("y = 2 * session(", ["x=", "other="]),
    ("print(session(", ["x=", "other="]),
    ("session(x=x, ", ["other="]),
    ("session(x, ", ["other="]),
    ("session(\n    x=np.float32([1, 2]),  # not )\n    ", ["other="]),
    ("%%pyop\nclass A: ...\nsession(", ["x=", "other="]),
    ("session.trace(x=x, ", ["other="]),
    ("session.set_attrs(", ["limit=", "power="]),
    ("session.set_attrs('y', limit=2.0, ", ["power="]),
    ("run(model, ", ["x=", "other="]),
    ("pyopnb.trace(model, x, ", ["other="]),
    ("pyopnb.watch(session, ", ["x=", "other="]),
    ("pyopnb.interact(session, x=x, ", ["other=", "limit=", "power="]),
    ("pyopnb.call('demo::SoftClip', x, ", ["limit=", "power="]),
    ("call(SoftClip, x, limit=1.0, ", ["power="]),
    ("pyopnb.node('LeakyRelu', 'x', 'y', ", ["alpha="]),
    ("pyopnb.check('demo::SoftClip', x, ", ["limit=", "power="]),
    ('r["', ["y", "z"]),
    ("trace['", ["a", "other", "x", "y", "z"]),
    ('trace["ot', ["other"]),
    ("pyopnb.registry['", OPS),
    ("pyopnb.registry.history('", OPS),
    ('pyopnb.call("', OPS),
    ("pyopnb.check('py", ["pyopnb::Other"]),
    ("pyopnb.node('LeakyR", ["LeakyRelu"]),
    ("pyopnb.replace(model, 'Abs', '", OPS),
    ("pyopnb.lower('", OPS),
    ('pyopnb.replace(model, "', NODES),
    ('pyopnb.skeleton(model, "', NODES),
    ('pyopnb.wrap(session, "dem', ["demo::SoftClip"]),
    ('session.set_attrs("', ["demo::SoftClip", "y"]),
    ('pyopnb.extract(trace, "', ["a", "other", "x", "y", "z"]),
    ('pyopnb.extract(model, "a", "', ["a", "other", "x", "y", "z"]),
    ('session.trace(x=x, only="', ["a", "other", "x", "y", "z"]),
    ('pyopnb.grad(model, "', ["other", "x"]),
    ('pyopnb.show(trace, by="', ["size", "std", "time"]),
    ('session.trace(x=x, level="s', ["summaries"]),
    ('pyopnb.train(model, {}, loss="', ["cross_entropy", "mse"]),
    ("pyopnb.train(model, {}, optimizer='", ["adagrad", "adam", "momentum", "sgd"]),
    ('pyopnb.map(session, [], errors="', ["keep", "raise"]),
    ("pyopnb.sweep(session, x=x, ", ["other=", "limit=", "power="]),
    ("pyopnb.profile(session, ", ["x=", "other="]),
    (
        "pyopnb.show(x, ",
        ["name=", "rgb=", "limits=", "colors=", "log=", "origin=", "feeds=", "picture="],
    ),
    ("pyopnb.show(x, origin='", ["lower", "upper"]),
    ("%pyop rollback ", OPS),
    ("%pyop remove demo", ["demo::SoftClip"]),
    ("%%onnx m\n(", [name.lower() for name in __import__("onnx").TensorProto.DataType.keys()[1:]]),
    ("%%onnx m\n(float16[N] x, do", ["double"]),
    ("%%onnx m\n(float x) => (y) { y = demo.", ["demo.SoftClip"]),
    ("%%onnx m\n(float x) => (y) { y = de", ["demo.SoftClip"]),
    ("%%onnx m\n(float x) => (y) { y = LeakyR", ["LeakyRelu"]),
    ("%%onnx m\n(float x) => (y) {\n    y = demo.SoftClip<", ["limit = ", "power = "]),
    ("%%onnx m\n(float x) => (y) {\n    y = demo.SoftClip<limit = 2.0, po", ["power = "]),
    ("%%onnx m\n(float x) => (y) {\n    y = LeakyRelu(x) <al", ["alpha = "]),
    ("%%onnx m\n(float some, float more) => (y) { y = Add(so", ["some"]),
    ("%%onnx m\n(float some, float more) => (y) { y = Add(some, ", ["some", "more", "y"]),
]


def test_nothing_else_is_offered(offered):
    assert {text: sorted(offered(text)) for text, _ in ALONE} == {
        text: sorted(matches) for text, matches in ALONE
    }


def test_the_operators_of_onnx_beside_the_ops(offered):
    assert {"Relu", *OPS} <= set(offered('pyopnb.node("'))


def test_what_is_no_function_is_no_error(offered):
    for text in ("trace(", "r(", "pyopnb.registry("):
        assert "x=" not in offered(text), text


def test_a_feed_among_the_names_of_python(offered):
    assert {"other=", "object"} <= set(offered("session(x=x, o")) | set(offered("session(o"))
    assert "power=" in offered("session.set_attrs(p")
    assert "limit=" in offered("call(SoftClip, x, l")


def test_elsewhere_python_is_offered(offered):
    for text in (
        "session(x=",
        "session(x=n",
        "[session, ",
        "session[",
        "max(",
        "undefined(",
        "session().x(",
        "'session(",
    ):
        assert "other=" not in offered(text), text


PACKAGES = ("catalog", "errors", "ortx", "sklearn", "testing", "torch", "training")


def test_what_is_public_is_offered(offered):
    assert sorted(
        name.removeprefix("pyopnb").removeprefix(".") for name in offered("pyopnb.")
    ) == sorted([*pyopnb.__all__, *PACKAGES])


def test_a_completion_replaces_what_is_typed(offered, shell):
    text = "session(x=x, ot"
    with provisionalcompleter():
        (match,) = [
            match
            for match in shell.Completer.completions(text, len(text))
            if match.text == "other="
        ]
    assert (match.start, match.end) == (13, 15)


def test_ops_that_wrap_made_are_not_offered(offered, define):
    define('wrapped = pyopnb.wrap(model, "Abs", print)')
    assert any(op.is_generated for op in pyopnb.registry)
    assert offered('pyopnb.check("') == OPS
