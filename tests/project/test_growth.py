"""What takes a model of any size grows with it, and not with its square: the work is counted, not timed."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
from onnx import ModelProto, helper
from work import work

import pyopnb

SMALL, FACTOR = 60, 4
X = np.zeros(4, np.float32)

Call = Callable[[], object]


class Op:
    def __init__(self, by: float = 1.0):
        self.by = by

    def compute(self, x):
        return -x


@pytest.fixture(autouse=True)
def op() -> None:
    pyopnb.registry.define(Op, "grow::Op")


def chain(op_type: str, count: int) -> ModelProto:
    """A chain whose every value has its type in the file."""
    names = ["x", *(f"v{n}" for n in range(count - 1)), "y"]
    nodes = [helper.make_node(op_type, [a], [b], f"n{b}") for a, b in pairwise(names)]
    types = {name: helper.make_tensor_value_info(name, 1, [4]) for name in names}
    infos = [types[name] for name in names[1:-1]]
    graph = helper.make_graph(nodes, "g", [types["x"]], [types["y"]], value_info=infos)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


def replaced(count: int) -> ModelProto:
    return pyopnb.replace(chain("Neg", count), "Neg", "grow::Op")


def replace_all(count: int) -> Call:
    model = chain("Neg", count)
    return lambda: pyopnb.replace(model, "Neg", "grow::Op")


def make_session(count: int) -> Call:
    model = replaced(count)
    return lambda: pyopnb.Session(model)


def session_attrs(count: int) -> Call:
    session = pyopnb.Session(replaced(count))

    def use() -> None:
        session.set_attrs("nv3", by=2.0)
        assert len(session.attrs) == count and session.changed_attrs == {"nv3": {"by": 2.0}}

    return use


def profile_nodes(count: int) -> Call:
    session = pyopnb.Session(chain("Neg", count))
    return lambda: pyopnb.profile(session, x=X, runs=1, warmup=0)


@pytest.mark.parametrize("case", [replace_all, make_session, session_attrs, profile_nodes])
def test_the_work_grows_with_the_model(case: Callable[[int], Call]) -> None:
    # What is read once a process; and Python 3.13 counts in a function from the
    # second traced call on.
    work(case(5))
    small, large = (work(case(count)) for count in (SMALL, FACTOR * SMALL))
    assert small > SMALL
    assert large <= 1.25 * FACTOR * small, f"{small} → {large}"
