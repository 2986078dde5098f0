"""A result that no memory can hold. Not among tests/border: a sanitizer's allocator ends the process instead of raising."""

import numpy as np
import pytest

import pyopnb


def test_a_result_that_no_memory_can_hold_is_an_exception():
    @pyopnb.pyop("large::Large")
    class Large:
        size = 2**20, 2**21

        def compute(self, x):
            return np.broadcast_to(x, self.size)

    session = pyopnb.Session(
        pyopnb.model([pyopnb.node("large::Large", "x", "y", name="n")], {"x": "float32[1]"}, "y")
    )
    for _ in range(2):
        with pytest.raises(RuntimeError, match="(?i)alloc") as caught:
            session(x=np.ones(1, np.float32))
        assert caught.value.__notes__ == [
            "in node 'n' (large::Large), version 1, with x: float32[1]"
        ]
    Large.size = 2, 3
    assert session(x=np.ones(1, np.float32))["y"].tolist() == [[1, 1, 1]] * 2
