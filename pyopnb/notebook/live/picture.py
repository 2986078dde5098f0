"""How a live output looks: what ran, what it gave, and what changed."""

from __future__ import annotations

import time
from collections.abc import Iterator

from pyopnb.diffs.api import diff
from pyopnb.diffs.arrays.diff import Diff
from pyopnb.display.html import details, escaped, note, page, pre
from pyopnb.display.show import html
from pyopnb.notebook.live.run import Run

__all__ = ["as_html", "as_text", "changed_ops"]


def changed_ops(before: Run | None, now: Run) -> list[str]:
    """The ops that another version of served."""
    return [] if before is None else [n for n, v in now.versions.items() if before.versions.get(n, v) is not v]


def _served(now: Run) -> str:
    return ", ".join(f"{name} version {version.number}" for name, version in now.versions.items()) or "no ops"


def _time(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"


def _head(now: Run, state: str) -> str:
    when = time.strftime("%H:%M:%S", time.localtime(now.at))
    said = f"interrupted after {_time(now.seconds)}" if now.interrupted else _time(now.seconds)
    return f"{_served(now)} · {said} · {when}{f' · {state}' if state else ''}"


def as_text(now: Run, before: Run | None, found: Diff | None, state: str = "", against: str = "") -> str:
    """The output as text."""
    lines = [_head(now, state)]
    lines.append(now.told() if now.error else repr(now.result))
    if found is not None:
        lines.append(f"{against or 'since the version before'}: {found}")
    lines += [str(diff(before.versions[name], now.versions[name])) for name in changed_ops(before, now) if before]
    return "\n".join(lines)


def as_html(now: Run, before: Run | None, found: Diff | None, state: str = "", against: str = "") -> str:
    """The output as HTML that stays in the saved notebook."""
    return page(_parts(now, before, found, state, against))


def _parts(now: Run, before: Run | None, found: Diff | None, state: str, against: str) -> Iterator[str]:
    yield note(_head(now, state))
    if now.error:
        mark = "border-left:4px solid #c43b3b;padding-left:8px;margin:4px 0"
        yield f'<div style="{mark}" role="alert"><b>{escaped(type(now.error).__name__)}</b>{pre(now.told())}</div>'
    elif now.result is not None:
        yield html(now.result)
    for name in changed_ops(before, now):
        if before is not None:
            old, new = before.versions[name], now.versions[name]
            title = f"what changed in {name}, version {old.number} → {new.number}"
            yield details(title, html(diff(old, new)), open=True)
    if found is not None:
        said = f"{against or 'since the version before'}: {found.verdict}"
        yield details(said, html(found), open=not found.ok)
