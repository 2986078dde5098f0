"""The catalog as a table."""

from __future__ import annotations

import inspect
import sys

from pyopnb.catalog.index import OWN_PACK, Entry, entries, refusals
from pyopnb.common import Table

__all__ = ["domains_of", "operators_of", "search", "summary_of"]

_SHOWN = 4


def search(text: str = "") -> Table:
    """List the operators of the catalog whose names, domains or descriptions contain a text.

    Parameters
    ----------
    text : str
        Words that must all occur, ignoring case. Without it, all operators are listed.

    Returns
    -------
    Table
        A table that displays as text, and in a notebook as HTML.

    Examples
    --------
    >>> [row[:2] for row in search("mmdeploy rotated nms").rows]
    [('NMSRotated', 'mmdeploy'), ('TRTBatchedRotatedNMS', 'mmdeploy')]
    """
    rows = []
    for entry in entries():
        row = (
            operators_of(entry.names),
            domains_of(entry.names),
            _with_pack(entry),
            _form_of(entry),
        )
        if _has(text, entry, row):
            rows.append(row)
    for refusal in refusals():
        reason = f"cannot run: {refusal.reason}"
        names = operators_of(refusal.names)
        domains = domains_of(refusal.names)
        if _has(text, None, (names, domains, reason)):
            rows.append((_shortened(names, text), domains, reason, ""))
    return Table(
        ("operator", "domains", "computes", "in ONNX"), rows, f"No operator matches {text}"
    )


def _shortened(names: str, text: str) -> str:
    """Leave out all but a few of the names of one refusal, and keep the searched ones first."""
    words = text.lower().split()
    ordered = sorted(names.split(", "), key=lambda name: not any(w in name.lower() for w in words))
    if len(ordered) <= _SHOWN:
        return names
    return f"{', '.join(ordered[:_SHOWN])} and {len(ordered) - _SHOWN} more"


def _has(text: str, entry: Entry | None, row: tuple[str, ...]) -> bool:
    searched = " ".join(row)
    if entry is not None:
        module = sys.modules[entry.op_class.__module__]
        searched += f" {module.__doc__} {entry.pack}"
    return all(word in searched.lower() for word in text.lower().split())


def operators_of(names: tuple[str, ...]) -> str:
    """Write the op types of an operator, each once."""
    return ", ".join(dict.fromkeys(name.partition("::")[2] for name in names))


def domains_of(names: tuple[str, ...]) -> str:
    """Write the domains of an operator, each once."""
    domains = dict.fromkeys(name.partition("::")[0] for name in names)
    return ", ".join(domain or "ai.onnx" for domain in domains)


def summary_of(entry: Entry) -> str:
    """Describe the computation of an operator in one line."""
    text = inspect.getdoc(entry.op_class) or ""
    return text.partition("\n\n")[0].replace("\n", " ").replace("``", "`")


def _with_pack(entry: Entry) -> str:
    """Describe the computation of an operator, and name the foreign pack that it comes from."""
    if entry.pack == OWN_PACK:
        return summary_of(entry)
    return f"{summary_of(entry)} (pack {entry.pack})"


def _form_of(entry: Entry) -> str:
    return "has a form" if hasattr(entry.op_class, "lowered") else ""
