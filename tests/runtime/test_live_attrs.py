"""Attrs of a live session change without building anything again."""

import gc
import threading
import weakref

import numpy as np
import onnx
import pytest
from limits import LIMIT

import pyopnb


@pytest.fixture
def scale():
    @pyopnb.pyop("demo::Scale")
    class Scale:
        def __init__(self, by: float = 2.0, shift: int = 0):
            if by < 0:
                raise ArithmeticError("by must not be negative")
            self.by, self.shift, self.runs = np.float32(by), shift, 0

        def compute(self, x):
            self.runs += 1
            return x * self.by + np.float32(self.shift)

    return Scale


def session_of(*nodes):
    return pyopnb.Session(pyopnb.model(list(nodes), {"x": "float32[N]"}, list(nodes[-1].output)))


X = np.float32([1, 2])


def test_the_next_run_uses_them(scale):
    session = session_of(pyopnb.node("demo::Scale", "x", "y", by=3.0))
    inner = session._sess
    assert session.attrs == {"y": {"by": 3.0, "shift": 0}}
    session.set_attrs(by=5.0)
    assert session(x=X)["y"].tolist() == [5, 10]
    session.set_attrs(shift=1)
    assert session(x=X)["y"].tolist() == [6, 11]
    assert session.attrs == {"y": {"by": 5.0, "shift": 1}}
    assert session._sess is inner


def test_they_stay_when_the_op_is_redefined_and_when_the_session_is_rebuilt(scale):
    session = session_of(pyopnb.node("demo::Scale", "x", "y", by=3.0))
    session.set_attrs(by=5.0)

    @pyopnb.pyop("demo::Scale")
    class Negative:
        def __init__(self, by: float = 2.0, shift: int = 0):
            self.by = np.float32(by)

        def compute(self, x):
            return -x * self.by

    assert session(x=X)["y"].tolist() == [-5, -10]

    @pyopnb.pyop("demo::Scale")
    class Wide:
        def __init__(self, by: float = 2.0, shift: int = 0):
            self.by = by

        def compute(self, x) -> "float64[N]":
            return x.astype(np.float64) * self.by

    model = pyopnb.model(
        [pyopnb.node("demo::Scale", "x", "y")], {"x": "float32[N]"}, {"y": "float64[N]"}
    )
    other = pyopnb.Session(model)
    other.set_attrs(by=7.0)
    other.set_providers(["CPUExecutionProvider"])  # which rebuilds
    assert other(x=X)["y"].tolist() == [7, 14]


@pytest.mark.parametrize(
    ("where", "attrs", "text"),
    [
        (None, {"bye": 1.0}, "attr bye: expected an attr of demo::Scale, got bye. Try: by"),
        (None, {"by": "much"}, "attr by: expected float, got str 'much'"),
        ("z", {"by": 1.0}, "attrs: expected a node or op of the session, got z. Try: "),
        ("y", {"by": np.ones(2)}, "attr by: expected float, got tensor"),
    ],
)
def test_a_refusal_changes_nothing(scale, where, attrs, text):
    session = session_of(pyopnb.node("demo::Scale", "x", "y", by=3.0))
    with pytest.raises(pyopnb.errors.ModelError) as caught:
        session.set_attrs(where, **attrs)
    assert text in str(caught.value)
    assert session(x=X)["y"].tolist() == [3, 6]
    assert session.attrs == {"y": {"by": 3.0, "shift": 0}}


def test_what_the_class_raises_changes_nothing(scale):
    session = session_of(
        pyopnb.node("demo::Scale", "x", "a", by=3.0), pyopnb.node("demo::Scale", "a", "y")
    )
    with pytest.raises(ArithmeticError, match="negative"):
        session.set_attrs(by=-1.0)
    assert session(x=X)["y"].tolist() == [6, 12]


def test_one_node_or_all_of_an_op(scale):
    session = session_of(
        pyopnb.node("demo::Scale", "x", "a", by=3.0), pyopnb.node("demo::Scale", "a", "y")
    )
    session.set_attrs("a", by=10.0)
    assert session(x=X)["y"].tolist() == [20, 40]
    session.set_attrs(by=1.0)
    assert session(x=X)["y"].tolist() == [1, 2]


def test_two_ops_with_the_same_attr_must_be_told_apart(scale):
    pyopnb.pyop("demo::Other")(scale)
    session = session_of(pyopnb.node("demo::Scale", "x", "a"), pyopnb.node("demo::Other", "a", "y"))
    with pytest.raises(
        pyopnb.errors.ModelError,
        match="expected an attr that only one op of the session has, got demo::Other, demo::Scale",
    ):
        session.set_attrs(by=1.0)
    session.set_attrs("Other", by=1.0)
    assert session(x=X)["y"].tolist() == [2, 4]


