"""What is read from a class, and what a node may give it."""

from __future__ import annotations

import copy
import dataclasses
import functools
import pickle
import re
from typing import Any, Literal, Optional

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx import TensorProto

from pyopnb.engine.ops.op_schema import REQUIRED, Attr, Schema
from pyopnb.engine.ops.output_types import promised_types
from pyopnb.engine.ops.signature import schema_of
from pyopnb.engine.ops.types import tensor_type
from pyopnb.errors import DefinitionError, InputError, ModelError, ResultError

MODEL = onnx.ModelProto(ir_version=7)


def op(init=None, **namespace):
    """A class with this ``__init__`` and a compute that takes x."""
    namespace.setdefault("compute", lambda self, x: x)
    return type("Op", (), {**({"__init__": init} if init else {}), **namespace})


def annotated(hint, default=REQUIRED):
    def init(self, a): ...

    init.__annotations__ = {"a": hint}
    init.__defaults__ = () if default is REQUIRED else (default,)
    return schema_of(op(init)).attrs[0]


def typed(hint):
    """The schema of an op whose input and output have this hint."""

    def compute(self, x): ...

    compute.__annotations__ = {"x": hint, "return": hint}
    return schema_of(op(compute=compute))


# Attrs


KINDS = [
    (int, "int"),
    (float, "float"),
    (str, "str"),
    (bytes, "bytes"),
    (bool, "bool"),
    (np.ndarray, "tensor"),
    (onnx.ModelProto, "graph"),
    (onnx.GraphProto, "graph"),
    (list[int], "list[int]"),
    (list[np.ndarray], "list[tensor]"),
    (tuple[float, ...], "list[float]"),
    (tuple[int, int], "list[int]"),
    (list, "list"),
    (list[int | float], "list[any]"),
    (Any, "any"),
    (int | float, "any"),
    (int | None, "int"),
    (Optional[list[int]], "list[int]"),  # noqa: UP045
    (Literal["a", "b"], "str"),
    ("int", "int"),
    ("list[float]", "list[float]"),
    ("np.ndarray", "tensor"),
]


@pytest.mark.parametrize(("hint", "kind"), KINDS, ids=lambda value: str(value))
def test_kind_by_annotation(hint, kind):
    assert annotated(hint).kind == kind
    assert annotated(hint).default is REQUIRED


@pytest.mark.parametrize(
    ("default", "kind"),
    [
        (1, "int"),
        (1.5, "float"),
        ("a", "str"),
        (b"a", "bytes"),
        (True, "bool"),
        (np.zeros(2), "tensor"),
        (TensorProto(), "tensor"),
        (MODEL, "graph"),
        ([1, 2], "list[int]"),
        ((1, 2.5), "list[float]"),
        (["a"], "list[str]"),
        *((value, "any") for value in ([1, "a"], [[1], [2]], [], (), None, np.float32(1), {})),
    ],
    ids=repr,
)
def test_kind_by_default(default, kind):
    def init(self, a=default): ...

    (attr,) = schema_of(op(init)).attrs
    assert attr.kind == kind
    assert attr.default is default


def test_open_attrs():
    schema = schema_of(op(lambda self, k=1, **attrs: None))
    assert str(schema) == "(x)<k: int = 1, **attrs>"
    assert schema.bind({"other": 3, "k": 2}, "node") == {"other": 3, "k": 2}


# Ways to write a class


class Base:
    def __init__(self, k: int = 3): ...
    def compute(self, x: "float32[N]") -> "float32[N]": ...


class Inherited(Base):
    pass


class Slotted:
    __slots__ = ("k",)

    def __init__(self, k: float): ...
    def compute(self, x): ...


@dataclasses.dataclass
class Data:
    k: int
    axes: list[int] = dataclasses.field(default_factory=list)
    made: int = dataclasses.field(init=False, default=2)

    def compute(self, x): ...


@dataclasses.dataclass(frozen=True, slots=True)
class Frozen:
    k: float = 1.5

    def compute(self, x): ...


def wrapped(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs)

    return wrapper


