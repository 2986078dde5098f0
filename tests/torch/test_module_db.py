"""No module of the torch module database gives wrong numbers at sizes that are left open."""

import module_db_sweep
import pytest

from pyopnb.torch import conversion


def check(count, seed, capsys):
    rows = [module_db_sweep.judged(*case) for case in module_db_sweep.some(count, seed)]
    with capsys.disabled():
        print(f"\nseed {seed}: {module_db_sweep.table(rows)}")
    assert [row for row in rows if row["verdict"] == "wrong"] == []
    return rows


def test_some_modules_at_other_sizes(capsys):
    # Each module takes two or three seconds; test-all has every one.
    rows = check(6, 1, capsys)
    assert sum(row["verdict"] in ("general", "one size") for row in rows) >= 3


@pytest.mark.everywhere
def test_all_modules_at_other_sizes(capsys):
    rows = check(None, 0, capsys)
    assert sum(row["verdict"] == "general" for row in rows) > len(rows) / 4


def test_the_sweep_sees_a_size_that_nothing_says(monkeypatch):
    (case,) = [case for case in module_db_sweep.cases() if case[1:] == ("nn.LayerNorm", 0)]
    assert module_db_sweep.judged(*case)["verdict"] == "one size"
    monkeypatch.setattr(conversion, "fixed_by_torch", lambda *given: {})
    assert "nothing says so" in module_db_sweep.judged(*case)["reason"]
