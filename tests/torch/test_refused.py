"""What cannot come out right is refused: where in the user's source, what was expected, what came, and what to type."""

import re
import textwrap
import threading
import traceback

import numpy as np
import pytest
import torch
from torch import nn

import pyopnb
import pyopnb.torch
from pyopnb.errors import InputError, ModelError


class Line(nn.Module):
    def __init__(self):
        super().__init__()
        self.line = nn.Linear(3, 2)

    def forward(self, x):
        return self.line(x)


class Scaled(nn.Module):
    def forward(self, x, y, *, scale=1.0):
        return x @ y * scale


class Lazy(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.LazyLinear(3)

    def forward(self, x):
        return self.layer(x)


class Noise(nn.Module):
    def forward(self, x):
        return x + torch.randn_like(x)


class DropsOut(nn.Module):
    def forward(self, x):
        return nn.functional.dropout(x, 0.5, training=True)


class Samples(nn.Module):
    def forward(self, x):
        return torch.multinomial(x.softmax(-1), 2)


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x):
        self.count += 1
        return x * self.count


class Spectrum(nn.Module):
    def forward(self, x):
        return torch.fft.fft(x)


class Sparse(nn.Module):
    def forward(self, x):
        return x.to_sparse()


class Reshapes(nn.Module):
    def forward(self, x):
        return x.reshape(2, 6)


class Locked(nn.Module):
    """Holds what cannot be copied, so that no part of it can stay in torch with its weights of now."""

    def __init__(self):
        super().__init__()
        self.lock = threading.Lock()


class Decides(Locked):
    def forward(self, x):
        if x.sum() > 0:
            return x
        return -x


class Lists(Locked):
    def forward(self, x):
        return torch.histogramdd(x, [3, 2], range=[-3.0, 3.0, -3.0, 3.0]).hist


class Quantized(Locked):
    def forward(self, x):
        return torch.quantize_per_tensor(x, 0.1, 0, torch.qint8).dequantize()


class Scales(Locked):
    def forward(self, x):
        return x * float(x.sum())


class Halves(Locked):
    def forward(self, x):
        while x.max() > 1:
            x = x / 2
        return x


class Solves(Locked):
    def forward(self, x):
        return torch.linalg.lstsq(x, x).solution


class Returns(nn.Module):
    def forward(self, x):
        print(x.shape)


def line():
    return Line().eval()


def partly_training():
    module = nn.Sequential(nn.Linear(3, 2), nn.Dropout()).eval()
    module[1].train()
    return module


def without_values():
    with torch.device("meta"):
        return line()


def with_nan():
    module = line()
    with torch.no_grad():
        module.line.bias[1] = float("nan")
    return module


def refused(error, module, *args, **options):
    with pytest.raises(error) as caught:
        pyopnb.torch.export(module, args, **options)
    said = re.sub(r"\s+", " ", str(caught.value))
    assert len(said) < 420
    return said


