"""The array objects of inputs are used again from call to call, where nothing that compute did can be seen in the next one."""

import pytest

OP = """
log = []

@pyopnb.pyop("reuse::Look")
class Look:
    def compute(self, x):
        log.append((id(x), x.tobytes()))
        return look(x)

def look(x):
    return x

session = pyopnb.Session(chain("reuse::Look"))
def feed(*values):
    return np.float32(values)
def run(*values):
    result = session(x=feed(*values))["y"]
    assert log[-1][1] == result.tobytes() == feed(*values).tobytes(), (log[-1], result)
def ids():
    return [identity for identity, _ in log]
for n in range(3):
    run(n, 1, 2, 3)  # the first call has copies
"""

# None of them ends its process, so one process is enough for all.
PARTS = {
    "the same object serves call after call": """
for n in range(5):
    run(n, 7, 8, 9)
assert len(set(ids()[1:])) == 1, log
""",
    "other shapes and dtypes": """
for count in (4, 1, 0, 2, 4, 4, 0, 0, 3, 3):
    run(*range(count))
seen = []

@pyopnb.pyop("reuse::Any")
class Any:
    def compute(self, x):
        seen.append((x.dtype, x.shape, x.flags.c_contiguous, x.flags.f_contiguous, x.flags.writeable, x.flags.aligned, x.tobytes()))
        return x

for kind in ("float32", "int8", "int64", "bool"):
    session = pyopnb.Session(pyopnb.model([pyopnb.node("reuse::Any", "x", "y")], {"x": f"{kind}[N,M]"}, "y"))
    for shape in ((2, 3), (2, 3), (3, 2), (1, 6), (6, 1), (2, 3), (0, 3), (0, 3)):
        x = np.arange(np.prod(shape)).reshape(shape).astype(kind)
        y = session(x=x)["y"]
        expected = (x.dtype, x.shape, True, x.flags.f_contiguous, False, True, x.tobytes())
        assert seen[-1] == expected, (seen[-1], expected)
        assert y.tobytes() == x.tobytes()
""",
    "what is kept is not used again": """
holds = {
    "x": lambda x: x,
    "view": lambda x: x[1:],
    "view of a view": lambda x: x[1:][1:],
    "memoryview": memoryview,
    "slice of a memoryview": lambda x: memoryview(x)[1:],
    "memoryview of a view": lambda x: memoryview(x[1:]),
    "dlpack": np.from_dlpack,
    "ctypes": lambda x: x.ctypes,
    "flat": lambda x: x.flat,
    "frombuffer": lambda x: np.frombuffer(x, np.uint8),
}
if np.lib.NumpyVersion(np.__version__) < "2.1.0":  # it refuses to export what must not be written to
    del holds["dlpack"]
kept = []
for name, hold in holds.items():
    pyopnb.registry.define(Look, "reuse::Look")
    for n in range(3):
        run(n, 1, 2, 3)
    old = feed(5, 6, 7, 8)
    def look(x, hold=hold):
        kept.append(hold(x))
        return x
    try:
        session(x=old)
    except pyopnb.errors.EscapedInput:
        pass
    else:
        raise AssertionError(name)
    look = lambda x: x
    escaped = ids()[-1]
    for n in range(5):
        run(n, -1, -1, -1)
    if name not in ("ctypes", "flat"):
        array = np.asarray(kept[-1]).tobytes()
        assert array in old.tobytes() and array, name
    assert escaped not in ids()[-5:], name
assert len(kept) == len(holds)
""",
    "a weak reference dies with its call": """
references = []
def look(x):
    references.append(weakref.ref(x))
    return x
for n in range(4):
    run(n, 1, 2, 3)
    assert references[-1]() is None, n
def look(x):
    weakref.ref(x)  # gone at once
    return x
before = len(log)
for n in range(4):
    run(n, 1, 2, 3)
# Without the GIL, Python never again says that an object is reached by one reference alone, once it had a weak one.
assert len(set(ids()[before:])) == 1 or not getattr(sys, "_is_gil_enabled", lambda: True)()
""",
    "what compute does to the object is not seen by the next call": """
import warnings
flags = str(feed(1, 2, 3, 4).flags).replace("OWNDATA : True", "OWNDATA : False").replace("WRITEABLE : True", "WRITEABLE : False")
def reshape(x):
    x.shape = 2, 2
def flatten(x):
    x.shape = 1, 4, 1
def other_dtype(x):
    x.dtype = np.int32
def unaligned(x):
    x.setflags(align=False)
def export(x):
    memoryview(x).release()
def other_strides(x):
    x.strides = 0,
for change in (reshape, flatten, other_dtype, unaligned, export, other_strides):
    for n in range(3):
        def look(x):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)
                change(x)
            return feed(n, 1, 2, 3)
        run(n, 1, 2, 3)
        def look(x):
            assert (x.dtype, x.shape, x.strides, str(x.flags), x.base) == (np.float32, (4,), (4,), flags, None), change
            return x
        run(n, 4, 5, 6)
def writable(x):
    try:
        x.setflags(write=True)
    except (ValueError, DeprecationWarning):  # older NumPy only warns, which is an error here and not elsewhere
        return x
    raise AssertionError("the runtime's memory can be written")
look = writable
run(1, 2, 3, 4)
""",
    "runs inside one another": """
def look(x):
    if x[0] > 0:
        inner = session(x=x - 1)["y"]
        assert (inner == x - 1).all()
        assert x.tobytes() == before[int(x[0])], "the outer input changed"
    return x
before = {n: feed(n, 1 + n, 2 + n, 3 + n).tobytes() for n in range(9)}
for _ in range(3):
    for depth in (8, 0, 3):
        result = session(x=feed(depth, 1 + depth, 2 + depth, 3 + depth))["y"]
        assert result.tobytes() == before[depth]
""",
    "threads in one op": """
barrier = threading.Barrier(4)
wrong = []
def look(x):
    old = x.tobytes()
    barrier.wait(LIMIT)  # all four are inside, each with an array of its own
    if x.tobytes() != old:
        wrong.append(x)
    return x
def job(number):
    for n in range(200):
        values = feed(number, n, 2, 3)
        if session(x=values)["y"].tobytes() != values.tobytes():
            wrong.append(values)
threads = [threading.Thread(target=job, args=(number,)) for number in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
inside = [set(ids()[at : at + 4]) for at in range(3, len(log), 4)]
assert all(len(four) == 4 for four in inside[:-1]), inside
assert not wrong, wrong
""",
    "a call that raises": """
def look(x):
    raise KeyError("on purpose")
errors = []
for n in range(3):
    try:
        session(x=feed(n, 0, 0, 0))
    except KeyError as error:
        errors.append(error)  # its traceback holds compute's x
look = lambda x: x
for n in range(3):
    run(n, 9, 9, 9)
def arrays(error):
    traceback = error.__traceback__
    while traceback.tb_next:
        traceback = traceback.tb_next
    return traceback.tb_frame.f_locals["x"].tobytes()
assert [arrays(error) for error in errors] == [feed(n, 0, 0, 0).tobytes() for n in range(3)]
""",
}


@pytest.fixture(scope="module")
def outcomes(together):
    return together({name: f"{OP}{text}print('right')\n" for name, text in PARTS.items()})


@pytest.mark.parametrize("name", PARTS)
def test_what_ops_see(outcomes, name):
    outcomes[name].clean("right\n")
