"""The table of the corpus: a line for each model, a column for each way."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from ways import WAYS

_ROWS: dict[str, dict[str, str]] = {}


@pytest.fixture
def cells() -> dict[str, dict[str, str]]:
    """What came of each model's ways: "ok", or what went wrong."""
    return _ROWS


def _table() -> Iterator[str]:
    width = max(map(len, _ROWS))
    yield " ".join([" " * width, *WAYS])
    for name, row in _ROWS.items():
        cells = ("" if way not in row else "ok" if row[way] == "ok" else "FAILS" for way in WAYS)
        yield " ".join(
            [
                f"{name:{width}}",
                *(f"{cell:{len(way)}}" for way, cell in zip(WAYS, cells, strict=True)),
            ]
        ).rstrip()
    done = [cell == "ok" for row in _ROWS.values() for cell in row.values()]
    yield f"{len(_ROWS)} models: {sum(done)} of {len(done)} ways go"
    for name, row in _ROWS.items():
        yield from (f"  {name}, {way}: {cell}" for way, cell in row.items() if cell != "ok")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if _ROWS:
        terminalreporter.section("corpus")
        for line in _table():
            terminalreporter.write_line(line)
