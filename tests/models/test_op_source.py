"""The text of an op that stands by itself: what comes along, and what cannot."""

from __future__ import annotations

import ast
import os.path
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import pyopnb
from pyopnb.models.exec_module import exec_source
from pyopnb.models.module_files import load_module, save_module
from pyopnb.models.op_source import source_closure

OP = """
@pyopnb.pyop("demo::A")
class A:
    def compute(self, x):
        return {}
"""


def body(text):
    """The statements of a text, its own imports left out."""
    return [
        ast.unparse(s)
        for s in ast.parse(text).body
        if not isinstance(s, (ast.Import, ast.ImportFrom))
    ]


def imports(text):
    return [
        ast.unparse(s) for s in ast.parse(text).body if isinstance(s, (ast.Import, ast.ImportFrom))
    ]


@pytest.mark.parametrize(
    ("before", "used", "wanted"),
    [
        ("", "np.abs(x)", ["import numpy as np"]),
        ("import numpy", "numpy.abs(x)", ["import numpy"]),
        ("import os.path as osp", "x if osp.join else x", [f"import {os.path.__name__} as osp"]),
        (
            "import xml",
            "x if xml.sax.handler else x",
            ["import xml", "import xml.sax", "import xml.sax.handler"],
        ),
        ("from numpy import tanh as soft", "soft(x)", ["from numpy import tanh as soft"]),
        ("from math import pi", "x * pi", ["from math import pi"]),
        (
            "from functools import partial",
            "partial(np.abs)(x)",
            ["import numpy as np", "from functools import partial"],
        ),
        ("from typing import Literal as L", "x if L else x", ["from typing import Literal as L"]),
        (
            "import collections.abc as abc",
            "x if abc.Mapping else x",
            ["import collections.abc as abc"],
        ),
    ],
)
def test_imports(define, before, used, wanted):
    import xml.sax.handler  # noqa: F401  # other code has imported them: the text must also do so

    text = source_closure(define(before + OP.format(used)))
    assert imports(text) == sorted(
        ["import pyopnb", *wanted], key=lambda line: (line.startswith("from"), line)
    )
    assert len(body(text)) == 1


@pytest.mark.parametrize(
    ("before", "used", "wanted"),
    [
        ("LIMIT = 2.5  # volts", "x * LIMIT", "LIMIT = 2.5\n"),
        (
            "NAMES = {'a': [1, 2],\n         'b': (None, True)}",
            "x * NAMES['a'][0]",
            "NAMES = {'a': [1, 2], 'b': (None, True)}",
        ),
        ("TOP = 3\nTOP += 1", "x * TOP", "TOP = 4"),
        ("far = float('inf')", "np.minimum(x, far)", 'far = float("inf")'),
        (
            "table = np.float32([0, 0.1]); table[0] = 7",
            "x * table[0]",
            'np.array([7.0, 0.10000000149011612], dtype="float32")',
        ),
        (
            "one = np.float16(0.1)",
            "x * one",
            'one = np.array(0.0999755859375, dtype="float16")[()]',
        ),
        ("square = lambda v: v * v", "square(x)", "square = lambda v: v * v"),
        (
            "def twice(v):\n    return plus(v, v)\ndef plus(a, b):\n    return a + b",
            "twice(x)",
            "def plus(a, b):",
        ),
        (
            "BASE = 3\ndef up(v, by=BASE):\n    return v + by",
            "up(x)",
            "BASE = 3\n\n\ndef up(v, by=BASE):",
        ),
        (
            "from dataclasses import dataclass\n@dataclass\nclass P:\n    k: float = 2.0",
            "x * P().k",
            "@dataclass\nclass P:",
        ),
        (
            "class Base:\n    scale = 2\n    def go(self, v):\n        return v * self.scale",
            "Base().go(x)",
            "    scale = 2",
        ),
        (
            "def even(n): return n == 0 or odd(n - 1)\ndef odd(n): return n and even(n - 1)",
            "x if even(2) else -x",
            "def odd",
        ),
    ],
)
def test_what_comes_along_as_text(define, before, used, wanted):
    (version,) = define(before + "\n" + OP.format(used))
    text = source_closure([version])
    assert wanted in text
    expected = version.cls().compute(np.float32([1, 2]))
    (made,) = exec_source("pyop_kept_elsewhere", "<elsewhere>", text)
    assert made.name == "demo::A"
    np.testing.assert_array_equal(made.cls().compute(np.float32([1, 2])), expected)


