"""Jobs that begin at once, each on a thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from limits import LIMIT


def together(*jobs: Callable[[], Any]) -> list[Any]:
    """Run the jobs at once and return what they returned; raises what one of them raised."""
    ready = threading.Barrier(len(jobs))

    def one(job: Callable[[], Any]) -> Any:
        ready.wait(LIMIT)
        return job()

    with ThreadPoolExecutor(len(jobs)) as pool:
        return [done.result(LIMIT) for done in [pool.submit(one, job) for job in jobs]]
