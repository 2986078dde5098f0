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
}


@pytest.fixture(scope="module")
def outcomes(together):
    return together({name: f"{OP}{text}print('right')\n" for name, text in PARTS.items()})


@pytest.mark.parametrize("name", PARTS)
def test_what_ops_see(outcomes, name):
    outcomes[name].clean("right\n")
