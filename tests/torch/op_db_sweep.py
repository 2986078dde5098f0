"""Every op of torch's own op database through `pyopnb.torch.export`, and its numbers in ONNX Runtime against torch's.

``python tests/torch/op_db_sweep.py`` tries them all, one after the other, and prints how many were exported, filled, refused by
which reason, and wrong. It keeps each verdict in ``build/op_db.jsonl``, and when started again goes on from there.

Each op has one sample of the database in float32 and one in int64, which the seed draws. Its tensors are the inputs of a
module. The model runs with them, and with the same sample of other values, as `export` itself has seen the first. A result
agrees if it is within `TOLERANCE` of the largest number of torch's, which is `export`'s own; whole numbers are the same.
"""

from __future__ import annotations

import argparse
import collections
import itertools
import json
import multiprocessing
import os
import random
import re
import resource
import sys
import warnings
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import numpy as np

TOLERANCE = 1e-3
KEPT = Path(__file__).parents[2] / "build" / "op_db.jsonl"
CPU_SECONDS = 120
DTYPES = ("float32", "int64")
VERDICTS = ("exported", "filled", "refused", "wrong")


# ---- one op ------------------------------------------------------------------------------------


def database():
    """Load torch's entries; their import warns of what torch itself has given up."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch.testing._internal.common_methods_invocations import op_db
    return op_db


def cases():
    """Yield the place in the database, name and dtype of every op and dtype that torch takes."""
    import torch

    for place, entry in enumerate(database()):
        taken = entry.supported_dtypes("cpu")
        name = ".".join(filter(None, (entry.name, entry.variant_test_name)))
        for dtype in DTYPES:
            if getattr(torch, dtype) in taken:
                yield place, name, dtype


def sample_of(entry, dtype, seed, place=None):
    """Draw one of the first twenty samples of an op, or take the one at a place; return its place as well."""
    import torch

    torch.manual_seed(seed)
    random.seed(seed)
    drawn = iter(entry.sample_inputs("cpu", getattr(torch, dtype), requires_grad=False))
    samples = list(itertools.islice(drawn, 20))
    if hasattr(drawn, "close"):
        # A generator of torch's calls torch as it ends, which must not be in the middle of an export.
        drawn.close()
    if place is None:
        filled = []
        for position, sample in enumerate(samples):
            if sample.input is None or all(tensor.numel() for tensor in tensors_of(sample)):
                filled.append(position)
        chooser = random.Random(f"{entry.name} {entry.variant_test_name} {dtype} {seed}")
        place = chooser.choice(filled or range(len(samples)))
    return samples[place], place


def flattened(sample):
    import torch

    return torch.utils._pytree.tree_flatten((sample.input, sample.args, sample.kwargs))


def tensors_of(sample):
    import torch

    return [leaf for leaf in flattened(sample)[0] if isinstance(leaf, torch.Tensor)]


def module_of(entry, sample):
    """Make a module that calls the op; the sample's tensors are its arguments, and of complex results it gives both parts."""
    import torch

    leaves, spec = flattened(sample)

    def real(value):
        is_complex = isinstance(value, torch.Tensor) and value.is_complex()
        return torch.view_as_real(value.resolve_conj()) if is_complex else value

    class Call(torch.nn.Module):
        def forward(self, *tensors):
            ahead = iter(tensors)
            values = [next(ahead) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
            x, args, kwargs = torch.utils._pytree.tree_unflatten(values, spec)
            return torch.utils._pytree.tree_map(real, entry.op(x, *args, **kwargs))

    return Call().eval()


def eager(module, tensors):
    """Return torch's results as arrays, or its error's text where it does not take the sample."""
    import torch

    from pyopnb.torch.verify import arrays_of

    try:
        with torch.no_grad():
            return arrays_of(module(*(tensor.clone() for tensor in tensors)))
    except Exception as error:
        return f"torch itself: {type(error).__name__}: {error}".partition("\n")[0]
    finally:
        torch.manual_seed(0)


def verdict(place, dtype, seed):
    """Judge one op, with the reason."""
    import pyopnb
    import pyopnb.torch
    from pyopnb.torch import StandIns

    entry = database()[place]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what torch warns of in its own samples
        sample, chosen = sample_of(entry, dtype, seed)
        module, tensors = module_of(entry, sample), tuple(tensors_of(sample))
        runs = [(tensors, eager(module, tensors))]
        other = again(entry, dtype, seed + 1, chosen, sample)
        if other is not None:
            runs.append((other, eager(module, other)))
    row = {"verdict": "refused", "sample": chosen}
    if isinstance(runs[0][1], str):
        return row | {"reason": runs[0][1]}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            model = pyopnb.torch.export(module, tensors)
        except pyopnb.PyopError as error:
            return row | {"reason": " ".join(str(error).split())[:600]}
    holes = []
    for report in caught:
        if isinstance(report.message, StandIns):
            holes.extend(report.message.holes)
    row |= {
        "verdict": "filled" if holes else "exported",
        "filled": sorted({f"{hole.op}: {hole.reason}" for hole in holes}),
        "runs": 0,
    }
    session = pyopnb.Session(model)
    for values, expected in runs:
        if isinstance(expected, str):
            continue
        text = differs(session, values, expected, like="empty" in entry.name)
        row["runs"] += 1
        if text:
            return row | {"verdict": "wrong", "reason": f"run {row['runs']}: {text}"}
    return row


def again(entry, dtype, seed, place, first):
    """Draw the same sample with other values; return None where the database gives another one, or no tensors."""
    import torch

    try:
        other, _ = sample_of(entry, dtype, seed, place)
    except IndexError:
        return None
    (leaves, spec), (others, other_spec) = flattened(first), flattened(other)
    if str(spec) != str(other_spec) or not tensors_of(first):
        return None
    for a, b in zip(leaves, others, strict=True):
        if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
            a, b = (a.shape, a.dtype), (b.shape, b.dtype)
        if repr(a) != repr(b):
            return None
    return tuple(tensors_of(other))


def differs(session, tensors, expected, like=False):
    """Say how the results differ; where torch gives memory as it was, only shapes and dtypes are compared."""
    from pyopnb.torch.arrays import to_array

    feeds = {}
    for entry, tensor in zip(session.get_inputs(), tensors, strict=True):
        feeds[entry.name] = to_array(tensor.clone())
    results = session.run(None, feeds)
    if len(results) != len(expected):
        return f"{len(results)} outputs, where torch has {len(expected)}"
    if like:
        results, expected = map(np.zeros_like, results), map(np.zeros_like, expected)
    return next(filter(None, map(difference, results, expected)), None)


def difference(result, expected):
    """Say how an array differs from torch's, without pyopnb's own comparison."""
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


# ---- all of them -------------------------------------------------------------------------------


def judged(place, name, dtype, seed):
    """Return the row of a case."""
    try:
        row = verdict(place, dtype, seed)
    except Exception as error:  # anything but a refusal with a reason is wrong
        text = " ".join(str(error).split())[:400]
        row = {"verdict": "wrong", "reason": f"{type(error).__name__}: {text}"}
    return {"op": name, "dtype": dtype, **row}


def judged_in_time(*case):
    """Return the row of a case, or end this process where it takes too long."""
    import torch

    torch.set_num_threads(1)
    used = resource.getrusage(resource.RUSAGE_SELF)
    seconds = int(used.ru_utime + used.ru_stime) + CPU_SECONDS
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, resource.RLIM_INFINITY))
    return judged(*case)


