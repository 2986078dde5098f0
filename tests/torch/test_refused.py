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


class Line(nn.Module):
    def __init__(self):
        super().__init__()
        self.line = nn.Linear(3, 2)

    def forward(self, x):
        return self.line(x)


def refused(module, *args, error=pyopnb.errors.ModelError, **options):
    with pytest.raises(error) as caught:
        pyopnb.torch.export(module, args, **options)
    return re.sub(r"\s+", " ", str(caught.value))


def test_training_mode():
    assert refused(Line(), torch.ones(2, 3)) == (
        "module Line: expected evaluation mode, got training mode. Try: module.eval()"
    )
    inner = nn.Sequential(nn.Linear(3, 2), nn.Dropout()).eval()
    inner[1].train()
    assert "got training mode in 1." in refused(inner, torch.ones(2, 3))


def test_a_module_or_argument_without_values():
    with torch.device("meta"):
        empty = Line().eval()
    assert refused(empty, torch.ones(2, 3)).startswith(
        "module Line, parameter line.weight: expected a tensor with values, got one on the device meta. Try: load"
    )
    assert refused(Line().eval(), torch.ones(2, 3, device="meta")).startswith(
        "args, tensor 0: expected a tensor with values"
    )


def test_nan_among_the_weights():
    module = Line().eval()
    with torch.no_grad():
        module.line.bias[1] = float("nan")
    assert refused(module, torch.ones(2, 3)).startswith(
        "module Line, parameter line.bias: expected numbers, got NaN in 1 of 2. Try: load the weights"
    )


def test_what_is_no_module_and_no_tuple():
    said = refused(Line, torch.ones(2, 3), error=pyopnb.errors.InputError)
    assert said == "module: expected a torch.nn.Module, got class Line. Try: Line().eval()"
    with pytest.raises(
        pyopnb.errors.InputError,
        match=r"args: expected a tuple of the module's arguments, got Tensor. Try: \(x,\)",
    ):
        pyopnb.torch.export(Line().eval(), torch.ones(2, 3))


class Scaled(nn.Module):
    def forward(self, x, y, *, scale=1.0):
        return x @ y * scale


@pytest.mark.parametrize(
    ("module", "args", "options", "said"),
    [
        (
            Line,
            2,
            {},
            "args: expected the arguments of forward(x), got 2 in args, 0 in kwargs: too many positional arguments.",
        ),
        (
            Scaled,
            1,
            {},
            "args: expected the arguments of forward(x, y, scale), got 1 in args, 0 in kwargs: missing a required argument: 'y'.",
        ),
        (
            Line,
            1,
            {"kwargs": {"z": 1}},
            "args: expected the arguments of forward(x), got 1 in args, 1 in kwargs: got an unexpected keyword argument 'z'.",
        ),
        (
            Line,
            1,
            {"kwargs": [1]},
            "kwargs: expected a dict of parameter names and arguments, got list. Try: pyopnb.save(pyopnb.torch.export(module, args), path) for a file",
        ),
    ],
)
def test_arguments_that_forward_does_not_have(module, args, options, said):
    with pytest.raises(pyopnb.errors.InputError) as caught:
        pyopnb.torch.export(module().eval(), (torch.ones(2, 3),) * args, **options)
    assert str(caught.value) == said


def test_an_array_in_the_place_of_a_tensor():
    said = refused(Line().eval(), np.ones((2, 3), np.float32), error=pyopnb.errors.InputError)
    assert said == "args, x: expected a torch.Tensor, got numpy.ndarray. Try: torch.from_numpy(x)"


@pytest.mark.parametrize(
    ("x", "tells"),
    [
        (
            torch.ones(2, 4),
            "mat1 and mat2 shapes cannot be multiplied (2x4 and 3x2)",
        ),
        (
            torch.ones(2, 3, dtype=torch.int64),
            "mat1 and mat2 must have the same dtype",
        ),
    ],
)
def test_an_example_for_which_torch_itself_does_not_run(x, tells, caplog):
    said = refused(Line().eval(), x)
    assert (
        "`return self.line(x)`: expected arguments that forward takes, got RuntimeError: " + tells
        in said
    )
    assert said.endswith("Try: an example for which module(*args) runs in torch")
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
        module, torch.ones(2)
    )
    assert module.calls == 0


