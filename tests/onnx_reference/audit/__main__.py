"""Judge every call, and record what becomes of each version: ``python -m audit``.

With names of operators as arguments, only of these. It prints what is not right. A worker judges,
because a kernel may end its process. It runs where ``tests/onnx_reference`` is on ``PYTHONPATH``.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any

from audit.calls import cases_of
from audit.cases import schemas
from audit.outcomes import Outcome
from audit.record import row_of, write
from audit.workers import Worker

_NEWS = ("wrong", "raw", "invalid", "not judged", "crash")


def outcomes(names: list[str]) -> Iterator[tuple[Any, list[Outcome]]]:
    """Yield each version with the outcomes of its calls."""
    worker = Worker()
    for number, schema in enumerate(schemas()):
        if names and schema.name not in names:
            continue
        found: list[Outcome] = []
        cases = cases_of(schema)
        while len(found) < len(cases):
            try:
                found.extend(worker.ask(number, len(found)))
            except (EOFError, ConnectionError):
                worker.process.kill()
                found.append(Outcome(cases[len(found)], "crash"))
                worker = Worker()
        yield schema, found


def main(names: list[str]) -> None:
    rows, counts = [], Counter()
    for schema, found in outcomes(names):
        rows.append(row_of(schema, found))
        counts.update(outcome.verdict for outcome in found)
        for outcome in found:
            if outcome.verdict in _NEWS:
                print(
                    f"{outcome.verdict}: {outcome.case} | {outcome.detail} | {outcome.judge}",
                    flush=True,
                )
    print(dict(counts), dict(Counter(row[3] for row in rows)))
    write(rows)


if __name__ == "__main__":
    main(sys.argv[1:])
