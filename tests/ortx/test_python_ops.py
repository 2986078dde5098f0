"""Python operators as the tutorials and tests of onnxruntime-extensions write them, with another import line."""

import importlib
import re
import subprocess
import sys

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper

import pyopnb
from pyopnb.engine.ops.types import tensor_type
from pyopnb.ortx import (
    Opdef,
    PyCustomOpDef,
    get_library_path,
    onnx_op,
)

ONE, TWO = np.float32([1.5, -2.5]), np.float32([[1, 2], [3, 4]])


@pytest.fixture(autouse=True)
def only_these_ops():
    pyopnb.registry.clear()
    yield
    pyopnb.registry.clear()


def options():
    made = onnxruntime.SessionOptions()
    made.log_severity_level = 4
    made.register_custom_ops_library(get_library_path())
    return made


def model(*nodes, inputs, outputs):
    """As the tests of onnxruntime-extensions write them: helper.make_node and make_graph, rows of name, dtype and shape."""
    infos = [[helper.make_tensor_value_info(*row) for row in rows] for rows in (inputs, outputs)]
    versions = [helper.make_opsetid("", 21), helper.make_opsetid("ai.onnx.contrib", 1)]
    graph = helper.make_graph(list(nodes), "test", *infos)
    return helper.make_model(graph, opset_imports=versions, ir_version=10)


def contrib(op_type, inputs, outputs, **attrs):
    return helper.make_node(op_type, inputs, outputs, domain="ai.onnx.contrib", **attrs)


def one_node(op_type, before=TensorProto.FLOAT, after=TensorProto.FLOAT, shape=None, **attrs):
    """A model of one node; its shape is open."""
    return model(
        contrib(op_type, ["x"], ["y"], **attrs),
        inputs=[("x", before, shape)],
        outputs=[("y", after, None)],
    )


def run_bare(made, **feeds):
    return onnxruntime.InferenceSession(made.SerializeToString(), options()).run(None, feeds)


# ---- as in their tests -------------------------------------------------------------------------------------------------------


def test_a_reversed_matrix_between_standard_nodes():
    @onnx_op(
        op_type="PyReverseMatrix", inputs=[PyCustomOpDef.dt_float], outputs=[PyCustomOpDef.dt_float]
    )
    def reverse_matrix(x):
        return np.flip(x, axis=0)

    made = model(
        helper.make_node("Identity", ["input_1"], ["identity1"]),
        contrib("PyReverseMatrix", ["identity1"], ["reversed"]),
        inputs=[("input_1", TensorProto.FLOAT, [None, 2])],
        outputs=[("reversed", TensorProto.FLOAT, [None, 2])],
    )
    assert 'domain: "ai.onnx.contrib"' in str(made)
    np.testing.assert_array_equal(run_bare(made, input_1=TWO)[0], TWO[::-1])


def test_strings_that_are_joined_with_a_string_attribute_given_as_a_list():
    @onnx_op(
        op_type="PyJoin",
        inputs=[PyCustomOpDef.dt_string],
        outputs=[PyCustomOpDef.dt_string],
        attrs=["sep"],
    )
    def join(arr, **kwargs):
        return np.array([kwargs["sep"].join(row) for row in arr])

    made = one_node("PyJoin", TensorProto.STRING, TensorProto.STRING, [None, None], sep=";")
    assert run_bare(made, x=np.array([["a", "b"], ["ü", ""]], object))[0].tolist() == ["a;b", "ü;"]


def test_int_and_float_attributes_arrive_with_all_their_digits():
    kinds = {
        "length": PyCustomOpDef.dt_int64,
        "scale": PyCustomOpDef.dt_float,
        "word": PyCustomOpDef.dt_string,
    }

    @onnx_op(op_type="Padded", attrs=kinds)
    def padded(x, length, scale, word):
        assert (type(length), word) == (int, "ü")
        return np.pad(x * np.float32(scale), (0, length))

    (y,) = run_bare(one_node("Padded", length=2, scale=0.123456789, word="ü"), x=np.float32([1]))
    assert y.tolist() == [np.float32(0.123456789), 0, 0]


