"""Every module of torch's own module database with all sizes open, at two further sizes and each size alone.

``python tests/torch/module_db_sweep.py`` prints how many were exported as they are, with sizes that are fixed and said, refused
by which reason, and wrong.
"""

from __future__ import annotations

import collections
import inspect
import random
import re
import sys
import warnings

import numpy as np
import sympy
from op_db_sweep import difference, reason_of

VERDICTS = ("general", "fixed", "refused", "torch", "wrong")


def cases():
    """``(entry, n)`` of every module and sample."""
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch.testing._internal.common_modules import module_db

        for entry in module_db:
            for n in range(len(_samples(entry, torch))):
                yield entry, n


def _samples(entry, torch):
    torch.manual_seed(0)
    samples = entry.module_inputs_func(
        entry, device="cpu", dtype=torch.float32, requires_grad=False, training=False
    )
    return [sample for sample in samples if sample.forward_input is not None]


def judged(entry, n):
    """The row of a case."""
    try:
        return {"module": f"{entry.name} {n}"} | verdict(entry, n)
    except Exception as error:  # anything but a refusal with a reason is wrong
        return {
            "module": f"{entry.name} {n}",
            "verdict": "wrong",
            "reason": f"{type(error).__name__}: {error}"[:400],
        }


def verdict(entry, n):
    """The verdict on one sample, with the reason."""
    import torch

    import pyopnb
    import pyopnb.torch

    tree_map = torch.utils._pytree.tree_map
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sample = _samples(entry, torch)[n]
        torch.manual_seed(0)
        module = entry.module_cls(
            *sample.constructor_input.args, **sample.constructor_input.kwargs
        ).eval()
        args, kwargs = tuple(sample.forward_input.args), dict(sample.forward_input.kwargs)
        try:
            with torch.no_grad():
                module(*args, **kwargs)
            arguments = inspect.signature(module.forward).bind(*args, **kwargs).arguments
        except Exception as error:
            return {"verdict": "torch", "reason": f"{type(error).__name__}: {error}"[:200]}

    def opened(leaf):
        return (
            dict.fromkeys(range(leaf.dim()), torch.export.Dim.AUTO)
            if isinstance(leaf, torch.Tensor)
            else None
        )

    shapes = {name: tree_map(opened, value) for name, value in arguments.items()}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            model = pyopnb.torch.export(module, args, kwargs, dynamic_shapes=shapes)
        except pyopnb.errors.PyopError as error:
            return {"verdict": "refused", "reason": " ".join(str(error).split())}
    said = set()
    for warning in caught:
        if isinstance(warning.message, pyopnb.torch.StandIns):
            said |= {(size.input, size.axis) for size in warning.message.fixed}
    row = {"verdict": "fixed" if said else "general", "runs": 0}
    leaves = tensors_in(dict(arguments))
    names, dims = [], []
    for info in model.graph.input:
        names.append(info.name)
        dims.append([dim.dim_param or dim.dim_value for dim in info.type.tensor_type.shape.dim])
        for axis, dim in enumerate(dims[-1]):
            if (isinstance(dim, int) or dim.isdecimal()) and (info.name, axis) not in said:
                text = f"{info.name}, axis {axis}, is {dim} and nothing says so"
                return row | {"verdict": "wrong", "reason": text}
    session = pyopnb.Session(model)
    for sizes in further_sizes(dims, leaves):
        resized = [
            other_size(leaf, [evaluated(dim, sizes) for dim in each])
            for leaf, each in zip(leaves, dims, strict=True)
        ]
        ahead = iter(resized)
        changed = tree_map(
            lambda leaf, ahead=ahead: next(ahead) if isinstance(leaf, torch.Tensor) else leaf,
            dict(arguments),
        )
        bound = inspect.BoundArguments(
            inspect.signature(module.forward), collections.OrderedDict(changed)
        )
        try:
            with torch.no_grad(), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                expected = module(*bound.args, **bound.kwargs)
        except Exception:  # a size that torch does not take
            continue
        row["runs"] += 1
        arrays = [leaf.numpy() for leaf in tensors_in(expected)]
        feeds = {name: tensor.numpy() for name, tensor in zip(names, resized, strict=True)}
        got = session.run(None, feeds)
        if entry.name.startswith("nn.Transformer"):
            # Torch's fast path of attention has NaN where every key is masked, and its slow path, which is exported, 0.
            arrays = [
                np.where(np.isnan(theirs) & np.isfinite(mine), mine, theirs)
                for mine, theirs in zip(got, arrays, strict=True)
            ]
        text = next(filter(None, map(difference, got, arrays)), None)
        if text:
            return row | {"verdict": "wrong", "reason": f"{sizes}: {text}"}
    return row


def tensors_in(values):
    import torch

    leaves = torch.utils._pytree.tree_leaves(values)
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]


def further_sizes(dims, leaves):
    """All sizes one larger, and three; then each alone twice as large and one."""
    example = {}
    for names, leaf in zip(dims, leaves, strict=True):
        example |= {
            name: size
            for name, size in zip(names, leaf.shape, strict=True)
            if str(name).isidentifier()
        }
    if not example:
        return
    yield {name: size + 1 for name, size in example.items()}
    yield {name: size + 3 for name, size in example.items()}
    for name, size in example.items():
        yield {**example, name: 2 * size}
        yield {**example, name: 1}


def evaluated(dim, sizes):
    if isinstance(dim, int):
        return dim
    symbols = {name: sympy.Symbol(name) for name in re.findall(r"[A-Za-z_]\w*", dim)}
    known = {symbol: sizes[name] for name, symbol in symbols.items() if name in sizes}
    return int(sympy.sympify(dim, locals=symbols).subs(known))


def other_size(leaf, shape):
    """Numbers of the example, shuffled, in another shape: indices and probabilities stay valid."""
    import torch

    flat = leaf.detach().flatten()
    count = int(np.prod(shape))
    places = (
        torch.randint(flat.numel(), (count,)) if flat.numel() else torch.zeros(0, dtype=torch.int64)
    )
    return flat[places].reshape(shape) if flat.numel() else torch.zeros(shape, dtype=leaf.dtype)


def some(count, seed):
    """Cases that the seed draws; all where count is None."""
    every = list(cases())
    return every if count is None else random.Random(seed).sample(every, count)


def table(rows):
    """How many of each verdict, the reasons of refusals, and every case that is wrong."""
    counts = collections.Counter(row["verdict"] for row in rows)
    lines = [", ".join(f"{counts[verdict]} {verdict}" for verdict in VERDICTS)]
    reasons = collections.Counter(reason_of(row) for row in rows if row["verdict"] == "refused")
    lines += [f"  {count} × {reason}" for reason, count in reasons.most_common()]
    lines += [
        f"wrong: {row['module']}: {row['reason']}" for row in rows if row["verdict"] == "wrong"
    ]
    return "\n".join(lines)


def main():
    warnings.simplefilter("ignore")
    rows = []
    for case in some(None, 0):
        rows.append(judged(*case))
        print(rows[-1], flush=True)
    print(table(rows))
    return any(row["verdict"] == "wrong" for row in rows)


if __name__ == "__main__":
    sys.exit(main())
