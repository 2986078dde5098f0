"""Ctrl-C while a large model loads or runs, where no Python code is in between."""

from __future__ import annotations

import pytest
from systems import needs_sent_signals

# Processes that touch no memory in a way of their own.
pytestmark = [pytest.mark.plain, pytest.mark.one_python]

# 200 MB of weights, and a loop that ends after years.
LARGE = """
os.chdir(os.path.dirname(os.path.abspath(sys.argv[0])))
from pyopnb.common import progress
told = []
def bar(what, since):
    return lambda done, total, phase="": told.append((phase, done, total))
progress.set_bar(bar)
progress._PATIENCE = 0.0
text = '''agraph (float[N] x, int64 n) => (float[N] y, float[N] z) <float[W] w> {
    go = Constant <value = bool {1}> ()
    first = Constant <value = int64[1] {0}> ()
    y = Loop <body = body (int64 i, bool c, float[N] a) => (bool d, float[N] b) {
        d = Identity(c)
        b = Sin(a)
    }> (n, go, x)
    z = Gather(w, first)
}'''
import onnx
def large(text=text, size=51_000_000):
    graph = onnx.parser.parse_graph(text)
    weights = graph.initializer.add(name="w", data_type=1, dims=[size], data_location=1)
    weights.external_data.add(key="location", value="w.data")
    with open("w.data", "wb") as file:
        file.truncate(4 * size)  # zeros that take no room
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8), "large.onnx")
    return "large.onnx"
n = np.array(3)
endless = np.array(2**62)
"""


def test_a_run_ends(fresh):
    fresh(
        LARGE
        + """
session = pyopnb.Session(large())
threads = threading.active_count()
for _ in range(2):
    timer = threading.Timer(0.3, interrupt_main)
    timer.start()
    try:
        session.run(None, {"x": X, "n": endless})
    except KeyboardInterrupt:
        print("interrupted")
    timer.join()
print(threading.active_count() - threads, session(x=X, n=n)["z"])
"""
    ).clean("interrupted\ninterrupted\n0 [0.]\n")


def test_a_search_and_a_trace_end(fresh):
    fresh(
        LARGE
        + """
model = large()
for call in (
    lambda: pyopnb.trace(model, x=X, n=endless),
    lambda: pyopnb.first_divergence(model, model, {"x": X, "n": endless}),
):
    del told[:]
    def interrupt():
        while not told or told[-1][0] != "running": time.sleep(0.01)
        time.sleep(0.1)
        interrupt_main()
    timer = threading.Thread(target=interrupt, daemon=True)
    timer.start()
    try:
        call()
    except KeyboardInterrupt:
        print("interrupted", told[-1][0])
    timer.join()
print(pyopnb.trace(model, x=X, n=n)["z"])
"""
    ).clean("interrupted running\ninterrupted running\n[0.]\n")


def test_a_load_ends_and_its_options_make_another_session(fresh):
    fresh(
        LARGE
        + """
model, options = large(), onnxruntime.SessionOptions()
made = onnxruntime.InferenceSession.__init__
def interrupted(*arguments, **keywords):
    threading.Thread(target=interrupt_main).start()
    made(*arguments, **keywords)
    time.sleep(LIMIT)
onnxruntime.InferenceSession.__init__ = interrupted
try:
    pyopnb.Session(model, options)
except KeyboardInterrupt as error:
    kept = error
    gc.collect()
    sessions = [thing for thing in gc.get_objects() if isinstance(thing, onnxruntime.InferenceSession)]
    print(sum("_sess" in vars(session) for session in sessions))
onnxruntime.InferenceSession.__init__ = made
print(pyopnb.Session(model, options)(x=X, n=n)["z"])
"""
    ).clean("0\n[0.]\n")


def test_interrupts_at_any_moment_of_a_run_leave_nothing_behind(fresh):
    fresh(
        LARGE
        + """
import warnings
warnings.simplefilter("ignore", ResourceWarning)  # an interrupt may come between opening a socket and using it
session = pyopnb.Session(large())
threads = threading.active_count()
stop = threading.Event()
armed = False
def shoot():
    global armed
    while not stop.wait(0.0005):
        if armed:
            armed = False
            interrupt_main()
thread = threading.Thread(target=shoot, daemon=True)
hits = 0
thread.start()
while hits < 200:
    try:
        armed = True
        while True: session(x=X, n=n)
    except KeyboardInterrupt:
        hits += 1
stop.set()
thread.join()
while threading.active_count() > threads: time.sleep(0.01)
print(session(x=X, n=n)["z"])
"""
    ).clean("[0.]\n")


def test_an_error_of_a_load_and_of_a_run_is_the_usual_one(fresh):
    fresh(
        LARGE
        + """
for text in ("y = Sin(x)  z = Gather(w, x)", "y = Sin(x)  z = Reshape(w, n)"):
    errors = []
    for size in (51_000_000, 51):
        model = large("agraph (float[N] x, int64[R] n) => (float[N] y, float[M] z) <float[W] w> {" + text + "}", size)
        try:
            pyopnb.Session(model)(x=X, n=np.array([7]))
        except Exception as error:
            errors.append((type(error), str(error).replace(str(size), "W"), *getattr(error, "__notes__", ())))
    print(len(errors), len(set(errors)))
"""
    ).clean("2 1\n2 1\n")


def test_a_bar_names_the_phase_and_the_megabytes(fresh):
    fresh(
        LARGE
        + """
path = large()
bars = {
    "trace": lambda: pyopnb.trace(path, x=X, n=n),
    "first_divergence": lambda: pyopnb.first_divergence(path, path, {"x": X, "n": n}),
}
for name, call in bars.items():
    del told[:]
    call()
    phases = [phase for phase, *_ in told]
    print(name, [a for a, b in zip(phases, [*phases[1:], None]) if a != b], told[-1][1:])
"""
    ).clean(
        "trace ['loading', 'running', 'loading', 'running', ''] (408, 408)\n"
        "first_divergence ['loading', 'running', 'loading', 'running', ''] (820, 820)\n"
    )


@needs_sent_signals
def test_signals_reach_the_event_loop_that_waits_for_them(fresh):
    fresh(
        LARGE
        + """
import asyncio
session = pyopnb.Session(large())
async def main():
    came = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, came.set)
    timers = [threading.Timer(seconds, os.kill, (os.getpid(), number)) for seconds, number in ((0.3, signal.SIGUSR1), (0.6, signal.SIGINT))]
    for timer in timers:
        timer.start()
    try:
        session.run(None, {"x": X, "n": endless})
    except KeyboardInterrupt:
        print("interrupted", came.is_set())
    await asyncio.wait_for(came.wait(), LIMIT)
    print("came")
signal.signal(signal.SIGINT, signal.default_int_handler)
loop = asyncio.new_event_loop()
loop.run_until_complete(main())
loop.close()
"""
    ).clean("interrupted False\ncame\n")


def test_another_thread_shows_no_bar(fresh):
    fresh(
        LARGE
        + """
path = large()
def use():
    print(pyopnb.Session(path)(x=X, n=n)["z"])
thread = threading.Thread(target=use)
thread.start()
thread.join()
print(told)
"""
    ).clean("[0.]\n[]\n")
