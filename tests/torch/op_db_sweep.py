"""Every op of torch's own op database through `pyopnb.torch.export`, and its numbers in ONNX Runtime against torch's.

``python tests/torch/op_db_sweep.py`` tries them all, one after the other, and prints how many were exported, filled, refused and
wrong. It keeps each verdict in ``build/op_db.jsonl``, and when started again goes on from there. ``--count 30`` tries some.

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
import resource
import sys
import warnings
from pathlib import Path

import numpy as np

TOLERANCE = 1e-3
KEPT = Path(__file__).parents[2] / "build" / "op_db.jsonl"
CPU_SECONDS = 120
DTYPES = ("float32", "int64")
VERDICTS = ("exported", "filled", "refused", "wrong")


# ---- one op ------------------------------------------------------------------------------------------------------------------


def database():
    """The entries of torch's database; its import warns of what torch itself has given up."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch.testing._internal.common_methods_invocations import op_db
    return op_db


def cases():
    """``(place in the database, name, dtype)`` of every op and dtype that torch says it takes."""
    import torch

    for place, entry in enumerate(database()):
        taken = entry.supported_dtypes("cpu")
        for dtype in DTYPES:
            if getattr(torch, dtype) in taken:
                yield (
                    place,
                    f"{entry.name}{f'.{entry.variant_test_name}' if entry.variant_test_name else ''}",
                    dtype,
                )


def sample_of(entry, dtype, seed, place=None):
    """A sample of an op, its place among the first twenty, and its flat values."""
    import torch

    torch.manual_seed(seed)
    random.seed(seed)
    drawn = iter(entry.sample_inputs("cpu", getattr(torch, dtype), requires_grad=False))
    samples = list(itertools.islice(drawn, 20))
    if hasattr(
        drawn, "close"
    ):  # a generator of torch's calls torch as it ends, which must not be in the middle of an export
        drawn.close()
    if place is None:
        filled = [
            n
            for n, sample in enumerate(samples)
            if sample.input is None or all(t.numel() for t in tensors_of(sample))
        ]
        place = random.Random(f"{entry.name} {entry.variant_test_name} {dtype} {seed}").choice(
            filled or range(len(samples))
        )
    return samples[place], place


def tensors_of(sample):
    import torch

    leaves = torch.utils._pytree.tree_leaves((sample.input, sample.args, sample.kwargs))
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]