@pytest.mark.parametrize(
    ("before", "used", "why"),
    [
        ("", "x * nowhere", r"nowhere \(is not defined\)"),
        (
            "handle = open(__file__); handle.close()",
            "x if handle else x",
            r"handle \(of type TextIOWrapper, not a plain constant\)",
        ),
        (
            "from functools import partial\ndouble = partial(np.multiply, 2)",
            "double(x)",
            r"double \(of type partial, not a plain",
        ),
        ("big = np.zeros(30000)", "x * big", r"big \(of type ndarray, not a plain constant\)"),
        (
            "def f(v): return g(v)\ndef g(v): return h * v\nh = object()",
            "f(x)",
            r"h \(of type object, not a plain constant\)",
        ),
        ("def f(v): return g(v)", "f(x)", r"g \(is not defined\)"),
        (
            "def make():\n    k = 3\n    return lambda v: v * k\nf = make()",
            "f(x)",
            r"f \(is defined in a function",
        ),
        (
            "import types, sys\nm = types.ModuleType('m'); m.k = 2",
            "x * m.k",
            r"m \(the module m, which a fresh process cannot",
        ),
    ],
)
def test_what_cannot(define, before, used, why):
    versions = define(before + "\n" + OP.format(used))
    with pytest.raises(
        pyopnb.errors.DefinitionError,
        match=f"op demo::A: expected .*, got .*{why}.*Try: import it in the op's cell",
    ):
        source_closure(versions)


def test_a_class_without_source():
    version = pyopnb.registry.define(type("Made", (), {"compute": lambda self, x: x}), "demo::Made")
    with pytest.raises(
        pyopnb.errors.DefinitionError,
        match="Made .its source is not known: define it in a %%pyop cell, or in a file",
    ):
        source_closure([version])


def test_several_ops_share_what_they_use(define):
    versions = define("""
        K = 2
        @pyopnb.pyop("demo::Twice", opset=3, module="old")
        class Twice:
            def compute(self, x):
                return x * K
        @pyopnb.pyop
        @pyopnb.pyop("demo::Four")
        class Four(Twice):
            def compute(self, x):
                return super().compute(x) * K
    """)
    text = source_closure(versions)
    assert text.count("K = 2") == 1
    assert text.count("class Twice") == 1
    assert '@pyopnb.pyop("demo::Twice", opset=3, module="old")\nclass Twice:' in text
    assert '@pyopnb.pyop("demo::Four")\n@pyopnb.pyop("pyopnb::Four")\nclass Four(Twice):' in text
    assert source_closure(versions) == text


def test_postponed_hints_stay_postponed(tmp_path, define):
    later = "@pyopnb.pyop\nclass Later:\n    def compute(self, x: 'float32[N]', y: Unknown = None) -> 'float32[N]': return x\n"
    path = tmp_path / "later.py"
    path.write_text(
        f"from __future__ import annotations\nimport pyopnb\n{later.replace(': Unknown', '')}",
        encoding="utf-8",
    )
    (version,) = load_module(path)
    text = source_closure([version])
    assert text.startswith("from __future__ import annotations\n")
    assert (
        define(text.replace("from __future__ import annotations", ""), "now.py")[0].schema
        == version.schema
    )


def test_in_a_fresh_process(define, tmp_path):
    define(
        "from math import tau\nK = 2\ndef f(v):\n    return v * np.float32(K * tau)\n"
        + OP.format("f(x)")
    )
    save_module(tmp_path / "ops.py")
    probe = "import ops, numpy as np, pyopnb; print(pyopnb.call('demo::A', np.float32([1])), bool(pyopnb.check('demo::A')))"
    command = [sys.executable, "-c", f"import sys; sys.path.append({str(tmp_path)!r}); {probe}"]
    ran = subprocess.run(
        command, capture_output=True, text=True, cwd=Path(pyopnb.__file__).parents[1]
    )
    assert (ran.stdout, ran.stderr) == ("[12.566371] True\n", "")
