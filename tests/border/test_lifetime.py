"""What compute keeps of an input never reads reused memory: it reads the old values, or that very run said no."""

import ctypes
import gc
import threading
import warnings
import weakref

import numpy as np
import pytest
from limits import LIMIT

import pyopnb
from pyopnb.engine.runtime import _bridge

OLD = np.float32([7, 7.5, 8, 8.5, 9, 9.5])
OTHER = np.full(6, -1, np.float32)
SAID = "compute kept input x, or a view of it,"


class Boom(Exception):
    pass


class Struct:
    def __init__(self, x):
        self.__array_struct__ = x.__array_struct__


class Pack:
    def __init__(self, x):
        self.capsule = x.__dlpack__(max_version=(1, 0))

    def __dlpack__(self, **_):
        return self.capsule

    def __dlpack_device__(self):
        return 1, 0


def closure(x):
    return lambda: x


def generator(x):
    def values():
        yield x[0]
        yield x

    made = values()
    next(made)
    return made


def raised(x):
    try:
        raise KeyError("kept")
    except KeyError as error:
        return error


def cycle(x):
    made = [x]
    made.append(made)
    return made


def whole(kept):
    return np.asarray(kept).tobytes()


# How a thing is kept, how its bytes are read, and which elements those are. The number of
# references alone tells the bridge that something was kept, so one row covers all
# containers. Nothing that is not instrumented may read under a sanitizer, so everything ends in
# tobytes() or bytes().
KEPT = {
    "x": (lambda x: x, whole, OLD),
    "x[1:]": (lambda x: x[1:], whole, OLD[1:]),
    "x.reshape.T": (lambda x: x.reshape(2, 3).T, whole, OLD.reshape(2, 3).T),
    "x[:0]": (lambda x: x[:0], whole, OLD[:0]),
    "asarray": (np.asarray, whole, OLD),
    "broadcast_to": (lambda x: np.broadcast_to(x, (2, 6)), whole, np.stack([OLD, OLD])),
    "recarray": (lambda x: x.view(np.recarray), whole, OLD),
    "masked": (
        lambda x: np.ma.array(x, mask=[1, 0, 0, 0, 0, 0], copy=False),
        lambda k: k.data.tobytes(),
        OLD,
    ),
    "list": (lambda x: [x, x], lambda k: k[1].tobytes(), OLD),
    "closure": (closure, lambda k: k().tobytes(), OLD),
    "bound method": (lambda x: x.tobytes, lambda k: k(), OLD),
    "generator": (generator, lambda k: next(k).tobytes(), OLD),
    "traceback": (raised, lambda k: k.__traceback__.tb_frame.f_locals["x"].tobytes(), OLD),
    "cycle": (cycle, lambda k: k[0].tobytes(), OLD),
    "frombuffer": (lambda x: np.frombuffer(x, np.uint8), whole, OLD),
    "exception's args": (lambda x: ValueError("kept", x), lambda k: k.args[1].tobytes(), OLD),
    "views of views": (
        lambda x: (x[1:], x[1:][1:], {"z": x[2:]}),
        lambda k: k[2]["z"].tobytes(),
        OLD[2:],
    ),
    # Each of these holds a raw pointer beside its reference.
    "memoryview": (memoryview, bytes, OLD),
    "memoryview slice": (lambda x: memoryview(x)[3:], bytes, OLD[3:]),
    "memoryview of a kept view": (
        lambda x: (x[1:], memoryview(x[1:])),
        lambda k: bytes(k[1]),
        OLD[1:],
    ),
    "as_strided": (lambda x: np.lib.stride_tricks.as_strided(x, (5,)), whole, OLD[:5]),
    "flat": (lambda x: x.flat, lambda k: k.base.tobytes(), OLD),
    "nditer": (np.nditer, lambda k: k.operands[0].tobytes(), OLD),
    "__array_struct__": (Struct, whole, OLD),
    "__dlpack__": (Pack, lambda k: np.from_dlpack(k).tobytes(), OLD),
    "from_dlpack": (np.from_dlpack, whole, OLD),
    "ctypes": (lambda x: x.ctypes, lambda k: ctypes.string_at(k.data, OLD.nbytes), OLD),
    "ctypes.data_as": (
        lambda x: x.ctypes.data_as(ctypes.POINTER(ctypes.c_float)),
        lambda k: ctypes.string_at(k, OLD.nbytes),
        OLD,
    ),
    "ctypeslib.as_array": (
        lambda x: np.ctypeslib.as_array(x.ctypes.data_as(ctypes.POINTER(ctypes.c_float)), (6,)),
        whole,
        OLD,
    ),
    "method wrapper": (lambda x: x.__add__, lambda k: k(0).tobytes(), OLD),
    "array of objects": (
        lambda x: np.array([x, None], dtype=object),
        lambda k: k[0].tobytes(),
        OLD,
    ),
}
if (
    np.lib.NumpyVersion(np.__version__) < "2.1.0"
):  # it refuses to export what must not be written to
    for name in ("__dlpack__", "from_dlpack"):
        del KEPT[name]
