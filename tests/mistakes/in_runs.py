"""Mistakes in feeds, names of tensors, traces, diffs and checks."""

from __future__ import annotations

from mistake import Mistake

_ABS = """
        s = pyopnb.Session(pyopnb.model(pyopnb.node("Abs", "x", "y"), {"x": "float32[N]"}, "y"))
        ---
"""

_UPPER = """
        s = pyopnb.Session(pyopnb.model(pyopnb.node("Identity", "x", "y"), {"x": "string[N]"}, "y"))
        ---
"""

MISTAKES = (
    Mistake(
        "an array of float64",
        _ABS
        + """
        x = np.array([-1.0, 2.0])
        y, = s(«x=x»)
        """,
        ("feed x: expected float32[N], got float64[2]",),
        "y.tolist() == [1, 2] and y.dtype == np.float32",
    ),
    Mistake(
        "a feed by another name",
        _ABS
        + """
        y, = s(«X»=np.float32([-1]))
        """,
        ("feeds: expected x: float32[N], got X",),
        "y.tolist() == [1]",
        advice=r"write (\S+) for X",
    ),
    Mistake(
        "a dot instead of two colons",
        """
        %%pyop -q -d lab
        class Same:
            def compute(self, x):
                return x
        ---
        y = pyopnb.call(«"lab.Same"», np.float32([2]))
        """,
        ("op name: expected domain::OpType, got 'lab.Same'",),
        "y.tolist() == [2]",
    ),
    Mistake(
        "an op without its domain",
        """
        %%pyop -q -d lab
        class Same:
            def compute(self, x):
                return x
        ---
        y = pyopnb.call(«"Same"», np.float32([2]))
        """,
        ("call of ::Same: expected an op of the registry or of the installed runtime",),
        "y.tolist() == [2]",
    ),
    Mistake(
        "an output that a result does not have",
        """
        s = pyopnb.Session(pyopnb.model(pyopnb.node("Abs", "x", "y"), {"x": "float32[N]"}, "y"))
        ---
        x = np.float32([-1])
        y = s(x=x)[«"Y"»]
        """,
        ("UnknownName: result: expected y, got Y",),
        "y.tolist() == [1]",
    ),
    Mistake(
        "a tensor that is not in a trace",
        """
        s = pyopnb.Session(pyopnb.model(pyopnb.node("Abs", "x", "y"), {"x": "float32[N]"}, "y"))
        ---
        x = np.float32([-1])
        y = s.trace(x=x)[«"yy"»]
        """,
        ("UnknownName: trace: expected a tensor of the trace, got 'yy'",),
        "y.tolist() == [1]",
    ),
    Mistake(
        "an input of compute that the node leaves out",
        """
        %%pyop -q -d demo
        class Shift:
            def compute(self, x, «by»):
                return x + (1 if by is None else by)
        ---
        s = pyopnb.Session(pyopnb.model(pyopnb.node("demo::Shift", "x", "y"), {"x": "float64[N]"}, "y"))
        """,
        ("the node of output 'y' (demo::Shift), input by: expected any[...], got nothing",),
        "s(x=[1.0])['y'].tolist() == [2]",
    ),
    Mistake(
        "a tolerance of watch in words",
        _ABS
        + """
        w = pyopnb.watch(s, np.float32([-1]), «rtol="loose"»)
        """,
        ("diff, rtol: expected a finite number that is not negative, got 'loose'",),
        "w.result['y'].tolist() == [1]",
    ),
    Mistake(
        "a negative tolerance of watch",
        _ABS
        + """
        w = pyopnb.watch(s, np.float32([-1]), «atol=-1»)
        """,
        ("diff, atol: expected a finite number that is not negative, got -1",),
        "w.result['y'].tolist() == [1]",
    ),
    Mistake(
        "a slider with a step of zero",
        """
        s = pyopnb.Session(pyopnb.parse("(float[N] x, float k) => (float[N] y) { y = Mul(x, k) }"))
        ---
        session, x = s, np.float32([1])
        i = pyopnb.interact(s, x=x, «k=(0.1, 5.0, 0)»)
        """,
        (
            "interact, k: expected floats: (min, max) or (min, max, step)",
            "step > 0, got (0.1, 5.0, 0)",
        ),
        "i.values['k'] == 0.5",
        advice=r"Try: interact\(session, (k=\(0.0, 1.0\))",
    ),
    Mistake(
        "the inputs and outputs of a cut in the wrong order",
        """
        model = pyopnb.parse("(float[N] x) => (float[N] y) { a = Abs(x)  b = Neg(a)  y = Exp(b) }")
        ---
        cut = pyopnb.«extract(model, "y", "a")»
        """,
        ("extract, inputs: expected tensors that a depends on, got y",),
        "[n.op_type for n in cut.model.graph.node] == ['Neg', 'Exp']",
    ),
    Mistake(
        "a tolerance by another name",
        """
        a = np.float32([1])
        ---
        d = pyopnb.diff(a, a, «tol=1e-3»)
        """,
        ("diff: got an unexpected keyword argument 'tol'",),
        "d.ok",
    ),
    Mistake(
        "one array for the batches of map",
        _ABS
        + """
        session, x = s, np.float32([-1, 2])
        from pyopnb import map
        y = «map(session, x)»
        """,
        ("map, batch 0, feed x: expected float32[N], got",),
        "len(y) == 1 and y[0]['y'].tolist() == [1, 2]",
        advice=r"Try: (.*),",
    ),
    Mistake(
        "a node that has no time in a trace",
        _ABS
        + """
        trace = s.trace(x=np.float32([-1]), times=True)
        ---
        time = trace.times[«"Y"»]
        """,
        ("UnknownName: trace.times: expected the first output of a node that was timed, got 'Y'",),
        "time.op_type == 'Abs'",
    ),
    Mistake(
        "an option of show that belongs to another class",
        _ABS
        + """
        view = pyopnb.show(s«, by="time"»)
        """,
        (
            "show, Session: expected one of colors, ",
            "got by=, an option of Trace. Try: leave by out",
        ),
        "view.text",
        advice="leave by out()",
    ),
    Mistake(
        "an option of show that is misspelled",
        """
        view = pyopnb.show({"x": np.float32([[1, 2]])}, «limit»=(0, 3))
        """,
        ("show, dict: expected one of ", "got limit="),
        "view.text",
    ),
)