def test_a_domain_in_the_name():
    @onnx_op(op_type="torchcustom::Add10")
    def add10(x):
        return x + 10

    node = helper.make_node("Add10", ["x"], ["y"], domain="torchcustom")
    made = model(node, inputs=[("x", 1, None)], outputs=[("y", 1, None)])
    made.opset_import.append(helper.make_opsetid("torchcustom", 1))
    assert run_bare(made, x=ONE)[0].tolist() == [11.5, 7.5]


def test_the_name_and_one_float_each_where_nothing_is_given():
    @onnx_op()
    def Doubled(x):
        return x * 2

    assert Doubled.op_type == "Doubled" and isinstance(Doubled, Opdef) and Doubled(3) == 6
    assert run_bare(one_node("Doubled"), x=ONE)[0].tolist() == [3, -5]


@pytest.mark.parametrize("name", [name for name in vars(PyCustomOpDef) if name.startswith("dt_")])
def test_every_dtype_goes_in_and_out_or_is_refused_when_it_is_declared(name):
    number = getattr(PyCustomOpDef, name)
    if "complex" in name:
        with pytest.raises(
            pyopnb.errors.DefinitionError,
            match="op ai.onnx.contrib::Same, inputs: expected dtypes .* got dt_complex",
        ):
            Opdef.create(lambda x: x, op_type="Same", inputs=[number], outputs=[number])
        return
    Opdef.create(lambda x: x, op_type="Same", inputs=[number], outputs=[number])
    kind = tensor_type(TensorProto.DataType.Name(number).lower() + "[...]").dtype.numpy
    x = np.array(["a", "ü"], object) if name == "dt_string" else np.array([0, 1]).astype(kind)
    y = pyopnb.run(one_node("Same", number, number), x=x)["y"]
    assert y.dtype == x.dtype and y.tolist() == x.tolist()


def test_any_dtype():
    undefined = [PyCustomOpDef.undefined]
    Opdef.create(lambda x: x[:1], op_type="First", inputs=undefined, outputs=undefined)
    for number, x in ((11, ONE.astype(float)), (8, np.array(["a", "b"], object))):
        (y,) = run_bare(one_node("First", number, number, [None]), x=x)
        assert y.dtype == x.dtype and y.tolist() == x[:1].tolist()


# ---- what the function gets and may return -----------------------------------------------------------------------------------


def test_inputs_can_be_written_to():
    @onnx_op(op_type="Overwrite")
    def overwrite(x):
        x[0] = 9
        return x

    x = ONE.copy()
    assert (
        run_bare(one_node("Overwrite"), x=x)[0].tolist() == [9, -2.5] and x.tolist() == ONE.tolist()
    )


RETURNED = [
    ("dt_float", np.array([1.5, 2**30 + 1.0]), [1.5, 2**30]),
    ("dt_float", np.array([1, 2]), [1, 2]),
    ("dt_float", [1.0, 2.0], [1, 2]),
    ("dt_float", np.array([np.nan, -np.inf]), [np.nan, -np.inf]),
    ("dt_int64", np.array([True, False]), [1, 0]),
    ("dt_int32", np.array([1, -5]), [1, -5]),
    ("dt_uint64", np.array([2**64 - 1], np.uint64), [2**64 - 1]),
    ("dt_bool", np.array([0, 1], np.uint8), [False, True]),
    ("dt_uint8", np.array([1, 255]), [1, 255]),
    ("dt_string", np.array(["a", "ü"]), ["a", "ü"]),
]


@pytest.mark.parametrize(("kind", "returned", "expected"), RETURNED)
def test_numbers_of_another_dtype_are_converted_where_their_values_stay(kind, returned, expected):
    number = getattr(PyCustomOpDef, kind)
    Opdef.create(lambda x: returned, op_type="Give", outputs=[number])
    np.testing.assert_array_equal(
        run_bare(one_node("Give", 1, number), x=ONE)[0], np.array(expected)
    )


REFUSED = [
    ("dt_int64", np.array([1.5])),
    ("dt_int64", np.array([2.0**63])),
    ("dt_int32", np.array([2**40])),
    ("dt_uint8", np.array([-1])),
    ("dt_uint64", np.array([-1])),
    ("dt_int64", np.array([2**63], np.uint64)),
    ("dt_bool", np.array([0, 2])),
    ("dt_float", np.array([1e300])),
    ("dt_float", np.array([1j])),
    ("dt_float", None),
    ("dt_float", (ONE, ONE)),
    ("dt_float", ()),
]


