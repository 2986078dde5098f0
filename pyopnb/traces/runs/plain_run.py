"""Run models in another Python, which needs NumPy and a build of onnxruntime.

pyopnb copies this file there. Each line of stdin names a folder with a job in ``job.json``. The
report goes into ``report.json``, and the results into an ``.npz`` file for each run. Nothing of
pyopnb is imported unless the model has ops of its registry.
"""

from __future__ import annotations

import importlib
import json
import platform
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np


class _Failed(Exception):
    """Say at which stage the job failed, and why."""

    def __init__(self, stage: str, error: Exception) -> None:
        super().__init__(stage)
        self.report = {"failed": stage, "error": f"{type(error).__name__}: {error}"}


def _main(folder: Path) -> None:
    """Do the job of a folder, and report on it."""
    job = json.loads((folder / "job.json").read_text(encoding="utf-8"))
    try:
        report = _run(folder, job)
    except _Failed as failure:
        report = failure.report
    (folder / "report.json").write_text(json.dumps(report), encoding="utf-8")


def _run(folder: Path, job: dict[str, Any]) -> dict[str, Any]:
    try:
        import onnxruntime
    except ImportError as error:
        raise _Failed("import", error) from error
    for position, model in enumerate(job["models"]):
        session = _session(onnxruntime, folder, job, model)
        for number in range(job["runs"]):
            feeds = _load(folder / f"feeds-{number}.npz", job["inputs"])
            try:
                arrays = session.run(model["outputs"], feeds)
            except Exception as error:
                raise _Failed("run", error) from error
            _save(folder / f"{position}-{number}.npz", arrays)
    return {
        "version": onnxruntime.__version__,
        "providers": session.get_providers(),
        "processor": _processor(),
    }


def _session(onnxruntime: Any, folder: Path, job: dict[str, Any], model: dict[str, Any]) -> Any:
    path = folder / model["file"]
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    level = getattr(onnxruntime.GraphOptimizationLevel, model["level"])
    options.graph_optimization_level = level
    # Azure's provider is in most builds, and runs nothing on this machine.
    available = onnxruntime.get_available_providers()
    providers = [name for name in available if name != "AzureExecutionProvider"]
    make_session = onnxruntime.InferenceSession
    if job["ops"]:
        try:
            # By its name: this file is also a part of the package, whose rooms
            # must not import the top.
            session_class = importlib.import_module("pyopnb").Session
            # It is in the folder of the first job, and defines the ops of all.
            sys.path.insert(0, str(folder))
            importlib.import_module(job["ops"])
        except Exception as error:
            raise _Failed("ops", error) from error
        make_session = session_class
    try:
        return make_session(str(path), options, providers=providers)
    except Exception as error:
        raise _Failed("session", error) from error


def _load(path: Path, names: list[str]) -> dict[str, np.ndarray]:
    feeds = {}
    with np.load(path) as arrays:
        for number, name in enumerate(names):
            array = arrays[str(number)]
            # ONNX Runtime takes strings as objects, and no file should hold these.
            if array.dtype.kind == "U":
                array = array.astype(object)
            feeds[name] = array
    return feeds


def _save(path: Path, arrays: list[np.ndarray]) -> None:
    members = {}
    for number, array in enumerate(arrays):
        if array.dtype.kind == "O":
            texts = array.astype(str)
            if not np.array_equal(texts, array):
                error = ValueError("a result has texts that end in NUL, which no file keeps")
                raise _Failed("run", error)
            array = texts
        members[str(number)] = array
    np.savez(path, **members)  # type: ignore[arg-type]  # all keys are digits


def _processor() -> str:
    """Name the processor, as kernels are chosen by it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        lines = ""
    model = re.search(r"^model name\s*:\s*(.+)$", lines, re.MULTILINE)
    if model is not None:
        return model[1]
    return platform.processor() or platform.machine()


if __name__ == "__main__":
    for line in sys.stdin:
        _main(Path(line.rstrip("\n")))
        # The process that waits for the job reads this line.
        print("done", flush=True)
