"""From an edited op to the new picture of a watched cell, in a real kernel, as a front end sees it."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from jupyter_client.manager import start_new_kernel
from table import Row, milli

sys.path.append(str(Path(__file__).parents[1] / "shared"))
from small_ops import soft_clip_cell

TIMES = 30
BAR = 0.150  # seconds on top of the run
SETUP = """
%load_ext pyopnb
import numpy as np, pyopnb
"""
OP = soft_clip_cell("self.limit * np.tanh(x / self.limit) + np.float32({version})")
WATCH = """
session = pyopnb.Session(pyopnb.model([pyopnb.node("demo::SoftClip", "x", "y")], {"x": "float32[N,M]"}, "y"))
w = pyopnb.watch(session, x=np.random.default_rng(0).random((256, 256), np.float32))
w
"""


def seconds_to(client, code: str, kind: str) -> float:
    """Seconds from sending a cell to the message of that kind; the cell must succeed."""
    begin = time.perf_counter()
    request = client.execute(code)
    came = 0.0
    while True:
        message = client.get_iopub_msg(timeout=60)
        if message["parent_header"].get("msg_id") != request:
            continue
        if message["msg_type"] == "error":
            raise RuntimeError("\n".join(message["content"]["traceback"]))
        if message["msg_type"] == kind and not came:
            came = time.perf_counter() - begin
        if message["msg_type"] == "status" and message["content"]["execution_state"] == "idle":
            return came or time.perf_counter() - begin


def run_seconds(client) -> float:
    """What the watch says that its last run took."""
    reply = client.execute("", user_expressions={"seconds": "w.seconds"}, reply=True, timeout=60)
    return float(reply["content"]["user_expressions"]["seconds"]["data"]["text/plain"])


def rows() -> Iterator[Row]:
    manager, client = start_new_kernel()
    try:
        for code in (SETUP, OP.format(version=0), WATCH):
            seconds_to(client, code, "status")
        on_top = []
        for version in range(1, TIMES + 1):
            whole = seconds_to(client, OP.format(version=version), "update_display_data")
            on_top.append(whole - run_seconds(client))
        spent = statistics.median(on_top)
        yield Row(
            "edited op to the new picture, on top of the run, 256 × 256",
            milli(spent),
            f"bar {milli(BAR)}",
            spent / BAR,
            1,
        )
        bare = statistics.median(seconds_to(client, f"pass  # {n}", "status") for n in range(TIMES))
        yield Row("the same as an empty cell takes", milli(spent), milli(bare), spent / bare)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
