"""The modules in the torch tests of its exporter through `pyopnb.torch.export`, at their sizes and at others.

``python tests/torch/exporter_tests_sweep.py FOLDER`` takes the torch folder ``test/onnx``, which is
not part of this project, and prints how many of its modules come out right, with parts in torch,
with sizes that are fixed, refused by which reason, and wrong. It keeps each verdict in
``build/exporter_tests.jsonl``, and when started again continues from there.

The tests run with a `run_test` of this file in place of the torch one: eager mode gives the
numbers to be met. The axes are open that the test names in ``dynamic_axes``, or all of them
where it names none.
"""

from __future__ import annotations

import collections
import copy
import functools
import importlib
import inspect
import itertools
import random
import resource
import sys
import types
import unittest
import warnings
from unittest import mock

from module_db_sweep import evaluated, further_sizes, tensors_in
from sweeps import CPU_SECONDS, difference, reason_of
from sweeps import run as run_sweep

FILE = "test_pytorch_onnx_onnxruntime"

# What runs at the stated sizes and at others, and what does not.
RIGHT = ("right", "parts")
FAULTS = ("fixed", "refused", "fails", "wrong", "ended")

# What no model can be made of: torch does not run it, or needs a package; modules that
# train, and random numbers.
NOT_JUDGED = ("eager", "unavailable", "training", "random")


# ---- the torch tests -----------------------------------------------------------------------------


def tests_in(folder):
    """Import the torch tests without their skips, and without packages that only a few of them need."""
    if folder not in sys.path:
        sys.path.insert(0, folder)
    parameterized = types.ModuleType("parameterized")
    # One class is enough: its variants are opsets of the older exporter.
    parameterized.parameterized_class = lambda *_, **__: lambda cls: cls
    stubs = {"parameterized": parameterized, "torchvision": types.ModuleType("torchvision")}
    sys.modules.update(stubs)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        common = importlib.import_module("pytorch_test_common")
        for name in vars(common):
            if name.startswith("skip") and name.endswith(("Version", "Test")):
                setattr(common, name, lambda *_, **__: lambda test: test)
        tests = importlib.import_module(FILE).TestONNXRuntime
    for name in stubs:
        del sys.modules[name]
    return tests


def cases(folder, seed):
    """Name the cases of a folder in an order that the seed draws, the many variants of one RNN test last."""
    names = unittest.TestLoader().getTestCaseNames(tests_in(folder))
    random.Random(seed).shuffle(names)
    names.sort(key=lambda name: name.startswith("test_rnn"))
    return {name: (folder, name) for name in names}


def judged(folder, name):
    """Run a test, and return a row with one for each module that it exports."""
    import torch

    scripting = {key: getattr(torch.jit, key) for key in UNSCRIPTED}
    rows = []

    def run_test(test, model, input_args, input_kwargs=None, **options):
        used = resource.getrusage(resource.RUSAGE_SELF)
        seconds = int(used.ru_utime + used.ru_stime) + CPU_SECONDS
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, resource.RLIM_INFINITY))
        with mock.patch.multiple(torch.jit, **scripting):
            try:
                row = verdict(model, input_args, input_kwargs, options)
            except Exception as error:  # anything but a refusal with a reason is a fault
                row = {"verdict": "fails", "reason": text_of(error)}
        rows.append(row)

    tests = tests_in(folder)
    unscripted = UNSCRIPTED | {"ScriptModule": torch.nn.Module}
    with mock.patch.object(tests, "run_test", run_test), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        test = tests(name)
        test.setUp()
        try:
            with mock.patch.multiple(torch.jit, **unscripted):
                getattr(test, name)()
        except Exception as error:  # a package that is not there, or assertions of torch
            if not rows:
                rows.append({"verdict": "unavailable", "reason": text_of(error)})
    verdicts = [row["verdict"] for row in rows]
    return {"verdict": "wrong" if "wrong" in verdicts else "", "modules": rows}


def _as_it_is(value, *_, **__):
    return value


# Modules stay Python, as the users of eager mode have them.
UNSCRIPTED = {
    "script": _as_it_is,
    "trace": _as_it_is,
    "script_method": _as_it_is,
    "ScriptModule": None,
}


