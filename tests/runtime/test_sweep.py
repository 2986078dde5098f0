"""Ranges of attrs and feeds."""

from __future__ import annotations

import numpy as np
import pytest

import pyopnb

X = np.float32([-1, 0.5, 2])


class Soft:
    def __init__(
        self,
        limit: float = 1.0,
        power: int = 1,
        kind: str = "a",
        axes: list[int] = [0],  # noqa: B006
    ) -> None:
        self.limit, self.power, self.kind, self.axes = limit, power, kind, axes

    def compute(self, x):
        if self.limit < 0:
            raise ValueError("limit is negative")
        return (np.clip(x, -self.limit, self.limit) ** self.power + len(self.axes) - 1).astype(
            x.dtype
        )


@pytest.fixture
def session():
    pyopnb.registry.define(Soft, "sweeps::Soft")
    nodes = [
        pyopnb.node("sweeps::Soft", "x", "y", limit=5.0),
        pyopnb.node("ReduceSum", "y", "s", keepdims=0),
    ]
    return pyopnb.Session(pyopnb.model(nodes, {"x": "float32[N]"}, ["y", "s"]))


def test_each_value_is_that_run(session):
    limits = np.linspace(0.25, 2, 8)
    found = pyopnb.sweep(session, x=X, limit=limits)
    assert found.shape == (8,) and found.is_complete and found.axes == {"limit": limits.tolist()}
    assert np.array_equal(
        found.array("y"),
        np.stack([np.clip(X, -limit, limit) for limit in limits]).astype(np.float32),
    )
    assert (
        found[2].values == {"limit": 0.75}
        and found[2].result["s"] == 0.5
        and all(run.seconds > 0 for run in found)
    )


def test_the_session_keeps_its_attrs(session):
    pyopnb.sweep(session, x=X, limit=[0.1, 0.2])
    assert (
        session.attrs["y"]["limit"] == 5.0
        and session.changed_attrs == {}
        and np.array_equal(session(x=X)["y"], X)
    )


def test_combinations_vary_the_last_name_first(session):
    found = pyopnb.sweep(session, X, limit=[1, 2, 3], power=np.linspace(1, 2, 2))
    assert found.shape == (3, 2) and [tuple(run.values.values()) for run in found][:3] == [
        (1, 1),
        (1, 2),
        (2, 1),
    ]
    assert found.array().shape == (3, 2, 3) and found.array("s").shape == (3, 2)
    assert found.array()[2, 1].tolist() == [1, 0.25, 4]


def test_what_is_varied_and_what_is_one_value(session):
    assert pyopnb.sweep(session, x=X, kind=["a", "b"], limit=2.0).axes == {
        "kind": ["a", "b"],
        "limit": [2.0],
    }
    assert pyopnb.sweep(session, x=X, axes=[[0], [0, 1]]).array("s").tolist() == [1.5, 4.5]
    assert pyopnb.sweep(session, x=X, axes=[0, 1], power=range(1, 3)).axes == {
        "axes": [[0, 1]],
        "power": [1, 2],
    }
    assert pyopnb.sweep(session, x=[X, 2 * X]).array("s").tolist() == [1.5, 3]
    assert pyopnb.sweep(session, x=X, **{"y.limit": [1.0, 2.0]}).shape == (2,)
    assert pyopnb.sweep(session, x=X, **{"Soft.limit": [1.0, 2.0]}).shape == (2,)


def test_an_error_is_part_of_it(session):
    found = pyopnb.sweep(session, x=X, limit=[-1.0, 1.0])
    assert (
        str(found[0].error) == "limit is negative"
        and found[0].result is None
        and found[1].error is None
    )
    assert "ValueError: limit is negative" in repr(found)
    with pytest.raises(
        pyopnb.errors.InputError,
        match=r"sweep, array: expected 2 results of one shape, got 1 results",
    ):
        found.array()
    with pytest.raises(ValueError, match="limit is negative"):
        pyopnb.sweep(session, x=X, limit=[-1.0, -2.0])


def test_an_interrupt_keeps_what_was_run(session):
    class Stops(Soft):
        def compute(self, x):
            if self.limit > 2:
                raise KeyboardInterrupt
            return x

    pyopnb.registry.define(Stops, "sweeps::Soft")
    found = pyopnb.sweep(session, x=X, limit=[1.0, 2.0, 3.0])
    assert (
        len(found) == 2
        and not found.is_complete
        and repr(found).endswith("interrupted after 2 of 3 runs")
    )
