"""A model of a gigabyte in external data: seconds and memory beside plain sessions and runs."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from table import Row

sys.path.append(str(Path(__file__).parents[1] / "networks"))
from decoder import decoder

_LAYERS, _WIDTH = 8, 1664
_PLAIN, _TRACE = "two sessions of plain onnxruntime and their runs", "trace"
_SUMMARIES, _SEARCH = 'trace, level="summaries"', "first_divergence"
_DIFF, _READ = "diff of the two models", "reading both files"
# What is measured, beside what, and the bars for seconds and for memory.
_BARS = {
    _TRACE: (_PLAIN, 1.5, 1.3),
    _SUMMARIES: (_PLAIN, 1.5, 1.3),
    _SEARCH: (_PLAIN, 2.5, 1.3),
    _DIFF: (_READ, 2, 0.3),
}

# Only anonymous memory is counted: pages of mapped files can be dropped at any time.
_PROGRAM = """
import sys, threading, time
from pathlib import Path
import numpy as np, onnxruntime, pyopnb

what, *paths = sys.argv[1:]
x = np.arange(16, dtype=np.int64).reshape(1, 16)

def plain():
    for path in paths:
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        session.run(None, {"ids": x})
        del session

def read():
    for path in paths:
        with open(Path(path).with_suffix(".data"), "rb") as file:
            while file.read(1 << 24):
                pass

def anonymous():
    status = Path("/proc/self/status").read_text()
    return int(status.partition("RssAnon:")[2].split()[0]) / 2**10

calls = {
    "trace": lambda: pyopnb.trace(paths[0], ids=x),
    'trace, level="summaries"': lambda: pyopnb.trace(paths[0], ids=x, level="summaries"),
    "first_divergence": lambda: pyopnb.first_divergence(*paths, {"ids": x}),
    "diff of the two models": lambda: pyopnb.diff(*paths),
    "two sessions of plain onnxruntime and their runs": plain,
    "reading both files": read,
}
small = pyopnb.parse("(float[N] x) => (float[N] y) { y = Abs(x) }")
pyopnb.first_divergence(small, small, {"x": np.float32([1])})
before, most, over = anonymous(), [0.0], threading.Event()

def watch():
    while not over.wait(0.005):
        most[0] = max(most[0], anonymous() - before)

thread = threading.Thread(target=watch)
thread.start()
begin = time.perf_counter()
found = calls[what]()
took = time.perf_counter() - begin
over.set()
thread.join()
if what == "first_divergence":
    assert found.origin.outputs[0].b == "l5.bent" and found.runs == 2
print(took, most[0])
"""


def rows() -> Iterator[Row]:
    if sys.platform != "linux":
        return
    with TemporaryDirectory() as folder:
        paths = [str(Path(folder, f"{name}.onnx")) for name in "ab"]
        size = decoder(Path(paths[0]), layers=_LAYERS, width=_WIDTH)
        decoder(Path(paths[1]), layers=_LAYERS, width=_WIDTH, other=5)
        measured: dict[str, tuple[float, float]] = {}
        # The first round brings the files into memory.
        for what in (_PLAIN, _PLAIN, _READ, *_BARS):
            measured[what] = _measure(what, paths)
    memory = measured[_PLAIN][1]
    for what, (peer, seconds, share) in _BARS.items():
        took, most = measured[what]
        beside = measured[peer][0]
        name = f"{what}, {size / 1e9:.2f} GB of weights"
        yield Row(name, f"{took:.2f} s", f"{beside:.2f} s {peer}", took / beside, seconds)
        yield Row(
            "… its memory", f"{most:.0f} MiB", f"{memory:.0f} a session", most / memory, share
        )


def _measure(what: str, paths: list[str]) -> tuple[float, float]:
    """Return the seconds and the most anonymous memory in MiB, in a process of its own."""
    command = [sys.executable, "-c", _PROGRAM, what, *paths]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    took, most = map(float, printed.split())
    return took, most
