"""CollectRpnProposals of Caffe2, which merges the regions of all levels.

Defined in pytorch/pytorch v1.13.1, caffe2/operators/collect_and_distribute_fpn_rpn_proposals_op.cc
and collect_rpn_proposals_op.cc. Tested against a loop by its definition, exactly.
"""

import numpy as np

NAMES = ("org.pytorch._caffe2::CollectRpnProposals",)


class CollectRpnProposals:
    """Merge the regions of all levels and keep the ones with the best scores.

    The first half of the inputs are the regions of each level, the second half their scores.
    """

    def __init__(
        self, rpn_max_level: int = 6, rpn_min_level: int = 2, rpn_post_nms_topN: int = 2000
    ):
        self.levels = rpn_max_level - rpn_min_level + 1
        self.most = rpn_post_nms_topN

    def infer(self, *tensors):
        return tensors[0].like(shape=(None, 5))

    def compute(self, *tensors):
        if len(tensors) != 2 * self.levels:
            raise ValueError(f"expected {2 * self.levels} inputs, got {len(tensors)}")
        regions = np.concatenate(tensors[: self.levels])
        scores = [part.ravel() for part in tensors[self.levels :]]
        scores = np.concatenate(scores)
        # The sort in Caffe2 is also stable: of equal scores the first region stays first.
        order = np.argsort(-scores, kind="stable")
        return regions[order[: self.most] if self.most > 0 else order]
