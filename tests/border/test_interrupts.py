"""Ctrl-C at every line of a rebuild, of a run and of a change of attrs: afterwards the session is whole and works."""

import textwrap

import pytest

pytestmark = pytest.mark.plain  # it interrupts at lines of Python

SCRIPT = """
import warnings
warnings.simplefilter("ignore")
from small_ops import Scale

HERE = os.path.join(os.path.dirname(pyopnb.__file__), "engine", "runtime") + os.sep

def define(kind="float32", plus=0):
    class Scaled(Scale):
        def __init__(self, by: float = 2.0): self.by = by
        def compute(self, x): return (x * self.by + plus).astype(kind)
    Scaled.compute.__annotations__.update({"return": kind + "[N]"})
    pyopnb.registry.define(Scaled, "border::Scaled")

class Raising:
    def compute(self, x): raise ValueError("mine")

def made():
    nodes = [pyopnb.node("border::Scaled", "x", "y"), pyopnb.node("border::Scaled", "x", "z")]
    return pyopnb.Session(pyopnb.model(nodes, {"x": "float32[N]"}, ["y", "z"]))

SWAPPING = {HERE + name for name in ("session.py", "built.py", "shared.py", "settings.py", "kernel.py", "exceptions.py")}

def lines(action):
    '''The lines of pyopnb/engine/runtime that an action comes by; of modules that only make what is swapped, one in each function.'''
    seen = {}
    def trace(frame, event, argument):
        code = frame.f_code
        if not code.co_filename.startswith(HERE): return None
        if event == "line":
            seen.setdefault((code, frame.f_lineno if code.co_filename in SWAPPING else 0), (code.co_filename, frame.f_lineno))
        return trace
    sys.settrace(trace)
    try: action()
    except ValueError: pass
    finally: sys.settrace(None)
    return list(seen.values())

def interrupted(action, line, time=1):
    '''The action, with Ctrl-C where it comes to that line for the first time, or another one; whether it got there.'''
    hit, left = [], time
    def trace(frame, event, argument):
        nonlocal left
        if hit or not frame.f_code.co_filename.startswith(HERE): return None
        if event == "line" and (frame.f_code.co_filename, frame.f_lineno) == line:
            left -= 1
            if not left:
                hit.append(line)
                raise KeyboardInterrupt
        return trace
    sys.settrace(trace)
    try: action()
    except (KeyboardInterrupt, Exception): pass  # to a bare session it is an error like others
    finally: sys.settrace(None)
    return bool(hit)

def elsewhere(function):
    '''What a function gives on another thread, which waits for ever where a lock was kept.'''
    got = []
    thread = threading.Thread(target=lambda: got.append(function()), daemon=True)
    thread.start()
    thread.join(LIMIT / 2)
    assert got, "another thread waits for ever"
    return got[0]

def swept(prepare, check, time=1):
    session, action = prepare()
    passed = lines(action)
    assert len(passed) > 10, passed
    hits = 0
    for line in passed:
        session, action = prepare()
        hits += interrupted(action, line, time)
        where = os.path.basename(line[0]), line[1]
        assert _bridge.counters()["runs"] == 0, where
        try:
            check(session)
            elsewhere(lambda: check(session))
            assert _bridge.counters()["runs"] == 0
        except BaseException as error:
            error.add_note(f"after an interrupt at {where}")
            raise
    assert time > 1 or hits >= len(passed) - 3, (hits, len(passed))
    print(hits > 10)

def values(session):
    return [(float(v[0]), v.dtype.name) for v in session(x=np.float32([1]))]
"""

