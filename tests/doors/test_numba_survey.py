"""No wrong number from Numba's form: NumPy bodies of all dtypes, and random ones, judged on inputs that are not kind."""

import os
import re
from collections import Counter

import pytest
from numpy_bodies import BODIES, DTYPES, judge, random_body

SAMPLE = int(os.environ.get("PYOPNB_NUMBA_BODIES", "150"))
SEED = int(os.environ.get("PYOPNB_NUMBA_SEED", "0"))


def report(verdicts, compiles=True):
    """Print how many were compiled and refused, and fail with those that lie."""
    reasons = Counter(
        re.sub(r"Line \d+ has what Numba may compute otherwise than NumPy: ", "", v or "compiled")[
            :60
        ]
        for v in verdicts.values()
    )
    for reason, count in reasons.most_common():
        print(f"{count:6} {reason}")
    wrong = [
        f"{body!r} of {dtype}: {verdict}"
        for (body, dtype), verdict in verdicts.items()
        if verdict and verdict.startswith("WRONG")
    ]
    assert not wrong, "\n".join(wrong)
    assert bool(reasons["compiled"]) == compiles


def test_a_sample_of_bodies():
    pairs = [(body, dtype) for body in BODIES for dtype in DTYPES]
    report({pair: judge(*pair) for pair in pairs[:: len(pairs) // 6]})


def test_a_few_random_bodies():
    report({random_body(seed): judge(*random_body(seed)) for seed in range(12, 15)})


@pytest.mark.everywhere  # each body takes about a second to compile
@pytest.mark.parametrize("dtype", DTYPES)
def test_all_bodies(dtype):
    # Numba has no float16.
    verdicts = {(body, dtype): judge(body, dtype) for body in BODIES}
    report(verdicts, compiles=dtype != "float16")


@pytest.mark.everywhere
def test_random_bodies():
    print(f"PYOPNB_NUMBA_SEED={SEED} PYOPNB_NUMBA_BODIES={SAMPLE}")
    report({random_body(seed): judge(*random_body(seed)) for seed in range(SEED, SEED + SAMPLE)})


def test_the_judge_finds_what_a_rule_lets_through(monkeypatch):
    monkeypatch.setattr("pyopnb.compile.numba_form.check_body", lambda *args: None)
    monkeypatch.setattr("pyopnb.compile.numba_form.compare_with_python", lambda *args: "")
    for body, dtype in [("return (x - 1) > 0", "uint8"), ("return x // y", "int64")]:
        assert judge(body, dtype).startswith("WRONG"), body