class Decorated:
    @wrapped
    def __init__(self, k: int = 3): ...
    @wrapped
    def compute(self, x: "int8[]", y=None): ...


class PositionalOnly:
    def compute(self, x, /, y=None): ...


class Static:
    @staticmethod
    def compute(x, *xs): ...


class Add:
    compute = np.add


class Nothing:
    def compute(self): ...


@pytest.mark.parametrize(
    ("cls", "text"),
    [
        (Base, "(x: float32[N])<k: int = 3> -> float32[N]"),
        (Inherited, "(x: float32[N])<k: int = 3> -> float32[N]"),
        (Slotted, "(x)<k: float>"),
        (Data, "(x)<k: int, axes: list[int] = <factory>>"),
        (Frozen, "(x)<k: float = 1.5>"),
        (Decorated, "(x: int8[], y = None)<k: int = 3>"),
        (PositionalOnly, "(x, y = None)"),
        (Static, "(x, *xs)"),
        (Add, "(x1, x2)"),
        (Nothing, "()"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_ways_to_write_a_class(cls, text):
    assert str(schema_of(cls)) == text


@pytest.mark.parametrize(
    ("cls", "text"),
    [
        (
            op(compute=3),
            r"class Op: expected a method compute, got int 3\. Try: def compute\(self, x\): return x",
        ),
        (type("Empty", (), {}), "class Empty: expected a method compute, got None"),
        (3, "pyop: expected a class, got int 3"),
        (
            op(compute=lambda self, x=3: x),
            "class Op, compute, input x: expected no default, or None .*, got 3. Try: x=None",
        ),
        (
            op(compute=lambda self, x, *, axis: x),
            "class Op, compute: expected inputs only, got axis. Try: give axis to __init__",
        ),
        (op(compute=lambda: 1), "class Op, compute: expected self as the first parameter"),
    ],
)
def test_classes_that_are_no_op(cls, text):
    with pytest.raises(DefinitionError, match=text):
        schema_of(cls)


def test_a_compute_that_does_not_return_its_outputs():
    async def waits(self, x): ...

    def yields(self, x):
        yield x

    for compute, got in (
        (waits, "async def"),
        (yields, "a generator"),
    ):
        with pytest.raises(
            DefinitionError, match=f"expected a function that returns its outputs, got {got}"
        ):
            schema_of(op(compute=compute))


# Types of ports


@pytest.mark.parametrize(
    ("hint", "text"),
    [
        ("float32[N,3]", "float32[N,3]"),
        ("'float32[N,3]'", "float32[N,3]"),  # quoted, under from __future__ import annotations
        (tensor_type("int8[]"), "int8[]"),
        (npt.NDArray[np.float32], "float32[...]"),
        (npt.NDArray[np.str_], "string[...]"),
        (npt.NDArray[np.bool_], "bool[...]"),
        ("npt.NDArray[np.int8]", "int8[...]"),
        (Optional["float32[N]"], "float32[N]"),
        (npt.NDArray[np.int64] | None, "int64[...]"),
    ],
    ids=str,
)
def test_a_hint_that_says_a_type(hint, text):
    assert str(typed(hint)) == f"(x: {text}) -> {text}"


SILENT = [np.ndarray, "np.ndarray", npt.NDArray[Any], npt.NDArray[np.floating], npt.ArrayLike]
SILENT += [Any, None, float, object, int | str]


@pytest.mark.parametrize("hint", SILENT, ids=str)
def test_a_hint_that_says_nothing(hint):
    assert str(typed(hint)) == "(x)"


def test_python_types_say_nothing_under_the_future_import():
    class Op:  # this file has the import: these hints are texts
        def compute(self, x: float, y: bool, z: int, w: "float") -> float: ...

    assert str(schema_of(Op)) == "(x, y, z, w: float32[...])"


def test_an_unquoted_type_under_the_future_import():
    namespace = {}
    exec(
        "from __future__ import annotations\nclass Op:\n def compute(self, x: float32[N]) -> float32[N]: ...",
        namespace,
    )
    assert str(schema_of(namespace["Op"])) == "(x: float32[N]) -> float32[N]"


@pytest.mark.parametrize(
    ("hint", "outputs"),
    [
        (("float32[N]", "int64[N]"), ["float32[N]", "int64[N]"]),
        (["float32[N]"], ["float32[N]"]),
        ("('float32[N]', 'int64')", ["float32[N]", "int64[...]"]),
        (("float32[N]", None), ["float32[N]", "any[...]"]),
        (tuple[npt.NDArray[np.float32], np.ndarray], ["float32[...]", "any[...]"]),
        ("tuple[npt.NDArray[np.float32], npt.NDArray[np.int8]]", ["float32[...]", "int8[...]"]),
    ],
    ids=str,
)
def test_several_outputs(hint, outputs):
    def compute(self, x): ...

    compute.__annotations__ = {"return": hint}
    assert list(map(str, schema_of(op(compute=compute)).outputs)) == outputs


@pytest.mark.parametrize(
    "hint", ["float33[N]", "float32[N", "float32[-1]", "N items", "1/0", "undefined.name"]
)
def test_a_hint_that_is_no_type(hint):
    with pytest.raises(InputError, match=r"^class Op, input x: (dtype|type)"):
        typed(hint)


# What a node gives


def taken(kind, value):
    return Attr("a", kind).take(value, "node n")


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("int", 3, 3),
        ("float", 1.5, 1.5),
        ("float", 2, 2.0),
        ("int", True, 1),
        ("float", False, 0.0),
        ("bool", 1, True),
        ("bool", True, True),
        ("str", b"\xc3\xa9", "é"),
        ("bytes", "é", b"\xc3\xa9"),
        ("list[int]", [1], [1]),
        ("list[int]", [], []),
        ("list[float]", [1, 2.5], [1.0, 2.5]),
        ("list[str]", [b"a", "b"], ["a", "b"]),
        ("list[any]", [1, "a"], [1, "a"]),
        ("list", [1, "a"], [1, "a"]),
        ("graph", MODEL, MODEL),
        ("any", {"x": 1}, {"x": 1}),
    ],
)
def test_taken(kind, value, expected):
    got = taken(kind, value)
    assert got == expected
    assert type(got) is type(expected)


NOT_TAKEN = {
    "int": [1.0, "1"],
    "float": ["1.5", 2**53 + 1, 10**400],
    "bool": [2, "yes"],
    "str": [b"\xff", 3],
    "list[int]": [[1, 2.5], 3, (1,)],
    "bytes": [3],
    "list": [3],
    "tensor": [3],
    "graph": [3],
}


@pytest.mark.parametrize("kind", NOT_TAKEN)
def test_not_taken(kind):
    for value in NOT_TAKEN[kind]:
        with pytest.raises(ModelError, match=rf"^node n, attr a: expected {re.escape(kind)}, got "):
            taken(kind, value)


def test_literals_are_the_only_values():
    attr = annotated(Literal["nearest", "linear"] | None, None)
    assert attr.take(b"linear", "node") == "linear"
    with pytest.raises(
        ModelError, match="node, attr a: expected one of 'nearest', 'linear', got str 'cubic'"
    ):
        attr.take("cubic", "node")


def limits():
    def init(self, limit: float, mode: str = "a"): ...

    return schema_of(op(init))


# Inputs of a node


def inputs(*types):
    return [None if t is None else tensor_type(t) for t in types]


class Many:
    def compute(self, x: "float32[N,3]", y: "int64" = None, *rest: "int8[]"): ...


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ([], r"^node, input x: expected float32\[N,3\], got nothing\. Try: x=None$"),
        ([None], r"^node, input x: expected float32\[N,3\], got nothing"),
        (
            ["float64[N,3]"],
            r"^node, input x: expected float32\[N,3\], got float64\[N,3\]\. Try: change the hint of x in compute",
        ),
        (["float32[3]"], r"^node, input x: expected float32\[N,3\], got float32\[3\]"),
        (["float32", "int32"], r"^node, input y: expected int64\[\.\.\.\], got int32"),
        (
            ["float32", None, "int8[]", "int16[]"],
            r"^node, input rest: expected int8\[\], got int16\[\]",
        ),
    ],
)
def test_inputs_that_do_not_fit(given, text):
    with pytest.raises(ModelError, match=text):
        schema_of(Many).check_inputs(inputs(*given), "node")


