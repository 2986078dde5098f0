"""The table of ONNX operators in the reference, from the records of its audit."""

from __future__ import annotations

import csv
from pathlib import Path

__all__ = ["COLUMNS", "RECORD", "rows"]

COLUMNS = (
    "operator",
    "right",
    "mended",
    "refused",
    "not judged",
    "what is expected where it refuses",
)
RECORD = Path(__file__).parents[2] / "tests" / "onnx_reference" / "audit" / "outcomes.csv"
_PLACES = {"right": 1, "mended": 2, "refused in part": 3, "refused": 3, "not judged": 4}


def rows() -> list[tuple[str, ...]]:
    """Return a row for each operator: its versions by outcome, and the reasons of refusals."""
    table: dict[str, list[list[str]]] = {}
    with RECORD.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            name = f"{row['domain']}::{row['operator']}" if row["domain"] else row["operator"]
            cells = table.setdefault(name, [[] for _ in COLUMNS[1:]])
            version = row["version"]
            if row["outcome"] == "refused in part":
                version += " in part"
            cells[_PLACES[row["outcome"]] - 1].append(version)
            for remark in filter(None, row["remark"].split("; ")):
                if remark not in cells[-1]:
                    cells[-1].append(remark)
    return [
        (name, *(", ".join(versions) for versions in cells[:-1]), "; ".join(cells[-1]))
        for name, cells in table.items()
    ]