# These hold the input itself and no pointer of their own, so they read its copy.
DIRECT = ["x", "asarray", "list", "closure", "bound method", "generator", "traceback", "cycle"]
DIRECT += ["exception's args", "method wrapper", "array of objects"]
# They hold no array at all.
HARMLESS = {
    "nothing": (lambda x: None, lambda k: b"", OLD[:0]),
    "copy": (lambda x: x.copy(), whole, OLD),
    "scalar": (lambda x: x[3], lambda k: k.tobytes(), OLD[3]),
    "weakref": (weakref.ref, lambda k: b"" if k() is None else b"alive", OLD[:0]),
}


class Kept:
    """A session whose op keeps something of its input in one run, and what became of that run."""

    def __init__(self, hold, *, call, raising=False, source="graph input", copy_inputs=False):
        things = self.things = []
        calls = iter(range(1, 1000))

        @pyopnb.pyop("keep::Keep")
        class Keep:
            def compute(self, x):
                if next(calls) == call:
                    things.append(hold(x))
                    if raising:
                        raise Boom("on purpose")
                return x * np.float32(2)

        Keep.copy_inputs = copy_inputs
        pyopnb.registry.define(Keep, "keep::Keep")
        first = [pyopnb.node("Abs", "x", "a")] if source == "intermediate" else []
        keep = pyopnb.node("keep::Keep", "a" if first else "x", "y", name="keeper")
        self.intermediate = bool(first)
        self.session = pyopnb.Session(pyopnb.model([*first, keep], {"x": "float32[N]"}, "y"))
        self.error = None
        for _ in range(call - 1):
            self.run_with(OTHER)
        feed = OLD.copy()
        try:
            self.run_with(feed)
        except (Boom, pyopnb.errors.EscapedInput) as error:
            self.error = error
        feed[:] = -1

    @property
    def thing(self):
        return self.things[0]

    def run_with(self, feed):
        np.testing.assert_array_equal(
            self.session(x=feed)["y"], (np.abs(feed) if self.intermediate else feed) * 2
        )

    def poison(self):
        for _ in range(3):
            self.run_with(OTHER)

    @property
    def refused(self):
        """Whether the run said that something was kept that cannot be made safe."""
        if isinstance(self.error, pyopnb.errors.EscapedInput):
            return True
        return any(
            f"{SAID} after it returned" in note for note in getattr(self.error, "__notes__", ())
        )


def cases(table):
    return pytest.mark.parametrize("name", table)


# Whose memory it is, no version of Python changes. How a run ends has nothing to do with it: of the
# four pairs, make test takes two, in which each has been.
sources = pytest.mark.parametrize(
    "source", ["graph input", pytest.param("intermediate", marks=pytest.mark.one_python)]
)
endings = pytest.mark.parametrize(
    ("source", "raising"),
    [
        pytest.param("graph input", False, id="graph input-returns"),
        pytest.param("graph input", True, id="graph input-raises", marks=pytest.mark.everywhere),
        pytest.param(
            "intermediate", False, id="intermediate-returns", marks=pytest.mark.everywhere
        ),
        pytest.param("intermediate", True, id="intermediate-raises"),
    ],
)


