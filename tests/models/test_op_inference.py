"""onnx.defs follows the registry, and the functions of onnx know the ops."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from limits import LIMIT
from onnx import defs, helper

import pyopnb
from pyopnb.engine.models.op_inference import infer_types
from pyopnb.engine.models.protos import type_of_proto

ROOT = Path(pyopnb.__file__).parents[
    1
]  # where Python that is started anew finds the pyopnb under test

OWN = frozenset(
    (s.domain, s.name, s.since_version)
    for s in defs.get_all_schemas_with_history()
    if s.domain != "pyopnb.inferred"
)


def notebook_schemas() -> set[tuple[str, str, int]]:
    every = {(s.domain, s.name, s.since_version) for s in defs.get_all_schemas_with_history()}
    return every - OWN - {("pyopnb.inferred", "Node", 1)}


def types(model: onnx.ModelProto, strict: bool = True) -> dict[str, str]:
    return named(onnx.shape_inference.infer_shapes(model, strict_mode=strict, check_type=True))


def named(typed: onnx.ModelProto) -> dict[str, str]:
    return {
        i.name: str(type_of_proto(i.type)) for i in (*typed.graph.value_info, *typed.graph.output)
    }


def defined(name: str, source: str, **options: Any) -> type:
    names: dict[str, Any] = {"np": np}
    exec(source, names)
    cls = names["Op"]
    pyopnb.registry.define(cls, name, **options)
    return cls


RESHAPES = """class Op:
    def __init__(self, k: int, also: str = "a"): self.k = k
    def infer(self, x, *xs): return x.like(shape=(*x.shape, self.k)), x.like(dtype="int64", shape=("M",))
    def compute(self, x, *xs): return np.repeat(x[..., None], self.k, -1), np.zeros(3, np.int64)
