"""CollectAndDistributeFpnRpnProposals of Caffe2, CollectRpnProposals and DistributeFpnProposals.

Defined in pytorch/pytorch v1.13.1, caffe2/operators/collect_and_distribute_fpn_rpn_proposals_op.cc.
Tested against a loop by its definition, exactly.
"""

from pyopnb.catalog.caffe2.collect_rpn_proposals import CollectRpnProposals as Collect
from pyopnb.catalog.caffe2.distribute_fpn_proposals import DistributeFpnProposals as Distribute

NAMES = ("org.pytorch._caffe2::CollectAndDistributeFpnRpnProposals",)


class CollectAndDistributeFpnRpnProposals:
    """Keep the regions with the best scores, and sort them by the level of their features."""

    def __init__(
        self,
        roi_canonical_scale: int = 224,
        roi_canonical_level: int = 4,
        roi_max_level: int = 5,
        roi_min_level: int = 2,
        rpn_max_level: int = 6,
        rpn_min_level: int = 2,
        rpn_post_nms_topN: int = 2000,
        legacy_plus_one: int = 1,
    ):
        self.collect = Collect(rpn_max_level, rpn_min_level, rpn_post_nms_topN)
        self.distribute = Distribute(
            roi_canonical_scale, roi_canonical_level, roi_max_level, roi_min_level, legacy_plus_one
        )

    def infer(self, *tensors):
        regions = self.collect.infer(*tensors)
        return (regions, *self.distribute.infer(regions))

    def compute(self, *tensors):
        regions = self.collect.compute(*tensors)
        return (regions, *self.distribute.compute(regions))