def ending(*case):
    """End a worker as a fault in native code would end it."""
    os._exit(7)


def sweep(chosen, seed, judge=judged_in_time):
    """Yield the rows of cases from a process that may end."""
    context = multiprocessing.get_context("spawn")
    worker = None
    for case in chosen:
        worker = worker or ProcessPoolExecutor(1, context)
        try:
            row = worker.submit(judge, *case, seed).result()
        except BrokenProcessPool:
            worker = None
            row = {"op": case[1], "dtype": case[2], "verdict": "wrong"}
            row["reason"] = "the process ended"
        yield row
    if worker is not None:
        worker.shutdown()


def some(count, seed):
    """Draw cases by the seed, or all in its order where count is None."""
    every = list(cases())
    return random.Random(seed).sample(every, len(every) if count is None else count)


def reason_of(row):
    """Take a refusal's reason without its place, numbers and names."""
    text = row["reason"].partition("expected ")[2] or row["reason"]
    return re.sub(r"\d+", "N", text)[:110]


def table(rows):
    """Write how many of each verdict, the reasons of refusals, and every case that is wrong."""
    counts = collections.Counter((row["dtype"], row["verdict"]) for row in rows)
    lines = [f"{'':8}{''.join(f'{verdict:>10}' for verdict in VERDICTS)}"]
    for dtype in DTYPES:
        lines.append(f"{dtype:8}{''.join(f'{counts[dtype, name]:10}' for name in VERDICTS)}")
    reasons = collections.Counter(reason_of(row) for row in rows if row["verdict"] == "refused")
    lines += [f"  {count} × {reason}" for reason, count in reasons.most_common()]
    for row in rows:
        if row["verdict"] == "wrong":
            lines.append(f"wrong: {row['op']} {row['dtype']}: {row['reason']}")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, help="how many, drawn by the seed")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    KEPT.parent.mkdir(exist_ok=True)
    KEPT.touch()
    rows = [json.loads(line) for line in KEPT.read_text().splitlines()]
    known = {(row["op"], row["dtype"]) for row in rows}
    chosen = [case for case in some(options.count, options.seed) if case[1:] not in known]
    with KEPT.open("a") as file:
        for row in sweep(chosen, options.seed):
            print(json.dumps(row), file=file, flush=True)
            rows.append(row)
    print(table(rows))
    return any(row["verdict"] == "wrong" for row in rows)


if __name__ == "__main__":
    sys.exit(main())