def text_of(error):
    """Write an error in one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:600]


# ---- one module --------------------------------------------------------------------------------


def verdict(model, input_args, input_kwargs, options):
    """Judge a module with its arguments, as a test gives them."""
    import pyopnb
    import pyopnb.torch

    mode = str(options.get("training", "EVAL"))
    module = as_module(model, mode.endswith("EVAL"))
    args, kwargs = as_tuple(input_args), dict(input_kwargs or {})
    try:
        expected = run(module, args, kwargs)
    except Exception as error:  # what torch itself does not run
        return {"verdict": "eager", "reason": text_of(error)}
    if not expected:
        return {"verdict": "eager", "reason": "returns no tensor"}
    if any(part.training for part in module.modules()):
        return {"verdict": "training", "reason": ""}
    arguments = dict(inspect.signature(module.forward).bind(*args, **kwargs).arguments)
    axes = open_axes(arguments, options.get("dynamic_axes"), options.get("input_names"))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            model = pyopnb.torch.export(
                module, args, kwargs, dynamic_shapes=shapes_of(arguments, axes)
            )
        except pyopnb.PyopError as error:
            name = "random" if "got random numbers" in " ".join(str(error).split()) else "refused"
            return {"verdict": name, "reason": text_of(error)}
    holes, fixed = [], []
    for warning in caught:
        holes += getattr(warning.message, "holes", ())
        fixed += getattr(warning.message, "fixed", ())
    row = {"verdict": "parts" if holes else "right", "parts": [str(hole) for hole in holes][:5]}
    session = pyopnb.Session(model)

    def fault_at(args, kwargs):
        """Say what is wrong at these arguments."""
        expected = run(module, args, kwargs)
        given = inputs_in((args, kwargs), len(model.graph.input))
        feeds = {info.name: array for info, array in zip(model.graph.input, given, strict=True)}
        try:
            results = session.run(None, feeds)
        except Exception as error:  # what ONNX Runtime raises has no common base class
            return {"verdict": "fails", "reason": text_of(error)}
        if len(results) != len(expected):
            return {"verdict": "wrong", "reason": f"{len(results)} outputs for {len(expected)}"}
        text = next(filter(None, map(difference, results, expected)), None)
        return {"verdict": "wrong", "reason": text} if text else None

    runs = [("stated", args, kwargs)]
    kinds = kinds_of_results(module, args, kwargs)
    for number, other in enumerate(options.get("additional_test_inputs") or ()):
        if kinds_of_results(module, as_tuple(other), kwargs) == kinds:
            runs.append((f"additional {number}", as_tuple(other), kwargs))
    runs += resized(module, args, kwargs, model, kinds)
    for place, *values in runs:
        fault = fault_at(*values)
        if fault is not None:
            return row | fault | {"reason": f"{place}: {fault['reason']}"}
    row["runs"] = len(runs)
    needless = fixed_without_need(module, arguments, model, fixed)
    return row | {"verdict": "fixed", "reason": needless} if needless else row


def as_module(model, evaluates):
    """Return a module in the mode that the test wants; a function becomes a module that calls it."""
    import torch

    if not isinstance(model, torch.nn.Module):
        function = model

        class Call(torch.nn.Module):
            def forward(self, *args):
                return function(*args)

        model = Call()
    return model.eval() if evaluates else model.train()


def as_tuple(args):
    """Write arguments as a tuple."""
    return tuple(args) if isinstance(args, (tuple, list)) else (args,)


def run(module, args, kwargs):
    """Run a module in eager mode on copies, and return arrays."""
    import torch

    from pyopnb.torch.verify import arrays_of

    args, kwargs = mapped(lambda tensor: tensor.detach().clone(), (args, kwargs))
    torch.manual_seed(0)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return arrays_of(copied(module)(*args, **kwargs))


def copied(module):
    """Copy a module, whose forward may change it, if it can be copied."""
    try:
        return copy.deepcopy(module)
    except Exception:  # results of autograd among its attributes
        return module


def mapped(function, values):
    """Map the tensors among values."""
    import torch

    def of_tensor(leaf):
        return function(leaf) if isinstance(leaf, torch.Tensor) else leaf

    return torch.utils._pytree.tree_map(of_tensor, values)


def inputs_in(values, count):
    """List the arrays for so many inputs: the tensors, or also the numbers."""
    import torch

    from pyopnb.torch.verify import arrays_of

    leaves = torch.utils._pytree.tree_leaves(values)
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    return arrays_of(tensors if len(tensors) == count else leaves)


# ---- sizes -------------------------------------------------------------------------------------


def open_axes(arguments, dynamic_axes, input_names):
    """List for each tensor the axes that the test names, or all of them."""
    tensors = tensors_in(arguments)
    if not dynamic_axes:
        return [list(range(tensor.dim())) for tensor in tensors]
    names = itertools.chain(input_names or (), itertools.repeat(None))
    axes = []
    for tensor, name in zip(tensors, names, strict=False):
        axes.append([axis % tensor.dim() for axis in dynamic_axes.get(name) or ()])
    return axes


def shapes_of(arguments, axes):
    """Write open axes as torch.export takes them."""
    import torch

    ahead = iter(axes)

    def entry(leaf):
        is_tensor = isinstance(leaf, torch.Tensor)
        return dict.fromkeys(next(ahead), torch.export.Dim.AUTO) if is_tensor else None

    return torch.utils._pytree.tree_map(entry, arguments)


def resized(module, args, kwargs, model, kinds):
    """Yield the arguments at other sizes of the model's free dimensions, where eager mode takes them."""
    tensors = tensors_in((args, kwargs))
    if len(tensors) != len(model.graph.input):
        return
    dims = []
    for info in model.graph.input:
        shape = info.type.tensor_type.shape.dim
        dims.append([dim.dim_param or dim.dim_value for dim in shape])
    for sizes in further_sizes(dims, tensors):
        shapes = [[evaluated(dim, sizes) for dim in row] for row in dims]
        values = reshaped(args, kwargs, shapes)
        if kinds_of_results(module, *values) == kinds:
            yield (str(sizes), *values)