"""
SAME = "class Op:\n    '''Doc.'''\n    def compute(self, x: 'float32[N,3]', w=None) -> 'float32[N,3]': return x\n"


def chained() -> onnx.ModelProto:
    nodes = [
        pyopnb.node("s::Same", "x", "a"),
        pyopnb.node("s::Wide", "a x", "b c", k=4),
        pyopnb.node("Neg", "b", "y"),
    ]
    return pyopnb.model(nodes, {"x": "float32[B,3]"}, "y c")


def test_symbolic_dimensions_go_through() -> None:
    defined("s::Same", SAME)
    defined("s::Wide", RESHAPES)
    model = chained()
    onnx.checker.check_model(model, full_check=True)
    assert types(model) == {
        "a": "float32[B,3]",
        "b": "float32[B,3,4]",
        "y": "float32[B,3,4]",
        "c": "int64[M]",
    }


def test_inside_bodies_and_functions() -> None:
    defined("s::Wide", RESHAPES)
    model = pyopnb.parse("""<opset_import: ["" : 20, "f" : 1, "s" : 1]>
        (float[B] x, bool c, int64 n) => (y, q, v) {
            v = f.F<size = 3>(x)
            y = If(c) <then_branch = t () => (z) { z = s.Wide<k = 2>(x) },
                       else_branch = e () => (z) { z = s.Wide<k = 2>(x) }>
            q = Loop(n, c) <body = l (int64 i, bool c) => (d, w) { w = s.Wide<k = 5>(v)  d = Identity(c) }>
        }
        <domain: "f", opset_import: ["" : 20, "s" : 1]>
        F <size> (u) => (r) { r = s.Wide<k: int = @size>(u) }""")
    want = {"v": "float32[B,3]", "y": "float32[B,2]", "q": "float32[?,B,3,5]"}
    for infer in (onnx.shape_inference.infer_shapes, infer_types):
        got = named(infer(model))
        # onnx names a dimension that it does not know
        assert {k: v.replace("unk__0", "?") for k, v in got.items() if k in want} == want
    onnx.checker.check_model(model)
    assert {i.name: str(type_of_proto(i.type)) for i in model.graph.output} == want
    assert not {e.domain for e in infer_types(model).opset_import} - {"", "f", "s"}
    assert [n.op_type for n in infer_types(model).functions[0].node] == ["Wide"]


def test_what_the_schema_says() -> None:
    defined(
        "s::Op",
        "class Op:\n    'What it does.'\n    def __init__(self, a: int, b: float = 2, c: list[float] = [], d: bool = True, e: int = None, f='x'): pass\n"
        "    def compute(self, x: 'int8', w=None) -> ('float32', 'any'): ...\n",
        opset=3,
    )
    schema = defs.get_schema("Op", 7, "s")
    assert (schema.since_version, schema.doc) == (3, "What it does.")
    kinds = {n: (a.type.name, a.required) for n, a in schema.attributes.items()}
    assert kinds == {
        "a": ("INT", True), "b": ("FLOAT", False), "c": ("FLOATS", False), "d": ("INT", False), "e": ("INT", False), "f": ("STRING", False),
    }  # fmt: skip
    assert helper.get_attribute_value(schema.attributes["b"].default_value) == 2.0
    assert [(p.name, p.option.name, sorted(p.types)[:1]) for p in schema.inputs] == [
        ("x", "Single", ["tensor(int8)"]), ("w", "Optional", ["tensor(bfloat16)"]),
    ]  # fmt: skip
    assert not defs.has("Op", 2, "s")
    with pytest.raises(onnx.checker.ValidationError, match="'a' is missing"):
        onnx.checker.check_model(
            pyopnb.model(pyopnb.node("s::Op", "x", "y"), {"x": "int8[1]"}, {"y": "float32[1]"})
        )


def test_operators_that_onnx_has_stay_onnx_own() -> None:
    before = str(defs.get_schema("Relu"))
    newest = defs.onnx_opset_version()
    defined(
        "::Relu",
        "class Op:\n    def infer(self, x): return x.like(dtype='int8')\n    def compute(self, x): ...\n",
    )
    defined("::NotThere", SAME, opset=2)
    defined("::TooNew", SAME, opset=999)
    assert notebook_schemas() == {("", "NotThere", 2)}
    model = pyopnb.model(pyopnb.node("Relu", "x", "y"), {"x": "float32[N]"}, "y")
    assert str(type_of_proto(model.graph.output[0].type)) == "int8[N]"
    pyopnb.registry.clear()
    assert (str(defs.get_schema("Relu")), defs.onnx_opset_version()) == (before, newest)


@pytest.mark.parametrize(
    "raised", [ValueError("mine"), TypeError("mine"), KeyboardInterrupt("mine"), SystemExit("mine")]
)
@pytest.mark.parametrize("strict", [False, True])
def test_what_infer_raises_arrives_as_itself(raised: BaseException, strict: bool) -> None:
    model = pyopnb.model(pyopnb.node("s::Op", "x", "y", name="n"), {"x": "float32[N]"}, "y")

    @pyopnb.pyop("s::Op")
    class Op:
        def infer(self, x: Any) -> Any:
            raise raised

        def compute(self, x: Any) -> Any:
            return x

    with pytest.raises(type(raised), match="mine") as caught:
        onnx.shape_inference.infer_shapes(model, strict_mode=strict)
    assert caught.value is raised
    (note,) = raised.__notes__
    assert note in ("in node 'n' (s::Op), infer", "in a node of s::Op, infer")
    del raised.__notes__


def test_infer_that_lies_or_says_nonsense() -> None:
    model = pyopnb.model(pyopnb.node("s::Op", "x", "y"), {"x": "float32[N]"}, {"y": "float32[2]"})
    defined(
        "s::Op",
        "class Op:\n    def infer(self, x): return 'int64[5]'\n    def compute(self, x): ...\n",
    )
    with pytest.raises(onnx.shape_inference.InferenceError, match="type"):
        onnx.shape_inference.infer_shapes(model, strict_mode=True)
    defined(
        "s::Op", "class Op:\n    def infer(self, x): return 12\n    def compute(self, x): ...\n"
    )
    with pytest.raises(pyopnb.errors.ResultError, match="expected types"):
        onnx.shape_inference.infer_shapes(model)


def test_infer_that_redefines_its_own_op() -> None:
    source = "class Op:\n    def infer(self, x):\n        again()\n        return x\n    def compute(self, x): return x\n"
    names: dict[str, Any] = {"again": lambda: defined("s::Op", SAME)}
    exec(source, names)
    model = pyopnb.model(pyopnb.node("s::Op", "x", "y"), {"x": "float32[N,3]"}, "y")
    pyopnb.registry.define(names["Op"], "s::Op")
    onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True)
    pyopnb.registry.define(names["Op"], "s::Other")  # the next event finds what had to wait
    assert defs.get_schema("Op", "s").doc == "Doc."


@pytest.mark.one_python  # of our own reading and writing; no library's version changes it
def test_redefinition_while_another_thread_infers() -> None:
    defined("s::Same", SAME)
    defined("s::Wide", RESHAPES)
    model, stop, wrong = chained(), threading.Event(), []

    def infer() -> None:
        while not stop.is_set():
            try:
                types(model)
            except Exception as error:
                wrong.append(error)

    threads = [threading.Thread(target=infer) for _ in range(2)]
    for thread in threads:
        thread.start()
    for number in range(8):
        defined("s::Wide", RESHAPES.replace('"a"', f'"{number}"'))
    stop.set()
    for thread in threads:
        thread.join(LIMIT)
    assert not wrong
    pyopnb.registry.define(pyopnb.registry["s::Same"].current.cls, "s::Same")
    assert defs.get_schema("Wide", "s").attributes["also"].default_value.s == b"7"


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["define", "define", "define", "remove", "rollback", "clear"]),
        st.integers(0, 3),
        st.integers(0, 3),
    ),
    max_size=12,
)
NAMES = ["s::A", "s::B", "t.u::A", "com.microsoft::Gelu"]


@pytest.mark.one_python
@settings(max_examples=12)
@given(STEPS)
def test_onnx_defs_is_as_the_registry(steps: list[tuple[str, int, int]]) -> None:
    pyopnb.registry.clear()
    for step, which, how in steps:
        name = NAMES[which]
        if step == "define":
            defined(name, SAME.replace("Doc", f"Doc {how}"), opset=how % 2 + 1)
        elif step == "clear":
            pyopnb.registry.clear()
        elif name in pyopnb.registry:
            if step == "remove":
                pyopnb.registry.remove(name)
            elif len(pyopnb.registry.history(name)) > 1:
                pyopnb.registry.rollback(name)
        want = {(op.domain, op.op_type, op.current.opset) for op in pyopnb.registry}
        assert notebook_schemas() == want
        for op in pyopnb.registry:
            assert defs.get_schema(op.op_type, op.domain).doc == op.current.schema.doc
    pyopnb.registry.clear()
    assert not notebook_schemas()


# ---- in processes of their own -----------------------------------------------------------------------------------------------

BEGIN = "import sys, threading, onnx, numpy as np, pyopnb\n"


def run(script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", BEGIN + script],
        capture_output=True,
        text=True,
        timeout=LIMIT,
        cwd=ROOT,
    )


@pytest.mark.one_python  # of our own reading and writing; no library's version changes it
def test_the_end_of_the_interpreter() -> None:
    got = run(
        "@pyopnb.pyop('s::Op')\nclass Op:\n    def infer(self, x): return x\n    def compute(self, x): return x\n"
        "kept = onnx.defs.get_schema('Op', 's')\n"
        "m = pyopnb.model(pyopnb.node('s::Op', 'x', 'y'), {'x': 'float32'}, 'y')\n"
        "def loop():\n    while True: onnx.shape_inference.infer_shapes(m)\n"
        "threading.Thread(target=loop, daemon=True).start()\n"
        "print('last')"
    )
    assert (got.returncode, got.stdout, got.stderr) == (0, "last\n", "")


@pytest.mark.everywhere  # 3,300 rounds; reload and the notebook count what a thousand leave
@pytest.mark.one_python  # of our own reading and writing; no library's version changes it
def test_a_thousand_redefinitions_leave_nothing_behind() -> None:
    got = run(
        "import gc, psutil\n"
        "def resident():\n    gc.collect()\n    return psutil.Process().memory_info().rss\n"
        "m = pyopnb.model(pyopnb.node('s::Op', 'x', 'y'), {'x': 'float32[N]'}, {'y': 'float32[N]'})\n"
        "def rounds(count):\n"
        "    for n in range(count):\n"
        "        class Op:\n            def infer(self, x): return x\n            def compute(self, x): return x\n"
        "        Op.__doc__ = 'x' * 5000 + str(n)\n"
        "        pyopnb.registry.define(Op, 's::Op')\n"
        "        onnx.shape_inference.infer_shapes(m)\n"
        "    return resident()\n"
        # The allocator takes its memory in the first two thousand rounds.
        "before = rounds(2300)\nprint(rounds(1000) - before)"
    )
    assert got.returncode == 0, got.stderr
    assert int(got.stdout) < 3 << 20
