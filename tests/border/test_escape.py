"""A part of an input that an op kept in a later call can still be read without run, feed and session."""

import pytest

pytestmark = pytest.mark.one_python  # about memory of ONNX Runtime, and one rule in C++

# Arrays so large that their memory goes back to the system when it is freed: reading it
# then ends the process.
READ = """
from onnx import numpy_helper

N = 300_000
kept, calls = [], [0]
holds = {"view": lambda x: x[1:], "memoryview": memoryview, "list": lambda x: [x, x[2:]], "closure": lambda x: lambda: x[3:]}

@pyopnb.pyop("escape::Keep")
class Keep:
    def compute(self, x) -> "float32[]":
        calls[0] += 1
        if calls[0] == 3:
            kept.append(hold(x))
        return x[0]

@pyopnb.pyop("escape::Next")
class Next:
    def compute(self, x):
        return x + 1

def of_input(*nodes, source="x"):
    return pyopnb.model([*nodes, pyopnb.node("escape::Keep", source, "y")], {"x": "float32[N]"}, "y")

def of_initializer(override):
    inputs = {"x": "float32[N]", "w": "float32[N]"}
    model = pyopnb.model([pyopnb.node("escape::Keep", "w", "y"), pyopnb.node("Identity", "x", "z")], inputs, ["y", "z"])
    model.graph.initializer.append(numpy_helper.from_array(np.full(N, 2, np.float32), "w"))
    if not override:
        del model.graph.input[1]
    return model

node = pyopnb.node
models = {
    "feed": of_input(),
    "of ONNX's operator": of_input(node("Abs", "x", "a"), source="a"),
    "of one that works in place": of_input(node("Abs", "x", "a"), node("Neg", "a", "b"), node("Abs", "b", "c"), source="c"),
    "of an op": of_input(node("escape::Next", "x", "a"), node("Identity", "a", "b"), source="b"),
    "initializer": of_initializer(False),
    "initializer that a feed may override": of_initializer(True),
}

def pieces(thing):
    if callable(thing):
        thing = thing()
    return [piece for part in thing for piece in pieces(part)] if isinstance(thing, list) else [thing]

def use(session, feed):
    for _ in range(2):
        session.run(None, {"x": np.full(N, 2, np.float32)})
    try:
        session.run(None, {"x": feed})
    except Exception as error:
        return type(error).__name__
    return "copied"

for name, model in models.items():
    said = set()
    for hold in holds.values():
        calls[0] = 0
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        session = make(model, options)
        feed = np.full(N, 2, np.float32)
        said.add(use(session, feed))
        session.run(None, {"x": np.full(N, 5, np.float32)})
        session = options = feed = None
        gc.collect()
        others = [np.full(N, 7, np.float32) for _ in range(4)]
        for thing in pieces(kept[0]):
            data = thing.tobytes()
            assert len(data) in range(4 * N - 12, 4 * N + 1)
        kept.clear()
    print(f"{name}: {', '.join(sorted(said))}")
"""

MAKE = {
    "in a session": "make = pyopnb.Session",
    "without an arena": """
def make(model, options):
    options.enable_cpu_mem_arena = False
    return pyopnb.Session(model, options)
""",
    "bare": """
def make(model, options):
    options.register_custom_ops_library(pyopnb.get_library_path())
    return onnxruntime.InferenceSession(model.SerializeToString(), options, enable_fallback=0)
""",
    "bare, in parallel, without an arena": """
def make(model, options):
    options.execution_mode = onnxruntime.ExecutionMode.ORT_PARALLEL
    options.enable_cpu_mem_arena = False
    options.register_custom_ops_library(pyopnb.get_library_path())
    return onnxruntime.InferenceSession(model.SerializeToString(), options, enable_fallback=0)
""",
}
NAMES = [
    *("feed", "of ONNX's operator", "of one that works in place", "of an op"),
    *("initializer", "initializer that a feed may override"),
]


# Two of the options at once, after one for one; and the options that a run in parallel meets.
MARKS = {
    "bare, in parallel, without an arena": pytest.mark.everywhere,
    "in a session": pytest.mark.plain,
}


@pytest.mark.parametrize(
    "way", [pytest.param(way, marks=MARKS[way]) if way in MARKS else way for way in MAKE]
)
def test_what_was_kept_can_be_read(fresh, way):
    done = fresh(MAKE[way] + READ)
    assert (done.code, done.err) == (0, "")
    said = dict(line.split(": ") for line in done.out.splitlines())
    assert list(said) == NAMES
    if "without" in way:
        assert set(said.values()) == {"copied"}
    elif way == "in a session":
        assert set(said.values()) == {"EscapedInput"}
    elif way == "bare":  # the owner of a feed is unknown
        assert [said[name] for name in NAMES] == [
            "copied",
            "Fail",
            "Fail",
            "Fail",
            "copied",
            "copied",
        ]


SHRINKING = """
shrinking = onnxruntime.RunOptions()
shrinking.log_severity_level = 4
shrinking.add_run_config_entry("memory.enable_memory_arena_shrinkage", "cpu:0")
options = onnxruntime.SessionOptions()
options.log_severity_level = 4
options.enable_mem_pattern = False
X = np.full(N, 2, np.float32)
hold = holds["view"]

@pyopnb.pyop("escape::Next")
class Next:
    def compute(self, x): return x + 1
"""