@pytest.mark.parametrize(("kind", "returned"), REFUSED)
def test_what_has_no_such_value_is_refused_where_theirs_spoils_it_or_ends_the_process(
    kind, returned
):
    number = getattr(PyCustomOpDef, kind)
    Opdef.create(lambda x: returned, op_type="Give", outputs=[number])
    with pytest.raises(pyopnb.errors.ResultError, match="ai.onnx.contrib::Give"):
        pyopnb.run(one_node("Give", 1, number), x=ONE)
    with pytest.raises(Exception, match="ResultError: .*ai.onnx.contrib::Give"):
        run_bare(one_node("Give", 1, number), x=ONE)


def test_an_exception_is_an_exception():
    @onnx_op(op_type="Fails")
    def fails(x):
        raise KeyError("the user's own")

    with pytest.raises(KeyError, match="the user's own") as caught:
        pyopnb.run(one_node("Fails"), x=ONE)["y"]
    assert any("ai.onnx.contrib::Fails" in note for note in caught.value.__notes__)
    with pytest.raises(Exception, match="KeyError: .*the user's own"):
        run_bare(one_node("Fails"), x=ONE)


# ---- declared again, replaced, taken out -------------------------------------------------------------------------------------


def test_a_cell_that_runs_again_serves_live_sessions_and_new_ones():
    Opdef.create(lambda x: x * 2, op_type="Again")
    session = onnxruntime.InferenceSession(one_node("Again").SerializeToString(), options())
    assert session.run(None, {"x": ONE})[0].tolist() == [3, -5]
    opdef = Opdef.create(lambda x: x * 4, op_type="Again")
    assert session.run(None, {"x": ONE})[0].tolist() == [6, -10]
    assert run_bare(one_node("Again"), x=ONE)[0].tolist() == [6, -10]
    opdef.body = lambda x: x * 0
    assert session.run(None, {"x": ONE})[0].tolist() == [0, 0]
    assert [version.number for version in pyopnb.registry.history("ai.onnx.contrib::Again")] == [
        1,
        2,
    ]


def test_a_node_without_an_attribute_and_one_with_more():
    attrs = {"by": PyCustomOpDef.dt_float}
    Opdef.create(lambda x, by: x + np.float32(by), op_type="Shift", attrs=attrs)
    with pytest.raises(pyopnb.errors.ModelError, match=r"attr by: expected a value of kind float"):
        pyopnb.run(one_node("Shift"), x=ONE)
    assert run_bare(one_node("Shift", by=1.0, unknown=3), x=ONE)[0].tolist() == [2.5, -1.5]


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("gen_processing_models", "from onnxruntime_extensions import gen_processing_models"),
        ("hook_model_op", "pyopnb.wrap(model, node_name, function)"),
    ],
)
def test_what_is_not_here_is_named(name, advice):
    with pytest.raises(ImportError, match=f"Try: {re.escape(advice)}"):
        getattr(pyopnb.ortx, name)


F, S = PyCustomOpDef.dt_float, PyCustomOpDef.dt_string
ONES = np.float32([1])


def test_defaults_of_the_function_count():
    @onnx_op(op_type="Opt", inputs=[F] * 3, outputs=[F], attrs={"p": F, "q": F})
    def opt(x, y=None, z=4.0, p=2.0, *, q):
        return (x + (10 if y is None else y)) * np.float32(z * p * q)

    name = "ai.onnx.contrib::Opt"
    assert pyopnb.call(name, ONES, q=1).tolist() == [88.0]
    assert pyopnb.call(name, ONES, ONES, q=1.0).tolist() == [16.0]
    assert pyopnb.call(name, ONES, None, ONES, p=1, q=1).tolist() == [11.0]
    with pytest.raises(pyopnb.errors.ModelError, match="q=…, or the function a default for it"):
        pyopnb.call(name, ONES)
    session = pyopnb.Session(pyopnb.model(contrib("Opt", ["x"], ["y"], q=1.0), {"x": ONES}, "y"))
    assert session.attrs == {"y": {"p": 2.0, "q": 1.0}}
    assert run_bare(one_node("Opt", shape=[None], q=1.0), x=ONES)[0].tolist() == [88.0]


