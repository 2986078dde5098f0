"""The end of the interpreter, forks and signals: exit code, stdout and stderr are what a clean program has."""

from functools import partial

import pytest
from systems import needs_fork

pytestmark = pytest.mark.one_python


@pytest.fixture
def fresh(fresh):
    """Threads spin as they do by default, when the end comes."""
    return partial(fresh, spinning=True)


# The native module is the same for both.
BARE = pytest.param("bare", marks=pytest.mark.plain)
makers = pytest.mark.parametrize("make", ["pyopnb.Session", BARE])


@makers
def test_sessions_that_are_alive_at_the_end(fresh, make):
    """One in a global, one that never ran, one in a cycle, and one in the traceback of its exception."""
    fresh(f"""
        op("exit::Twice", lambda self, x: x * 2)
        @pyopnb.pyop("exit::Bad")
        class Bad:
            def compute(self, x): raise ValueError("bad")
        session = {make}(chain("exit::Twice", "::Neg"))
        print(session.run(None, {{"x": X}})[0])
        idle = {make}(chain("exit::Twice"))
        held = [{make}(chain("exit::Twice"))]
        held.append(held)
        held[0].run(None, {{"x": X}})
        del held
        try:
            {make}(chain("exit::Bad")).run(None, {{"x": X}})
        except Exception as error:
            kept = error
    """).clean("[-2.  4. -6.]\n")


@makers
def test_a_session_held_by_its_own_op(fresh, make):
    fresh(f"""
        instances = []
        @pyopnb.pyop("exit::Own")
        class Own:
            def __init__(self): instances.append(self)
            def compute(self, x): return x + 1
            def __del__(self): print("instance gone")
        instances = []
        session = {make}(chain("exit::Own"))
        instances[-1].session = session
        print(session.run(None, {{"x": X}})[0])
        del session
        instances.clear()
    """).clean("[ 2. -1.  4.]\ninstance gone\n")


@makers
def test_an_op_that_runs_a_session_when_it_dies(fresh, make):
    fresh(f"""
        op("exit::Twice", lambda self, x: x * 2)
        @pyopnb.pyop("exit::Last")
        class Last:
            def compute(self, x): return x
            def __del__(self):
                try:
                    print(other.run(None, {{"x": X}})[0])
                except Exception as error:
                    print(type(error).__name__, "interpreter is exiting" in str(error))
        other = {make}(chain("exit::Twice"))
        session = {make}(chain("exit::Last"))
        session.run(None, {{"x": X}})
        del session
        session = {make}(chain("exit::Last"))
    """).clean("[ 2. -4.  6.]\n" + ("RuntimeError True\n" if make != "bare" else "Fail True\n"))


@pytest.mark.plain  # as an exception, test_misbehavior.py has it; here the exit code counts
def test_sys_exit_in_compute_ends_the_program(fresh):
    done = fresh("""
        op("exit::Exit", lambda self, x: sys.exit(7))
        session = pyopnb.Session(chain("exit::Exit"))
        try:
            session(x=X)
        finally:
            print("finally")
    """)
    assert (done.code, done.out, done.err) == (7, "finally\n", "")


@pytest.mark.plain
def test_an_uncaught_exception_ends_the_program_with_its_traceback(fresh):
    done = fresh("""
        @pyopnb.pyop("exit::Bad")
        class Bad:
            def compute(self, x):
                raise ValueError("bad")
        pyopnb.Session(chain("exit::Bad"))(x=X)
    """)
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("Traceback (most recent call last):")
    assert done.err.endswith(
        "ValueError: bad\nin node 'n0' (exit::Bad), version 1, with x: float32[3]\n"
    )
    assert "compute\n    raise ValueError" in done.err


def test_a_daemon_thread_inside_compute(fresh):
    fresh("""
        inside = threading.Event()
        @pyopnb.pyop("exit::Slow")
        class Slow:
            def compute(self, x):
                inside.set()
                time.sleep(SECONDS)
                return x
        session = pyopnb.Session(chain("exit::Slow"))
        for SECONDS in (0.05, 1.2, 60):
            inside.clear()
            threading.Thread(target=session, kwargs={"x": X}, daemon=True).start()
            inside.wait()
        print("end")
    """).clean("end\n")


