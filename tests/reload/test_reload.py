"""An op is redefined under living sessions: what follows, what stays, what a run in flight sees, and what it costs."""

import gc
import linecache
import subprocess
import sys
import threading
import traceback
import warnings
import weakref

import numpy as np
import onnxruntime
import pytest
from limits import LIMIT
from small_ops import chain

import pyopnb
from pyopnb.engine.runtime import _bridge
from pyopnb.errors import SessionRebuilt

X = np.float32([1, 2, 3])


def bare(model):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.register_custom_ops_library(pyopnb.get_library_path())
    return onnxruntime.InferenceSession(model.SerializeToString(), options, enable_fallback=0)


def define(text, name="reload::Op", file=None):
    """Defines a class from text, as a cell does: with a file name of its own, known to linecache."""
    define.count += 1
    file = file or f"<cell {define.count}>"
    linecache.cache[file] = len(text), None, text.splitlines(keepends=True), file
    names = {"np": np, "pyopnb": pyopnb}
    exec(compile(text, file, "exec"), names)
    cls = next(v for v in names.values() if isinstance(v, type))
    return pyopnb.registry.define(cls, name, source=text)


define.count = 0

ADDS = "class Op:\n    def compute(self, x):\n        return x + {}\n"


@pytest.fixture(params=[pyopnb.Session, bare], ids=["Session", "bare"])
def make(request):
    return request.param


def out(session, x=X):
    return session.run(None, {"x": x})[0].tolist()


def test_the_next_run_uses_the_new_body(make):
    define(ADDS.format(1))
    session = make(chain("reload::Op", "::Neg"))
    assert out(session) == [-2, -3, -4]
    inner = getattr(session, "_sess", None)
    define(ADDS.format(10))
    assert out(session) == [-11, -12, -13]
    assert session._sess is inner  # nothing was rebuilt


def test_a_new_attr_that_the_node_lacks_is_a_clear_error_until_it_is_fixed(make):
    define(ADDS.format(1))
    session = make(chain("reload::Op"))
    define(
        "class Op:\n    def __init__(self, size: int):\n        pass\n    def compute(self, x):\n        return x\n"
    )
    for _ in range(2):
        with pytest.raises(
            Exception,
            match=r"node 'n0' \(reload::Op\), attr size: expected a value of kind int .* got nothing",
        ) as caught:
            session.run(None, {"x": X})
        assert isinstance(caught.value, pyopnb.errors.ModelError) == isinstance(
            session, pyopnb.Session
        )
    define(ADDS.format(2))
    assert out(session) == [3, 4, 5]


def test_an_init_that_raises_is_the_users_exception_until_it_is_fixed(make):
    define(ADDS.format(1))
    session = make(chain("reload::Op"))
    define(
        "class Op:\n    def __init__(self):\n        raise OSError('no disk')\n    def compute(self, x):\n        return x\n"
    )
    for _ in range(2):
        with pytest.raises(Exception, match="no disk") as caught:
            session.run(None, {"x": X})
        assert isinstance(caught.value, OSError) == isinstance(session, pyopnb.Session)
    define(ADDS.format(2))
    assert out(session) == [3, 4, 5]


@pytest.mark.parametrize(
    "bad",
    [
        "class Op:\n    pass\n",
        "class Op:\n    compute = 3\n",
        "class Op:\n    def compute(self, x: 'float33[N]'): return x\n",
        "class Op:\n    def compute(self, x, *, key): return x\n",
        "class Op:\n    raise ZeroDivisionError\n",
        "class Op:\n    def compute(self, x: return x\n",
    ],
)
def test_after_a_definition_that_fails_the_last_good_one_stays(make, bad):
    define(ADDS.format(1))
    session = make(chain("reload::Op"))
    with pytest.raises((pyopnb.PyopError, ZeroDivisionError, SyntaxError)):
        define(bad)
    assert len(pyopnb.registry.history("reload::Op")) == 1
    assert out(session) == [2, 3, 4]


