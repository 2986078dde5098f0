"""Every op of the torch op database through `pyopnb.torch.export`, and its numbers in ONNX Runtime against torch.

``python tests/torch/op_db_sweep.py`` tries them all, one after the other, and prints how many were
exported, filled, refused by which reason, and wrong. It keeps each verdict in
``build/op_db.jsonl``, and when started again continues from there. One case of every op comes first.

Each op has one sample of the database in float32 and one in int64, which the seed draws. Its
tensors are the inputs of a module. The model runs with them, and with the same sample of other
values, as `export` itself has seen the first. A result agrees if it is within `TOLERANCE` of the
largest number in torch, as in `export`; whole numbers are the same.
"""

from __future__ import annotations

import collections
import itertools
import random
import sys
import warnings

import numpy as np
from sweeps import difference, one_of_each_first, reason_of, run

DTYPES = ("float32", "int64")
VERDICTS = ("exported", "filled", "refused", "wrong")


# ---- one op ------------------------------------------------------------------------------------


def database():
    """Load the torch entries; their import warns of deprecated parts of torch."""
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
    """Draw one of the first twenty samples of an op, or take the one at a place; also return its place."""
    import torch

    torch.manual_seed(seed)
    random.seed(seed)
    drawn = iter(entry.sample_inputs("cpu", getattr(torch, dtype), requires_grad=False))
    samples = list(itertools.islice(drawn, 20))
    if hasattr(drawn, "close"):
        # A generator of torch calls torch as it ends, which must not be in the
        # middle of an export.
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


def module_of(entry, sample, beside=False):
    """Make a module that calls the op; the sample's tensors are its arguments, and of complex results it gives both parts.

    `beside` adds an output that has no ONNX form.
    """
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
            result = torch.utils._pytree.tree_map(real, entry.op(x, *args, **kwargs))
            if not beside:
                return result
            first = tensors[0].float()
            return result, torch.hypot(first, first + 1)

    return Call().eval()


def eager(module, tensors):
    """Return the torch results as arrays, or the text of its error where it does not take the sample."""
    import torch

    from pyopnb.torch.verify import arrays_of

    try:
        with torch.no_grad():
            return arrays_of(module(*(tensor.clone() for tensor in tensors)))
    except Exception as error:  # what torch itself does not run
        return f"torch itself: {type(error).__name__}: {error}".partition("\n")[0]
    finally:
        torch.manual_seed(0)


def verdict(place, dtype, seed, beside=False):
    """Judge one op, with the reason."""
    import pyopnb
    import pyopnb.torch
    from pyopnb.torch import StandIns

    entry = database()[place]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what torch warns of in its own samples
        sample, chosen = sample_of(entry, dtype, seed)
        tensors = tuple(tensors_of(sample))
        module = module_of(entry, sample, beside and bool(tensors))
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


# ---- all of them -------------------------------------------------------------------------------


def judged(place, name, dtype, seed, beside=False):
    """Return the row of a case."""
    try:
        row = verdict(place, dtype, seed, beside)
    except Exception as error:  # anything but a refusal with a reason is wrong
        text = " ".join(str(error).split())[:400]
        row = {"verdict": "wrong", "reason": f"{type(error).__name__}: {text}"}
    return {"op": name, "dtype": dtype, **row}


def some(count, seed):
    """Draw cases by the seed, one of each op first; all of them where count is None."""
    drawn = one_of_each_first(list(cases()), lambda case: case[1], seed)
    return [(*case, seed) for case in drawn[:count]]


def named(seed):
    """Name each case."""
    return {
        f"{name} {dtype}": (place, name, dtype, seed) for place, name, dtype, _ in some(None, seed)
    }


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


if __name__ == "__main__":
    sys.exit(run(__doc__, "op_db", named, judged, table))