CASES = {
    "a run after a redefinition": """
        def prepare():
            define()
            session = made(); values(session)
            define(plus=1)
            return session, lambda: session(x=np.float32([1]))
        def check(session):
            assert values(session) == [(3, "float32")] * 2, values(session)
            assert session.attrs == {"y": {"by": 2.0}, "z": {"by": 2.0}}, session.attrs
    """,
    "a rebuild": """
        define()
        session, kind = made(), "float32"
        def prepare():
            global kind
            kind = "float64" if kind == "float32" else "float32"
            define(kind)
            return session, lambda: session(x=np.float32([1]))
        def check(session):
            assert values(session) == [(2, kind)] * 2, values(session)
            assert session.attrs == {"y": {"by": 2.0}, "z": {"by": 2.0}}, session.attrs
            assert repr(session).count(kind) == 2 + (kind == "float32")
    """,
    "a change of attrs": """
        def prepare():
            define()
            session = made(); values(session)
            return session, lambda: session.set_attrs(by=5.0)
        def check(session):
            by = session.attrs["y"]["by"]
            assert by in (2.0, 5.0) and session.attrs["z"]["by"] == by, session.attrs
            assert values(session) == [(by, "float32")] * 2, (values(session), by)
            assert bool(session.changed_attrs) == (by == 5.0)
    """,
    "a change of attrs that rebuilds": """
        class Kind:
            def __init__(self, kind: str = "float32"): self.kind = kind
            def infer(self, x): return self.kind + "[N]"
            def compute(self, x): return x.astype(self.kind)
        pyopnb.registry.define(Kind, "border::Kind")
        def prepare():
            nodes = [pyopnb.node("border::Kind", "x", "y"), pyopnb.node("border::Kind", "x", "z")]
            session = pyopnb.Session(pyopnb.model(nodes, {"x": "float32[N]"}, ["y", "z"]))
            values(session)
            return session, lambda: session.set_attrs(kind="int64")
        def check(session):
            kind = session.attrs["y"]["kind"]
            assert session.attrs == {"y": {"kind": kind}, "z": {"kind": kind}}, session.attrs
            assert values(session) == [(1, kind)] * 2, (values(session), kind)
    """,
    "a session that shares": """
        def prepare():
            define()
            base = made(); session = base.with_attrs(by=5.0); values(session)
            define(plus=1)
            def action():
                session.set_attrs(by=7.0)
                session(x=np.float32([1]))
            session.base = base
            return session, action
        def check(session):
            by = session.attrs["y"]["by"]
            assert by in (5.0, 7.0) and session.attrs["z"]["by"] == by, session.attrs
            assert values(session) == [(by + 1, "float32")] * 2, (values(session), by)
            assert values(session.base) == [(3, "float32")] * 2, values(session.base)
    """,
    "a session that shares and is rebuilt": """
        define()
        base = made()
        def prepare():
            define()
            session = base.with_attrs(by=5.0)
            values(session)
            define("float64")
            session.base = base
            return session, lambda: session(x=np.float32([1]))
        def check(session):
            assert session.attrs == {"y": {"by": 5.0}, "z": {"by": 5.0}}, session.attrs
            assert values(session) == [(5, "float64")] * 2, values(session)
            assert values(session.base) == [(2, "float64")] * 2, values(session.base)
    """,
    "a run whose op raises": """
        pyopnb.registry.define(Raising, "border::Raising")
        def prepare():
            session = pyopnb.Session(pyopnb.model([pyopnb.node("border::Raising", "x", "y")], {"x": "float32[N]"}, "y"))
            return session, lambda: session(x=np.float32([1]))
        def check(session):
            try: session(x=np.float32([1]))
            except ValueError as error: assert str(error) == "mine"
            else: assert False
    """,
    "other providers": """
        define()
        session = made()
        def prepare():
            return session, lambda: session.set_providers(["CPUExecutionProvider"])
        def check(session):
            assert values(session) == [(2, "float32")] * 2, values(session)
            assert session.attrs == {"y": {"by": 2.0}, "z": {"by": 2.0}}, session.attrs
    """,
    "a bare session": """
        def prepare():
            define()
            nodes = [pyopnb.node("border::Scaled", "x", "y"), pyopnb.node("border::Scaled", "x", "z")]
            session = bare(pyopnb.model(nodes, {"x": "float32[N]"}, ["y", "z"]))
            session.run(None, {"x": X})
            def action():
                define(plus=1)
                session.run(None, {"x": X})
            return session, action
        def check(session):
            assert float(session.run(None, {"x": np.float32([1])})[1][0]) == 3
    """,
}


# Each line of a rebuild is interrupted once, which takes half a minute for these; "a rebuild" goes
# through the same lines.
LONG = (
    "a change of attrs",
    "a change of attrs that rebuilds",
    "a session that shares",
    "a session that shares and is rebuilt",
)


@pytest.mark.one_python
@pytest.mark.parametrize(
    "case",
    [pytest.param(case, marks=pytest.mark.everywhere) if case in LONG else case for case in CASES],
)
def test_after_an_interrupt_at_any_line_the_session_is_whole(fresh, case):
    fresh(SCRIPT + textwrap.dedent(CASES[case]) + "\nswept(prepare, check)\n").clean("True\n")


# The last line of a `with` block is the one of its beginning, for the second time.
AT_LOCKS = """
    PACKAGE = os.path.dirname(pyopnb.__file__)
    HERE = SWAPPING = tuple(
        os.path.join(PACKAGE, *path)
        for path in [("engine", "ops", "registry.py"), ("common", "system", "locks.py")]
    )

    def prepare():
        define()
        session = made()
        def action():
            define(plus=1)
            pyopnb.registry.rollback("border::Scaled")
            pyopnb.registry.withdraw(pyopnb.registry["border::Scaled"].current)
            session.set_attrs(by=3.0)
            pyopnb.registry.remove("border::Scaled")
            define()
        return session, action
    def check(session):
        define(plus=2)
        assert pyopnb.registry.history("border::Scaled")[-1] is pyopnb.registry["border::Scaled"].current
        by = session.attrs["y"]["by"]
        assert by in (2.0, 3.0) and values(session) == [(by + 2, "float32")] * 2, (values(session), by)
"""


@pytest.mark.one_python
@pytest.mark.parametrize("time", [1, 2], ids=["first time", "second time"])
def test_after_an_interrupt_at_any_line_no_lock_is_held(fresh, time):
    fresh(SCRIPT + textwrap.dedent(AT_LOCKS) + f"\nswept(prepare, check, {time})\n").clean("True\n")