# Outputs


def test_sizes_of_inputs_reach_the_outputs():
    class Op:
        def compute(self, x: "float32[N,M]", y: "int8[M]") -> ("float32[M,N,K]", "int8"): ...

    assert list(map(str, schema_of(Op).hinted(inputs("float32[5,?]", "int8[B]")))) == [
        "float32[B,5,K]",
        "int8[...]",
    ]


class Lies:
    def __init__(self, answer):
        self.answer = answer

    def infer(self, *types):
        return self.answer(*types) if callable(self.answer) else self.answer

    def compute(self, x: "float32[N,3]") -> "float32[N,3]": ...


def inferred(answer, count=1, given=("float32[N,3]",)):
    said = promised_types(schema_of(Lies), Lies(answer), inputs(*given), count, "node")
    return list(map(str, said))


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("float32[7,3]", "float32[7,3]"),
        (lambda x: x, "float32[N,3]"),
        (lambda x: x.like(shape=(x.shape[0], 3)), "float32[N,3]"),
        (["float32[7,3]"], "float32[7,3]"),
        ("any[7,3]", "float32[7,3]"),
        ("float32", "float32[N,3]"),
    ],
)
def test_infer(answer, said):
    assert inferred(answer) == [said]


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (
            "float64[N,3]",
            r"^node, infer, output 0: expected float32\[N,3\] \(the hint of compute\), got float64\[N,3\]\. Try: let infer",
        ),
        (
            "float32[N]",
            r"^node, infer, output 0: expected float32\[N,3\] \(the hint of compute\), got float32\[N\]",
        ),
        ("float32[N,4]", r"^node, infer, output 0: expected .*, got float32\[N,4\]"),
        (None, r"^node, infer: expected types, as float32\[N,3\] or x.like\(shape=…\), got None"),
        ((2, 3), r"^node, infer: expected types, .*, got \(2, 3\)"),
        ((), r"^node, infer: expected 1 type, got 0\. Try: one type per output"),
        ("nonsense", r"^node, infer: expected types, .*, got 'nonsense'"),
    ],
)
def test_infer_that_lies(answer, text):
    with pytest.raises(ResultError, match=text):
        inferred(answer)