X = torch.ones(2, 3)
INVERSE, LINEAR = torch.ops.aten.inverse.default, torch.ops.aten.linear.default
NO_SUCH_SIZES = "module Line, dynamic_shapes: expected sizes that forward lets change, got"
# What is given, and parts of the message.
# Of arguments that are no export's.
ARGUMENTS = [
    (lambda: Line, (X,), {}, ["expected a torch.nn.Module, got class Line. Try: Line().eval()"]),
    (line, (X, X), {}, ["the arguments of forward(x), got 2 in args, 0 in kwargs: too many"]),
    (Scaled().eval, (X,), {}, ["of forward(x, y, scale), got 1", "a required argument: 'y'."]),
    (line, (X,), {"kwargs": {"z": 1}}, ["got an unexpected keyword argument 'z'."]),
    (
        line,
        (X,),
        {"kwargs": "m.onnx"},
        ["expected a dict of", "Try: pyopnb.save(pyopnb.torch.export(module, args), path)"],
    ),
    (line, (np.ones((2, 3)),), {}, ["got numpy.ndarray. Try: torch.from_numpy(x)"]),
    (
        line,
        (X,),
        {"dynamic_axes": {"x": {0: "batch"}}},
        ["Try: dynamic_shapes={'x': {0: 'batch'}}"],
    ),
    (
        line,
        (X,),
        {"dynamic_shapes": ({5: "batch"},)},
        ["dynamic_shapes, x: expected a dimension from 0 to 1, got 5. Try: {0: 'batch'}"],
    ),
    (line, (X,), {"dynamic_shapes": {"x": {"rows": "batch"}}}, ["from 0 to 1, got 'rows'."]),
    (line, (X,), {"dynamic_shapes": "batch"}, ["an entry for each argument, got 'batch'. Try"]),
    (
        line,
        (X,),
        {"input_names": ["x", "y"]},
        ["input_names: expected a list of at most 1 name, each once, got ['x', 'y']."],
    ),
    (line, (X,), {"output_names": ["score", "score"]}, ["once, got ['score', 'score']."]),
    (line, (X,), {"output_names": "score"}, ["once, got 'score'."]),
    (
        line,
        (X,),
        {"ops": {INVERSE: "demo::X"}},
        ["ops: expected a torch op that the module calls, got torch.ops.aten.inverse.default. Try"],
    ),
    (line, (X,), {"ops": {LINEAR: "com.microsoft::Gem"}}, ["or an operator of ONNX Runtime"]),
]
# Of modules, examples and sizes that cannot become a model.
MODULES = [
    (Line, (X,), {}, ["module Line: expected evaluation mode, got training mode. Try: module.ev"]),
    (partly_training, (X,), {}, ["got training mode in 1."]),
    (Returns().eval, (X,), {}, ["module Returns: expected a forward that returns tensors, got no"]),
    (
        without_values,
        (X,),
        {},
        ["parameter line.weight: expected a tensor with values, got one on the device meta"],
    ),
    (with_nan, (X,), {}, ["parameter line.bias: expected numbers, got NaN in 1 of 2. Try: load"]),
    (lambda: Lazy().eval(), (X,), {}, ["Try: module(*args) once"]),
    (line, (X.to("meta"),), {}, ["args, tensor 0: expected a tensor with values"]),
    (
        line,
        (torch.ones(2, 4),),
        {},
        [
            "`return self.line(x)`: expected arguments that forward takes, got RuntimeError: mat1",
            "Try: an example for which module(*args) runs in torch",
        ],
    ),
    (
        line,
        (X,),
        {"dynamic_shapes": ({1: "features"},)},
        [NO_SUCH_SIZES, "`return self.line(x)`, which takes only 3 there"],
    ),
    (line, (X,), {"dynamic_shapes": ({0: "batch"}, {0: "batch"})}, [NO_SUCH_SIZES[:-5]]),
    (
        line,
        (X,),
        {"dynamic_shapes": ({0: torch.export.Dim("batch", min=5)},)},
        [f"{NO_SUCH_SIZES} ConstraintViolationError:"],
    ),
    (line, (X,), {"dynamic_shapes": ({0: 3},)}, [f"{NO_SUCH_SIZES} ConstraintViolationError:"]),
    (
        Reshapes().eval,
        (torch.ones(2, 3, 2),),
        {"dynamic_shapes": ({0: "batch"},)},
        ["`return x.reshape(2, 6)`, which takes only 2 there", "Try: -1 in the place of 2 in that"],
    ),
    (
        Noise().eval,
        (X,),
        {},
        [
            "`return x + torch.randn_like(x)`, aten.randn_like.default: expected the same"
            " numbers each time, got random numbers. Try: draw the numbers outside"
        ],
    ),
    (DropsOut().eval, (X,), {}, ["dropout(x, 0.5, training=True)`", "got random numbers"]),
    (Samples().eval, (X,), {}, ["torch.multinomial(x.softmax(-1), 2)`", "got random numbers"]),
    (Counter().eval, (X,), {}, ["`self.count += 1`, buffer count: expected a forward that does"]),
    (
        Spectrum().eval,
        (X,),
        {},
        ["`return torch.fft.fft(x)`", "got torch.complex64. Try: torch.view_as_real"],
    ),
    (Sparse().eval, (X,), {}, ["`return x.to_sparse()`", "expected a"]),
    (
        Lists().eval,
        (X.T,),
        {},
        ["[3, 2]", "expected tensors as results, got Tensor, List[Tensor]."],
    ),
    (
        Decides().eval,
        (X,),
        {},
        [
            "`if x.sum() > 0:`: expected control flow that does not depend on values",
            "Try: torch.cond, or torch.where",
        ],
    ),
    (
        Quantized().eval,
        (X,),
        {"dynamic_shapes": ({0: "n"},)},
        [".dequantize()`: expected ops whose sizes torch knows"],
    ),
    (Scales().eval, (X,), {}, ["Try: leave it a tensor: x.sum() for float(x.sum())"]),
    (Halves().eval, (X * 3,), {}, ["Try: torch.while_loop"]),
]
ROWS = [(InputError, *row) for row in ARGUMENTS] + [(ModelError, *row) for row in MODULES]


@pytest.mark.parametrize(
    ("error", "make", "args", "options", "parts"), ROWS, ids=[row[4][-1][:40] for row in ROWS]
)
def test_the_message(error, make, args, options, parts):
    said = refused(error, make(), *args, **options)
    for part in parts:
        assert part in said


def test_a_line_is_named_by_its_file():
    said = refused(ModelError, Noise().eval(), X)
    assert re.match(r"test_refused\.py:\d+, `return x \+ torch\.randn_like\(x\)`", said)


def test_what_is_no_tuple():
    with pytest.raises(InputError, match=r"got Tensor. Try: \(x,\)"):
        pyopnb.torch.export(line(), X)


def test_torchs_own_traceback_and_log_are_not_printed(capfd, caplog):
    for module in (Solves, Scales, Decides):
        with pytest.raises(ModelError) as caught:
            pyopnb.torch.export(module().eval(), (torch.eye(3),))
        assert len(traceback.format_exception(caught.value)) < 10
    refused(ModelError, line(), torch.ones(2, 3, dtype=torch.int64))
    assert capfd.readouterr() == ("", "")
    assert not [record for record in caplog.records if record.levelname != "DEBUG"]


class Fussy(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        self.calls += 1
        raise KeyError("x")


def test_the_module_stays_as_it_was_when_torch_is_asked_whether_it_runs():
    module = Fussy().eval()
    assert "expected arguments that forward takes, got KeyError: 'x'." in refused(
        ModelError, module, X
    )
    assert module.calls == 0


def test_a_line_of_a_cell_is_named_as_in_ipythons_tracebacks(shell):
    cell = """\
        import threading, torch
        import pyopnb.torch
        class Halves(torch.nn.Module):
            lock = None
            def forward(self, x):
                while x.max() > 1:
                    x = x / 2
                return x
        halves = Halves().eval()
        halves.lock = threading.Lock()
        pyopnb.torch.export(halves, (torch.ones(3) * 3,))
        """
    number = shell.execution_count
    result = shell.run_cell(textwrap.dedent(cell), store_history=True)
    said = str(result.error_in_exec)
    assert said.startswith(f"module Halves, Cell In[{number}], line 6, `while x.max() > 1:`")
    assert "torch.while_loop" in said
