"""The table of the catalogue's operators, read from its files."""

from __future__ import annotations

import inspect
import re
import sys

from pyopnb.catalog.index import Entry, entries, refusals
from pyopnb.catalog.listing import domains_of, operators_of, summary_of

__all__ = ["COLUMNS", "REFUSED", "refused", "rows"]

COLUMNS = (
    "operator",
    "domains",
    "computes",
    "written by",
    "defined in",
    "tested against",
    "agreement",
    "lowers",
)
REFUSED = ("operator", "domains", "why not", "instead")


def rows() -> list[tuple[str, ...]]:
    """Return a row for each operator that runs."""
    table = []
    for entry in entries():
        lowers = "by its form" if hasattr(entry.op_class, "lowered") else "if it can be traced"
        names = operators_of(entry.names)
        if entry.versions:
            names += f" of version {', '.join(map(str, entry.versions))}"
        computes = summary_of(entry)
        table.append((names, domains_of(entry.names), computes, *_told(entry), lowers))
    return table


def refused() -> list[tuple[str, ...]]:
    """Return a row for each operator that cannot run."""
    return [
        (operators_of(row.names), domains_of(row.names), row.reason, row.instead)
        for row in refusals()
    ]


def _told(entry: Entry) -> tuple[str, str, str, str]:
    """Return who writes an operator, where it is defined, what it is tested against and how well it agrees."""
    text = inspect.cleandoc(sys.modules[entry.op_class.__module__].__doc__ or "")
    title, _, remainder = text.partition("\n\n")
    # The title begins with the operator's name, which the table has.
    _, _, writer = title.replace("\n", " ").partition(", ")
    story, _, test = remainder.replace("\n", " ").partition("Tested against ")
    definition = re.match(r"Defined (?:in|by) (.*?)\.(?:\s|$)", story)
    reference, _, agreement = test.rpartition(", ")
    defined_in = definition[1] if definition else ""
    return writer.rstrip("."), defined_in, reference, agreement.rstrip(".")
