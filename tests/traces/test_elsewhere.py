"""Traces on the onnxruntime of another Python: they are as any other, and nothing is left behind."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import time
import venv
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import pytest
from systems import needs_sent_signals, needs_shell

import pyopnb
from pyopnb.errors import InputError, ModelError
from pyopnb.traces import elsewhere

# Each of them has a second onnxruntime, the oldest, beside any first one.
pytestmark = pytest.mark.one_python

X = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)
HALF = """
@pyopnb.pyop("demo::Half")
class Half:
    def compute(self, x):
        return x / np.float32(2)
"""
OLDEST = "onnxruntime==1.25.0"  # as tests/oldest.txt has it
# The lane of the oldest versions has that onnxruntime. Where there is no such lane, an environment
# is made for it once.
OLDEST_PYTHON = os.environ.get("PYOPNB_OLDEST", OLDEST)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    folder = tmp_path / "cache"
    monkeypatch.setenv("PYOPNB_CACHE", str(folder))
    return folder


@pytest.fixture(scope="session")
def oldest(tmp_path_factory):
    """The cache folder in which the environment of the oldest version is made, once."""
    return tmp_path_factory.mktemp("runtimes")


@pytest.fixture
def empty_python(tmp_path):
    """A Python without any package."""
    folder = tmp_path / "empty"
    venv.create(folder, with_pip=False)
    return folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def model(body="a = Abs(x)  b = Elu<alpha = 1.5>(a)  y = Softmax(b)", opset=18):
    head = f'<ir_version: 8, opset_import: ["" : {opset}, "demo" : 1]>'
    return onnx.parser.parse_model(f"{head} g (float[N,3] x) => (float[N,3] y) {{ {body} }}")


def test_the_tensors_are_those_of_this_process_and_the_trace_says_what_ran():
    trace = pyopnb.trace(model(), x=X, on=sys.executable)
    here = pyopnb.trace(model(), x=X)
    assert list(trace) == ["x", "a", "b", "y"]
    assert pyopnb.diff(trace, here).verdict == "bit-identical"
    version = onnxruntime.__version__
    assert trace.runtime.startswith(f"onnxruntime {version} on ")
    assert trace.runtime.endswith(", all optimizations") and trace.exposure.same
    plain = pyopnb.trace(model(), x=X, on=Path(sys.executable), optimized=False)
    assert plain.runtime.endswith(", no optimizations") and plain.exposure is None
    assert list(pickle.loads(pickle.dumps(trace))) == list(trace)


def test_only_and_summaries_are_those_of_any_trace():
    trace = pyopnb.trace(model(), X, on=sys.executable, only="a")
    assert list(trace) == ["x", "a", "y"]
    trace = pyopnb.trace(model(), {"x": X}, on=sys.executable, level="summaries")
    assert list(trace) == ["x", "y"] and list(trace.summaries) == ["x", "a", "b", "y"]


def test_a_node_that_parts_is_run_alone_on_the_other_runtime(monkeypatch):
    """Its error would otherwise come from the kernels of this process."""
    changed = model("a = Abs(x)  b = Elu<alpha = 1.5>(a)  c = Neg(b)  y = Softmax(c)")
    changed.graph.node[2].op_type = "Identity"
    runs = []
    start = subprocess.Popen
    monkeypatch.setattr(
        subprocess, "Popen", lambda *args, **more: runs.append(args) or start(*args, **more)
    )
    trace = pyopnb.trace(
        model("a = Abs(x)  b = Elu<alpha = 1.5>(a)  c = Neg(b)  y = Softmax(c)"),
        x=X,
        on=sys.executable,
    )
    diff = pyopnb.diff(pyopnb.trace(changed, x=X), trace)
    assert diff.origin.name == "c (Neg)" and len(runs) > 1
    assert all(step.isolated is not None for step in diff.steps)


def test_texts_weights_beside_the_model_and_defaults(tmp_path):
    texts = pyopnb.parse(
        "(string[N] t, float[N] x) => (string[N] u, float[N] y) { u = Identity(t)  y = Neg(x) }"
    )
    t = np.array(["a", "", "ü"], object)
    trace = pyopnb.trace(texts, t=t, x=np.float32([1, 2, 3]), on=sys.executable)
    assert trace["u"].tolist() == ["a", "", "ü"] and trace["u"].dtype == object
    weights = np.arange(6000, dtype=np.float32).reshape(3, 2000)
    big = model("y = MatMul(x, w)")
    big.graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))
    onnx.save(big, tmp_path / "big.onnx", save_as_external_data=True, location="big.data")
    trace = pyopnb.trace(tmp_path / "big.onnx", x=X, on=sys.executable)
    assert np.allclose(trace["y"], X @ weights) and np.array_equal(trace.initializers["w"], weights)


def test_a_tensor_that_numpy_has_no_dtype_for_is_left_out():
    trace = pyopnb.trace(model("a = Cast<to = 16>(x)  y = Cast<to = 1>(a)"), x=X, on=sys.executable)
    assert list(trace) == ["x", "y"]
    half = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 18]> g (bfloat16[N] x) => (float[N] y) { y = Cast<to = 1>(x) }'
    )
    with pytest.raises(InputError, match=r"^feed x: expected a dtype of NumPy itself"):
        pyopnb.trace(half, x=np.ones(2, ml_dtypes.bfloat16), on=sys.executable)


def test_ops_run_where_pyopnb_is(define):
    define(HALF)

    ours = model("a = demo.Half(x)  y = Neg(a)")
    trace = pyopnb.trace(ours, x=X, on=sys.executable)
    assert np.array_equal(trace["y"], -X / 2) and trace.versions["demo::Half"].number == 1


def test_what_another_python_lacks_is_said_with_what_to_type(empty_python):
    with pytest.raises(
        InputError,
        match=r"onnxruntime and NumPy, got .*No module named .* -m pip install onnxruntime$",
    ):
        pyopnb.trace(model(), x=X, on=empty_python)
    with pytest.raises(InputError, match=r"expected the path of a Python, .* got /no/such"):
        pyopnb.trace(model(), x=X, on="/no/such")
    with pytest.raises(InputError, match=r"got 'onnxruntim'. Try: 'onnxruntime'$"):
        pyopnb.trace(model(), x=X, on="onnxruntim")
    with pytest.raises(InputError, match=r"^trace, fill: expected False on another Python"):
        pyopnb.trace(model(), x=X, on=sys.executable, fill=True)


def test_no_environment_is_made_for_ops_that_it_could_not_run(cache, define):
    define(HALF)
    ours = model("a = demo.Half(x)  y = Neg(a)")
    with pytest.raises(ModelError, match=r"expected pyopnb there, for the nodes a \(demo::Half\)"):
        pyopnb.trace(ours, x=X, on="onnxruntime==1.99.0")
    assert not any(cache.rglob("*.py"))


def test_a_bisection_runs_one_model_here_and_there():
    body = "a = Neg(x)  b = Elu<alpha = {}>(a)  y = Softmax(b)"
    right, wrong = model(body.format(1.5)), model(body.format(1.25))
    on = ("onnxruntime", sys.executable)
    assert pyopnb.first_divergence(right, right, {"x": X}, on=on).ok
    found = pyopnb.first_divergence(wrong, right, {"x": X}, on=on)
    assert found.origin.name == "b (Elu)" and found.b.startswith(f"{sys.executable}, all")


def test_a_kernel_that_changed_between_two_versions_is_named():
    """Attention's softcap came after its mask before microsoft/onnxruntime#28379: what was masked was seen."""
    decoder = onnx.parser.parse_model("""
        <ir_version: 10, opset_import: ["" : 23]>
        decoder (float[B,S,16] x, float[16,16] w, float[S,S] mask) => (float[B,S,16] y) {
            q = MatMul(x, w)
            k = Tanh(x)
            a = Attention<q_num_heads = 2, kv_num_heads = 2, softcap = 5.0>(q, k, x, mask)
            r = Add(a, x)
            y = Softmax(r)
        }
    """)
    random = np.random.default_rng(0)
    feeds = {
        name: np.float32(random.normal(size=shape))
        for name, shape in (("x", (2, 6, 16)), ("w", (16, 16)))
    }
    feeds["mask"] = np.triu(np.full((6, 6), -np.inf, np.float32), 1)
    on = ("onnxruntime", OLDEST_PYTHON)
    found = pyopnb.first_divergence(decoder, decoder, feeds, on=on)
    assert found.origin.name == "a (Attention)"
    here, there = (pyopnb.trace(decoder, feeds, on=side) for side in on)
    diff = pyopnb.diff(here, there)
    assert [step.name for step in diff.origins] == ["a (Attention)"]
    assert there.runtime.startswith("onnxruntime 1.25.0 on ")
    # The reference implementation says which of them is right.
    reference = pyopnb.trace(decoder, feeds, on="reference")
    assert pyopnb.diff(here, reference).ok and not pyopnb.diff(there, reference).ok
    # Without a softcap, the two versions agree.
    del decoder.graph.node[2].attribute[-1]
    assert pyopnb.first_divergence(decoder, decoder, feeds, on=on).ok