def test_rollback(make):
    define(ADDS.format(1))
    session = make(chain("reload::Op"))
    for number in (10, 100):
        define(ADDS.format(number))
        assert out(session) == [number + 1, number + 2, number + 3]
    assert pyopnb.registry.rollback("reload::Op").number == 4
    assert out(session) == [11, 12, 13]
    pyopnb.registry.rollback("reload::Op", 1)
    assert out(session) == [2, 3, 4]


def test_state_belongs_to_a_version():
    text = "class Op:\n    def __init__(self):\n        self.n = 0\n    def compute(self, x):\n        self.n += {}\n        return x * 0 + np.float32(self.n)\n"
    define(text.format(1))
    session = pyopnb.Session(chain("reload::Op"))
    assert [out(session)[0] for _ in range(3)] == [1, 2, 3]
    define(text.format(100))
    assert [out(session)[0] for _ in range(3)] == [100, 200, 300]


def test_a_run_in_flight_finishes_with_its_version():
    text = (
        "class Op:\n    def compute(self, x):\n        if x[0] == 0 and pyopnb.hold is not None:\n            inside, go = pyopnb.hold\n"
        "            inside.set()\n            assert go.wait(600)\n        return x + {}\n"
    )
    inside, go = threading.Event(), threading.Event()
    pyopnb.hold = inside, go
    try:
        define(text.format(1))
        session = pyopnb.Session(chain("reload::Op", "::Neg", "::Neg", "reload::Op"))
        result = []
        thread = threading.Thread(
            target=lambda: result.extend(out(session, np.zeros(1, np.float32)))
        )
        thread.start()
        assert inside.wait(LIMIT)
        pyopnb.hold = None
        for number in (10, 100, 1000):
            define(text.format(number))
            assert out(session) == [2 * number + 1, 2 * number + 2, 2 * number + 3]
        go.set()
        thread.join(LIMIT)
        assert result == [2]  # both nodes by version 1, three versions later
        assert out(session, np.zeros(1, np.float32)) == [2000]
    finally:
        go.set()
        del pyopnb.hold


def test_the_traceback_of_an_old_version_shows_the_old_source():
    texts = [
        f"class Op:\n    def compute(self, x):\n        raise ValueError('version {n}')  # line of {n}\n"
        for n in (1, 2)
    ]
    define(texts[0])
    session = pyopnb.Session(chain("reload::Op"))
    with pytest.raises(ValueError, match="version 1") as first:
        session(x=X)
    define(texts[1])
    with pytest.raises(ValueError, match="version 2") as second:
        session(x=X)
    for number, caught in ((1, first), (2, second)):
        last = traceback.extract_tb(caught.value.__traceback__)[-1]
        assert last.line == f"raise ValueError('version {number}')  # line of {number}"
        assert caught.value.__notes__ == [
            f"in node 'n0' (reload::Op), version {number}, with x: float32[3]"
        ]


