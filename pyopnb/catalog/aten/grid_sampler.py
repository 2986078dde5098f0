"""grid_sampler of torch, whose exporter writes it where it falls through.

Defined by torch 2.13.0, torch.nn.functional.grid_sample; modes are constant inputs, with mmdeploy's
numbers. Tested against the ONNX Runtime GridSample, to 1e-3.
"""

from pyopnb.catalog.cores.onnx_text import item_of
from pyopnb.catalog.mmdeploy.grid_sampler import grid_sampler as grid_sampler_of_mmdeploy
from pyopnb.engine import TensorType

NAMES = ("org.pytorch.aten::grid_sampler", "org.pytorch.aten::grid_sampler_2d")


class grid_sampler:
    """Sample an image at the points of a grid, whose coordinates x and y go from -1 to 1."""

    def infer(self, x, grid, interpolation_mode, padding_mode, align_corners):
        if x.shape is None or grid.shape is None:
            return TensorType(x.dtype, None)
        shape = (*x.shape[:2], *grid.shape[1:3])
        return x.like(shape=shape)

    def compute(self, x, grid, interpolation_mode, padding_mode, align_corners):
        return _of_mmdeploy(interpolation_mode, padding_mode, align_corners).compute(x, grid)

    lowered_opset = 20
    lowered_finite = True

    def lowered(self, x, grid, interpolation_mode, padding_mode, align_corners):
        # The modes are constants of the model, and become attributes of GridSample.
        form = _of_mmdeploy(interpolation_mode, padding_mode, align_corners).lowered(x, grid)
        inputs = "(x, grid, interpolation_mode, padding_mode, align_corners)"
        return form.replace("(x, grid)", inputs, 1)


def _of_mmdeploy(*modes):
    # mmdeploy passes on the numbers of the modes in aten.
    numbers = [int(item_of(mode, 0)) for mode in modes]
    if not set(numbers) <= {0, 1, 2}:
        raise ValueError(f"modes: expected 0, 1 or 2, got {numbers}")
    return grid_sampler_of_mmdeploy(*numbers)