# Schemas compared


def again(default, hint=None):
    def init(self, a=default): ...

    if hint:
        init.__annotations__ = {"a": hint}
    return schema_of(op(init))


@pytest.mark.parametrize(
    "default",
    [
        lambda: np.arange(4.0),
        lambda: float("nan"),
        lambda: [1, float("nan")],
        lambda: [np.eye(2)],
        lambda: onnx.ModelProto(ir_version=3),
    ],
)
def test_the_same_class_has_the_same_schema(default):
    assert again(default()) == again(default())
    assert hash(again(default())) == hash(again(default()))


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (
            np.arange(2000),
            np.arange(2000) * np.r_[np.ones(1000, int), 2, np.ones(999, int)],
        ),  # the same repr
        (np.zeros(2, np.int8), np.zeros(2, np.uint8)),
        (np.zeros((2, 1)), np.zeros((1, 2))),
        (np.array([0.0]), np.array([-0.0])),
        ([1, 2], [1, 3]),
        ([1], (1,)),
        (1, 1.0),
        (1, True),
        (0.5, float("nan")),
    ],
    ids=str,
)
def test_another_default_is_another_schema(a, b):
    assert again(a) != again(b)


@pytest.mark.parametrize(
    "copied",
    [copy.deepcopy, lambda schema: pickle.loads(pickle.dumps(schema))],
    ids=["copy", "pickle"],
)
def test_a_copy_still_knows_what_is_required(copied):
    schema = copied(limits())
    assert schema == limits()
    assert isinstance(schema, Schema)
    with pytest.raises(ModelError, match="attr limit: expected a value"):
        schema.bind({}, "node")
