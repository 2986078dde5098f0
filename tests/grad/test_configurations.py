"""`pyopnb.grad` over opsets, attributes, shapes and dtypes: each gradient is right or refused."""

import pytest
from configurations import configurations, survey


def _check(chosen, least):
    outcomes, reasons, wrong = survey(chosen)
    print(f"{outcomes.total()} configurations: {dict(outcomes)}")
    for reason, count in reasons.most_common():
        print(f"{count:4} refused: {reason}")
    assert not wrong, "\n".join(wrong)
    assert outcomes["right"] >= least, (outcomes, reasons)


def test_a_sample_of_configurations():
    _check(configurations()[::37], 25)


@pytest.mark.everywhere  # minutes
@pytest.mark.one_python
def test_all_configurations():
    _check(configurations(), 900)
