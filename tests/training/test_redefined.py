"""An op that is redefined during a training serves from the next step on, and the curve shows where."""

import base64
import re
from functools import partial

import numpy as np
import pytest

import pyopnb
from pyopnb.training import SGD

# Gradients are judged in tests/grad.
train = partial(pyopnb.train, verify=False)


def define(factor, hint=True):
    class Brighter:
        def compute(self, x):
            return x * np.float32(factor)

    if hint:
        Brighter.compute.__annotations__ = {"x": "float32[N]", "return": "float32[N]"}
    pyopnb.pyop("demo::Brighter")(Brighter)


@pytest.fixture
def model():
    define(1)
    nodes = [
        pyopnb.node("demo::Brighter", "x", "b"),
        pyopnb.node("Mul", "b w", "p"),
        pyopnb.node("ReduceMean", "p", "loss", keepdims=0),
    ]
    yield pyopnb.model(nodes, {"x": "float32[N]"}, "loss", initializers={"w": np.float32([1])})
    pyopnb.registry.remove("demo::Brighter")


class Feeds:
    """Ones, with something done before a step."""

    def __init__(self, steps, at, what):
        self.steps, self.at, self.what = steps, at, what

    def __iter__(self):
        for number in range(1, self.steps + 1):
            if number == self.at:
                self.what()
            yield {"x": np.ones(2, np.float32)}


def test_the_next_step_is_that_of_the_new_version(model):
    result = train(model, Feeds(5, 3, lambda: define(10)), loss="loss", optimizer=SGD(0.125))
    assert result.losses.tolist() == [
        1,
        0.875,
        7.5,
        -5.0,
        -17.5,
    ]  # the gradient is 1, and from then on 10
    assert result.marks == [(3, "demo::Brighter version 2")]
    html = result._repr_html_()
    assert "From step 3 on demo::Brighter version 2." in html
    svg = base64.b64decode(re.search(r"base64,([^\"]+)", html)[1]).decode()
    assert "version 2" in svg and "stroke-dasharray" in svg


def test_a_version_between_two_trainings_is_marked_as_well(model):
    result = train(model, Feeds(2, 9, None), loss="loss", optimizer=SGD(0.125))
    assert result.marks == []
    define(10)
    assert result.resume(epochs=1).marks == [(3, "demo::Brighter version 2")]
    assert result.losses[2] == 7.5


def test_a_version_whose_outputs_changed_rebuilds_the_session_and_keeps_the_weights(model):
    with pytest.warns(pyopnb.errors.SessionRebuilt):
        result = train(
            model, Feeds(3, 3, lambda: define(10, hint=False)), loss="loss", optimizer=SGD(0.125)
        )
    assert result.losses.tolist() == [1, 0.875, 7.5]


def test_an_op_that_raises_arrives_as_itself(model):
    class Brighter:
        def compute(self, x):
            raise ZeroDivisionError("on purpose")

    feeds = Feeds(5, 3, lambda: pyopnb.pyop("demo::Brighter")(Brighter))
    with (
        pytest.warns(pyopnb.errors.SessionRebuilt),
        pytest.raises(ZeroDivisionError, match="on purpose") as caught,
    ):
        train(model, feeds, loss="loss")
    assert "in step 3 of a training" in "".join(caught.value.__notes__)


def test_a_new_backward_is_that_of_the_next_step():
    def define(factor):
        class Through:
            def compute(self, x: "float32[N]") -> "float32[N]":
                return x.copy()

            def backward(self, inputs, outputs, grads):
                return grads[0] * np.float32(factor)

        pyopnb.pyop("demo::Through")(Through)

    define(1)
    nodes = [
        pyopnb.node("Mul", "x w", "p"),
        pyopnb.node("demo::Through", "p", "t"),
        pyopnb.node("ReduceMean", "t", "loss", keepdims=0),
    ]
    model = pyopnb.model(nodes, {"x": "float32[N]"}, "loss", initializers={"w": np.float32([1])})
    result = train(model, Feeds(4, 3, lambda: define(4)), loss="loss", optimizer=SGD(0.125))
    assert result.losses.tolist() == [1, 0.875, 0.75, 0.25]
    assert result.marks == [(3, "demo::Through version 2")]  # and none of its gradient op
    pyopnb.registry.remove("demo::Through")
