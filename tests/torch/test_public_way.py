"""A torch whose exporter has its tables elsewhere: what it lacks is found from its errors, and a failure says so."""

import pytest
import torch
from torch import nn

import pyopnb
import pyopnb.torch
from pyopnb.torch import conversion, exporter_internals


@pytest.fixture
def elsewhere(monkeypatch):
    def missing():
        raise ImportError("cannot import name '_decomp'")

    monkeypatch.setattr(exporter_internals, "_exporter", missing)


class Filled(nn.Module):
    def forward(self, x):
        return torch.linalg.inv(x) + torch.linalg.cholesky(x)


@pytest.mark.usefixtures("elsewhere")
def test_holes_are_found_call_by_call(exported):
    assert exported(Filled(), (torch.eye(3) * 2 + 0.1,)) == [
        "aten.linalg_cholesky",
        "aten.linalg_inv",
    ]


@pytest.mark.usefixtures("elsewhere")
def test_a_failure_there_says_which_way_was_taken(monkeypatch):
    def fails(*given, **more):
        raise torch.onnx.OnnxExporterError("of another kind")

    monkeypatch.setattr(conversion.torch.onnx, "export", fails)
    with pytest.raises(
        pyopnb.errors.ModelError, match=r"torch.onnx.export: .*of another kind"
    ) as caught:
        pyopnb.torch.export(Filled().eval(), (torch.eye(3),))
    (note,) = caught.value.__cause__.__notes__
    assert note.startswith(
        f"torch {torch.__version__} has the tables of its exporter elsewhere than {exporter_internals.TRIED[0]} "
    )
    assert "(ImportError: cannot import name '_decomp')" in note