def test_wrong_dynamic_shapes():
    said = refused(Line().eval(), torch.ones(2, 3), dynamic_shapes=({1: "features"},))
    assert said.startswith(
        "module Line, dynamic_shapes: expected sizes that forward lets change, got"
    )
    assert "`return self.line(x)`, which takes only 3 there" in said
    said = refused(Line().eval(), torch.ones(2, 3), dynamic_shapes=({0: "batch"}, {0: "batch"}))
    assert said.startswith("module Line, dynamic_shapes: expected")


@pytest.mark.parametrize(
    ("shapes", "said"),
    [
        (
            ({5: "batch"},),
            "dynamic_shapes, x: expected a dimension from 0 to 1, got 5. Try: {0: 'batch'}",
        ),
        (
            {"x": {"rows": "batch"}},
            "dynamic_shapes, x: expected a dimension from 0 to 1, got 'rows'. Try: {0: 'batch'}",
        ),
        (
            "batch",
            "dynamic_shapes: expected an entry for each argument, got 'batch'. Try: ({0: 'batch'},)",
        ),
    ],
)
def test_dimensions_that_are_not_there(shapes, said):
    assert (
        refused(
            Line().eval(), torch.ones(2, 3), dynamic_shapes=shapes, error=pyopnb.errors.InputError
        )
        == said
    )


@pytest.mark.parametrize("size", [torch.export.Dim("batch", min=5), 3])
def test_dimensions_that_the_example_does_not_have(size):
    said = refused(Line().eval(), torch.ones(2, 3), dynamic_shapes=({0: size},))
    assert said.startswith(
        "module Line, dynamic_shapes: expected sizes that forward lets change, got ConstraintViolationError:"
    )


def test_more_names_than_inputs_and_outputs():
    said = refused(
        Line().eval(), torch.ones(2, 3), input_names=["x", "y"], error=pyopnb.errors.InputError
    )
    assert said == "input_names: expected a list of at most 1 name, each once, got ['x', 'y']."
    said = refused(
        Line().eval(),
        torch.ones(2, 3),
        output_names=["score", "score"],
        error=pyopnb.errors.InputError,
    )
    assert (
        said
        == "output_names: expected a list of at most 1 name, each once, got ['score', 'score']."
    )
    said = refused(
        Line().eval(), torch.ones(2, 3), output_names="score", error=pyopnb.errors.InputError
    )
    assert said == "output_names: expected a list of at most 1 name, each once, got 'score'."


class Noise(nn.Module):
    def forward(self, x):
        return x + torch.randn_like(x)


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


class Quantised(Locked):
    def forward(self, x):
        return torch.quantize_per_tensor(x, 0.1, 0, torch.qint8).dequantize()


class Nested(nn.Module):
    def forward(self, x):
        return torch.histogramdd(x, [3, 2], range=[-3.0, 3.0, -3.0, 3.0]).hist


def test_random_numbers_with_the_line():
    said = refused(Noise().eval(), torch.ones(3))
    assert re.sub(r":\d+,", ":LINE,", said) == (
        "test_refused.py:LINE, `return x + torch.randn_like(x)`, aten.randn_like.default: expected what gives the same numbers each "
        "time, got random numbers. Try: draw the numbers outside, and give them as an input"
    )


def test_a_buffer_that_changes():
    said = refused(Counter().eval(), torch.ones(3))
    assert (
        "`self.count += 1`, buffer count: expected a forward that does not change its module, got one that writes to"
        in said
    )


def test_complex_results_with_the_line():
    said = refused(Spectrum().eval(), torch.ones(4))
    assert "`return torch.fft.fft(x)`" in said
    assert said.endswith("got torch.complex64. Try: torch.view_as_real, or torch.view_as_complex")


