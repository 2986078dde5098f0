"""The table of the catalog's operators, read from its files."""

from __future__ import annotations

import csv
import inspect
import re
import sys
from pathlib import Path

from pyopnb.catalog.index import Entry, entries, refusals
from pyopnb.catalog.listing import domains_of, operators_of, summary_of

__all__ = ["COLUMNS", "REFUSED", "RESULTS", "refused", "rows"]

COLUMNS = (
    "operator",
    "domains",
    "computes",
    "written by",
    "defined in",
    "knowingly differs",
    "tested against",
    "agreement",
    "speed",
    "lowers",
)
RESULTS = Path(__file__).parents[2] / "tests" / "benchmarks" / "catalog.csv"
REFUSED = ("operator", "domains", "why not", "instead")


def rows() -> list[tuple[str, ...]]:
    """Return a row for each operator that runs."""
    measured = _measured()
    table = []
    for entry in entries():
        lowers = "by its form" if hasattr(entry.op_class, "lowered") else "if it can be traced"
        names = operators_of(entry.names)
        if entry.versions:
            names += f" of version {', '.join(map(str, entry.versions))}"
        computes = summary_of(entry)
        file = entry.op_class.__module__.removeprefix("pyopnb.catalog.")
        agreement, speed = measured.get(file, ("", ""))
        domains = domains_of(entry.names)
        table.append((names, domains, computes, *_told(entry), agreement, speed, lowers))
    return table


def refused() -> list[tuple[str, ...]]:
    """Return a row for each operator that cannot run."""
    return [
        (operators_of(row.names), domains_of(row.names), row.reason, row.instead)
        for row in refusals()
    ]


def _measured() -> dict[str, tuple[str, str]]:
    """Map each operator's file to the agreement and the speed that the benchmarks measured."""
    cells = {}
    with RESULTS.open(encoding="utf-8", newline="") as table:
        for row in csv.DictReader(table):
            speed = ""
            if row["reference"]:
                speed = (
                    f"{row['milliseconds']} ms; "
                    f"{row['reference']} {row['reference_milliseconds']} ms"
                )
            cells[row["file"]] = row["difference"], speed
    return cells


def _told(entry: Entry) -> tuple[str, str, str, str]:
    """Return who writes an operator, where it is defined, how it differs, and its test."""
    text = inspect.cleandoc(sys.modules[entry.op_class.__module__].__doc__ or "")
    title, _, remainder = text.partition("\n\n")
    # The title begins with the operator's name, which the table has.
    _, _, writer = title.replace("\n", " ").partition(", ")
    story, _, test = remainder.replace("\n", " ").partition("Tested against ")
    story, _, differs = story.partition("Differs: ")
    definition = re.match(r"Defined (?:in|by) (.*?)\.(?:\s|$)", story)
    defined_in = definition[1] if definition else ""
    return writer.rstrip("."), defined_in, differs.strip().rstrip("."), test.strip().rstrip(".")
