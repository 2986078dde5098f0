"""What ``import pyopnb`` costs, in processes of their own, against the packages that it stands on."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

from table import Row, beside

TIMES = 25
CLOCK = "from time import perf_counter as now; begin = now(); import {}; print(now() - begin)"


# Bytecode must be kept, as pip keeps it: else pyopnb alone would be compiled anew in each process.
ENVIRONMENT = {
    name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"
}


def seconds(packages: str) -> float:
    command = [sys.executable, "-c", CLOCK.format(packages)]
    return float(
        subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, check=True).stdout
    )


def rows() -> Iterator[Row]:
    names = ("pyopnb", "onnx, onnxruntime, numpy")
    for name in names:  # the first process compiles and reads the files
        seconds(name)
    pairs = [tuple(map(seconds, names)) for _ in range(TIMES)]
    mine, peers = (min(column) for column in zip(*pairs, strict=True))
    yield beside("import pyopnb", mine, peers, f"import {names[1]}", 1.15)