def module_of(entry, sample):
    """A module that calls the op; the sample's tensors are its arguments, and of complex results it gives both parts."""
    import torch

    leaves, spec = torch.utils._pytree.tree_flatten((sample.input, sample.args, sample.kwargs))

    def real(value):
        return (
            torch.view_as_real(value.resolve_conj())
            if isinstance(value, torch.Tensor) and value.is_complex()
            else value
        )

    class Call(torch.nn.Module):
        def forward(self, *tensors):
            ahead = iter(tensors)
            values = [next(ahead) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
            x, args, kwargs = torch.utils._pytree.tree_unflatten(values, spec)
            return torch.utils._pytree.tree_map(real, entry.op(x, *args, **kwargs))

    return Call().eval()


def eager(module, tensors):
    """What torch returns, as arrays; the text of its error where the sample is one that it does not take."""
    import torch

    from pyopnb.torch.arrays import to_array

    try:
        with torch.no_grad():
            results = module(*(tensor.clone() for tensor in tensors))
        leaves = torch.utils._pytree.tree_leaves(results)
        return [
            to_array(leaf) if isinstance(leaf, torch.Tensor) else np.asarray(leaf)
            for leaf in leaves
            if isinstance(leaf, torch.Tensor | bool | int | float)
        ]
    except Exception as error:
        return f"torch itself: {type(error).__name__}: {error}".partition("\n")[0]
    finally:
        torch.manual_seed(0)


def verdict(place, dtype, seed):
    """The verdict on one op, with the reason."""
    import pyopnb
    import pyopnb.torch
    from pyopnb.torch import StandIns

    entry = database()[place]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what torch warns of in its own samples
        sample, chosen = sample_of(entry, dtype, seed)
        module, tensors = module_of(entry, sample), tuple(tensors_of(sample))
        expected = eager(module, tensors)
        other = again(entry, dtype, seed + 1, chosen, sample)
        wanted_of_other = None if other is None else eager(module, other)
    if isinstance(expected, str):
        return {"verdict": "refused", "sample": chosen, "reason": expected}
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            model = pyopnb.torch.export(module, tensors)
        except pyopnb.PyopError as error:
            return {
                "verdict": "refused",
                "sample": chosen,
                "reason": " ".join(str(error).split())[:600],
            }
    holes = [
        hole for each in said if isinstance(each.message, StandIns) for hole in each.message.holes
    ]
    others = {
        f"{each.category.__name__}: {each.message}"[:150]
        for each in said
        if not isinstance(each.message, StandIns)
    }
    found = {
        "verdict": "filled" if holes else "exported",
        "sample": chosen,
        "filled": sorted({f"{hole.op}: {hole.reason}" for hole in holes}),
        "warned": sorted(others),
        "runs": 0,
    }
    session = pyopnb.Session(model)
    for values, wanted in ((tensors, expected), (other, wanted_of_other)):
        if wanted is None or isinstance(wanted, str):
            continue
        difference = differs(session, values, wanted, like="empty" in entry.name)
        found["runs"] += 1
        if difference:
            return found | {"verdict": "wrong", "reason": f"run {found['runs']}: {difference}"}
    return found


def again(entry, dtype, seed, place, first):
    """The tensors of the same sample with other values; None where the database gives another one, or no tensors."""
    import torch

    try:
        other, _ = sample_of(entry, dtype, seed, place)
    except IndexError:
        return None
    mine, theirs = (
        torch.utils._pytree.tree_flatten((each.input, each.args, each.kwargs))
        for each in (first, other)
    )
    if str(mine[1]) != str(theirs[1]) or not tensors_of(first):
        return None
    for a, b in zip(mine[0], theirs[0], strict=True):
        tensors = isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor)
        if not ((a.shape == b.shape and a.dtype == b.dtype) if tensors else repr(a) == repr(b)):
            return None
    return tuple(tensors_of(other))


def differs(session, tensors, expected, like=False):
    """How the results differ; where torch gives memory as it finds it, only the shapes and dtypes are held against it."""
    from pyopnb.torch.arrays import to_array

    names = [entry.name for entry in session.get_inputs()]
    got = session.run(
        None, {name: to_array(tensor.clone()) for name, tensor in zip(names, tensors, strict=True)}
    )
    if len(got) != len(expected):
        return f"{len(got)} outputs, where torch has {len(expected)}"
    if like:
        got, expected = ([np.zeros_like(each) for each in arrays] for arrays in (got, expected))
    return next(filter(None, map(difference, got, expected)), None)


def difference(mine, theirs):
    """How an array differs from torch's. Written without pyopnb's own comparison."""
    if mine.dtype != theirs.dtype or mine.shape != theirs.shape:
        return f"{mine.dtype}{list(mine.shape)}, where torch has {theirs.dtype}{list(theirs.shape)}"
    if theirs.dtype.kind in "biu":
        return (
            None
            if np.array_equal(mine, theirs)
            else f"{int((mine != theirs).sum())} of {theirs.size} differ"
        )
    mine, theirs = mine.astype(np.float64), theirs.astype(np.float64)
    largest = np.abs(theirs[np.isfinite(theirs)]).max(initial=0)
    close = np.isclose(mine, theirs, rtol=0, atol=TOLERANCE * largest, equal_nan=True)
    if close.all():
        return None
    worst = np.unravel_index(np.argmin(close), close.shape)
    return f"{int((~close).sum())} of {close.size} differ: {mine[worst]!r}, where torch has {theirs[worst]!r}"