def reshaped(args, kwargs, shapes):
    """Put tensors of these shapes and of like numbers in the place of the arguments."""
    ahead = iter(shapes)
    return mapped(lambda tensor: of_shape(tensor, next(ahead)), (args, kwargs))


def of_shape(tensor, shape):
    """Make a tensor of numbers in the range of another's; whole numbers are drawn from its own, so that indices stay valid."""
    import torch

    values = tensor.detach().flatten()
    if not values.numel():
        return torch.zeros(shape, dtype=tensor.dtype)
    torch.manual_seed(0)
    is_whole = not values.is_floating_point() or bool((values == values.round()).all())
    if is_whole and tensor.dim() == 1 and torch.equal(values, values.sort().values):
        # Offsets and lengths: torch reads beyond its memory where they have no order.
        return values.repeat(shape[0] // len(values) + 1)[: shape[0]].sort().values
    if is_whole:
        return values[torch.randint(values.numel(), tuple(shape))]
    # Between its numbers, as equal ones have no order for topk and sort.
    places = torch.rand(tuple(shape), dtype=torch.float64) * (values.numel() - 1)
    lower = places.long()
    upper = (lower + 1).clamp(max=values.numel() - 1)
    between = torch.lerp(values[lower].double(), values[upper].double(), places - lower)
    return between.to(tensor.dtype)


def kinds_of_results(module, args, kwargs):
    """List dtype and rank of each result, which no model can change; None where torch does not take the arguments."""
    try:
        return [(array.dtype, array.ndim) for array in run(module, args, kwargs)]
    except Exception:  # a size or a value that torch does not take
        return None


def fixed_without_need(module, arguments, model, fixed):
    """Say which fixed sizes eager mode takes larger, alone or with the others of that size."""
    positions = {info.name: position for position, info in enumerate(model.graph.input)}
    places = [(positions[size.input], size.axis, size.size) for size in fixed]
    texts = []
    for size, place in zip(fixed, places, strict=True):
        alike = [other for other in places if other[2] == place[2]]
        for group in ([place], alike):
            for factor, step in ((1, 1), (2, 0)):
                if grown_is_taken(module, arguments, group, factor, step):
                    texts.append(str(size))
                    break
    return "; ".join(dict.fromkeys(texts))


def grown_is_taken(module, arguments, places, factor, step):
    """Tell whether eager mode takes larger sizes at these places, for results of the same ranks."""
    shapes = [list(tensor.shape) for tensor in tensors_in(arguments)]
    for position, axis, size in places:
        shapes[position][axis] = factor * size + step
    (grown,), _ = reshaped((arguments,), {}, shapes)
    kinds = []
    for values in (arguments, grown):
        ordered = collections.OrderedDict(values)
        bound = inspect.BoundArguments(inspect.signature(module.forward), ordered)
        kinds.append(kinds_of_results(module, bound.args, bound.kwargs))
    return kinds[0] == kinds[1]


# ---- all of them -------------------------------------------------------------------------------


def table(cases_judged):
    """Write how many of each verdict, the share that is right, and the reasons of the others."""
    rows = []
    for case in cases_judged:
        # A process that ended has left no rows.
        for row in case.get("modules", [case | {"verdict": "ended"}]):
            rows.append({"case": case["case"], **row})
    counts = collections.Counter(row["verdict"] for row in rows)
    lines = [", ".join(f"{counts[name]} {name}" for name in (*RIGHT, *FAULTS, *NOT_JUDGED))]
    right = sum(counts[name] for name in RIGHT)
    total = right + sum(counts[name] for name in FAULTS)
    lines.append(f"{right} of {total} that run in eager mode: {100 * right / max(total, 1):.1f} %")
    for name in (*FAULTS, *NOT_JUDGED):
        cases_of = collections.defaultdict(list)
        for row in rows:
            if row["verdict"] == name:
                cases_of[reason_of(row)].append(row["case"])
        for reason, labels in sorted(cases_of.items(), key=lambda entry: -len(entry[1])):
            lines.append(f"  {name}: {len(labels)} × {reason} ({labels[0]})")
    return "\n".join(lines)


if __name__ == "__main__":
    folder = sys.argv.pop(1)
    sys.exit(run_sweep(__doc__, "exporter_tests", functools.partial(cases, folder), judged, table))
