"""Random bodies: a traced one gives the NumPy results in all dtypes, or is refused."""

from __future__ import annotations

import os

import numpy as np
import pytest
from judge import nasty, subject_of, wrong_element
from random_bodies import run_seeds

SAMPLE = 200


def test_random_bodies_of_all_dtypes_give_numpys_numbers():
    tally = run_seeds(range(SAMPLE))
    assert not tally.wrong, tally
    assert tally.converted > SAMPLE // 2


@pytest.mark.everywhere
def test_a_hundred_thousand_random_bodies_give_numpys_numbers():
    count = int(os.environ.get("PYOPNB_LOWER_BODIES", "100000"))
    tally = run_seeds(range(SAMPLE, SAMPLE + count))
    print(tally)
    assert not tally.wrong, tally


@pytest.mark.parametrize(
    ("expression", "wrong"),
    [
        ("np.log1p(x)", lambda x: np.log(1 + x)),
        ("np.clip(x, 0, None)", lambda x: np.clip(x, 0, np.finfo(x.dtype).max)),
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


def test_the_judge_leaves_out_an_equality_with_a_mean_that_cancels():
    tally = run_seeds([24144])
    assert tally.converted and not tally.wrong, tally
