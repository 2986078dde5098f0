"""MultiScaleDeformableAttnTRT of BEVFormer_tensorrt, deformable attention from offsets.

Defined in DerryHub/BEVFormer_tensorrt 303d314,
TensorRT/plugin/multi_scale_deformable_attn/multiScaleDeformableAttnKernel.cu. The plugin takes
weights before their softmax; the function in Python of some commits takes them after it. Tested
against a loop by its definition, to 1e-3.
"""

import numpy as np

from pyopnb.catalog.cores.attention import softmax
from pyopnb.catalog.cores.deformable_attention import attend

NAMES = ("::MultiScaleDeformableAttnTRT", "::MultiScaleDeformableAttnTRT2")


class MultiScaleDeformableAttnTRT:
    """Sample values on all levels around each query's references, and sum them.

    The weights of the sum are the softmax of ``weights``.
    """

    def infer(self, value, shapes, references, offsets, weights):
        batch, _, heads, size = value.shape or (None,) * 4
        if offsets.shape:
            queries = offsets.shape[1]
        else:
            queries = None
        return value.like(shape=(batch, queries, heads, size))

    def compute(self, value, shapes, references, offsets, weights):
        batch, queries, heads = offsets.shape[:3]
        levels = len(shapes)
        # A query has one reference, or several that its points share in turn.
        groups = references.size // (batch * queries * 2)
        moved = offsets.astype(np.float32).reshape(batch, queries, heads, levels, -1, groups, 2)
        sizes = shapes[:, ::-1].astype(np.float32)
        sizes = sizes.reshape(levels, 1, 1, 2)
        centers = references.astype(np.float32).reshape(batch, queries, 1, 1, 1, groups, 2)
        locations = centers + moved / sizes
        locations = locations.reshape(batch, queries, heads, levels, -1, 2)
        logits = weights.astype(np.float32).reshape(batch, queries, heads, -1)
        shares = softmax(logits).reshape(locations.shape[:-1])
        # Levels follow one another without gaps, so their starts follow from their areas.
        areas = shapes.prod(axis=1)
        starts = np.cumsum(areas) - areas
        attended = attend(value.astype(np.float32), shapes, starts, locations, shares)
        return attended.astype(value.dtype)