@endings
@cases(KEPT | HARMLESS)
def test_kept_in_the_first_call_reads_the_old_values(name, raising, source):
    hold, read, values = (KEPT | HARMLESS)[name]
    kept = Kept(hold, call=1, raising=raising, source=source)
    assert type(kept.error) is (Boom if raising else type(None))
    assert not kept.refused
    kept.poison()
    assert read(kept.thing) == values.tobytes() or (raising and name == "weakref")


@endings
@cases(KEPT)
def test_kept_in_a_later_call_fails_that_run(name, raising, source):
    hold, read, values = KEPT[name]
    kept = Kept(hold, call=3, raising=raising, source=source)
    assert type(kept.error) is (Boom if raising else pyopnb.errors.EscapedInput)
    assert kept.refused
    said = str(kept.error) if not raising else "\n".join(kept.error.__notes__)
    assert f"node 'keeper' (keep::Keep): {SAID} after it returned" in said
    assert len([line for line in said.splitlines() if SAID in line]) == 1
    kept.poison()  # from now on there are copies, and runs are right
    got = read(
        kept.thing
    )  # of things with a pointer of their own, only that they can be read is promised
    assert len(got) == values.nbytes
    if name in DIRECT:
        assert got == values.tobytes()


@endings
@cases(HARMLESS)
def test_what_holds_no_array_is_no_escape(name, raising, source):
    hold, read, values = HARMLESS[name]
    before = _bridge.counters()["escapes"]
    kept = Kept(hold, call=3, raising=raising, source=source)
    assert type(kept.error) is (Boom if raising else type(None))
    assert not kept.refused
    if not raising:  # the traceback holds compute's x
        assert _bridge.counters()["escapes"] == before
    kept.poison()
    assert read(kept.thing) == values.tobytes() or (raising and name == "weakref")


@sources
@cases(KEPT)
def test_after_an_escape_the_version_gets_copies(name, source):
    hold, read, values = KEPT[name]
    seen = []

    @pyopnb.pyop("keep::Again")
    class Again:
        def compute(self, x):
            seen.append((hold(x), x.flags.owndata))
            return x * np.float32(1)

    first = [pyopnb.node("Abs", "x", "a")] if source == "intermediate" else []
    model = pyopnb.model(
        [*first, pyopnb.node("keep::Again", "a" if first else "x", "y")], {"x": "float32[N]"}, "y"
    )
    session = pyopnb.Session(model)
    for _ in range(3):
        session(x=OLD.copy())
    assert [owned for _, owned in seen] == [True, True, True]
    session(x=np.abs(OTHER))
    assert [read(thing) for thing, _ in seen[:3]] == [values.tobytes()] * 3


def test_results_that_are_views_of_an_input_are_no_escape():
    before = _bridge.counters()["escapes"]
    owned = []
    for shape, cut in (
        ("N", lambda x: x),
        ("N", lambda x: x[::2]),
        ("N,M", lambda x: x.T),
        ("N", lambda x: (x, x[::-1])),
    ):

        class Cut:
            def compute(self, x):
                owned.append(x.flags.owndata)
                return cut(x)  # noqa: B023  # called before the next round

        pyopnb.registry.define(Cut, "keep::Cut")
        x = np.arange(6, dtype=np.float32).reshape((2, 3) if "," in shape else 6)
        want = cut(x)
        outputs = "y z" if isinstance(want, tuple) else "y"
        model = pyopnb.model(
            [pyopnb.node("keep::Cut", "x", outputs)], {"x": f"float32[{shape}]"}, outputs.split()
        )
        session = pyopnb.Session(model)
        results = [list(session(x=x)) for _ in range(4)]
        x[:] = -1
        again = [a.copy() for a in (want if isinstance(want, tuple) else (want,))]
        assert all((a == -1).all() for a in again), "the expectation itself is a view"
        fed = np.arange(6, dtype=np.float32).reshape(x.shape)
        wanted = cut(fed)
        for got in results:
            for one, other in zip(
                got, wanted if isinstance(wanted, tuple) else (wanted,), strict=True
            ):
                np.testing.assert_array_equal(one, other)
    assert owned == [True, False, False, False] * 4
    assert _bridge.counters()["escapes"] == before


