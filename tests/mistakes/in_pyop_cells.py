"""Mistakes in ``%%pyop`` cells: in the class, and in the results of its ``compute``."""

from __future__ import annotations

from mistake import Mistake

MISTAKES = (
    Mistake(
        "self is forgotten in compute",
        """
        %%pyop -q -d demo
        class Same:
            «def compute(x):»
                return x
        """,
        ("class Same, compute: expected self as the first parameter, got (x)",),
        "pyopnb.call('demo::Same', np.int64([1, 2])).tolist() == [1, 2]",
    ),
    Mistake(
        "-d is forgotten before the domain",
        """
        «%%pyop lab»
        class Same:
            def compute(self, x):
                return x
        """,
        (
            "%%pyop lab: expected the op's type, got what looks like a domain; an op of that name is pyopnb::lab",
        ),
        "[op.name for op in pyopnb.registry] == ['lab::Same']",
    ),
    Mistake(
        "an op takes the place of ONNX's Relu",
        """
        %%pyop -d ai.onnx
        class Relu:
            def compute(self, x):
                return -x
        """,
        ("::Relu takes the place of the ONNX Relu in each session that is made from now on",),
        "len(pyopnb.registry) == 0 and pyopnb.call('Relu', np.float32([-1, 2])).tolist() == [0, 2]",
        advice="To undo: (.*)",
    ),
    Mistake(
        "no method compute",
        """
        %%pyop -q -d demo
        class Same:
            «def forward(self, x): return x»
        """,
        ("class Same: expected a compute method, got none",),
        "pyopnb.call('demo::Same', np.int64([1, 2])).tolist() == [1, 2]",
    ),
    Mistake(
        "argmax without a hint",
        """
        %%pyop -q -d demo
        class Best:
            def compute(self, scores) «»:
                return scores.argmax(axis=1)
        ---
        y = pyopnb.call("demo::Best", np.float32([[1, 2], [4, 3]]))
        """,
        (
            "line 4, `return scores.argmax(axis=1)`, output 0: expected float32[...], got int64[2]",
            "without a hint an output has the dtype of the first input",
            'Try: -> "int64[?]" after the parameters of compute',
        ),
        "y.tolist() == [1, 0] and y.dtype == np.int64",
        advice="Try: (-> .*) after",
    ),
    Mistake(
        "float64 by accident",
        """
        %%pyop -q -d demo
        class Pad:
            def compute(self, x):
                if x.size == 0:
                    return None
                padded = np.zeros(x.size + 2)
                padded[1:-1] = x
                «return padded»
        ---
        y = pyopnb.call("demo::Pad", np.float32([1, 2]))
        """,
        ("line 8, `return padded`, output 0: expected float32[...], got float64[4]",),
        "y.tolist() == [0, 1, 2, 0] and y.dtype == np.float32",
    ),
    Mistake(
        "another shape than the hint says",
        """
        %%pyop -q -d demo
        class Homogeneous:
            def compute(self, points: "float32[N,3]") «-> "float32[N,3]"»:
                ones = np.ones((len(points), 1), np.float32)
                return np.hstack([points, ones])
        ---
        y = pyopnb.call("demo::Homogeneous", np.zeros((2, 3), np.float32))
        """,
        ("line 5", "expected float32[N,3], as the hint of compute says, got float32[2,4]"),
        "y.shape == (2, 4)",
        advice="Try: (-> .*) after",
    ),
    Mistake(
        "writing into an input",
        """
        %%pyop -q -d demo
        class Floor:
            «»
            def compute(self, x):
                x[x < 0] = 0
                return x
        ---
        y = pyopnb.call("demo::Floor", np.float32([-1, 2]))
        """,
        (
            "ValueError: assignment destination is read-only",
            "with x: float32[2]",
            "the inputs of compute are read-only",
        ),
        "y.tolist() == [0, 2]",
        advice="Try: (copy_inputs = True) in the class",
    ),
)