@needs_shell
def test_uv_makes_the_environment_where_it_is_installed(cache, tmp_path, monkeypatch):
    """A uv whose environments have what this one has, and which installs nothing."""
    tools = tmp_path / "tools"
    tools.mkdir()
    uv = tools / "uv"
    log = tmp_path / "log"
    uv.write_text(
        f"""#!/bin/sh
echo "$@" >> {log}
for folder; do true; done
if [ "$1" = venv ]; then
    /bin/mkdir -p "$folder/bin"
    printf '#!/bin/sh\\nexec "%s" "$@"\\n' "{sys.executable}" > "$folder/bin/python"
    /bin/chmod +x "$folder/bin/python"
fi
""",
        encoding="utf-8",
    )
    uv.chmod(0o755)
    monkeypatch.setenv("PATH", str(tools))
    trace = pyopnb.trace(model(), x=X, on="onnxruntime==1.99.0")
    assert np.array_equal(trace["y"], pyopnb.run(model(), x=X)["y"])
    make, install = log.read_text(encoding="utf-8").splitlines()
    assert make.startswith("venv --quiet ") and install.endswith(" onnxruntime==1.99.0 numpy")


@pytest.mark.everywhere  # an environment is made
def test_a_version_that_cannot_be_had_leaves_nothing(cache, monkeypatch):
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", "")
    monkeypatch.setenv("PATH", "/usr/bin")
    with pytest.raises(
        InputError, match=r"No matching distribution.*Try: pip index versions onnxruntime"
    ):
        pyopnb.trace(model(), x=X, on="onnxruntime==1.99.0")
    assert not list((cache / "runtimes").iterdir())