def test_old_instances_are_let_go(scale):
    session = session_of(pyopnb.node("demo::Scale", "x", "y"))
    made = []
    before = scale.__init__

    def init(self, by: float = 2.0, shift: int = 0):
        before(self, by, shift)
        made.append(weakref.ref(self))

    scale.__init__ = init
    for by in range(100):
        session.set_attrs(by=float(by))
        assert session(x=X)["y"].tolist() == [by, 2 * by]
    gc.collect()
    assert len(made) == 100
    assert sum(ref() is not None for ref in made) <= 2
    assert len(session.state.kernels) == 1 and all(
        len(p._states) <= 2 and len(p.settings._own) <= 2 for p in session.state.kernels
    )


def test_a_run_in_flight_keeps_its_attrs():
    began, go = threading.Event(), threading.Event()

    @pyopnb.pyop("demo::Wait")
    class Wait:
        def compute(self, x):
            began.set()
            assert go.wait(LIMIT)
            return x

    @pyopnb.pyop("demo::Scale")
    class Scale:
        def __init__(self, by: float = 2.0):
            self.by = np.float32(by)

        def compute(self, x):
            return x * self.by

    session = session_of(pyopnb.node("demo::Wait", "x", "a"), pyopnb.node("demo::Scale", "a", "y"))
    got = []
    thread = threading.Thread(target=lambda: got.append(session(x=X)["y"].tolist()))
    thread.start()
    assert began.wait(LIMIT)
    session.set_attrs(by=9.0)
    go.set()
    thread.join(LIMIT)
    assert got == [[2, 4]]
    assert session(x=X)["y"].tolist() == [9, 18]


class Kinds:
    def __init__(
        self,
        k: int = 1,
        f: float = 1.0,
        s: str = "",
        ints: list[int] = (),
        floats: list[float] = (),
        strings: list[str] = (),
        t: np.ndarray = np.zeros(1),
        **others,
    ):
        self.k = k

    def compute(self, x):
        return x * np.float32(self.k)


@pytest.mark.parametrize("how", ["call", "node", "set_attrs", "with_attrs", "sweep"])
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("k", 2**63),
        ("k", -(2**63) - 1),
        ("k", 2**70),
        ("f", 1e39),
        ("f", -1e300),
        ("s", "a\ud800"),
        ("ints", [1, 2**63]),
        ("floats", [1.0, 1e39]),
        ("strings", ["\ud800"]),
        ("t", np.array([object()])),
        ("t", np.array([b"a"])),
        ("t", np.array(["2020"], "datetime64[Y]")),
        ("other", 2**70),
        ("other", {"a": 1}),
        ("other", [1, "a"]),
    ],
)
def test_what_no_attribute_can_hold_is_refused_everywhere(how, name, value):
    pyopnb.pyop("demo::Kinds")(Kinds)
    model = pyopnb.model(pyopnb.node("demo::Kinds", "x", "y"), {"x": "float32[N]"}, "y")
    x = np.float32([1])
    session = pyopnb.Session(model)
    ways = {
        "call": lambda: pyopnb.call("demo::Kinds", x, **{name: value}),
        "node": lambda: pyopnb.node("demo::Kinds", "x", "y", **{name: value}),
        "set_attrs": lambda: session.set_attrs(**{name: value}),
        "with_attrs": lambda: session.with_attrs(**{name: value}),
        "sweep": lambda: pyopnb.sweep(session, x=[x], **{name: [value]}),
    }
    with pytest.raises(pyopnb.errors.ModelError, match=rf"attr {name}: expected"):
        ways[how]()
    assert session(x=x)["y"].tolist() == [1.0]


@pytest.mark.parametrize("value", [True, np.True_])
@pytest.mark.parametrize("name", ["k", "f"])
def test_a_bool_is_a_number_everywhere_as_onnx_makes_it_one(name, value):
    pyopnb.pyop("demo::Kinds")(Kinds)
    node = pyopnb.node("demo::Kinds", "x", "y", **{name: value})
    model = pyopnb.model(pyopnb.node("demo::Kinds", "x", "y"), {"x": "float32[N]"}, "y")
    session = pyopnb.Session(model)
    session.set_attrs(**{name: value})
    of_node = pyopnb.Session(pyopnb.model(node, {"x": "float32[N]"}, "y"))
    for one in (session, of_node):
        assert one.attrs["y"][name] == 1 and one(x=[3])["y"].tolist() == [3]
    assert pyopnb.call("demo::Kinds", np.float32([1]), **{name: value}) == 1


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -0.0, 3.4e38])
def test_what_a_float_attribute_can_hold_is_taken(value):
    pyopnb.pyop("demo::Kinds")(Kinds)
    model = pyopnb.model(pyopnb.node("demo::Kinds", "x", "y"), {"x": "float32[N]"}, "y")
    session = pyopnb.Session(model)
    session.set_attrs(f=value)
    assert repr(session.attrs["y"]["f"]) == repr(value)


