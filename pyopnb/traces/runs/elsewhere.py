"""Run a model in another Python, with files for the model, the feeds and the tensors."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, TypeProto

from pyopnb.common import messages, sanitize
from pyopnb.engine import (
    ModelSource,
    external_files,
    model_files,
    model_functions,
    node_plans,
    op_names,
    opset_versions,
    protos,
    registry,
    to_model,
)
from pyopnb.errors import InputError, ModelError
from pyopnb.models import Types, save_module
from pyopnb.traces.exposure import exposure_of
from pyopnb.traces.initializers import Initializers
from pyopnb.traces.recorded_run import Trace
from pyopnb.traces.run import TraceOptions, select_tensors
from pyopnb.traces.runs.environments import is_made, python_for
from pyopnb.traces.runs.optimized_run import runtime_name
from pyopnb.traces.runs.reference_run import check_feeds
from pyopnb.traces.select import expose
from pyopnb.traces.shadow_session import check_temporary_room

__all__ = [
    "OtherProcess",
    "OtherPython",
    "Outcome",
    "nodes_with_ops",
    "other_python",
    "storable",
    "trace_elsewhere",
]

_SCRIPT = Path(__file__).with_name("plain_run.py")
# The versions that ONNX Runtime takes, in its errors.
_NEWEST_IR = re.compile(r"max supported IR version: (\d+)")
_NEWEST_OPSET = re.compile(r"support for domain (\S+) is till opset (\d+)")
_ERRORS = "errors.txt"
# On Windows, a crash has an exit code from here on.
_FIRST_NTSTATUS = 0xC0000000
_OPS = "ops_of_the_model"


@dataclass(frozen=True)
class OtherPython:
    """A Python with another onnxruntime.

    Attributes
    ----------
    on : str
        How the user named it.
    """

    path: Path
    on: str

    def run_each(
        self, model: ModelProto, feeds: Sequence[Mapping[str, Any]], level: str
    ) -> list[dict[str, Any]]:
        """Run a model there on several feeds, in one session.

        ``level`` is the level of the ONNX Runtime optimizations: ``"all"``, ``"no"``, ``"basic"`` …
        """
        names = [info.name for info in model.graph.output]
        level = "ORT_DISABLE_ALL" if level == "no" else f"ORT_ENABLE_{level.upper()}"
        with OtherProcess(self) as process:
            return process.run(model, feeds, [(names, level)]).outputs[0]


@dataclass(frozen=True)
class Outcome:
    """The result of running a model on its feeds in another process.

    Attributes
    ----------
    outputs : list of list of dict
        The arrays by name, for each session and each of its runs; empty if one failed.
    stage : str
        Where it failed: ``"session"``, ``"run"``, or ``"process"`` if the process ended; empty if
        nothing failed.
    error : str
        The error of ONNX Runtime, or how the process ended.
    report : dict
        Facts that the process reported: ``"version"``, ``"providers"``, ``"processor"``.
    """

    outputs: list[list[dict[str, Any]]]
    stage: str
    error: str
    report: dict[str, Any]


class OtherProcess:
    """A process of another Python that runs one model after the other.

    It is started again after a model that ended it.
    """

    def __init__(self, python: OtherPython) -> None:
        self.python = python
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> OtherProcess:
        self._home = tempfile.TemporaryDirectory(prefix="pyopnb-", ignore_cleanup_errors=True)
        self._folder = Path(self._home.name)
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.kill()
            with suppress(OSError):
                self._process.communicate()
            self._process = None
        self._home.cleanup()

    def run(
        self,
        model: ModelProto,
        feeds: Sequence[Mapping[str, Any]],
        sessions: Sequence[tuple[Sequence[str], str]],
    ) -> Outcome:
        """Run a model as `attempt` does, up to its end.

        Raises
        ------
        InputError
            There is no onnxruntime there, or a feed has a dtype that NumPy lacks.
        ModelError
            The model cannot run there: it is newer, or has ops, and there is no pyopnb.
        """
        outcome = self.attempt(model, feeds, sessions)
        if outcome.stage:
            raise self._refused(model, outcome.stage, outcome.error)
        return outcome

    def attempt(
        self,
        model: ModelProto,
        feeds: Sequence[Mapping[str, Any]],
        sessions: Sequence[tuple[Sequence[str], str]],
    ) -> Outcome:
        """Run a model in some sessions, up to the first that fails.

        Parameters
        ----------
        feeds : sequence of mapping
            The runs of each session.
        sessions : sequence of (sequence of str, str)
            For each, its output tensors and its level of optimization.

        Raises
        ------
        InputError, ModelError
            As `run` does, where no model with these ops can run there.
        """
        check_temporary_room("trace, on")
        # An interrupt while the job's folder is removed leaves it in this one, which is also
        # removed.
        with tempfile.TemporaryDirectory(dir=self._folder, ignore_cleanup_errors=True) as folder:
            job = _Job(Path(folder), model, feeds, sessions)
            report = job.report(self._call)
            # Most models say newer versions than they need, as tools write their own newest
            # ones. The runtime complains of one after the other: the IR version, ONNX's
            # opset, the opset of ai.onnx.ml.
            for _ in range(3):
                if job.lower(report.get("error", "")):
                    report = job.report(self._call)
            stage = report.get("failed", "")
            error = report.get("error", "")
            if stage in ("import", "ops"):
                raise self._refused(model, stage, error)
            return Outcome([] if stage else job.outputs(), stage, error, report)

    def _call(self, folder: Path) -> str:
        """Let the process do the job of a folder; return its last words if that ended it."""
        process = self._process
        if process is None:
            process = self._process = self._start()
        assert process.stdin is not None  # noqa: S101  # it was started with pipes
        assert process.stdout is not None  # noqa: S101  # likewise
        # A process that ended already is no error here: its last words are read below. For its
        # pipe, Windows says EINVAL.
        with suppress(OSError):
            print(folder, file=process.stdin, flush=True)
        # Kernels may also print.
        for line in process.stdout:
            if line == "done\n":
                return ""
        self._process = None
        with suppress(OSError):
            process.communicate()
        process.wait()
        words = (self._folder / _ERRORS).read_text(encoding="utf-8", errors="replace")
        return _last_words(words, process.returncode)

    def _start(self) -> subprocess.Popen[str]:
        """Start a process that reads folders from stdin and does the jobs in them."""
        # In this folder, Python would import modules of this room instead of its own.
        script = shutil.copy(_SCRIPT, self._folder)
        environment = dict(os.environ)
        if self.python.path != Path(sys.executable):
            # Packages of this process must not be found by that one.
            for name in os.environ:
                if name.startswith("PYTHON"):
                    del environment[name]
        with (self._folder / _ERRORS).open("wb") as errors:
            try:
                return subprocess.Popen(  # noqa: S603  # the Python that the user named
                    [str(self.python.path), script],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    # A file, as a pipe would not be read during runs.
                    stderr=errors,
                    encoding="utf-8",
                    errors="replace",
                    env=environment,
                )
            except OSError as error:
                # On Windows every file may be executed, and elsewhere one of another processor.
                got = f"{self.python.on}, which does not start: {messages.one_line(str(error))}"
                expected = "the path of a Python"
                advice = "on=sys.executable"
                raise InputError("trace, on", expected=expected, got=got, next=advice) from None

    def _refused(self, model: ModelProto, stage: str, error: str) -> Exception:
        """Make the error of a run that failed there."""
        where = f"trace on {sanitize(self.python.on)}"
        got = messages.one_line(sanitize(error, 600))
        install = f"{self.python.path} -m pip install"
        # Each has an advice, where there is one.
        if stage == "import":
            expected = "a Python with onnxruntime and NumPy"
            advice = sanitize(f"{install} onnxruntime")
            return InputError(where, expected=expected, got=got, next=advice)
        if stage == "ops":
            nodes = nodes_with_ops(model)
            return _without_pyopnb(where, nodes, got, f"{install} pyopnb, or pyopnb.lower")
        if stage == "session":
            expected = "a model that this runtime takes"
            advice = "a newer onnxruntime, or onnx.version_converter"
            opset = _NEWEST_OPSET.search(error)
            if opset is not None:
                newest = int(opset[2])
                changed = _changed_operators(model, op_names.canonical_domain(opset[1]), newest)
                got = f"{sanitize(', '.join(changed), 200)} of a newer opset than its {newest}"
            return ModelError(where, expected=expected, got=got, next=advice)
        return ModelError(where, expected="a run that finishes", got=got)


class _Job:
    """A folder with models, feeds and a job for another process, and later with its results."""

    def __init__(
        self,
        folder: Path,
        model: ModelProto,
        feeds: Sequence[Mapping[str, Any]],
        sessions: Sequence[tuple[Sequence[str], str]],
    ) -> None:
        self.folder = folder
        # Names of tensors may hold any character, so files have numbers.
        for number, arrays in enumerate(feeds):
            members = {str(n): storable(*feed) for n, feed in enumerate(arrays.items())}
            np.savez(folder / f"feeds-{number}.npz", **members)  # type: ignore[arg-type]  # all keys are digits
        # Weights beyond a kilobyte go into a file that all models share. Saving takes
        # them out of the copy.
        copy = ModelProto()
        copy.CopyFrom(model)
        onnx.save_model(
            copy,
            folder / "model.onnx",
            save_as_external_data=True,
            location="weights",
            convert_attribute=False,
        )
        self.models: dict[str, ModelProto] = {}
        entries = []
        for number, (names, level) in enumerate(sessions):
            file = f"{number}.onnx"
            proto = self.models[file] = ModelProto()
            proto.CopyFrom(copy)
            expose(proto, names)
            entries.append({"file": file, "outputs": list(names), "level": level})
        # Only the ops of this model go there, as a module that defines them.
        ops = set(nodes_with_ops(model).values())
        if ops:
            save_module(folder / f"{_OPS}.py", *ops)
        self.job: dict[str, Any] = {
            "models": entries,
            "inputs": [name for arrays in feeds[:1] for name in arrays],
            "runs": len(feeds),
            "ops": _OPS if ops else "",
        }

    def outputs(self) -> list[list[dict[str, Any]]]:
        """Read the outputs of the sessions for the feeds."""
        sessions = []
        for session, model in enumerate(self.job["models"]):
            runs = range(self.job["runs"])
            sessions.append([self._read(session, run, model["outputs"]) for run in runs])
        return sessions

    def _read(self, session: int, run: int, names: Sequence[str]) -> dict[str, Any]:
        arrays = {}
        with np.load(self.folder / f"{session}-{run}.npz") as members:
            for name, key in zip(names, members, strict=True):
                array = members[key]
                arrays[name] = array.astype(object) if array.dtype.kind == "U" else array
        return arrays

    def lower(self, complaint: str) -> bool:
        """Lower a version that a runtime complains of, if the models mean the same in an older one.

        The answer tells whether it was lowered.
        """
        ir = _NEWEST_IR.search(complaint)
        opset = _NEWEST_OPSET.search(complaint)
        for proto in self.models.values():
            if ir is not None:
                proto.ir_version = int(ir[1])
            elif opset is None or not _lower_opset(
                proto, op_names.canonical_domain(opset[1]), int(opset[2])
            ):
                return False
        return True

    def report(self, call: Callable[[Path], str]) -> dict[str, Any]:
        """Let a process do the job, and read its report."""
        for file, proto in self.models.items():
            (self.folder / file).write_bytes(proto.SerializeToString())
        (self.folder / "job.json").write_text(json.dumps(self.job), encoding="utf-8")
        words = call(self.folder)
        path = self.folder / "report.json"
        if path.exists():
            report: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            path.unlink()
            return report
        # It ended before it could report: a crash of the runtime, or no NumPy.
        stage = "import" if "ModuleNotFoundError" in words else "process"
        return {"failed": stage, "error": words}


def _last_words(errors: str, code: int) -> str:
    """Say how a process ended: by a signal, or with an exception or a message."""
    if code >= _FIRST_NTSTATUS:
        return f"the process ended by the exception 0x{code:08X} of Windows"
    if code < 0:
        return f"the process ended by {signal.Signals(-code).name}"
    lines = errors.strip().splitlines()
    return lines[-1] if lines else f"the process ended with exit code {code}"


def storable(name: str, value: Any) -> np.ndarray:
    """Give a feed the form of a file that needs no pickle."""
    if isinstance(value, list):
        expected = "an array, because the feeds go into a file"
        raise InputError(f"feed {name}", expected=expected, got="a sequence")
    array = np.asarray(value)
    if array.dtype.kind == "O":
        texts = array.astype(str)
        # NumPy texts lose NULs at their ends.
        if not np.array_equal(texts, array):
            raise InputError(
                f"feed {name}",
                expected="texts that do not end in NUL, which a file loses",
                got="one that does",
            )
        array = texts
    if array.dtype.isbuiltin != 1 and array.dtype.kind != "U":
        expected = "a dtype of NumPy itself, because another Python reads it"
        raise InputError(f"feed {name}", expected=expected, got=str(array.dtype))
    return array


def nodes_with_ops(model: ModelProto) -> dict[str, str]:
    """Name the nodes that run through ops of the registry, and their ops."""
    nodes = {}
    for site in protos.walk(model):
        op = registry.find(site.node.domain, site.node.op_type)
        if op is not None:
            nodes[site.node.name or site.node.output[0]] = op.name
    return nodes


def other_python(on: str | os.PathLike[str], model: ModelProto) -> OtherPython:
    """Return the Python that ``on`` names, and make its environment if there is none yet.

    Raises
    ------
    ModelError
        The environment is yet to be made, and would have no pyopnb for the ops of the model.
    """
    if not is_made(on):
        # Making it would take a minute for nothing.
        nodes = nodes_with_ops(model)
        if nodes:
            got = "an environment that has onnxruntime and NumPy alone"
            advice = 'pyopnb.lower, or on="/path/to/python" that has both'
            raise _without_pyopnb(f"trace on {os.fspath(on)}", nodes, got, advice)
    return OtherPython(python_for(on), os.fspath(on))


def _without_pyopnb(where: str, nodes: Mapping[str, str], got: str, advice: str) -> ModelError:
    listed = ", ".join(f"{node} ({op})" for node, op in nodes.items())
    expected = f"pyopnb there, for the nodes {listed}"
    return ModelError(where, expected=expected, got=got, next=advice)


def _changed_operators(proto: ModelProto, domain: str, newest: int) -> list[str]:
    """List operators of a domain that came or changed after the newest version of a runtime."""
    versions = [
        x.version for x in proto.opset_import if op_names.canonical_domain(x.domain) == domain
    ]
    used = {
        s.node.op_type
        for s in protos.walk(proto)
        if op_names.canonical_domain(s.node.domain) == domain
    }
    changed = []
    for op_type in sorted(used):
        if any(opset_versions.changed_in(domain, op_type, version, newest) for version in versions):
            changed.append(op_type)
    return changed


def _lower_opset(proto: ModelProto, domain: str, newest: int) -> bool:
    """Lower the version of a domain to the newest that a runtime takes.

    If a node means something else in that version, nothing is lowered and the answer is False.
    """
    if _changed_operators(proto, domain, newest):
        return False
    for entry in proto.opset_import:
        if op_names.canonical_domain(entry.domain) == domain:
            entry.version = min(entry.version, newest)
    return True


def trace_elsewhere(
    source: ModelSource,
    named_feeds: Mapping[str, Any],
    options: TraceOptions,
    on: str | os.PathLike[str],
) -> Trace:
    """Run a model in another Python with its tensors exposed.

    If the options ask for the check, an unexposed run gives the outputs to compare with.
    """
    source.proto = model_functions.inline_ops(
        source.proto, node_plans.is_op(source.proto, frozenset())
    )
    model = model_files.without_weights(source.proto).proto
    feeds = check_feeds(model, named_feeds)
    outputs = [info.name for info in model.graph.output]
    selected = [tensor.name for tensor in select_tensors(model, options)]
    names = list(dict.fromkeys([*_readable(model, selected), *outputs]))
    complete = to_model(source)
    external_files.take_in_all(complete, source.folder)
    python = other_python(on, complete)
    level = "ORT_ENABLE_ALL" if options.optimized else "ORT_DISABLE_ALL"
    sessions = [(names, level)]
    if options.check and options.optimized:
        sessions.append((outputs, level))
    with OtherProcess(python) as process:
        outcome = process.run(complete, [feeds], sessions)
    (arrays,), *unexposed = outcome.outputs
    exposure = None
    for (plain_outputs,) in unexposed:
        exposure = exposure_of(plain_outputs, arrays)
    # A comma ends the name of the runtime.
    processor = sanitize(outcome.report["processor"].replace(",", ""), 60)
    amount = "all" if options.optimized else "no"
    name = runtime_name(outcome.report["version"], outcome.report["providers"])
    trace = Trace(
        model,
        feeds=feeds,
        values=arrays,
        initializers=Initializers(lambda: (complete.graph.initializer, None)),
        versions={op: registry[op].current for op in nodes_with_ops(complete).values()},
        runtime=f"{name} on {processor}, {amount} optimizations",
        exposure=exposure,
        other_python=python,
    )
    # The outputs are kept at every level.
    if options.level == "summaries":
        trace.values = {name: arrays[name] for name in outputs}
    return trace


def _readable(model: ModelProto, names: Sequence[str]) -> list[str]:
    """Select the tensors that can come back as NumPy arrays.

    Sequences and dtypes that NumPy lacks cannot.
    """
    types = Types(model)
    readable = []
    for name in names:
        declared = types.find(model.graph, name)
        if declared is None or _is_storable(declared):
            readable.append(name)
    return readable


def _is_storable(declared: TypeProto) -> bool:
    if not declared.HasField("tensor_type"):
        return False
    dtype = protos.type_of_proto(declared).dtype
    return dtype is None or dtype.name == "string" or dtype.numpy.isbuiltin == 1