def test_an_operator_that_is_newer_than_that_runtime_is_named(tmp_path, monkeypatch):
    """The process says what an onnxruntime of opset 19 says."""
    script = tmp_path / "old.py"
    script.write_text(
        """
import json, pathlib
complaint = "ONNX Runtime only *guarantees* support. Current official support for domain ai.onnx is till opset 19."
folder = pathlib.Path(input())
report = {"failed": "session", "error": "x" * 600 + complaint}
(folder / "report.json").write_text(json.dumps(report))
print("done")
""",
        encoding="utf-8",
    )
    monkeypatch.setattr("pyopnb.traces.runs.elsewhere._SCRIPT", script)
    newer = model("a = Gelu(x)  y = Abs(a)", 20)
    with pytest.raises(ModelError, match=r"got Gelu of a newer opset than its 19\. Try: a newer"):
        pyopnb.trace(newer, x=X, on=sys.executable)


def test_a_file_that_is_no_python_is_refused(tmp_path):
    text = tmp_path / "requirements.txt"
    text.write_text("onnxruntime==1.25.0", encoding="utf-8")
    with pytest.raises(InputError, match=r"expected the path of a Python.*requirements\.txt"):
        pyopnb.trace(model(), x=X, on=text)


def test_a_file_that_does_not_start_is_refused(tmp_path):
    # On Windows every file may be executed; elsewhere, one of another processor.
    wrong = tmp_path / "python"
    wrong.write_bytes(b"\x7fELF no program")
    wrong.chmod(0o755)
    with pytest.raises(InputError, match=r"trace, on: expected .* a Python, got .*not start: "):
        pyopnb.trace(model(), x=X, on=wrong)


