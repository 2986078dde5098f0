"""Scripts in processes of their own: a case that ends its process must not end the tests."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path

import pytest
from limits import LIMIT
from systems import kill_group

import pyopnb

_SITE = Path(pyopnb.__file__).parents[1]
_SHARED = Path(__file__).parents[1] / "shared"

# What scripts begin with: a chain of ops over x: float32[N] as a model, and a session that
# belongs to onnxruntime only.
_PRELUDE = """
import faulthandler, gc, os, signal, sys, threading, time, weakref
signal.signal(signal.SIGINT, signal.default_int_handler)  # a suite that was started in the background ignores it
import numpy as np, onnxruntime, pyopnb
from limits import LIMIT
from pyopnb.engine.runtime import _bridge
from small_ops import chain

def bare(model):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1  # a session with threads of its own cannot be destroyed after a fork, says ONNX Runtime's pool
    options.register_custom_ops_library(pyopnb.get_library_path())
    return onnxruntime.InferenceSession(model.SerializeToString(), options, enable_fallback=0)

def interrupt_main():
    # As Ctrl-C would, which comes on a thread of its own on Windows.
    if os.name == "nt":
        signal.raise_signal(signal.SIGINT)
    else:
        os.kill(os.getpid(), signal.SIGINT)

def op(name, compute):
    return pyopnb.registry.define(type("Op", (), {"compute": compute}), name)

X = np.float32([1, -2, 3])
"""
_CALM = """
from calm import calm
onnxruntime.InferenceSession.__init__ = calm(onnxruntime.InferenceSession.__init__)
"""


def _of_scripts():
    """What the environment sets for scripts alone: how a sanitizer, which is slow, looks at them and not at pytest."""
    options = os.environ.get("PYOPNB_SCRIPTS_ASAN_OPTIONS")
    return {"ASAN_OPTIONS": options, "PYTHONMALLOC": "malloc"} if options else {}


# Runs texts one after another, each with names, a stdout and a registry of its own; what went wrong
# in one ends that one alone.
_TOGETHER = """
import contextlib, io, json, traceback

def alone(text):
    out, err = io.StringIO(), ""
    with contextlib.redirect_stdout(out):
        try:
            exec(compile(text, "part", "exec"), dict(globals()))
        except BaseException:
            err = traceback.format_exc()
    gc.enable()
    gc.collect()
    pyopnb.registry.clear()
    return out.getvalue(), err

print(json.dumps([alone(text) for text in json.loads(PARTS)]))
"""


@dataclass
class Outcome:
    code: int
    out: str
    err: str

    def clean(self, out: str) -> None:
        """The process ended as a process should, saying this and nothing else."""
        assert (self.code, self.out, self.err) == (0, out, "")


@pytest.fixture(scope="session")
def fresh(tmp_path_factory):
    """Runs a text as a script in a fresh process, with warnings as errors; idle threads of its sessions sleep, if not asked to spin."""

    def run(text, *, prelude=True, spinning=False):
        script = tmp_path_factory.mktemp("fresh") / "script.py"
        begin = (_PRELUDE if prelude else "") + (_CALM if prelude and not spinning else "")
        script.write_text(begin + textwrap.dedent(text), encoding="utf-8")
        paths = [str(_SITE), str(_SHARED), *filter(None, [os.environ.get("PYTHONPATH")])]
        out, err = script.with_suffix(".out"), script.with_suffix(".err")
        # Files and a process group: a child that hangs would keep a pipe open, and must
        # not outlive the test.
        with out.open("w", encoding="utf-8") as to, err.open("w", encoding="utf-8") as errors:
            process = subprocess.Popen(
                [sys.executable, "-P", "-W", "error", str(script)],
                env={
                    **os.environ,
                    **_of_scripts(),
                    "PYTHONPATH": os.pathsep.join(paths),
                    "PYTHONIOENCODING": "utf-8",
                },
                stdin=subprocess.DEVNULL,
                stdout=to,
                stderr=errors,
                start_new_session=True,
            )
            try:
                code = process.wait(LIMIT)
            finally:
                kill_group(process)
        return Outcome(code, out.read_text(encoding="utf-8"), err.read_text(encoding="utf-8"))

    return run


@pytest.fixture(scope="session")
def together(fresh):
    """Runs texts that end no process in one, as each process takes most of a second to begin, and several under a sanitizer."""

    def run(parts):
        texts = json.dumps([textwrap.dedent(part) for part in parts.values()])
        done = fresh(f"PARTS = {texts!r}\n{_TOGETHER}")
        if done.code or done.err:  # then it is unknown which part it was
            return dict.fromkeys(parts, done)
        return {
            name: Outcome(done.code, *got)
            for name, got in zip(parts, json.loads(done.out), strict=True)
        }

    return run
