"""What became of each operator in each version: ``outcomes.csv``, which the docs show."""

from __future__ import annotations

import csv
import re
from pathlib import Path
from typing import Any

from audit.outcomes import Outcome

__all__ = ["FILE", "read", "row_of", "write"]

FILE = Path(__file__).with_name("outcomes.csv")
COLUMNS = ("domain", "operator", "version", "outcome", "remark")

_WORST = ("crash", "wrong", "raw", "refused", "mended", "right", "not judged")


def row_of(schema: Any, outcomes: list[Outcome]) -> tuple[str, str, int, str, str]:
    """Return the row of one version."""
    verdicts = {_plain(outcome.verdict) for outcome in outcomes}
    worst = next((verdict for verdict in _WORST if verdict in verdicts), "not judged")
    if worst == "refused" and verdicts & {"right", "mended"}:
        worst = "refused in part"
    remarks = sorted({_refusal(o.detail) for o in outcomes if o.verdict.startswith("refused")})
    if worst != "not judged" and "not judged" in verdicts:
        remarks.append("not judged in part")
    return schema.domain, schema.name, schema.since_version, worst, "; ".join(remarks)


def _plain(verdict: str) -> str:
    """Take what neither side computes for a refusal, and what no judge knows for not judged."""
    return {"refused both": "refused", "invalid": "not judged"}.get(verdict, verdict)


def _refusal(message: str) -> str:
    """Return what a message expected, without the operator's name."""
    expected = message.partition(": expected ")[2].partition(", got ")[0]
    return re.sub(r" onnx [\d.]+", " onnx", expected.replace("\n", " "))


def write(rows: list[tuple[Any, ...]]) -> None:
    """Replace the rows of the same versions."""
    kept = {key: tuple(row.values()) for key, row in (read() if FILE.exists() else {}).items()}
    kept.update({row[:3]: row for row in rows})
    with FILE.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows(kept[key] for key in sorted(kept))


def read() -> dict[tuple[str, str, int], dict[str, str]]:
    """Return the rows by domain, operator and version."""
    with FILE.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return {(row["domain"], row["operator"], int(row["version"])): row for row in rows}