@pytest.mark.parametrize(
    "pause",
    [pytest.param(0, marks=pytest.mark.plain), 0.3, pytest.param(1.1, marks=pytest.mark.plain)],
)
def test_a_daemon_thread_that_runs_python_in_compute(fresh, pause):
    fresh(f"""
        inside = threading.Event()
        @pyopnb.pyop("exit::Busy")
        class Busy:
            def compute(self, x):
                inside.set()
                until = time.monotonic() + {pause}
                while time.monotonic() < until: x.sum()
                return x
        session = pyopnb.Session(chain(*["exit::Busy"] * 3))
        def loop():
            while True: session(x=X)
        for _ in range(3): threading.Thread(target=loop, daemon=True).start()
        inside.wait()
        print("end")
    """).clean("end\n")


@makers
def test_daemon_threads_that_leave_compute_while_the_interpreter_ends(fresh, make):
    # Handlers that were there before pyopnb's run after it, so for a while Python still works and
    # runs are refused already.
    fresh(
        f"""
        import atexit, threading, time
        atexit.register(time.sleep, 0.6)
        import numpy as np, onnxruntime, pyopnb
        inside = threading.Event()
        @pyopnb.pyop("exit::Nap")
        class Nap:
            def compute(self, x):
                inside.set()
                time.sleep(1.15)
                return x
        model = pyopnb.model([pyopnb.node("exit::Nap", "x", "y")], {{"x": "float32[N]"}}, "y")
        options = onnxruntime.SessionOptions()
        options.register_custom_ops_library(pyopnb.get_library_path())
        make = {{"bare": lambda m: onnxruntime.InferenceSession(m.SerializeToString(), options)}}.get("{make}", pyopnb.Session)
        session = make(model)
        def loop():
            while True: session.run(None, {{"x": np.ones(1, np.float32)}})
        for _ in range(3): threading.Thread(target=loop, daemon=True).start()
        inside.wait()
        print("end")
    """,
        prelude=False,
    ).clean("end\n")


def test_daemon_threads_that_loop_in_runs_and_make_sessions(fresh):
    fresh("""
        op("exit::Twice", lambda self, x: x * 2)
        model = chain("exit::Twice", "::Neg")
        session = pyopnb.Session(model)
        running, making = threading.Event(), threading.Event()
        def run():
            while True:
                session(x=X)
                running.set()
        def make():
            while True:
                pyopnb.Session(model)
                making.set()
        threads = [threading.Thread(target=job, daemon=True) for job in (run, run, run, make)]
        for thread in threads: thread.start()
        running.wait()
        making.wait()
        print("end")
    """).clean("end\n")


@pytest.mark.plain
def test_a_thread_that_is_no_daemon_finishes_first(fresh):
    fresh("""
        @pyopnb.pyop("exit::Slow")
        class Slow:
            def compute(self, x):
                time.sleep(0.2)
                return x + 1
        session = pyopnb.Session(chain("exit::Slow"))
        threading.Thread(target=lambda: print(session(x=X)["y"])).start()
    """).clean("[ 2. -1.  4.]\n")


@pytest.mark.plain  # a run like others
def test_a_run_in_an_exit_handler(fresh):
    fresh("""
        import atexit
        op("exit::Twice", lambda self, x: x * 2)
        session = pyopnb.Session(chain("exit::Twice"))
        atexit.register(lambda: print(session(x=X)["y"]))  # after pyopnb's own, so it runs before
    """).clean("[ 2. -4.  6.]\n")


@pytest.mark.plain
def test_a_run_after_the_end_is_refused(fresh):
    fresh(
        """
        def late():
            try:
                session(x=X)
            except RuntimeError as error:
                print(error)
        import atexit, subprocess
        atexit.register(late)  # before pyopnb's own, so it runs after
        import numpy as np, pyopnb
        X = np.float32([1])
        @pyopnb.pyop("exit::Twice")
        class Twice:
            def compute(self, x): return x * 2
        session = pyopnb.Session(pyopnb.model([pyopnb.node("exit::Twice", "x", "y")], {"x": "float32[N]"}, "y"))
        session(x=X)
    """,
        prelude=False,
    ).clean("pyopnb: the interpreter is exiting, no more runs\n")


# A forked child ends with os._exit, as multiprocessing's do: onnxruntime, once imported, lets no
# child end in another way, as what it runs at exit waits for threads that the child does not have.
# With one session alive or none makes no difference.