def test_views_are_read_only_and_copy_inputs_gives_writable_copies():
    flags = []

    class Look:
        def compute(self, x):
            flags.append((x.flags.writeable, x.flags.owndata))
            if x.flags.writeable:
                x += 1
            return x

    model = pyopnb.model([pyopnb.node("keep::Look", "x", "y")], {"x": "float32[N]"}, "y")
    for copies in (False, True):
        Look.copy_inputs = copies
        pyopnb.registry.define(Look, "keep::Look")
        session = pyopnb.Session(model)
        for _ in range(2):
            feed = OLD.copy()
            np.testing.assert_array_equal(session(x=feed)["y"], OLD + copies)
            np.testing.assert_array_equal(feed, OLD)
    assert flags == [(False, True), (False, False), (True, True), (True, True)]


def test_one_array_as_two_inputs_of_a_node():
    kept = []

    @pyopnb.pyop("keep::Pair")
    class Pair:
        def compute(self, a, b):
            kept.append((a, [b]) if len(kept) == 2 else None)
            return a + b

    session = pyopnb.Session(
        pyopnb.model([pyopnb.node("keep::Pair", "x x", "y")], {"x": "float32[N]"}, "y")
    )
    feed = OLD.copy()
    for _ in range(2):
        np.testing.assert_array_equal(session(x=feed)["y"], OLD + OLD)
    with pytest.raises(pyopnb.errors.EscapedInput, match="kept input a"):
        session(x=feed)
    np.testing.assert_array_equal(session(x=feed)["y"], OLD + OLD)
    feed[:] = -1
    a, (b,) = kept[2]
    assert (a.tobytes(), b.tobytes()) == (OLD.tobytes(), OLD.tobytes())


def test_an_empty_input_can_be_kept():
    kept = []

    @pyopnb.pyop("keep::Empty")
    class Empty:
        def compute(self, x):
            kept.append(x[:])
            return x

    session = pyopnb.Session(
        pyopnb.model([pyopnb.node("keep::Empty", "x", "y")], {"x": "float32[N,3]"}, "y")
    )
    for _ in range(3):
        assert session(x=np.zeros((0, 3), np.float32))["y"].shape == (0, 3)
    assert [k.shape for k in kept] == [(0, 3)] * 3


def test_a_view_on_another_running_thread():
    held, go = threading.Event(), threading.Event()
    threads = []

    def hold(x):
        def use(view):
            held.set()
            go.wait(LIMIT)
            return view

        threads.append(threading.Thread(target=use, args=(x[1:],)))
        threads[0].start()
        held.wait(LIMIT)

    try:
        kept = Kept(hold, call=2)
        assert kept.refused
        kept.poison()
    finally:
        go.set()
        threads[0].join()


def test_results_outlive_their_session():
    session = Kept(lambda x: None, call=1).session
    results = [session(x=OLD)["y"] for _ in range(3)]
    run = session.run(None, {"x": OLD})[0]
    del session
    gc.collect()
    for result in (*results, run):
        assert result.tobytes() == (OLD * 2).tobytes()


def test_counters_return_to_where_they_were():
    gc.collect()
    before = _bridge.counters()
    session = Kept(lambda x: None, call=2).session
    during = _bridge.counters()
    assert during["kernels"] == before["kernels"] + 1
    assert during["states"] == before["states"] + 1
    assert during["runs"] == before["runs"] == 0
    del session
    gc.collect()
    after = _bridge.counters()
    assert (after["kernels"], after["states"], after["runs"]) == (
        before["kernels"],
        before["states"],
        0,
    )


