"""Every module of the torch module database with all sizes open, at two further sizes and each size alone.

``python tests/torch/module_db_sweep.py`` prints how many were exported with every size open that
the module lets change ("one size" are those with an axis along which the module itself takes no
other, as Linear does), with others fixed and said, refused by which reason, and wrong. It keeps
each verdict in ``build/module_db.jsonl``, and when started again continues from there. One case of
every module comes first.
"""

from __future__ import annotations

import collections
import inspect
import re
import sys
import warnings

import numpy as np
import sympy
from sweeps import difference, one_of_each_first, reason_of, run

VERDICTS = ("general", "one size", "fixed", "refused", "torch", "wrong")


def database():
    """Load the torch entries; their import warns of deprecated parts of torch."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch.testing._internal.common_modules import module_db
    return module_db


def cases():
    """Yield the place in the database and the name of every module, and the number of each of its samples."""
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for place, entry in enumerate(database()):
            for number in range(len(_samples(entry, torch))):
                yield place, entry.name, number


def _samples(entry, torch):
    torch.manual_seed(0)
    samples = entry.module_inputs_func(
        entry, device="cpu", dtype=torch.float32, requires_grad=False, training=False
    )
    return [sample for sample in samples if sample.forward_input is not None]


def judged(place, name, number):
    """Return the row of a case."""
    try:
        row = verdict(database()[place], number)
    except Exception as error:  # anything but a refusal with a reason is wrong
        row = {"verdict": "wrong", "reason": f"{type(error).__name__}: {error}"[:400]}
    return {"module": f"{name} {number}", **row}


def verdict(entry, number):
    """The verdict on one sample, with the reason."""
    import torch

    import pyopnb
    import pyopnb.torch
    from pyopnb.torch.foreign import CheckedSizes

    tree_map = torch.utils._pytree.tree_map
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sample = _samples(entry, torch)[number]
        torch.manual_seed(0)
        module = entry.module_cls(
            *sample.constructor_input.args, **sample.constructor_input.kwargs
        ).eval()
        args, kwargs = tuple(sample.forward_input.args), dict(sample.forward_input.kwargs)
        try:
            with torch.no_grad():
                module(*args, **kwargs)
            arguments = inspect.signature(module.forward).bind(*args, **kwargs).arguments
        except Exception as error:  # what torch itself does not run
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
    reasons, in_torch = {}, set()
    for warning in caught:
        if isinstance(warning.message, pyopnb.torch.StandIns):
            in_torch |= {hole.op for hole in warning.message.holes}
            for size in warning.message.fixed:
                reasons[size.input, size.axis] = size.reason
    row = {"verdict": "one size" if reasons else "general", "runs": 0}
    row["in_torch"] = sorted(re.sub(r"_\d+", "", op) for op in in_torch)
    leaves = tensors_in(dict(arguments))
    names, dims = [], []
    for info in model.graph.input:
        names.append(info.name)
        dims.append([dim.dim_param or dim.dim_value for dim in info.type.tensor_type.shape.dim])
        for axis, dim in enumerate(dims[-1]):
            if (isinstance(dim, int) or dim.isdecimal()) and (info.name, axis) not in reasons:
                text = f"{info.name}, axis {axis}, is {dim} and nothing says so"
                return row | {"verdict": "wrong", "reason": text}

    def eager(resized):
        """Run the module on other tensors; return None for those that torch does not take."""
        ahead = iter(resized)
        changed = tree_map(
            lambda leaf: next(ahead) if isinstance(leaf, torch.Tensor) else leaf, dict(arguments)
        )
        bound = inspect.BoundArguments(
            inspect.signature(module.forward), collections.OrderedDict(changed)
        )
        try:
            # What torch computes from memory beyond its tensors is no yardstick.
            with torch.no_grad(), warnings.catch_warnings(), CheckedSizes():
                warnings.simplefilter("ignore")
                return tensors_in(module(*bound.args, **bound.kwargs))
        except Exception:  # of sizes that torch does not take
            return None

    needless = []
    for (name, axis), reason in reasons.items():
        if takes_other_sizes(eager, leaves, names.index(name), axis):
            needless.append(f"{name}, axis {axis}: {reason}")
    if needless:
        row |= {"verdict": "fixed", "fixed": needless}
    session = pyopnb.Session(model)
    for sizes in further_sizes(dims, leaves):
        resized = [
            other_size(leaf, [evaluated(dim, sizes) for dim in each])
            for leaf, each in zip(leaves, dims, strict=True)
        ]
        expected = eager(resized)
        if expected is None:
            continue
        row["runs"] += 1
        arrays = [leaf.numpy() for leaf in expected]
        feeds = {name: tensor.numpy() for name, tensor in zip(names, resized, strict=True)}
        got = session.run(None, feeds)
        if entry.name.startswith("nn.Transformer"):
            # The fast path of torch attention has NaN where every key is masked, and its slow path,
            # which is exported, 0.
            arrays = [
                np.where(np.isnan(theirs) & np.isfinite(mine), mine, theirs)
                for mine, theirs in zip(got, arrays, strict=True)
            ]
        text = next(filter(None, map(difference, got, arrays)), None)
        if text:
            return row | {"verdict": "wrong", "reason": f"{sizes}: {text}"}
    return row


def takes_other_sizes(eager, leaves, position, axis):
    """Tell whether a module runs with another size along an axis, of that tensor alone or wherever the size stands."""
    size = leaves[position].shape[axis]
    for other in (size + 1, 2 * size, size + 2):
        alone = [list(leaf.shape) for leaf in leaves]
        alone[position][axis] = other
        together = [[other if dim == size else dim for dim in leaf.shape] for leaf in leaves]
        for shapes in (alone, together):
            if eager([other_size(leaf, shape) for leaf, shape in zip(leaves, shapes, strict=True)]):
                return True
    return False


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
    """Draw cases by the seed, one of each module first; all of them where count is None."""
    return one_of_each_first(list(cases()), lambda case: case[1], seed)[:count]


def named(seed):
    """Name each case."""
    return {f"{name} {number}": (place, name, number) for place, name, number in some(None, seed)}


def table(rows):
    """How many of each verdict, the reasons of refusals, and every case that is wrong."""
    counts = collections.Counter(row["verdict"] for row in rows)
    lines = [", ".join(f"{counts[verdict]} {verdict}" for verdict in VERDICTS)]
    in_torch = collections.Counter(op for row in rows for op in row.get("in_torch", ()))
    lines += [f"  {count} × {op} runs in torch" for op, count in in_torch.most_common()]
    reasons = collections.Counter(reason_of(row) for row in rows if row["verdict"] == "refused")
    for row in rows:
        reasons.update({"fixed: " + entry.partition(": ")[2] for entry in row.get("fixed", ())})
    lines += [f"  {count} × {reason}" for reason, count in reasons.most_common()]
    lines += [
        f"wrong: {row['module']}: {row['reason']}" for row in rows if row["verdict"] == "wrong"
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(run(__doc__, "module_db", named, judged, table))
