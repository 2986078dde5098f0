"""What was measured, kept: ``results.csv`` beside this file, to which each whole run appends one row a measured claim."""

from __future__ import annotations

import csv
import os
import platform
import subprocess
from collections.abc import Iterable
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from table import Row

__all__ = ["COLUMNS", "RESULTS", "append", "machine"]

RESULTS = Path(__file__).parent / "results.csv"

_PACKAGES = ("numpy", "onnx", "onnxruntime", "onnxruntime-extensions")
_MACHINE = ("date", "commit", "cores", "python", *(name.replace("-", "_") for name in _PACKAGES))
COLUMNS = (*_MACHINE, "what", "measured", "peer", "ratio", "bar", "reached")


def machine() -> dict[str, str]:
    """Where and when a run was made: its columns in the table."""
    versions = {name.replace("-", "_"): version(name) for name in _PACKAGES}
    date = datetime.now(UTC).strftime("%Y-%m-%d %H:%M")
    cores = str(len(os.sched_getaffinity(0)))
    return {
        "date": date,
        "commit": _commit(),
        "cores": cores,
        "python": platform.python_version(),
        **versions,
    }


def _commit() -> str:
    """The commit that was measured, with ``-dirty`` where files other than the tables differ from it."""
    try:
        commit = _git("rev-parse", "--short=10", "HEAD")
        changed = _git(
            "status", "--porcelain", "--", ":(top)", ":(top,exclude)tests/benchmarks/*.csv"
        )
    except (OSError, subprocess.CalledProcessError):  # not a clone
        return "unknown"
    return f"{commit}-dirty" if changed else commit


def _git(*words: str) -> str:
    command = ["git", "-C", str(Path(__file__).parent), *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def append(rows: Iterable[Row], run: dict[str, str], path: Path = RESULTS) -> None:
    """Add the rows of one run at the end of the table. What is in it stays as it is.

    Parameters
    ----------
    rows : iterable of Row
    run : dict
        What `machine` gives.
    path : Path
        It is made, with a line of column names, where it is not there.

    Raises
    ------
    ValueError
        The table has other columns.
    """
    new = not path.exists() or not path.stat().st_size
    if not new:
        with path.open(encoding="utf-8", newline="") as file:
            there = next(csv.reader(file))
        if there != list(COLUMNS):
            raise ValueError(
                f"{path}: expected the columns {', '.join(COLUMNS)}, got {', '.join(there)}"
            )
    with path.open("a", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        if new:
            writer.writeheader()
        for row in rows:
            writer.writerow(run | dict(zip(COLUMNS[len(_MACHINE) :], row.cells(), strict=True)))