def test_a_deleted_session_needs_no_collection():
    gc.collect()
    before = _bridge.counters()["kernels"]
    gc.disable()
    try:
        session = Kept(lambda x: None, call=2).session
        assert _bridge.counters()["kernels"] == before + 1
        del session
        assert _bridge.counters()["kernels"] == before
    finally:
        gc.enable()


def test_what_escaped_keeps_its_memory_and_no_session():
    feed = OLD.copy()
    alive = weakref.ref(feed)
    kept = Kept(memoryview, call=2)
    before = _bridge.counters()
    kept.things.clear()
    pyopnb.registry.define(
        type(
            pyopnb.registry["keep::Keep"].current.cls.__name__, (), {"compute": later(kept.things)}
        ),
        "keep::Keep",
    )
    kept.session(x=OLD)
    with pytest.raises(pyopnb.errors.EscapedInput) as caught:
        kept.session(x=feed)
    session = weakref.ref(kept.session._sess)
    things = kept.things
    del feed, caught, kept
    gc.collect()
    assert session() is None
    assert _bridge.counters()["kernels"] == before["kernels"] - 1
    assert alive() is not None
    assert bytes(things[0]) == OLD.tobytes()
    things.clear()
    assert alive() is None


def later(things):
    """A compute that keeps its input from the second call on."""
    calls = iter(range(1000))

    def compute(self, x):
        if next(calls):
            things.append(memoryview(x))
        return x * 1

    return compute


HOLDS = {
    "the array": lambda x: x,
    "a view": lambda x: x[1:],
    "a memoryview": memoryview,
    "a list": lambda x: [x, x[::2]],
    "a closure": lambda x: lambda: x[2:],
}


@pytest.mark.parametrize("hold", HOLDS)
def test_a_session_whose_op_kept_an_input_can_be_freed(hold):
    """What was kept is in an attribute of the instance, which the session's kernel owns."""
    instances = []

    @pyopnb.pyop("keep::Attribute")
    class Attribute:
        def __init__(self):
            self.calls = 0
            instances.append(weakref.ref(self))

        def compute(self, x):
            self.calls += 1
            if self.calls == 2:
                self.kept = HOLDS[hold](x)
            return x * 2

    gc.collect()
    before = _bridge.counters()
    nodes = [pyopnb.node("Abs", "x", "a"), pyopnb.node("keep::Attribute", "a", "y")]
    session = pyopnb.Session(pyopnb.model(nodes, {"x": "float32[N]"}, "y"))
    session(x=OLD)
    with pytest.raises(pyopnb.errors.EscapedInput):
        session(x=OLD)
    np.testing.assert_array_equal(session(x=OTHER)["y"], [2] * 6)
    assert instances[0]() is not None
    freed = weakref.ref(session._sess)
    gc.disable()
    try:
        del session  # no collection: there is no cycle
        assert freed() is None
        assert instances[0]() is None
        after = _bridge.counters()
    finally:
        gc.enable()
    assert (after["kernels"], after["states"]) == (before["kernels"], before["states"])


def test_an_input_with_other_strides_can_be_kept():
    """compute gave the input other strides: a copy of its elements would be read after it returned."""
    kept = []

    @pyopnb.pyop("keep::Strides")
    class Strides:
        def compute(self, x):
            kept.append(x)
            if len(kept) == 2:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", DeprecationWarning)
                    x.shape = (3, 2)
                    x.strides = (8, 0)
            else:
                kept[-1] = None
            return np.zeros(1, np.float32)

    session = pyopnb.Session(
        pyopnb.model([pyopnb.node("keep::Strides", "x", "y")], {"x": "float32[N]"}, "y")
    )
    session(x=OLD)
    with pytest.raises(pyopnb.errors.EscapedInput):
        session(x=OLD)
    assert kept[1].tobytes() == np.float32([7, 7, 8, 8, 9, 9]).tobytes()