# ---- all of them -------------------------------------------------------------------------------------------------------------


def _worker(asked, answers):
    """Answer cases until there are none; one that takes too long, or ends the process, ends this worker."""
    import torch

    torch.set_num_threads(1)
    for place, name, dtype, seed in iter(asked.get, None):
        used = resource.getrusage(resource.RUSAGE_SELF)
        now = used.ru_utime + used.ru_stime
        resource.setrlimit(resource.RLIMIT_CPU, (int(now) + CPU_SECONDS, resource.RLIM_INFINITY))
        row = judged(place, name, dtype, seed)
        used = resource.getrusage(resource.RUSAGE_SELF)
        answers.send({**row, "seconds": round(used.ru_utime + used.ru_stime - now, 2)})


def ending(asked, answers):
    """A worker that ends as a fault in native code would end it; here, where a new process can import it."""
    os._exit(7)


def judged(place, name, dtype, seed):
    """The row of a case."""
    try:
        found = verdict(place, dtype, seed)
    except Exception as error:  # anything but a refusal with a reason is wrong
        found = {
            "verdict": "wrong",
            "reason": f"{type(error).__name__}: {' '.join(str(error).split())[:400]}",
        }
    return {"op": name, "dtype": dtype, **found}


def here(count, seed):
    """The verdicts on some cases, in this process."""
    return [judged(*case, seed) for case in some(count, seed)]


def sweep(chosen, seed, worker=None):
    """The verdicts on these cases, in a process that may end."""
    context = multiprocessing.get_context("spawn")
    process = asked = answers = None
    for place, name, dtype in chosen:
        if process is None or not process.is_alive():
            asked, (answers, theirs) = context.SimpleQueue(), context.Pipe(duplex=False)
            process = context.Process(target=worker or _worker, args=(asked, theirs), daemon=True)
            process.start()
            theirs.close()
        asked.put((place, name, dtype, seed))
        try:
            row = answers.recv()
        except EOFError:
            process.join()
            row = {
                "op": name,
                "dtype": dtype,
                "verdict": "wrong",
                "reason": f"the process ended with {process.exitcode}",
            }
        yield row
    if process is not None:
        asked.put(None)
        process.join()


def some(count, seed):
    """Cases that the seed draws, and all in its order where count is None."""
    every = list(cases())
    return random.Random(seed).sample(every, len(every) if count is None else count)


def table(rows):
    """How many of each verdict, by dtype, and every case that is wrong."""
    counts = collections.Counter((row["dtype"], row["verdict"]) for row in rows)
    lines = [f"{'':8}{''.join(f'{verdict:>10}' for verdict in VERDICTS)}"]
    lines += [
        f"{dtype:8}{''.join(f'{counts[dtype, verdict]:10}' for verdict in VERDICTS)}"
        for dtype in DTYPES
    ]
    lines += [
        f"wrong: {row['op']} {row['dtype']}: {row['reason']}"
        for row in rows
        if row["verdict"] == "wrong"
    ]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, help="how many, drawn by the seed")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", help="ops whose name begins so")
    parser.add_argument("--afresh", action="store_true", help="forget what build/op_db.jsonl has")
    given = parser.parse_args()
    KEPT.parent.mkdir(exist_ok=True)
    if given.afresh:
        KEPT.unlink(missing_ok=True)
    rows = [json.loads(line) for line in KEPT.read_text().splitlines()] if KEPT.exists() else []
    known = {(row["op"], row["dtype"]) for row in rows}
    chosen = [
        case
        for case in some(given.count, given.seed)
        if case[1].startswith(given.only or "") and case[1:] not in known
    ]
    with KEPT.open("a") as file:
        for row in sweep(chosen, given.seed):
            print(json.dumps(row), file=file, flush=True)
            rows.append(row)
    print(table(rows))
    return any(row["verdict"] == "wrong" for row in rows)


if __name__ == "__main__":
    sys.exit(main())
