"""The outputs of one run by name and by number."""

import numpy as np
import pytest

from pyopnb.engine.ops.result import Result
from pyopnb.errors import UnknownName

Y = np.float32([-1, 2])


def test_by_name_number_and_slice():
    result = Result({"y": Y, "z": None})
    assert result["y"] is result[0] is result[np.int64(-2)] is result[:1][0] is Y
    with pytest.raises(IndexError):
        result[2]
    with pytest.raises(UnknownName, match=r"expected y, z, got x\. Try: \"y\", \"z\""):
        result["x"]


def test_names_are_looked_up_and_iteration_gives_arrays() -> None:
    result = Result({"y": np.float32([1, 2]), "n": np.int64(2)})
    assert "y" in result and "n" in result and "z" not in result
    for other in (0, None, np.float32([1, 2]), ["y"]):
        assert other not in result
    assert result.get("n") == 2 and result.get("z") is None and result.get("z", 3) == 3
    assert [id(array) for array in result] == [id(array) for array in result.values()]
