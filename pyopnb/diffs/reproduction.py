"""A failing model as files for a bug report: the model, its feeds, a script and a text."""

from __future__ import annotations

import inspect
import platform
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto

from pyopnb.common import sanitize
from pyopnb.engine import ort_capabilities
from pyopnb.errors import InputError
from pyopnb.models import save_module, text
from pyopnb.traces import elsewhere

__all__ = ["Failure", "write_reproduction"]

_OPS = "ops_of_the_model"
_LONGEST_ARRAY = 600  # characters in the text


@dataclass(frozen=True)
class Failure:
    """How a model fails.

    Attributes
    ----------
    kind : str
        ``"process"``, ``"session"`` or ``"run"`` where ONNX Runtime fails; ``"levels"``,
        ``"reference"`` or ``"runtimes"`` where outputs differ; ``"fails"`` where the
        caller's function says so.
    text : str
        The error message, or how the outputs differ.
    outputs : tuple of dict
        The outputs of both sides, by name, where they differ.
    fails : callable or None
        The caller's function.
    """

    kind: str
    text: str
    outputs: tuple[dict[str, Any], ...] = ()
    fails: Callable[..., Any] | None = None


_SCRIPT = '''\
"""{failure}

It needs {needs}: python reproduce.py
"""

from pathlib import Path

import numpy as np
import onnxruntime
{imports}
FOLDER = Path(__file__).parent


def load(file, names):
    return dict(zip(names, np.load(FOLDER / file).values()))


FEEDS = load("feeds.npz", {inputs})


def run(level):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = level
    session = {session}(str(FOLDER / "model.onnx"), options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, FEEDS)))


print("onnxruntime", onnxruntime.__version__)
outputs = run(onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL)
for name, output in outputs.items():
    print(f"{{name}} = {{output}}")
'''

_COMPARED = """\
# {label}
expected = {expected}
for name, output in outputs.items():
    print(f"expected {{name}} = {{expected[name]}}")
    if output.shape == expected[name].shape and output.dtype.kind in "fiub":
        error = np.abs(output.astype(np.float64) - expected[name].astype(np.float64))
        print("largest difference:", error.max())
"""

_LABELS = {
    "levels": "Without optimizations, the outputs are others.",
    "reference": "What the ONNX reference implementation gives.",
    "runtimes": "What the other onnxruntime gave.",
}


def write_reproduction(
    model: ModelProto, feeds: Mapping[str, Any], failure: Failure, folder: Path
) -> Path:
    """Write the files of a failure into a folder; see `Reduction.write`."""
    arrays = [elsewhere.storable(name, value) for name, value in feeds.items()]
    names = list(dict.fromkeys(elsewhere.nodes_with_ops(model).values()))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        onnx.save(model, folder / "model.onnx")
        # Names of tensors may hold anything, so that files number them.
        np.savez(folder / "feeds.npz", *arrays)
        # Without optimizations, onnxruntime runs the model again.
        if failure.outputs and failure.kind != "levels":
            expected = [
                elsewhere.storable(name, value) for name, value in failure.outputs[1].items()
            ]
            np.savez(folder / "expected.npz", *expected)
        if names:
            save_module(folder / f"{_OPS}.py", *names, overwrite=True)
        (folder / "reproduce.py").write_text(_script(feeds, failure, names), encoding="utf-8")
        (folder / "report.md").write_text(_report(model, feeds, failure), encoding="utf-8")
    except OSError as error:
        raise InputError(
            "reduce, write", expected="a folder that can be written", got=sanitize(str(error))
        ) from None
    return folder


def _script(feeds: Mapping[str, Any], failure: Failure, ops: list[str]) -> str:
    # A docstring ends at three quotes.
    words = sanitize(failure.text, 300).replace("\\", "/").replace('"', "'")
    needs = "onnxruntime and numpy"
    imports = ""
    session = "onnxruntime.InferenceSession"
    if ops:
        needs, session = f"{needs}, and pyopnb for the ops of the model", "pyopnb.Session"
        imports = f"import {_OPS}\nimport pyopnb\n"
    script = _SCRIPT.format(
        failure=words, needs=needs, imports=imports, inputs=list(feeds), session=session
    )
    if failure.outputs:
        expected = f'load("expected.npz", {list(failure.outputs[1])})'
        if failure.kind == "levels":
            expected = "run(onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL)"
        script += _COMPARED.format(label=_LABELS[failure.kind], expected=expected)
    return script


def _report(model: ModelProto, feeds: Mapping[str, Any], failure: Failure) -> str:
    """Describe the failure to someone who has not seen the model."""
    versions = [f"onnxruntime {ort_capabilities.runtime_version()}"]
    versions += [f"{name} {version(name)}" for name in ("numpy", "onnx")]
    versions.append(f"Python {platform.python_version()} on {platform.platform()}")
    lines = [f"# {sanitize(failure.text, 300)}", "", "`python reproduce.py` shows it.", ""]
    lines += [f"- {line}" for line in versions]
    lines += ["", "The model, `model.onnx`:", "", "```", text(model).strip(), "```", ""]
    lines += ["Its feeds, `feeds.npz`:", "", "```", *_listed(feeds), "```"]
    for outputs, label in zip(failure.outputs, ("Its outputs", "Expected"), strict=False):
        lines += ["", f"{label}:", "", "```", *_listed(outputs), "```"]
    if failure.fails is not None:
        lines += ["", "What tells that it fails:", "", "```python", _source(failure.fails), "```"]
    return "\n".join(lines) + "\n"


def _listed(arrays: Mapping[str, Any]) -> list[str]:
    lines = []
    for name, value in arrays.items():
        array = np.asarray(value)
        values = sanitize(np.array2string(array, threshold=50), _LONGEST_ARRAY)
        lines.append(f"{sanitize(name, 80)}: {array.dtype}{list(array.shape)}")
        lines.append(values)
    return lines


def _source(function: Callable[..., Any]) -> str:
    try:
        return inspect.getsource(function).strip()
    except (OSError, TypeError):
        return f"# {sanitize(repr(function), 200)}, whose source is not known"
