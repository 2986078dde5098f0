"""A wrong form beside an op without a form: the verification finds the first beside any second one. ``make test-all`` tries all pairs."""

import itertools

import pytest
import torch
from torch import nn

NUMBERS = [0.0, 0.5, 1.0, 12.0, 21.0, 50.0, 95.0, 130.0, 700.0, 1e4, 1e18, 1e30, float("inf")]
NUMBERS = torch.tensor([*NUMBERS, *(-number for number in NUMBERS), float("nan")])

WRONG = {
    "logaddexp": lambda a, b: torch.logaddexp(a, b),
    "logaddexp2": lambda a, b: torch.logaddexp2(a, b),
    "atan2": lambda a, b: torch.atan2(a, b),
    "erfcx": lambda a, b: torch.special.erfcx(a),
    "log_ndtr": lambda a, b: torch.special.log_ndtr(a),
    "xlogy": lambda a, b: torch.xlogy(a, b),
    "logcumsumexp": lambda a, b: torch.logcumsumexp(a.clamp(-1e4, 1e4).nan_to_num(), 1),
    "signbit": lambda a, b: torch.signbit(a),
    "angle": lambda a, b: torch.angle(a),
}
WITHOUT = {
    "hypot": lambda a, b: torch.hypot(a, b),
    "kthvalue": lambda a, b: torch.kthvalue(a.nan_to_num(), 2, 0)[0],
    "cummax": lambda a, b: torch.cummax(a.nan_to_num(), 1)[0],
    "digamma": lambda a, b: torch.digamma(a.abs().clamp(1, 9)),
    "searchsorted": lambda a, b: torch.searchsorted(a[0].sort()[0], b.nan_to_num()),
    "lgamma": lambda a, b: torch.lgamma(a.abs().clamp(1, 9)),
    "i0": lambda a, b: torch.special.i0(a.clamp(-9, 9)),
    "median": lambda a, b: a.nan_to_num().median(1)[0],
}
PAIRS = list(itertools.product(WRONG, WITHOUT))
# One pair for two of the forms, so that `make test` has few exports.
SOME = [("logaddexp2", "kthvalue"), ("angle", "searchsorted")]


class Pair(nn.Module):
    def __init__(self, wrong, without):
        super().__init__()
        self.functions = WRONG[wrong], WITHOUT[without]

    def forward(self, a, b):
        return tuple(function(a, b) for function in self.functions)


def found(exported, wrong, without):
    pairs = torch.cartesian_prod(NUMBERS, NUMBERS).T.reshape(2, len(NUMBERS), -1).contiguous()
    filled = exported(Pair(wrong, without), tuple(torch.rand(*pairs.shape)), tuple(pairs))
    return any(wrong in name for name in filled) and any(without in name for name in filled)


@pytest.mark.parametrize(("wrong", "without"), SOME)
def test_a_wrong_form_is_found_beside_an_op_without_one(exported, wrong, without):
    assert found(exported, wrong, without)


@pytest.mark.everywhere
@pytest.mark.parametrize(("wrong", "without"), PAIRS)
def test_every_pair(exported, wrong, without):
    assert found(exported, wrong, without)
