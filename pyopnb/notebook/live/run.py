"""One run of a session for an output: what it gave, what served it, and what went wrong."""

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

__all__ = ["Run", "refuse_other", "run"]

_HOME = str(Path(pyopnb.ops.__file__).parents[1])


@dataclass(frozen=True, eq=False)
class Run:
    """What one run came to.

    Attributes
    ----------
    versions : dict
        The ops' versions that served it, by name.
    seconds : float
    result : Result or None
        None where something was raised.
    error : BaseException or None
    at : float
        When it ended, as `time.time` gives it.
    """

    versions: Mapping[str, Version]
    seconds: float
    result: Result | None
    error: BaseException | None
    at: float

    @property
    def interrupted(self) -> bool:
        """Whether the user stopped it."""
        return isinstance(self.error, KeyboardInterrupt)

    def told(self) -> str:
        """The error as a traceback of the user's own lines."""
        if self.error is None or self.interrupted:
            return "interrupted" if self.error else ""
        told = traceback.TracebackException.from_exception(self.error)
        told.stack = traceback.StackSummary.from_list([f for f in told.stack if not f.filename.startswith(_HOME)])
        return "".join(told.format(chain=False)).rstrip()


def refuse_other(session: object, where: str) -> None:
    """Raise `FeedError` for what is no session of pyopnb's."""
    if not isinstance(session, Session):
        got, next = sanitize(type(session).__name__), f"pyopnb.{where}(pyopnb.Session(model), x=x)"
        raise FeedError(where, expected="a pyopnb.Session", got=got, next=next)


def run(session: Session, feeds: Mapping[str, Any]) -> Run:
    """Run a session. What it raises is part of the answer: it belongs into the output, and not into another cell."""
    names = list(session._ops)
    versions = {name: op.current for name in names if (op := registry.find(*split_name(name))) is not None}
    result: Result | None = None
    error: BaseException | None = None
    began = time.perf_counter()
    try:
        result = session(**feeds)
    except (Exception, KeyboardInterrupt) as raised:
        error = raised
    return Run(versions, time.perf_counter() - began, result, error, time.time())