@pytest.fixture
def total():
    @pyopnb.pyop("demo::Total")
    class Total:
        def __init__(self, step: float = 1.0):
            self.total, self.step = np.float32(0), np.float32(step)

        def compute(self, x):
            self.total += self.step
            return x * 0 + self.total

    return Total


def totals(session):
    return [value.tolist() for value in session(x=np.float32([1])).values()]


def two_totals():
    nodes = [
        pyopnb.node("demo::Total", "x", "a", name="first"),
        pyopnb.node("demo::Total", "x", "b", step=10.0),
    ]
    return pyopnb.Session(pyopnb.model(nodes, {"x": "float32[N]"}, ["a", "b"]))


def test_reset_begins_the_state_anew_and_keeps_the_attrs(total):
    session = two_totals()
    session.set_attrs("first", step=3.0)
    assert [totals(session) for _ in range(2)] == [[[3], [10]], [[6], [20]]]
    inner = session._sess
    session.reset()
    assert totals(session) == [[3], [10]]
    session.reset("b")
    assert totals(session) == [[6], [10]]
    session.reset("first")
    assert totals(session) == [[3], [20]]
    session.reset("demo::Total")
    assert totals(session) == [[3], [10]]
    assert session._sess is inner
    assert session.changed_attrs == {"first": {"step": 3.0}}
    with pytest.raises(pyopnb.errors.ModelError, match="a node or op of the session, got c"):
        session.reset("c")
    pyopnb.pyop("demo::Total")(total)
    assert totals(session) == [[3], [10]]


def test_reset_of_a_shared_session_leaves_the_other(total):
    session = two_totals()
    shared = session.with_attrs()
    totals(session), totals(shared)
    shared.reset()
    assert (totals(session), totals(shared)) == ([[2], [20]], [[1], [10]])
    session.reset()
    assert (totals(session), totals(shared)) == ([[1], [10]], [[2], [20]])


def test_reset_that_fails_changes_nothing(total):
    class Picky(total):
        made = 0

        def __init__(self):
            Picky.made += 1
            if Picky.made > 1:
                raise OSError("only once")
            super().__init__()

    pyopnb.pyop("demo::Picky")(Picky)
    session = session_of(pyopnb.node("demo::Picky", "x", "y"))
    assert totals(session) == [[1]]
    with pytest.raises(OSError, match="only once"):
        session.reset()
    assert totals(session) == [[2]]


def test_reset_of_a_session_without_ops_does_nothing():
    session = pyopnb.Session(pyopnb.parse("(float[N] x) => (float[N] y) { y = Neg(x) }"))
    session.reset()
    assert totals(session) == [[-1]]


def test_run_in_flight_finishes_with_the_instance_that_it_began_with(total):
    inside, go_on = threading.Event(), threading.Event()

    @pyopnb.pyop("demo::Slow")
    class Slow(total):
        def compute(self, x):
            inside.set()
            assert go_on.wait(LIMIT)
            return super().compute(x)

    session = session_of(pyopnb.node("demo::Slow", "x", "y"))
    go_on.set()
    assert totals(session) == [[1]]
    go_on.clear()
    inside.clear()
    results = []
    thread = threading.Thread(target=lambda: results.append(totals(session)))
    thread.start()
    assert inside.wait(LIMIT)
    session.reset()
    go_on.set()
    thread.join(LIMIT)
    assert results == [[[2]]]
    assert totals(session) == [[1]]


def test_many_threads_reset_and_run(total):
    session = two_totals()
    failures = []

    def work(reset):
        try:
            for _ in range(100):
                session.reset() if reset else totals(session)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(n % 2 == 0,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT)
    assert failures == []
    session.reset()
    assert totals(session) == [[1], [10]]


def test_reset_of_a_retired_node():
    class Counter:
        def __init__(self):
            self.runs = 0

        def compute(self, x):
            self.runs += 1
            return x * 0 + np.float32(self.runs)

    pyopnb.pyop("demo::Counter", module="counting")(Counter)
    node = onnx.helper.make_node(
        "PyOp", ["x"], ["y"], domain="pyopmulti", module="counting", class_name="Counter",
        input_types=[1], output_types=[1],
    )  # fmt: skip
    session = pyopnb.Session(pyopnb.model(node, {"x": "float32[N]"}, {"y": "float32[N]"}))
    assert [totals(session) for _ in range(2)] == [[[1]], [[2]]]
    session.reset()
    assert totals(session) == [[1]]