@makers
@needs_fork
def test_a_fork_and_both_go_on(fresh, make):
    fresh(f"""
        op("exit::Twice", lambda self, x: x * 2)
        session = {make}(chain("exit::Twice", "::Neg"))
        session.run(None, {{"x": X}})
        child = os.fork()
        y = session.run(None, {{"x": X}})[0]
        op("exit::Twice", lambda self, x: x * 3)
        z = session.run(None, {{"x": X}})[0]
        if child:
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            print("child ended with", code)
        os.write(1, f"{{y}} {{z}}\\n".encode())
        if not child:
            del session  # which would wait for the threads of the parent's session
            os._exit(0)
    """).clean("[-2.  4. -6.] [-3.  6. -9.]\nchild ended with 0\n[-2.  4. -6.] [-3.  6. -9.]\n")


@pytest.mark.plain  # about threads of ONNX Runtime
@needs_fork
def test_a_forked_child_can_let_go_of_a_session_that_has_threads(fresh):
    fresh("""
        op("exit::Twice", lambda self, x: x * 2)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 3
        session = pyopnb.Session(chain("exit::Twice", "::Neg"), options)
        def asleep(thread):
            with open(f"/proc/self/task/{thread}/stat") as stat: return stat.read().rpartition(")")[2].split()[0] == "S"
        others = {*os.listdir("/proc/self/task")} - {str(threading.get_native_id())}
        assert len(others) >= 2
        while not all(map(asleep, others)): time.sleep(0.01)  # only threads that sleep are waited for for ever
        child = os.fork()
        if not child:
            del session
            os.write(1, str(pyopnb.Session(chain("exit::Twice", "::Neg"))(x=X)["y"]).encode())
            os._exit(0)
        print("", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """).clean("[-2.  4. -6.] 0\n")


@needs_fork
def test_a_fork_while_another_thread_runs(fresh):
    done = fresh("""
        inside, go = threading.Event(), threading.Event()
        @pyopnb.pyop("exit::Wait")
        class Wait:
            def compute(self, x):
                if x[0] == 0:
                    inside.set()
                    go.wait()
                return x + 1
        session = pyopnb.Session(chain("exit::Wait"))
        thread = threading.Thread(target=lambda: session(x=np.zeros(1, np.float32)))
        thread.start()
        inside.wait()
        child = os.fork()
        os.write(1, f"{_bridge.runs_in_flight()} {session(x=X)['y']}\\n".encode())
        if child:
            print("child ended with", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
            go.set()
            thread.join()
            print(_bridge.runs_in_flight())
        else:
            os._exit(0)
    """)
    assert (done.code, done.err) == (0, "")
    assert sorted(done.out.splitlines()) == [
        "0",
        "0 [ 2. -1.  4.]",
        "1 [ 2. -1.  4.]",
        "child ended with 0",
    ]


@needs_fork
def test_a_fork_inside_compute(fresh):
    fresh("""
        @pyopnb.pyop("exit::Fork")
        class Fork:
            def compute(self, x):
                global child
                child = os.fork()
                return x + (1 if child else 2)
        session = pyopnb.Session(chain("exit::Fork", "::Neg"))
        y = session(x=X)["y"]
        if child:
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        os.write(1, f"{y} {_bridge.runs_in_flight()}\\n".encode())
        if not child:
            os._exit(0)
    """).clean("[-3. -0. -5.] 0\n[-2.  1. -4.] 0\n")


INTERRUPTED = """
        import signal
        session = pyopnb.Session(chain({ops}))
        {first}
        def interrupt():
            {inside}
            interrupt_main()
        for _ in range(2):
            began = {clock}()
            try:
                alarm = threading.Thread(target=interrupt)
                alarm.start()
                session(x=X)
                print("not interrupted")
            except KeyboardInterrupt as error:
                print(type(error.__context__).__name__, {clock}() - began < {seconds})
            alarm.join()
        print(_bridge.counters()["runs"])
"""


@pytest.mark.plain  # interrupts at any moment come by the same
def test_ctrl_c_in_compute(fresh):
    fresh(
        """
        inside = threading.Semaphore(0)
        @pyopnb.pyop("exit::Sleep")
        class Sleep:
            def compute(self, x):
                inside.release()
                end = time.monotonic() + LIMIT
                while time.monotonic() < end: time.sleep(0.1)  # a signal that comes right before a sleep does not end it
    """
        + INTERRUPTED.format(
            ops='"exit::Sleep"',
            first="",
            inside="inside.acquire()",
            clock="time.monotonic",
            seconds="LIMIT / 2",
        )
    ).clean("Fail True\n" * 2 + "0\n")


