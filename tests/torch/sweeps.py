"""The common parts of the sweeps over the torch databases: a worker that may end, the rows that are kept, and the comparison."""

from __future__ import annotations

import argparse
import functools
import json
import multiprocessing
import os
import random
import re
import resource
import warnings
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import numpy as np

TOLERANCE = 1e-3
CPU_SECONDS = 120
BUILD = Path(__file__).parents[2] / "build"

# Every export leaves its ops in torch, and a worker of many cases gets slow.
CASES_PER_WORKER = 150


# ---- numbers -----------------------------------------------------------------------------------


def difference(result, expected):
    """Say how an array differs from torch, without the comparison of pyopnb."""
    if result.dtype != expected.dtype or result.shape != expected.shape:
        theirs = f"{expected.dtype}{list(expected.shape)}"
        return f"{result.dtype}{list(result.shape)}, where torch has {theirs}"
    if expected.dtype.kind in "biu":
        count = int((result != expected).sum())
        return f"{count} of {expected.size} differ" if count else None
    result, expected = result.astype(np.float64), expected.astype(np.float64)
    largest = np.abs(expected[np.isfinite(expected)]).max(initial=0)
    close = np.isclose(result, expected, rtol=0, atol=TOLERANCE * largest, equal_nan=True)
    if close.all():
        return None
    worst = np.unravel_index(np.argmin(close), close.shape)
    numbers = f"{result[worst]!r}, where torch has {expected[worst]!r}"
    return f"{int((~close).sum())} of {close.size} differ: {numbers}"


# ---- cases -------------------------------------------------------------------------------------


def one_of_each_first(cases, key, seed):
    """Shuffle cases by the seed, one of each op or module before all others."""
    shuffled = random.Random(seed).sample(cases, len(cases))
    firsts, others, seen = [], [], set()
    for case in shuffled:
        (others if key(case) in seen else firsts).append(case)
        seen.add(key(case))
    return firsts + others


def read_translations_once(patch):
    """Read onnxscript's functions once, and not in each export, of which that is two thirds (torch 2.13)."""
    from torch.onnx._internal.exporter._registration import ONNXRegistry

    read = functools.cache(ONNXRegistry.from_torchlib)

    def copied(**options):
        # The exporter enters the ops of one export in its table.
        table = ONNXRegistry()
        table._opset_version = read(**options).opset_version
        table.functions = {name: list(rows) for name, rows in read(**options).functions.items()}
        return table

    patch(ONNXRegistry, "from_torchlib", staticmethod(copied))


def prepare():
    """Make a worker ready for its first case."""
    import torch

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    read_translations_once(setattr)


def within_time(judge, *case):
    """Return the row of a case, or end this process where it takes too long."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    seconds = int(used.ru_utime + used.ru_stime) + CPU_SECONDS
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, resource.RLIM_INFINITY))
    return judge(*case)


def ending(*case):
    """End a worker as a fault in native code would end it."""
    os._exit(7)


def sweep(cases, judge):
    """Yield the row of each case from a process that may end."""
    context = multiprocessing.get_context("spawn")
    worker, count = None, 0
    for case in cases:
        if worker is not None and count == CASES_PER_WORKER:
            worker.shutdown()
            worker = None
        if worker is None:
            worker, count = ProcessPoolExecutor(1, context, initializer=prepare), 0
        count += 1
        try:
            row = worker.submit(within_time, judge, *case).result()
        except BrokenProcessPool:
            worker = None
            row = {"verdict": "wrong", "reason": "the process ended"}
        yield row
    if worker is not None:
        worker.shutdown()


# ---- what is kept and printed ------------------------------------------------------------------


def run(description, name, cases, judge, table):
    """Judge the cases that have no row in build/NAME.jsonl yet, and print the table of all; return whether one is wrong.

    ``cases`` takes a seed, and gives each case after the text that tells it apart.
    """
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, help="how many of them")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    kept = BUILD / f"{name}.jsonl"
    kept.parent.mkdir(exist_ok=True)
    kept.touch()
    rows = [json.loads(line) for line in kept.read_text().splitlines()]
    known = {row["case"] for row in rows}
    chosen = list(cases(options.seed).items())[: options.count]
    chosen = [(label, case) for label, case in chosen if label not in known]
    judged = sweep([case for _, case in chosen], judge)
    with kept.open("a") as file:
        for (label, _), row in zip(chosen, judged, strict=True):
            rows.append({"case": label, **row})
            print(json.dumps(rows[-1]), file=file, flush=True)
    print(table(rows))
    return any(row["verdict"] == "wrong" for row in rows)


def reason_of(row):
    """Take a refusal's reason without its place, numbers and names."""
    text = row["reason"].partition("expected ")[2] or row["reason"]
    return re.sub(r"\d+", "N", text)[:110]
