"""One run of a session for a live output: its result, the op versions it used, and its error."""

from __future__ import annotations

import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyopnb.ops
from pyopnb.ops.errors import FeedError, sanitize
from pyopnb.ops.registry import Version, registry, split_name
from pyopnb.ops.result import Result
from pyopnb.runtime.session import Session

__all__ = ["Run", "require_session", "run_session"]

_PACKAGE = str(Path(pyopnb.ops.__file__).parents[1])


@dataclass(frozen=True, eq=False)
class Run:
    """The outcome of one run.

    Attributes
    ----------
    versions : dict
        The versions of the session's ops, by op name.
    seconds : float
    result : Result or None
        None if it raised.
    error : BaseException or None
    ended : float
        As `time.time` gives it.
    """

    versions: Mapping[str, Version]
    seconds: float
    result: Result | None
    error: BaseException | None
    ended: float

    @property
    def interrupted(self) -> bool:
        """Whether the user stopped it."""
        return isinstance(self.error, KeyboardInterrupt)

    def traceback(self) -> str:
        """The error, with the user's own lines only."""
        if self.error is None or self.interrupted:
            return "interrupted" if self.error else ""
        error = traceback.TracebackException.from_exception(self.error)
        error.stack = traceback.StackSummary.from_list([f for f in error.stack if not f.filename.startswith(_PACKAGE)])
        return "".join(error.format(chain=False)).rstrip()

    def changed_ops(self, before: Run | None) -> list[str]:
        """The ops whose version differs from that of an earlier run."""
        return [] if before is None else [n for n, v in self.versions.items() if before.versions.get(n, v) is not v]


def require_session(session: object, where: str) -> None:
    """Raise `FeedError` unless this is a session of pyopnb."""
    if not isinstance(session, Session):
        got, next = sanitize(type(session).__name__), f"pyopnb.{where}(pyopnb.Session(model), x=x)"
        raise FeedError(where, expected="a pyopnb.Session", got=got, next=next)


def run_session(session: Session, feeds: Mapping[str, Any]) -> Run:
    """Run a session. An exception is part of the outcome: it belongs in the output, not in the cell that redefined the op."""
    names = list(session._ops)
    versions = {name: op.current for name in names if (op := registry.find(*split_name(name))) is not None}
    result: Result | None = None
    error: BaseException | None = None
    start = time.perf_counter()
    try:
        result = session(**feeds)
    except (Exception, KeyboardInterrupt) as raised:
        error = raised
    return Run(versions, time.perf_counter() - start, result, error, time.time())
