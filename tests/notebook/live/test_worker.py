"""Work on a thread of its own, whatever interrupts those who wait for it."""

import random
import signal
import threading

import pytest
from limits import LIMIT

from pyopnb.notebook.live.worker import Worker


@pytest.fixture
def alarms():
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


# One that falls into the callback of a weak reference is only reported.
@pytest.mark.one_python  # long
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interrupt_at_any_moment_of_waiting_leaves_the_worker_usable(alarms):
    worker, hits, draw = Worker(lambda: None), 0, random.Random(0)
    for _ in range(3000):
        worker.request()
        try:
            signal.setitimer(signal.ITIMER_REAL, draw.uniform(1e-6, 6e-5))
            for _ in range(20):
                worker.wait(1e-6)
            signal.setitimer(signal.ITIMER_REAL, 0)
        except KeyboardInterrupt:
            hits += 1
        asked = threading.Thread(target=worker.request)
        asked.start()
        asked.join(LIMIT)
        assert not asked.is_alive(), f"the worker is locked after interrupt {hits}"
    assert hits > 100
    assert worker.wait(LIMIT)


def test_every_request_is_served_and_only_one_waits():
    begun, go, served = threading.Semaphore(0), threading.Semaphore(0), []

    def work():
        begun.release()
        go.acquire()
        served.append(1)

    worker = Worker(work)
    assert worker.request() is False
    assert begun.acquire(timeout=LIMIT)
    assert [worker.request(), worker.request()] == [True, True] and worker.requested
    assert not worker.wait(0.01)
    go.release(2)
    assert worker.wait(LIMIT)
    assert len(served) == 2