def test_control_flow_that_values_decide():
    said = refused(Decides().eval(), torch.ones(3))
    assert "`if x.sum() > 0:`: expected control flow that no values decide" in said
    assert said.endswith("Try: torch.cond, or torch.where")


def test_what_torch_itself_does_not_export():
    said = refused(Quantised().eval(), torch.ones(3), dynamic_shapes=({0: "n"},))
    assert (
        "`return torch.quantize_per_tensor(x, 0.1, 0, torch.qint8).dequantize()`: expected ops whose sizes torch knows"
        in said
    )


def test_an_op_that_returns_lists_beside_tensors():
    said = refused(Nested().eval(), torch.ones(3, 2))
    assert (
        "`return torch.histogramdd(x, [3, 2], range=[-3.0, 3.0, -3.0, 3.0]).hist`, aten.histogramdd.default: expected an"
        in said
    )
    assert said.endswith("expected tensors as results, got Tensor, List[Tensor].")


def test_ops_that_are_not_there():
    said = refused(
        Line().eval(),
        torch.ones(2, 3),
        error=pyopnb.errors.InputError,
        ops={torch.ops.aten.inverse.default: "demo::X"},
    )
    assert said == (
        "ops: expected a torch op that the module calls, got torch.ops.aten.inverse.default. Try: for node in torch.export.export(module, args).graph.nodes: print(node.target)"
    )
    said = refused(
        Line().eval(),
        torch.ones(2, 3),
        error=pyopnb.errors.InputError,
        ops={torch.ops.aten.linear.default: "com.microsoft::Gem"},
    )
    assert said.startswith(
        "ops, torch.ops.aten.linear.default: expected an op of the registry, or an operator of ONNX Runtime"
    )


class Lazy(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.LazyLinear(3)

    def forward(self, x):
        return self.layer(x)


class Scales(Locked):
    def forward(self, x):
        return x * float(x.sum())


class Halves(Locked):
    def forward(self, x):
        while x.max() > 1:
            x = x / 2
        return x


@pytest.mark.parametrize(
    ("module", "next_"),
    [
        (Lazy, "module(*args) once"),
        (Scales, "x.sum() for float(x.sum())"),
        (Halves, "torch.while_loop"),
    ],
)
def test_what_to_type_instead(module, next_):
    said = refused(module().eval(), torch.ones(2, 3) * 3)
    assert next_ in said.partition("Try: ")[2]
    assert len(said) < 350


def test_arguments_of_the_older_exporter():
    error = pyopnb.errors.InputError
    x = torch.ones(2, 3)
    with pytest.raises(error, match=r"pyopnb\.save\(pyopnb\.torch\.export\(module, args\), path\)"):
        pyopnb.torch.export(Line().eval(), (x,), "m.onnx")
    said = refused(Line().eval(), x, error=error, dynamic_axes={"x": {0: "batch"}})
    assert "dynamic_shapes={'x': {0: 'batch'}}" in said


class Reshapes(nn.Module):
    def forward(self, x):
        return x.reshape(2, 6)


def test_the_line_that_fixes_a_size():
    said = refused(Reshapes().eval(), torch.ones(2, 3, 2), dynamic_shapes=({0: "batch"},))
    assert "`return x.reshape(2, 6)`, which takes only 2 there" in said
    assert "Try: -1 in the place of 2 in that line" in said


def test_an_example_batch_of_one():
    said = refused(Line().eval(), torch.ones(1, 3), dynamic_shapes=({0: "batch"},))
    assert said.endswith("Try: an example with 2 or more there")


class Solves(Locked):
    def forward(self, x):
        return torch.linalg.lstsq(x, x).solution


@pytest.mark.parametrize("module", [Solves, Scales, Decides])
def test_torchs_own_traceback_is_not_printed(module, capfd):
    with pytest.raises(pyopnb.errors.ModelError) as caught:
        pyopnb.torch.export(module().eval(), (torch.eye(3),))
    assert len(traceback.format_exception(caught.value)) < 10
    assert capfd.readouterr() == ("", "")


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