def test_memory_that_was_kept_is_not_given_back(fresh):
    begin = READ[: READ.index("def of_initializer")]
    fresh(f"""{begin}{SHRINKING}
model = of_input(pyopnb.node("escape::Next", "x", "a"), pyopnb.node("Identity", "a", "b"), source="b")
session = pyopnb.Session(model, options)
binding = session.io_binding()
binding.bind_cpu_input("x", X)
binding.bind_output("y")
value = onnxruntime.OrtValue.ortvalue_from_numpy(X)
ways = [
    lambda: session.run(None, {{"x": X}}, shrinking),
    lambda: session.run_with_ort_values(None, {{"x": value}}, shrinking),
    lambda: session.run_with_iobinding(binding, shrinking),
]
session.run(None, {{"x": X}})
ways[0]()
try:
    session.run(None, {{"x": X}})
except pyopnb.errors.EscapedInput:
    print("kept")
for way in ways:
    try:
        way()
    except pyopnb.errors.RunRefused as error:
        print(error.where, "|", error.got)
others = [np.full(N, 7, np.float32) for _ in range(4)]
print(kept[0].tobytes() == (X + 1)[1:].tobytes())
pyopnb.Session(model).run(None, {{"x": X}}, shrinking)  # another session's memory
kept.clear()
for way in ways:
    way()
print("released")
""").clean(
        "kept\n"
        + "run with memory.enable_memory_arena_shrinkage | an input that the node of output 'y' (escape::Keep) kept in an earlier run\n"
        * 3
        + "True\nreleased\n"
    )


def test_what_is_kept_in_a_run_that_gives_memory_back_is_a_copy(fresh):
    begin = READ[: READ.index("def of_initializer")]
    fresh(f"""{begin}{SHRINKING}
session = pyopnb.Session(of_input(pyopnb.node("escape::Next", "x", "a"), pyopnb.node("Identity", "a", "b"), source="b"), options)
for _ in range(5):
    session.run(None, {{"x": X}}, shrinking)
others = [np.full(N, 7, np.float32) for _ in range(4)]
print(calls[0], kept[0].tobytes() == (X + 1)[1:].tobytes())
""").clean("5 True\n")


def test_threads_that_keep(fresh):
    """The holders are on other threads, which read while runs go on and sessions die."""
    fresh("""
    import queue
    reads, go = queue.Queue(), threading.Event()
    def reader():
        while (view := reads.get()) is not None:
            total = 0
            while not go.is_set():
                total += len(view.tobytes())
            assert total % view.nbytes == 0
            del view
    threads = [threading.Thread(target=reader) for _ in range(3)]
    for thread in threads:
        thread.start()
    @pyopnb.pyop("escape::Send")
    class Send:
        def __init__(self):
            self.calls = 0
        def compute(self, x):
            self.calls += 1
            if self.calls == 2:
                reads.put(x[1:])
            return x[:1]
    big = np.ones(1_000_000, np.float32)
    refused = 0
    for _ in range(3):
        session = pyopnb.Session(chain("::Abs", "escape::Send"))
        session(x=big)
        try:
            session(x=big)
        except pyopnb.errors.EscapedInput:
            refused += 1
        session(x=-big)
        del session
    time.sleep(0.1)
    go.set()
    for thread in threads:
        reads.put(None)
    for thread in threads:
        thread.join()
    print(refused)
    """).clean("3\n")


@pytest.mark.plain  # of how much memory there is, which a sanitizer keeps for itself
def test_weights_go_with_their_session(fresh):
    """10 MB of weights in each of 15 sessions, whose op keeps a view in an attribute of its own."""
    fresh("""
    from onnx import numpy_helper
    @pyopnb.pyop("escape::Keep")
    class Keep:
        def __init__(self):
            self.kept = []
        def compute(self, x):
            self.kept.append(memoryview(x) if self.kept else None)
            return x
    def session():
        nodes = [pyopnb.node("escape::Keep", "x", "a"), pyopnb.node("Add", "a w", "y")]
        model = pyopnb.model(nodes, {"x": "float32[1]", "w": "float32[N]"}, "y")
        del model.graph.input[1]
        model.graph.initializer.append(numpy_helper.from_array(np.ones(2_500_000, np.float32), "w"))
        return pyopnb.Session(model)
    def once():
        made, x = session(), np.float32([1])
        made.run(None, {"x": x})
        try:
            made.run(None, {"x": x})
        except pyopnb.errors.EscapedInput:
            return weakref.ref(made._sess)
    import psutil
    def resident():
        return psutil.Process().memory_info().rss // 2**20
    for _ in range(3):
        once()
    before, gone = resident(), [once() for _ in range(15)]
    grown = resident() - before
    print([reference() for reference in gone] == [None] * 15, grown < 75 or grown,  # of 150 at the least
          _bridge.counters()["kernels"])
    """).clean("True True 0\n")


@pytest.mark.plain  # of the text of an exception
def test_a_note_only_where_more_than_the_traceback_holds_an_input(fresh):
    fresh("""
    kept = []
    def deeper(y):
        raise KeyError("on purpose")
    @pyopnb.pyop("escape::Raise")
    class Raise:
        def compute(self, x):
            if x[0] == 1:
                return x
            if x[0] == 2:
                kept.append(memoryview(x))
            z = x
            deeper(z)
    for first in (0, 2):
        session = pyopnb.Session(chain("escape::Raise"))
        session(x=np.float32([1, 1]))
        try:
            session(x=np.float32([first, 7]))
        except KeyError as error:
            trace = error.__traceback__
            while trace.tb_next:
                trace = trace.tb_next
            session(x=np.float32([1, 1]))
            print(trace.tb_frame.f_locals["y"], sum("kept input x" in note for note in error.__notes__))
    """).clean("[0. 7.] 0\n[2. 7.] 1\n")