@pytest.mark.plain
def test_ctrl_c_between_ops_that_run_no_python(fresh):
    # compute is a NumPy function, and no node is new: no bytecode runs in which Python
    # would look for signals.
    fresh(
        """
        op("exit::Cos", np.cos)
        X = np.zeros(2**20, np.float32)
        def among_the_ops():
            while not _bridge.runs_in_flight(): time.sleep(0.01)
            begun = time.process_time()
            while time.process_time() < begun + 0.2: time.sleep(0.01)
    """
        + INTERRUPTED.format(
            ops='*["exit::Cos"] * 1000',
            first="session(x=X[:1])",
            inside="among_the_ops()",
            clock="time.process_time",  # how busy the machine is does not count
            seconds=4,
        )
    ).clean("Fail True\n" * 2 + "0\n")


@pytest.mark.plain
def test_a_signal_raised_in_compute(fresh):
    fresh("""
        import signal
        @pyopnb.pyop("exit::Raise")
        class Raise:
            def compute(self, x):
                signal.raise_signal(signal.SIGINT)
                return x
        session = pyopnb.Session(chain("exit::Raise"))
        for _ in range(2):
            try:
                session(x=X)
            except KeyboardInterrupt as error:
                print(error.__notes__)
        signal.signal(signal.SIGINT, lambda *_: print("handled"))
        print(session(x=X)["y"])
    """).clean(
        "[\"in node 'n0' (exit::Raise), version 1, with x: float32[3]\"]\n" * 2
        + "handled\n[ 1. -2.  3.]\n"
    )


@pytest.mark.plain
def test_an_interrupt_right_at_the_start_of_a_run(fresh):
    fresh("""
        op("exit::Twice", lambda self, x: x * 2)
        session = pyopnb.Session(chain("exit::Twice"))
        run = _bridge.run
        def interrupted(epoch, function, arguments, *rest):
            def raising(*arguments):
                raise KeyboardInterrupt  # as the interpreter does when a signal arrived while the run began
            return run(epoch, raising, arguments, *rest)
        _bridge.run = interrupted
        try:
            session(x=X)
        except KeyboardInterrupt:
            print("interrupted", _bridge.counters()["runs"])
        _bridge.run = run
        print(session(x=X)["y"])
    """).clean("interrupted 0\n[ 2. -4.  6.]\n")


def test_interrupts_at_any_moment_leave_nothing_behind(fresh):
    fresh("""
        import signal
        op("exit::Twice", lambda self, x: x * 2)
        session = pyopnb.Session(chain("exit::Twice", "::Neg"))
        armed = False
        def shot(*_):
            global armed
            if armed:
                armed = False
                raise KeyboardInterrupt
        signal.signal(signal.SIGINT, shot)
        stop = threading.Event()
        def shoot():
            while not stop.wait(0.0005): interrupt_main()
        thread = threading.Thread(target=shoot)
        hits = 0
        thread.start()
        while hits < 300:
            try:
                armed = True
                while True: session(x=X)
            except KeyboardInterrupt:
                hits += 1
        stop.set()
        thread.join()
        print(_bridge.counters()["runs"], session(x=X)["y"])
    """).clean("0 [-2.  4. -6.]\n")


def test_an_interrupt_while_the_exit_waits_for_runs(fresh):
    done = fresh("""
        op("exit::Slow", lambda self, x: (time.sleep(0.02), x + 1)[1])
        session = pyopnb.Session(chain("exit::Slow"))
        begun = threading.Event()
        def loop():
            begun.set()
            while True:
                session(X)
        for _ in range(8):
            threading.Thread(target=loop, daemon=True).start()
        begun.wait()
        time.sleep(0.2)
        def interrupt():
            time.sleep(0.1)
            interrupt_main()
        interrupter = threading.Thread(target=interrupt, daemon=True)
        interrupter.start()
    """)
    # Python itself tells of an interrupt in a handler of the exit.
    assert done.code == 0 and done.out == ""
    assert done.err.endswith("KeyboardInterrupt: \n") and "Fatal" not in done.err
