"""Judge the calls of a version in another process, because a kernel may end it."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator
from typing import Any

from audit.calls import cases_of
from audit.cases import schemas
from audit.outcomes import Outcome, judge

__all__ = ["Worker"]

_SECONDS = 120


def _work(connection: Any) -> None:
    """Judge the calls of the versions that the connection asks for, one after the other."""
    # ONNX Runtime writes its warnings about old versions into it.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    while True:
        number, first = connection.recv()
        for case in cases_of(schemas()[number])[first:]:
            connection.send(judge(case, plainly=True))
        connection.send(None)


class Worker:
    """A process that judges."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=_work, args=(theirs,), daemon=True)
        self.process.start()
        theirs.close()

    def ask(self, number: int, first: int) -> Iterator[Outcome]:
        self.connection.send((number, first))
        while True:
            if not self.connection.poll(_SECONDS):
                raise EOFError
            outcome = self.connection.recv()
            if outcome is None:
                return
            yield outcome
