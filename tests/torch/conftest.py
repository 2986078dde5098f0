"""What the tests of torch's door share. They run in a lane of their own, which has torch.

Two thirds of the time of a small export go into tables that are the same every time. In these tests
torch makes them once; the notebooks, each in a process without this file, export as users do.
"""

from __future__ import annotations

import copy
import typing
import warnings

import numpy as np
import pytest
import torch
from torch._export import utils
from torch.onnx._internal.exporter._registration import ONNXRegistry

import pyopnb
import pyopnb.torch
from pyopnb.torch.report import StandIns


@pytest.fixture(autouse=True, scope="session")
def tables_made_once():
    """Keep the tables of torch's exporter from one export to the next."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ONNXRegistry, "from_torchlib", functions_made_once())
        patch.setattr(utils, "_materialize_cpp_cia_ops", ops_loaded_once())
        # Torch evaluates this annotation ten thousand times an export. Python keeps the result for
        # the class of typing, and not for that of collections.abc.
        patch.setattr(torch._ops, "Callable", typing.Callable)
        yield


def functions_made_once():
    """Replace the reader of five hundred ONNX functions by one that reads them once an opset."""
    read = ONNXRegistry.from_torchlib
    tables = {}

    def from_torchlib(**options):
        key = tuple(options.items())
        if key not in tables:
            tables[key] = read(**options)
        # An export registers its own functions in the table, so that each gets a copy.
        copied = copy.copy(tables[key])
        copied.functions = {
            target: list(functions) for target, functions in tables[key].functions.items()
        }
        return copied

    return staticmethod(from_torchlib)


def ops_loaded_once():
    """Replace the walk over every op of C++, once a namespace, by one walk until there are more ops."""
    walk = utils._materialize_cpp_cia_ops
    loaded = []

    def materialize():
        names = frozenset(
            torch._C._dispatch_get_registrations_for_dispatch_key("CompositeImplicitAutograd")
        )
        if loaded != [names]:
            walk()
            loaded[:] = [names]

    return materialize


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


@pytest.fixture
def exported():
    """Exports a module, runs it at each of the examples, and holds it against torch; gives the ops that were filled."""

    def exported(module, *examples, rtol=1e-4, atol=1e-5, **options):
        module.eval()
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            model = pyopnb.torch.export(module, examples[0], **options)
        filled = [
            hole
            for each in said
            if isinstance(each.message, StandIns)
            for hole in each.message.holes
        ]
        session = pyopnb.Session(model)
        for example in examples:
            feeds = zip((entry.name for entry in session.get_inputs()), example, strict=True)
            got = session.run(None, {name: value.numpy() for name, value in feeds})
            with torch.no_grad():
                expected = module(*(value.clone() for value in example))
            expected = [expected] if isinstance(expected, torch.Tensor) else expected
            for mine, theirs in zip(got, expected, strict=True):
                assert mine.dtype == theirs.numpy().dtype
                np.testing.assert_allclose(mine, theirs.numpy(), rtol=rtol, atol=atol)
        return sorted(
            {hole.op.removeprefix("torch.ops.").removesuffix(".default") for hole in filled}
        )

    return exported