CHANGES = {
    "dtype": (
        "class Op:\n    def compute(self, x) -> 'float64[N]':\n        return x.astype(np.float64)\n",
        [-1.0, -2.0, -3.0],
        "float64",
    ),
    "rank": (
        "class Op:\n    def compute(self, x) -> 'float32[1,N]':\n        return x[None]\n",
        [[-1.0, -2.0, -3.0]],
        "float32",
    ),
    "dims": (
        "class Op:\n    def compute(self, x) -> 'float32[2]':\n        return x[:2]\n",
        [-1.0, -2.0],
        "float32",
    ),
    "infer": (
        "class Op:\n    def infer(self, x):\n        return 'int64[M]'\n    def compute(self, x):\n        return x.astype(np.int64)[1:]\n",
        [-2, -3],
        "int64",
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_session_is_built_anew_for_other_outputs(change):
    text, want, kind = CHANGES[change]
    define("class Op:\n    def compute(self, x) -> 'float32[N]':\n        return x\n")
    sessions = [pyopnb.Session(chain("reload::Op", "::Neg")) for _ in range(2)]
    define(text)
    for session in sessions:
        with pytest.warns(
            SessionRebuilt,
            match=r"session rebuilt: reload::Op, version 2 gives .* instead of float32\[N\]",
        ) as said:
            y = session(x=X)["y"]
        assert len(said) == 1
        assert said[0].filename == __file__
        assert (y.tolist(), y.dtype.name) == (want, kind)
        assert np.dtype(np.asarray(y).dtype).name in repr(session)
        np.testing.assert_array_equal(
            session(x=X)["y"], y
        )  # and once only: warnings are errors here
    gc.collect()
    assert _bridge.counters()["runs"] == 0


def test_a_bare_session_says_what_to_do_about_other_outputs():
    define("class Op:\n    def compute(self, x) -> 'float32[N]':\n        return x\n")
    session = bare(chain("reload::Op", "::Neg"))
    define(CHANGES["dtype"][0])
    for _ in range(2):
        with pytest.raises(
            Exception,
            match=r"SchemaChanged: .*reload::Op.*version 2.*expected float32\[N\], got float64\[N\].*rebuild the session",
        ):
            session.run(None, {"x": X})
    pyopnb.registry.rollback("reload::Op", 1)
    assert out(session) == [-1, -2, -3]


def test_a_rebuild_that_fails_keeps_saying_so_and_recovers():
    define("class Op:\n    def compute(self, x) -> 'float32[N]':\n        return x\n")
    session = pyopnb.Session(chain("reload::Op", "::Tanh"))
    want = session(x=X)["y"]
    # Tanh takes no strings, so no session can be made of this.
    define(
        "class Op:\n    def compute(self, x) -> 'string[N]':\n        return x.astype(str).astype(object)\n"
    )
    for _ in range(3):
        with pytest.raises(Exception, match=r"(?i)tanh.*string|string.*tanh"):
            session(x=X)
    define(
        "class Op:\n    def compute(self, x) -> 'float64[N]':\n        return x.astype(np.float64)\n"
    )
    with pytest.warns(SessionRebuilt):
        np.testing.assert_allclose(session(x=X)["y"], want, rtol=1e-6)
    define("class Op:\n    def compute(self, x) -> 'float32[N]':\n        return x\n")
    with pytest.warns(SessionRebuilt):
        np.testing.assert_array_equal(session(x=X)["y"], want)


def test_an_op_is_redefined_inside_compute():
    define("class Op:\n    def compute(self, x):\n        pyopnb.again()\n        return x + 1\n")
    pyopnb.again = lambda: define(ADDS.format(10))
    try:
        session = pyopnb.Session(chain("reload::Op", "reload::Op"))
        # The definition happens in the first node; the second is of the same run and so
        # of the same version.
        assert out(session) == [3, 4, 5]
        assert len(pyopnb.registry.history("reload::Op")) == 3
        assert out(session) == [21, 22, 23]
    finally:
        del pyopnb.again


def test_a_session_is_dropped_inside_compute(make):
    held = []
    gone = []

    @pyopnb.pyop("reload::Drop")
    class Drop:
        def compute(self, x):
            held.clear()
            gc.collect()
            return x + 1

    held.append(make(chain("reload::Drop", "::Neg")))
    weakref.finalize(held[0]._sess, gone.append, True)
    run = held[0].run
    assert run(None, {"x": X})[0].tolist() == [-2, -3, -4]
    del run
    gc.collect()
    assert gone == [True]


def test_an_op_is_redefined_while_another_thread_builds_for_it():
    building, go = threading.Event(), threading.Event()
    pyopnb.hold = None
    text = (
        "class Op:\n    def __init__(self):\n        if pyopnb.hold is not None:\n            building, go = pyopnb.hold\n            pyopnb.hold = None\n"
        "            building.set()\n            assert go.wait(600)\n    def compute(self, x) -> '{0}[N]':\n        return x.astype(np.{0})\n"
    )
    try:
        define(text.format("float32"))
        session = pyopnb.Session(chain("reload::Op", "::Neg"))
        result = []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SessionRebuilt)
            pyopnb.hold = building, go
            define(text.format("float64"))
            thread = threading.Thread(target=lambda: result.append(session(x=X)["y"]))
            thread.start()
            assert building.wait(LIMIT)
            define(text.format("int32"))
            go.set()
            thread.join(LIMIT)
            assert result[0].dtype in (np.float64, np.int32)  # one of them, whole
            assert result[0].tolist() == [-1, -2, -3]
            assert session(x=X)["y"].dtype == np.int32
    finally:
        go.set()
        del pyopnb.hold


# A process of its own: in the suite's, the threads and allocator's arenas of other
# tests grow meanwhile.
GROWTH = """
import gc, linecache, os, sys
import numpy as np, onnxruntime, pyopnb
from pyopnb.engine.runtime import _bridge
import psutil

def define(add):
    text = f"class Op:\\n    def compute(self, x):\\n        return x + {add}\\n"
    linecache.cache["<growth>"] = len(text), None, text.splitlines(keepends=True), "<growth>"
    names = {}
    exec(compile(text, "<growth>", "exec"), names)
    pyopnb.registry.define(names["Op"], "reload::Op", source=text)

def chain(*names):
    wires = ["x", *(f"w{number}" for number in range(1, len(names))), "y"]
    nodes = [pyopnb.node(name, *ports) for name, *ports in zip(names, wires, wires[1:])]
    return pyopnb.model(nodes, {"x": "float32[N]"}, {"y": "float32[N]"})

define(0)
session = pyopnb.Session(chain("reload::Op", "::Neg", "reload::Op"))
options = onnxruntime.SessionOptions()
options.register_custom_ops_library(pyopnb.get_library_path())
plain = chain("reload::Op").SerializeToString()
bare = onnxruntime.InferenceSession(plain, options, enable_fallback=0)
feeds = {"x": np.float32([1, 2, 3])}

def rounds(count):
    for number in range(count):
        add = number % 4
        define(add)
        assert session.run(None, feeds)[0].tolist() == [-1, -2, -3]
        assert bare.run(None, feeds)[0].tolist() == [1 + add, 2 + add, 3 + add]
    gc.collect()
    resident = psutil.Process().memory_info().rss
    states = _bridge.counters()["states"]
    return states, sys.getallocatedblocks(), len(gc.get_objects()), resident

kept = pyopnb.engine.ops.op.MAX_VERSIONS
rounds(500)  # the history fills up, and the interpreter specializes what it runs often
before = rounds(kept)
print(*(late - early for early, late in zip(before, rounds(1000))))
"""


def test_a_thousand_redefinitions_leave_nothing_behind():
    ran = subprocess.run([sys.executable, "-P", "-c", GROWTH], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    states, blocks, objects, resident = map(int, ran.stdout.split())
    assert states == 0
    # One thing a redefinition would be a thousand.
    assert blocks < 300
    assert objects < 50
    assert resident < 4 << 20


def test_rebuilding_again_and_again_leaves_nothing_behind():
    kinds = ["float64", "float32", "int64"]
    texts = [
        f"class Op:\n    def compute(self, x) -> '{kind}[N]':\n        return x.astype(np.{kind})\n"
        for kind in kinds
    ]
    define(texts[0], file="<growth>")
    session = pyopnb.Session(chain("reload::Op", "::Neg"))

    def rounds(count):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SessionRebuilt)
            for number in range(count):
                define(texts[(number + 1) % 3], file="<growth>")
                assert out(session) == [-1, -2, -3]
        gc.collect()
        return _bridge.counters(), len(gc.get_objects())

    rounds(120)
    before = rounds(30)
    after = rounds(90)
    assert after[0] == before[0]
    assert after[1] - before[1] < 45
