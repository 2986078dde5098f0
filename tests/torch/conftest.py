"""The common parts of the tests of `pyopnb.torch`. They run in a lane of their own, which has torch."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import sweeps
import torch
from shells import bare, only_shell, shell  # noqa: F401  # fixtures

import pyopnb
import pyopnb.torch
from pyopnb.torch import StandIns


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


@pytest.fixture(scope="session", autouse=True)
def translations_read_once():
    with pytest.MonkeyPatch.context() as patch:
        sweeps.read_translations_once(patch.setattr)
        yield


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
