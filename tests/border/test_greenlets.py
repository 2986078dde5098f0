"""Greenlets that switch inside an op: where two runs of a thread end in the order of their begins, the process ends with them. So the
second one is refused; runs inside compute, which end before it does, are not.
"""

import textwrap

import pytest

GREENLETS = """
from greenlet import getcurrent, greenlet

MAIN, then = getcurrent(), []  # what the next calls of the op do

@pyopnb.pyop("case::Switch")
class Switch:
    def compute(self, x):
        if then:
            then.pop(0)()
        return x + 1

said = []

def run(session, name):
    try:
        said.append(name + str(session.run(None, {"x": X})[0]))
    except Exception as error:
        said.append(name + type(error).__name__ + (" says RunRefused" if "run of a session in a greenlet" in str(error) else ""))

RIGHT = str(X + 1)
REFUSED = {pyopnb.Session: "RunRefused says RunRefused", bare: "Fail says RunRefused"}
"""


@pytest.fixture
def switching(fresh):
    return lambda text: fresh(GREENLETS + textwrap.dedent(text))


@pytest.mark.parametrize("first", ["pyopnb.Session", "bare"])
@pytest.mark.parametrize("second", ["pyopnb.Session", "bare"])
def test_second_run_is_refused_and_the_first_ends_well(switching, first, second):
    # The op of b would let a end first.
    switching(f"""
    one, two = {first}(chain("case::Switch")), {second}(chain("case::Switch"))
    a, b = greenlet(lambda: run(one, "a")), greenlet(lambda: run(two, "b"))
    then += [MAIN.switch, a.switch]
    a.switch()
    b.switch()
    run(two, "main")
    assert b.dead and not a.dead
    a.switch()
    assert a.dead
    then.clear()
    run(one, "one")
    run(two, "two")
    refused = REFUSED[{second}]
    assert said == ["b" + refused, "main" + refused, "a" + RIGHT, "one" + RIGHT, "two" + RIGHT], said
    assert _bridge.counters()["runs"] == 0
    print("done")
    """).clean("done\n")


def test_sessions_are_not_built_meanwhile(switching):
    switching("""
    model = chain("case::Switch")
    one = pyopnb.Session(model)
    a = greenlet(lambda: run(one, "a"))
    then.append(MAIN.switch)
    a.switch()
    try:
        pyopnb.Session(model)
    except pyopnb.errors.RunRefused as error:
        print(error.next)
    a.switch()
    run(pyopnb.Session(model), "new")
    assert said == ["a" + RIGHT, "new" + RIGHT], said
    """).clean(
        "let that run end first, or use another thread: gevent.get_hub().threadpool.apply(session.run, (None, feeds))\n"
    )


def test_a_greenlet_that_is_dropped_or_killed_inside_an_op_leaves_nothing(switching):
    switching("""
    from greenlet import GreenletExit
    session = pyopnb.Session(chain("case::Switch"))
    for way in ("drop", "kill"):
        then.append(MAIN.switch)
        a = greenlet(lambda: run(session, "a"))
        a.switch()
        run(session, "b")
        if way == "kill":
            assert isinstance(a.throw(GreenletExit), GreenletExit)
        del a
        gc.collect()
        assert _bridge.counters()["runs"] == 0
        run(session, "c")
    assert said == ["bRunRefused says RunRefused", "c" + RIGHT] * 2, said
    print("done")
    """).clean("done\n")


def test_the_other_thread_that_is_advised_runs(switching):
    """Also while a greenlet waits; and a fork in a greenlet sees the runs of its thread."""
    switching("""
    session = pyopnb.Session(chain("case::Switch"))
    a = greenlet(lambda: run(session, "a"))
    then.append(MAIN.switch)
    a.switch()
    thread = threading.Thread(target=run, args=(session, "thread"))
    thread.start()
    thread.join()
    def fill(depth): return fill(depth - 1) if depth else bytearray(64)  # other frames lie where the waiting ones did
    fill(50)
    child = os.fork()
    if not child:
        os._exit(_bridge.counters()["runs"])
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
    a.switch()
    assert said == ["thread" + RIGHT, "a" + RIGHT], said
    print("done")
    """).clean("done\n")


@pytest.mark.parametrize("make", ["pyopnb.Session", "bare"])
def test_a_loop_that_schedules_greenlets(switching, make):
    """As gevent does: each op waits in the loop, and whoever is refused tries again."""
    switching(f"""
    from collections import Counter, deque
    ready, results, refused = deque(), Counter(), Counter()

    def wait():
        ready.append(getcurrent())
        MAIN.switch()

    @pyopnb.pyop("case::Waits")
    class Waits:
        def compute(self, x):
            for _ in range(3):
                wait()
            return x * 2

    sessions = [{make}(chain(*["case::Waits"] * 3)) for _ in range(3)]

    def work(number):
        done = 0
        while done < 5:
            wait()
            try:
                y, = sessions[number % 3].run(None, {{"x": X + number}})
            except Exception as error:
                assert "run of a session in a greenlet" in str(error), error
                refused[number] += 1
                continue
            assert (y == (X + number) * 8).all()
            results[number] += 1
            done += 1

    workers = [greenlet(work) for _ in range(6)]
    for number, worker in enumerate(workers):
        worker.switch(number)
    while ready:
        ready.popleft().switch()
    assert all(worker.dead for worker in workers)
    assert results == dict.fromkeys(range(6), 5) and refused.total(), (results, refused)
    print("done")
    """).clean("done\n")


def test_runs_inside_compute_are_nested_for_good(fresh):
    """Five deep, in a greenlet or not, through generators, coroutines and frames that need new memory for themselves."""
    fresh("""
    import asyncio
    from greenlet import greenlet
    made = []

    @pyopnb.pyop("case::Inner")
    class Inner:
        def compute(self, x):
            level = int(x[0])
            return x + 1 if level == 5 else WAYS[level % len(WAYS)](x + 1)

    def plain(x): return made[0].run(None, {"x": x})[0]

    def generated(x):
        def values(): yield plain(x)
        return next(values())

    def awaited(x):
        async def run():
            await asyncio.sleep(0)
            return plain(x)
        return asyncio.run(run())

    def deep(x, depth=300): return deep(x, depth - 1) if depth else plain(x)

    def in_background(x):
        done, got = threading.Event(), []
        made[0].run_async(None, {"x": x}, lambda results, data, error: (got.extend([*results, error]), done.set()), None)
        assert done.wait(60) and not got[1], got
        return got[0]

    WAYS = [generated, awaited, deep, in_background, plain]
    X = np.float32([0])
    for make in (pyopnb.Session, bare):
        if make is bare:
            WAYS.remove(in_background)  # ONNX Runtime's own, on threads of its pool
        made[:] = [make(chain("case::Inner"))]
        assert plain(X) == [6]
        found = []
        greenlet(lambda: found.append(plain(X))).switch()
        assert found == [[6]]
        made.clear()
    print("done")
    """).clean("done\n")
