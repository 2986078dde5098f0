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
        "None among strings",
        _UPPER
        + """
        y, = s(«x=["a", None]»)
        """,
        ("feed x[1]: expected str, as in string[N], got None",),
        "y.tolist() == ['a', '']",
    ),
    Mistake(
        "a missing value of pandas among strings",
        _UPPER
        + """
        y, = s(«x=np.array([np.nan, "b"], dtype=object)»)
        """,
        ("feed x[0]: expected str, as in string[N], got float nan",),
        "y.tolist() == ['', 'b']",
    ),
    Mistake(
        "a number and bytes among strings",
        _UPPER
        + """
        y, = s(«x=["a", 1.5, b"c"]»)
        """,
        ("feed x[1]: expected str, as in string[N], got float 1.5",),
        "y.tolist() == ['a', '1.5', 'c']",
    ),
    Mistake(
        "the inputs of check in a tuple",
        """
        %%pyop -q -d demo
        class Add:
            def compute(self, a, b):
                return a + b
        ---
        a, b = np.float32([1, 2]), np.float32([3, 4])
        report = pyopnb.«check("demo::Add", (a, b))»
        """,
        ("check of demo::Add, input 0: expected an array, got a tuple",),
        "report['schema'].ok",
        advice=r"Try: (check\(.*?\)), as",
    ),
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
        "None for an array",
        """
        s = pyopnb.Session(pyopnb.model(pyopnb.node("Abs", "x", "y"), {"x": "float32[N]"}, "y"))
        ---
        x = None
        y, = s(«x=x»)
        """,
        ("feed x: expected float32[N], got None.",),
        "y.shape == (1,)",
    ),
    Mistake(
        "None in a list",
        """
        s = pyopnb.Session(pyopnb.model(pyopnb.node("Abs", "x", "y"), {"x": "float32[N]"}, "y"))
        ---
        x = [None]
        y, = s(«x=x»)
        """,
        ("feed x: expected float32[N], got a list with None in it",),
        "y.tolist() == [0]",
    ),
    Mistake(
        "no feed at all",
        """
        s = pyopnb.Session(pyopnb.model(pyopnb.node("Abs", "x", "y"), {"x": "float32[N,3]"}, "y"))
        ---
        x = 3
        y, = s(«»)
        """,
        (
            "Required inputs (['x']) are missing from input feed ([]): expected x: float32[N,3], got nothing",
        ),
        "y.shape == (1, 3)",
    ),
    Mistake(
        "a text that is no number",
        """
        s = pyopnb.Session(pyopnb.model(pyopnb.node("Abs", "x", "y"), {"x": "float32[N]"}, "y"))
        ---
        x = "abc"
        y, = s(«x=x»)
        """,
        ("feed x: expected float32[N], got str",),
        "y.shape == (1,)",
    ),
    Mistake(
        "one text for a list of texts",
        """
        s = pyopnb.Session(pyopnb.model(pyopnb.node("Identity", "x", "y"), {"x": "string[N]"}, "y"))
        ---
        x = "abc"
        y, = s(«x=x»)
        """,
        ("feed x: expected string[N], got str, which is string[]",),
        "y.tolist() == ['abc']",
    ),
    Mistake(
        "numbers for texts",
        """
        s = pyopnb.Session(pyopnb.model(pyopnb.node("Identity", "x", "y"), {"x": "string[N]"}, "y"))
        ---
        x = np.array([7, 8])
        y, = s(«x=x»)
        """,
        ("feed x: expected string[N], got int64[2]",),
        "y.tolist() == ['7', '8']",
    ),
    Mistake(
        "no axis for the batch",
        """
        s = pyopnb.Session(pyopnb.model(pyopnb.node("Abs", "x", "y"), {"x": "float32[N,3]"}, "y"))
        ---
        x = np.float32([1, 2, 3])
        y, = s(«x=x»)
        """,
        ("feed x: expected float32[N,3], got float32[3]",),
        "y.tolist() == [[1, 2, 3]]",
    ),
    Mistake(
        "channels last",
        """
        s = pyopnb.Session(pyopnb.model(pyopnb.node("Abs", "x", "y"), {"x": "float32[N,3,4,4]"}, "y"))
        ---
        x = np.arange(48, dtype=np.float32).reshape(1, 4, 4, 3)
        y, = s(«x=x»)
        """,
        ("got float32[1,4,4,3]",),
        "y.shape == (1, 3, 4, 4) and y[0, :, 0, 0].tolist() == [0, 1, 2]",
    ),
    Mistake(
        "a photograph without batch, channels last",
        """
        s = pyopnb.Session(pyopnb.model(pyopnb.node("Abs", "x", "y"), {"x": "float32[N,3,4,5]"}, "y"))
        ---
        x = np.arange(60, dtype=np.float32).reshape(4, 5, 3)
        y, = s(«x=x»)
        """,
        ("got float32[4,5,3]",),
        "y.shape == (1, 3, 4, 5) and y[0, :, 0, 0].tolist() == [0, 1, 2]",
    ),
    Mistake(
        "a column for a vector",
        """
        s = pyopnb.Session(pyopnb.model(pyopnb.node("Abs", "x", "y"), {"x": "float32[N]"}, "y"))
        ---
        x = np.float32([[1], [2]])
        y, = s(«x=x»)
        """,
        ("feed x: expected float32[N], got float32[2,1]",),
        "y.tolist() == [1, 2]",
    ),
    Mistake(
        "an array of one for a scalar",
        """
        s = pyopnb.Session(pyopnb.model(pyopnb.node("Abs", "x", "y"), {"x": "float32[]"}, "y"))
        ---
        x = np.float32([2])
        y, = s(«x=x»)
        """,
        ("feed x: expected float32[], got float32[1]",),
        "float(y) == 2",
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
        "one colon",
        """
        %%pyop -q -d lab
        class Same:
            def compute(self, x):
                return x
        ---
        n = pyopnb.node(«"lab:Same"», "x", "y")
        """,
        ("op name: expected domain::OpType, got 'lab:Same'",),
        "(n.domain, n.op_type) == ('lab', 'Same')",
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
        "lower case in a call",
        """
        y = pyopnb.call(«"relu"», np.float32([-2]))
        """,
        ("call of ::relu",),
        "y.tolist() == [0]",
    ),
    Mistake(
        "an output that a result does not have",
        """
        s = pyopnb.Session(pyopnb.model(pyopnb.node("Abs", "x", "y"), {"x": "float32[N]"}, "y"))
        ---
        x = np.float32([-1])
        y = s(x=x)[«"Y"»]
        """,
        ("UnknownOp: result: expected y, got Y",),
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
        ("UnknownOp: trace: expected a tensor of the trace, got 'yy'",),
        "y.tolist() == [1]",
    ),
    Mistake(
        "an output that a model does not have",
        """
        s = pyopnb.Session(pyopnb.model(pyopnb.node("Abs", "x", "y"), {"x": "float32[N]"}, "y"))
        ---
        x = np.float32([-1])
        y, = s.run([«"Y"»], {"x": x})
        """,
        ("UnknownOp: outputs: expected y, got Y",),
        "y.tolist() == [1]",
    ),
    Mistake(
        "a tensor to look at that no node gives",
        """
        s = pyopnb.Session(pyopnb.model(pyopnb.node("Abs", "x", "y"), {"x": "float32[N]"}, "y"))
        ---
        x = np.float32([-1])
        t = s.trace(x=x, only='«yy»')
        """,
        ("trace, only: expected names of tensors",),
        "t['y'].tolist() == [1]",
        advice="write (.*)",
    ),
    Mistake(
        "a level of traces that does not exist",
        """
        s = pyopnb.Session(pyopnb.model(pyopnb.node("Abs", "x", "y"), {"x": "float32[N]"}, "y"))
        ---
        x = np.float32([-1])
        t = s.trace(x=x, level=«"summary"»)
        """,
        ("trace, level: expected 'all' or 'summaries', got 'summary'",),
        "t.summaries['y'].count == 1",
    ),
    Mistake(
        "another word for the reference implementation",
        """
        s = pyopnb.Session(pyopnb.model(pyopnb.node("Abs", "x", "y"), {"x": "float32[N]"}, "y"))
        ---
        x = np.float32([-1])
        t = pyopnb.trace(pyopnb.model(pyopnb.node("Abs", "x", "y"), {"x": "float32[N]"}, "y"), x, on=«"onnx reference"»)
        """,
        ("trace, on: expected 'onnxruntime', 'reference'",),
        "t['y'].tolist() == [1]",
    ),
    Mistake(
        "an initializer that is looked up in a trace",
        """
        m = pyopnb.parse("(float[1] x) => (y) <float[1] w = {2}> { y = Mul(x, w) }")
        trace = pyopnb.Session(m).trace(x=np.float32([3]))
        ---
        w = «trace["w"]»
        """,
        ("got the initializer w",),
        "w.tolist() == [2]",
    ),
    Mistake(
        "a summary where a tensor was released",
        """
        s = pyopnb.Session(pyopnb.model(pyopnb.node("Abs", "x", "y"), {"x": "float32[N]"}, "y"))
        ---
        x = np.float32([-1])
        m = pyopnb.parse("(float[1] x) => (y) { a = Abs(x)  y = Neg(a) }")
        trace = pyopnb.Session(m).trace(x=x, level="summaries")
        ---
        a = «trace["a"]»
        """,
        ("got a, which was released after its summary was made",),
        "a.least == 1",
        advice="Try: (.*);",
    ),
    Mistake(
        "an attr that nodes do not have",
        """
        %%pyop -q -d demo
        class Plus:
            def __init__(self, amount: int = 1):
                self.amount = amount
            def compute(self, x):
                return x + self.amount
        ---
        s = pyopnb.Session(pyopnb.model(pyopnb.node("demo::Plus", "x", "y"), {"x": "int64[N]"}, "y"))
        ---
        s.set_attrs(«amuont»=3)
        """,
        ("attr amuont: expected an attr of demo::Plus, got amuont",),
        "s(x=np.int64([1]))['y'].tolist() == [4]",
    ),
    Mistake(
        "an attr of a node that is not there",
        """
        %%pyop -q -d demo
        class Plus:
            def __init__(self, amount: int = 1):
                self.amount = amount
            def compute(self, x):
                return x + self.amount
        ---
        s = pyopnb.Session(pyopnb.model(pyopnb.node("demo::Plus", "x", "y"), {"x": "int64[N]"}, "y"))
        ---
        s.set_attrs("«z»", amount=3)
        """,
        ("attrs: expected a node or op of the session, got z",),
        "s(x=np.int64([1]))['y'].tolist() == [4]",
        advice="Try: ([^,]*),",
    ),
    Mistake(
        "a check of a misspelled op",
        """
        %%pyop -q -d demo
        class Neat:
            def compute(self, x):
                return x
        ---
        r = pyopnb.check("«demo::Neet»")
        """,
        ("op demo::Neet: expected an op of the registry",),
        "repr(r).startswith('demo::Neat, version 2')",
    ),
    Mistake(
        "a file of arrays that is not there",
        """
        np.save("reference.npy", np.float32([1, 2]))
        ---
        d = pyopnb.diff(np.float32([1, 2]), "«refrence.npy»")
        """,
        ("InputError: file refrence.npy does not exist",),
        "d.verdict == 'bit-identical'",
    ),
    Mistake(
        "a plain number that the dtype has as infinite",
        """
        s = pyopnb.Session(pyopnb.model(pyopnb.node("Abs", "x", "y"), {"x": "float16[N]"}, "y"))
        ---
        x = [1e6]
        y, = s(«x=x»)
        """,
        ("feed x[0]: expected float16[N], got 1000000.0, which float16 has as inf",),
        "y.tolist() == [np.inf]",
    ),
    Mistake(
        "two folders for two files",
        """
        import os
        for folder, value in (("before", 1), ("after", 2)):
            os.makedirs(folder, exist_ok=True)
            np.save(folder + "/y.npy", np.float32([value]))
        ---
        d = pyopnb.diff(«"before", "after"»)
        """,
        (
            "diff: expected values, or the paths of files, got the folder before and the folder after",
        ),
        "d.verdict == 'different' and d.parts[0].a == 'float32[1]'",
    ),
    Mistake(
        "too many feeds",
        """
        s = pyopnb.Session(pyopnb.model(pyopnb.node("Sub", "a b", "y"), {"a": "float32[N]", "b": "float32[N]"}, "y"))
        a, b = np.float32([3]), np.float32([1])
        ---
        y, = s(«a, b, a»)
        """,
        ("feeds: expected 2 inputs (a, b), got 3",),
        "y.tolist() == [2]",
    ),
    Mistake(
        "a summary of a tensor that is not in a trace",
        """
        s = pyopnb.Session(pyopnb.model(pyopnb.node("Abs", "x", "y"), {"x": "float32[N]"}, "y"))
        ---
        y = s.trace(x=np.float32([-1])).summaries[«"Y"»]
        """,
        ("UnknownOp: trace.summaries: expected a tensor of the trace, got 'Y'",),
        "y.least == 1",
    ),
    Mistake(
        "a version to roll back to that is not there",
        """
        %%pyop -q -d demo
        class Neat:
            def compute(self, x):
                return x
        ---
        v = pyopnb.registry.rollback("demo::Neat", «9»)
        """,
        ("op demo::Neat, rollback: expected version 1, got 9",),
        "v.restored == 1",
    ),
    Mistake(
        "a misspelled option of a picture",
        """
        m = pyopnb.model(pyopnb.node("Abs", "x", "y"), {"x": "float32[N]"}, "y")
        ---
        v = pyopnb.show(m, «opne»=True)
        """,
        ("InputError: show, ModelProto: expected one of colours, ",),
        "'Abs' in str(v)",
    ),
    Mistake(
        "a node with more inputs than compute has",
        """
        %%pyop -q -d demo
        class Half:
            def compute(self, x):
                return x / 2
        ---
        types = {"x": "float64[N]", "bias": "float64[N]"}
        s = pyopnb.Session(pyopnb.model(pyopnb.node("demo::Half", «["x", "bias"]», "y"), types, "y"))
        """,
        ("the node of output 'y' (demo::Half): expected 1 input (x), got 2",),
        "s(x=[1.0], bias=[1.0])['y'].tolist() == [0.5]",
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
        "a call with more inputs than compute has",
        """
        %%pyop -q -d demo
        class Half:
            def compute(self, x):
                return x / 2
        ---
        x, bias = np.ones(1), np.ones(1)
        y = «pyopnb.call("demo::Half", x, bias)»
        """,
        ("call of demo::Half: expected 1 input (x), got 2",),
        "y.tolist() == [0.5]",
    ),
    Mistake(
        "a call without an input",
        """
        %%pyop -q -d demo
        class Half:
            def compute(self, x: "float32[2]"):
                return x / 2
        ---
        y = pyopnb.call("demo::Half", «»)
        """,
        ("call of demo::Half, input x: expected float32[2], got nothing",),
        "y.tolist() == [0, 0]",
    ),
    Mistake(
        "plain numbers that an integer does not have",
        """
        s = pyopnb.Session(pyopnb.model(pyopnb.node("Identity", "x", "y"), {"x": "uint8[N]"}, "y"))
        ---
        x = [300, -1.4]
        y, = s(«x=x»)
        """,
        ("feed x[0]: expected uint8[N], got 300; uint8 has 0 to 255",),
        "y.tolist() == [255, 0]",
    ),
    Mistake(
        "a fraction for an integer",
        """
        s = pyopnb.Session(pyopnb.model(pyopnb.node("Identity", "x", "y"), {"x": "int64[N]"}, "y"))
        ---
        x = [1.5, 2.0]
        y, = s(«x=x»)
        """,
        ("feed x[0]: expected int64[N], got 1.5, which is no integer",),
        "y.tolist() == [2, 2]",
    ),
    Mistake(
        "a plain number for a bool",
        """
        s = pyopnb.Session(pyopnb.model(pyopnb.node("Not", "x", "y"), {"x": "bool[N]"}, "y"))
        ---
        x = [1, 0]
        y, = s(«x=x»)
        """,
        ("feed x[0]: expected bool[N], got int 1; a bool is True or False",),
        "y.tolist() == [False, True]",
    ),
    Mistake(
        "a plain number that a call's dtype does not have",
        """
        B = 300
        y = pyopnb.call("Add", np.uint8([0]), «B»)
        """,
        ("call of Add, input B: expected uint8[...], got 300; uint8 has 0 to 255",),
        "y.tolist() == [255]",
    ),
    Mistake(
        "a loop over a size that can change, lowered",
        """
        %%pyop -q -d demo
        class Sum:
            def compute(self, x: «"float32[N]"») -> "float32[]":
                total = np.float32(0)
                for at in range(len(x)):
                    total = total + x[at]
                return total
        ---
        f = pyopnb.lower("demo::Sum")
        """,
        ("line 5 of compute (for at in range(len(x)):)", "got len() of a size that can change"),
        "len(f.node) > 1",
        advice=r'Try: ("float32\[\d\]") as the hint',
    ),
    Mistake(
        "indices where the model declares floats",
        """
        %%pyop -q -d demo
        class Order:
            def compute(self, x)«»:
                return np.argsort(x, kind="stable")
        ---
        y_type = "int64[N]" if pyopnb.registry["demo::Order"].current.schema.outputs else "float32[N]"
        s = pyopnb.Session(pyopnb.model(pyopnb.node("demo::Order", "x", "y"), {"x": "float32[N]"}, {"y": y_type}))
        y, = s(x=np.float32([3, 1]))
        """,
        (
            "expected float32[N], as the model declares, got int64[2]",
            "Try: int64[N] for it in the model",
        ),
        "y.tolist() == [1, 0]",
        advice=r'and( -> "int64\[N\]") after',
    ),
)
