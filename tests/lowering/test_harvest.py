"""Formulas of public repositories, lowered in all dtypes: none gives a wrong number."""

from __future__ import annotations

import numpy as np
import pytest
from harvest import BODIES, run_harvest
from judge import nasty, subject_of, wrong_element


def test_a_sample_of_public_formulas_gives_numpys_numbers():
    tally = run_harvest(step=25)
    assert not tally.wrong, tally
    assert tally.converted > 150


@pytest.mark.everywhere
def test_public_formulas_give_numpys_numbers():
    assert len(BODIES) >= 400
    tally = run_harvest()
    print(tally)
    assert not tally.wrong, tally


@pytest.mark.parametrize(
    ("expression", "wrong"),
    [
        ("np.log1p(x)", lambda x: np.log(1 + x)),
        ("np.expm1(x)", lambda x: np.exp(x) - 1),
        ("np.clip(x, 0, None)", lambda x: np.clip(x, 0, np.finfo(x.dtype).max)),
        ("x ** 0.5", lambda x: np.where(x == -np.inf, np.inf, x**0.5)),
        ("x.sum(1)", lambda x: x.sum(1) * x.dtype.type(1.001)),
        ("np.sign(x)", lambda x: np.nan_to_num(np.sign(x))),
    ],
)
def test_the_judge_finds_wrong_floats(expression, wrong):
    subject = subject_of(
        f"import numpy as np\nclass Judged:\n    def compute(self, x):\n        return {expression}\n"
    )
    x = nasty(np.float32, (40, 30), np.random.default_rng(0), 2)
    with np.errstate(all="ignore"):
        want = subject.version.cls().compute(x)
        assert wrong_element(subject, (x,), want, want) is None
        assert wrong_element(subject, (x,), want, wrong(x).astype(np.float32)) is not None


def test_the_judge_accepts_another_order_of_a_sum():
    subject = subject_of(
        "import numpy as np\nclass Judged:\n    def compute(self, x):\n        return x.sum(1)\n"
    )
    x = np.random.default_rng(0).normal(size=(50, 3000)).astype(np.float32)
    assert wrong_element(subject, (x,), x.sum(1), x[:, ::-1].cumsum(1)[:, -1]) is None
