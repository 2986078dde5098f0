"""The outputs of one run by name and by number."""

import numpy as np
import pytest

from pyopnb.errors import InputError, UnknownOp
from pyopnb.ops.result import Result

Y = np.float32([-1, 2])


def test_by_name_number_and_slice():
    result = Result({"y": Y, "z": None})
    assert result["y"] is result[0] is result[np.int64(-2)] is result[:1][0] is Y
    with pytest.raises(IndexError):
        result[2]
    with pytest.raises(UnknownOp, match=r"expected y, z, got x\. Try: \"y\", \"z\""):
        result["x"]


@pytest.mark.parametrize(
    ("key", "got"),
    [
        (Y > 0, "an array of bool"),
        (np.array([0]), "an array of int64"),
        ((0, 1), "an object of tuple"),
        (..., "an object of ellipsis"),
        (None, "an object of NoneType"),
        (0.0, "an object of float"),
    ],
    ids=str,
)
def test_indexed_as_an_array(key, got):
    with pytest.raises(InputError) as raised:
        Result({"y": Y})[key]
    assert (
        str(raised.value)
        == f'result: expected the name of one output, got {got}. Try: result["y"][…]'
    )
    assert eval(
        'result["y"][…]'.replace("…", "key"), {"result": Result({"y": Y}), "key": Y > 0}
    ) == [2]
