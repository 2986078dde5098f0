"""The table of measured ratios only grows, and every row says where it was measured."""

import csv
import importlib
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
RUN = {
    "date": "2026-11-22 03:00",
    "commit": "abc1234",
    "cores": "2",
    "python": "3.11.7",
    "numpy": "2.4.6",
}


@pytest.fixture
def results(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    yield importlib.import_module("results")
    for name in ("results", "table"):
        monkeypatch.delitem(importlib.import_module("sys").modules, name)


def rows(results, *ratios):
    table = importlib.import_module("table")
    return [
        table.Row(f"claim, {ratio}", "1 µs", "2 µs of “another”", ratio, 0.4) for ratio in ratios
    ]


def test_runs_are_appended(results, tmp_path):
    path = tmp_path / "results.csv"
    results.append(rows(results, 0.3, 0.5), RUN, path)
    first = path.read_bytes()
    results.append(rows(results, None), RUN | {"commit": "def5678"}, path)
    assert path.read_bytes().startswith(first)
    with path.open(encoding="utf-8", newline="") as file:
        kept = list(csv.DictReader(file))
    assert [(row["commit"], row["ratio"], row["bar"], row["reached"]) for row in kept] == [
        ("abc1234", "0.3", "≤ 0.4", "yes"),
        ("abc1234", "0.5", "≤ 0.4", "NO"),
        ("def5678", "", "≤ 0.4", ""),
    ]
    assert kept[0]["what"] == "claim, 0.3"
    assert tuple(kept[0]) == results.COLUMNS


def test_a_table_with_other_columns_is_left_alone(results, tmp_path):
    path = tmp_path / "results.csv"
    path.write_text("date,what\n2026-11-22,old\n")
    with pytest.raises(ValueError, match=r"expected the columns date, commit, .*, got date, what"):
        results.append(rows(results, 0.3), RUN, path)
    assert path.read_text() == "date,what\n2026-11-22,old\n"


def test_what_is_kept_has_these_columns_and_whole_rows(results):
    if results.RESULTS.exists():
        with results.RESULTS.open(encoding="utf-8", newline="") as file:
            head, *body = csv.reader(file)
        assert tuple(head) == results.COLUMNS
        assert all(len(row) == len(head) for row in body)
        assert [row[0] for row in body] == sorted(row[0] for row in body)


def test_the_commit_is_known_in_a_clone_and_nowhere_else(results, tmp_path, monkeypatch):
    monkeypatch.setattr(results, "__file__", str(tmp_path / "results.py"))
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert results._commit() == "unknown"