def test_a_crash_of_windows_is_one():
    # The exit code of a process there that divided an integer by zero.
    assert elsewhere._last_words("", 3221225620) == (
        "the process ended by the exception 0xC0000094 of Windows"
    )
    assert elsewhere._last_words("", 3) == "the process ended with exit code 3"


@needs_sent_signals
def test_an_interrupt_ends_the_installer_and_leaves_nothing(cache, tmp_path):
    """A process that an installer started continues after it if it is not ended, such as ensurepip of venv."""
    onnx.save(model(), tmp_path / "model.onnx")
    code = f"""
import numpy as np, pyopnb
pyopnb.trace({str(tmp_path / "model.onnx")!r}, x=np.zeros((4, 3), np.float32), on="onnxruntime==1.99.0")
"""
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", code], stderr=subprocess.PIPE, text=True
    )
    while not list(cache.glob("runtimes/.unfinished-*/lib/*/site-packages/*")):
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    errors = process.communicate(timeout=60)[1]
    assert errors.rstrip().endswith("KeyboardInterrupt")
    # What it started would have made the folder again by now.
    time.sleep(0.2)
    assert not list((cache / "runtimes").iterdir())


@pytest.mark.everywhere
def test_a_version_is_installed_once_and_runs(oldest, monkeypatch):
    """It needs a package index, as the lane of the oldest versions does."""
    monkeypatch.setenv("PYOPNB_CACHE", str(oldest))
    trace = pyopnb.trace(model(), x=X, on=OLDEST)
    assert trace.runtime.startswith("onnxruntime 1.25.0 on ")
    assert pyopnb.diff(trace, pyopnb.trace(model(), x=X)).ok
    assert len(list((oldest / "runtimes").iterdir())) == 1
    start = subprocess.Popen
    commands = []
    monkeypatch.setattr(
        subprocess, "Popen", lambda *args, **more: commands.append(args) or start(*args, **more)
    )
    assert np.array_equal(pyopnb.trace(model(), x=X, on=OLDEST)["y"], trace["y"])
    assert len(commands) == 1  # nothing was installed


@pytest.mark.everywhere
def test_a_model_newer_than_that_runtime(oldest, define, monkeypatch):
    monkeypatch.setenv("PYOPNB_CACHE", str(oldest))
    newer = model("y = Abs(x)", onnx.defs.onnx_opset_version())
    newer.ir_version = onnx.IR_VERSION
    assert np.array_equal(pyopnb.trace(newer, x=X, on=OLDEST)["y"], np.abs(X))

    define(HALF)

    with pytest.raises(ModelError, match=r"expected pyopnb there, for the nodes a \(demo::Half\)"):
        pyopnb.trace(model("a = demo.Half(x)  y = Neg(a)"), x=X, on=OLDEST)


def test_texts_that_end_in_nul_are_refused_and_not_cut():
    model = pyopnb.parse("(string[N] x) => (string[N] y) { y = Identity(x) }")
    kept = pyopnb.trace(model, {"x": ["a", "b\0c"]}, on=sys.executable)
    assert kept["y"].tolist() == ["a", "b\0c"]
    with pytest.raises(
        pyopnb.errors.InputError, match="feed x: expected texts that do not end in NUL"
    ):
        pyopnb.trace(model, {"x": ["a", "b\0"]}, on=sys.executable)


def test_result_that_ends_in_nul_is_refused_and_not_cut():
    text = '(string[N] x) => (string[M,K] y, int64[M] n) { y, n = StringSplit<delimiter=",">(x) }'
    with pytest.raises(pyopnb.errors.PyopError, match="end in NUL"):
        pyopnb.trace(pyopnb.parse(text), {"x": ["a\0,b"]}, on=sys.executable)
