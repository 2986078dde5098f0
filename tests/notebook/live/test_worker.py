"""Work on a thread of its own, also when interrupts hit its waiting callers."""

import _thread
import random
import signal
import threading

import pytest
from limits import LIMIT
from systems import needs_timer_signals

from pyopnb.notebook.live.worker import Worker


class Alarm:
    """Interrupt the main thread as Ctrl-C does, while it is armed."""

    armed = False

    def __call__(self, number, frame):
        # A timer that is stopped may have sent its signal already, which arrives a line later.
        if self.armed:
            self.armed = False
            raise KeyboardInterrupt


@pytest.fixture
def alarm():
    alarm = Alarm()
    before = signal.signal(signal.SIGALRM, alarm)
    yield alarm
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


# One that falls into the callback of a weak reference is only reported.
@pytest.mark.one_python  # long
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@needs_timer_signals
def test_an_interrupt_at_any_moment_of_waiting_leaves_the_worker_usable(alarm):
    worker, hits, draw = Worker(lambda: None), 0, random.Random(0)
    for _ in range(3000):
        worker.request()
        try:
            alarm.armed = True
            signal.setitimer(signal.ITIMER_REAL, draw.uniform(1e-6, 6e-5))
            for _ in range(20):
                worker.wait(1e-6)
            signal.setitimer(signal.ITIMER_REAL, 0)
            alarm.armed = False
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


def test_a_wait_is_interrupted_where_signals_do_not_end_waits():
    # As on Windows: there, and by this call everywhere, an interrupt is only seen between two waits.
    go = threading.Event()
    worker = Worker(go.wait)
    worker.request()
    timer = threading.Timer(0.1, _thread.interrupt_main)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        worker.wait(LIMIT)
    assert not worker.wait(0)
    go.set()
    assert worker.wait(LIMIT)
    timer.join()
