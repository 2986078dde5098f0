"""DistributeFpnProposals of Caffe2, which sorts regions by the level of their features.

Defined in pytorch/pytorch v1.13.1, caffe2/operators/distribute_fpn_proposals_op.cc. Tested against
a loop by its definition, exactly.
"""

from pyopnb.catalog.cores.pyramid_levels import distribute, find_levels

NAMES = ("org.pytorch._caffe2::DistributeFpnProposals",)


class DistributeFpnProposals:
    """Return the regions of each level, and where the original ones are among them."""

    def __init__(
        self,
        roi_canonical_scale: int = 224,
        roi_canonical_level: int = 4,
        roi_max_level: int = 5,
        roi_min_level: int = 2,
        legacy_plus_one: int = 1,
    ):
        self.levels = (roi_min_level, roi_max_level)
        self.rule = {
            "scale": roi_canonical_scale,
            "level": roi_canonical_level,
            "plus_one": float(legacy_plus_one),
        }

    def infer(self, rois):
        lowest, highest = self.levels
        of_levels = [rois.like(shape=(None, 5))] * (highest - lowest + 1)
        return (*of_levels, rois.like(dtype="int32", shape=(None,)))

    def compute(self, rois: "any[R,5]"):
        # The first column is the number of the image.
        levels = find_levels(rois[:, 1:], *self.levels, **self.rule)
        return tuple(distribute(rois, levels, *self.levels))