def test_missing_input_is_named_as_the_function_does():
    @onnx_op(op_type="Both", inputs=[F, F], outputs=[F])
    def both(left, right):
        return left + right

    with pytest.raises(pyopnb.errors.PyopError, match=r"input right: .* Try: right=None"):
        pyopnb.run(one_node("Both", shape=[None]), x=ONES)
    node = contrib("Both", ["x", "x"], ["y"])
    with pytest.raises(pyopnb.errors.ModelError, match="Try: change its dtype in inputs=, or the"):
        pyopnb.Session(pyopnb.model(node, {"x": "float64[N]"}, "y"))


def test_list_for_a_number_and_list_of_results():
    @onnx_op(
        op_type="Lists", inputs=[F], outputs=[F, F], attrs={"n": PyCustomOpDef.dt_int64, "w": F}
    )
    def lists(x, n, w):
        return [x * np.float32(sum(n)), x * np.float32(sum(w))]

    name = "ai.onnx.contrib::Lists"
    results = pyopnb.call(name, ONES, n=[1, 2], w=[1, 2.5], outputs=2)
    assert [r.tolist() for r in results] == [[3.0], [3.5]]
    with pytest.raises(
        pyopnb.errors.ModelError, match=r"attr n: expected int, .*its dtype in attrs="
    ):
        pyopnb.call(name, ONES, n="s", w=1.0, outputs=2)


def test_list_is_one_result_where_one_is_declared():
    @onnx_op(op_type="One", inputs=[F], outputs=[F])
    def one(x):
        return [float(x[0]), 2.0]

    assert pyopnb.call("ai.onnx.contrib::One", ONES).tolist() == [1.0, 2.0]


def test_text_of_a_reloaded_function(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    for factor in ("2", "300"):
        (tmp_path / "reloaded_function.py").write_text(
            "from pyopnb.ortx import onnx_op\n"
            f"@onnx_op(op_type='Text')\ndef text(x):\n    return x * {factor}\n",
            encoding="utf-8",
        )
        importlib.invalidate_caches()
        sys.modules.pop("reloaded_function", None)
        importlib.import_module("reloaded_function")
        assert f"x * {factor}" in pyopnb.registry.history("ai.onnx.contrib::Text")[-1].source


def test_a_decorated_function_is_saved_with_a_model(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "saved_function.py").write_text(
        "import numpy as np\nfrom pyopnb.ortx import PyCustomOpDef, onnx_op\nSTEP = 3\n"
        "def helped(x):\n    return np.abs(x) + STEP\n"
        "@onnx_op(op_type='Saved', attrs={'by': PyCustomOpDef.dt_float})\n"
        "def saved(x, by=1.0):\n    return helped(x) * by\n",
        encoding="utf-8",
    )
    saved = importlib.import_module("saved_function").saved
    made = pyopnb.parse("(float[N] x) => (float[N] y) { y = ai.onnx.contrib.Saved<by = 2.0>(x) }")
    pyopnb.save(made, tmp_path / "m.onnx")
    code = (
        "import numpy as np, pyopnb\n"
        "m = pyopnb.load('m.onnx', ops=['ai.onnx.contrib::Saved'])\n"
        "pyopnb.save(m.model, 'm.onnx')\n"
        "m = pyopnb.load('m.onnx', ops=['ai.onnx.contrib::Saved'])\n"
        "print(pyopnb.run(m.model, x=np.float32([-1, 2]))['y'].tolist())"
    )
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "m.onnx").rename(tmp_path / "elsewhere/m.onnx")
    command = [sys.executable, "-P", "-c", code]
    folder = tmp_path / "elsewhere"
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "[8.0, 10.0]\n"), done.stderr
    # A text that does not run is not written.
    saved.body = abs
    with pytest.raises(pyopnb.errors.DefinitionError, match="not the function under its decorator"):
        pyopnb.save(made, tmp_path / "m.onnx")
    Opdef.create(lambda x: x, op_type="Saved", inputs=[PyCustomOpDef.dt_float])
    with pytest.raises(pyopnb.errors.DefinitionError, match="not the function under its decorator"):
        pyopnb.save(pyopnb.parse("(float[N] x) => (y) { y = ai.onnx.contrib.Saved(x) }"), "m.onnx")
