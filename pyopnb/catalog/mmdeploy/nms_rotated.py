"""NMSRotated, which ends the detectors of turned boxes that mmdeploy exports from mmrotate.

Defined in open-mmlab/mmdeploy v1.3.1,
csrc/mmdeploy/backend_ops/onnxruntime/nms_rotated/nms_rotated.cpp. mmcv has an operator of the same
name with boxes [N,5] and one score a box; it is another one. Differs: equal scores come in the
order of the input, where std::sort gives any; and overlaps are computed in float64. Tested against
the ONNX Runtime NonMaxSuppression on boxes that are not turned, and an octagon's area, exactly.
"""

import numpy as np

from pyopnb.catalog.cores.onnx_text import exact
from pyopnb.catalog.cores.rotated_boxes import rotated_overlaps_form, suppress_rotated

NAMES = ("mmdeploy::NMSRotated",)


class NMSRotated:
    """Select turned boxes in each image and class, as rows of image, class and box.

    The best box of a class suppresses all that it overlaps by more than
    ``iou_threshold``, with any score. Of the remaining boxes, the ones with a score over
    ``score_threshold`` are returned.
    """

    def __init__(self, iou_threshold: float = 0.5, score_threshold: float = 0.0):
        self.iou_threshold = iou_threshold
        self.score_threshold = np.float32(score_threshold)

    def infer(self, boxes, scores):
        return boxes.like(dtype="int64", shape=(None, 3))

    def compute(self, boxes: "any[B, N, 5]", scores: "any[B, C, N]"):
        rows = []
        for image in range(len(boxes)):
            for label, class_scores in enumerate(scores[image].astype(np.float32)):
                order = np.argsort(-class_scores, kind="stable")
                kept = order[suppress_rotated(boxes[image][order], self.iou_threshold)]
                # Scores are compared after suppression: a bad box may suppress a worse one.
                kept = kept[class_scores[kept] > self.score_threshold]
                rows += [(image, label, number) for number in kept]
        flat = np.array(rows, np.int64)
        return flat.reshape(-1, 3)

    lowered_opset = 18
    lowered_finite = True

    def lowered(self, boxes, scores):
        # The ONNX suppression knows no turned boxes: the best box of each class is taken in a loop.
        return f"""(boxes, scores) => (selected) {{
            {rotated_overlaps_form(self.iou_threshold)}
            scores_32 = Cast<to = 1>(scores)
            ranked, order = TopK<axis = 2>(scores_32, box_counts)
            zero_64 = Constant<value_int = 0>()
            one_64 = Constant<value_int = 1>()
            last_axis = Constant<value_ints = [2]>()
            all_ranks = Range(zero_64, box_count, one_64)
            shape = Shape(scores)
            ranks = Expand(all_ranks, shape)
            rank = ScatterElements<axis = 2>(order, order, ranks)
            all_kept = ConstantOfShape<value = bool[1] {{1}}>(shape)
            kept = Loop<body = suppress (int64 place, bool go_in, bool[B,C,N] kept_in)
                    => (bool go_out, bool[B,C,N] kept_out) {{
                go_out = Identity(go_in)
                here = Reshape(place, single)
                best = Gather<axis = 2>(order, here)
                rivals = GatherND<batch_dims = 1>(overlap, best)
                is_kept = GatherElements<axis = 2>(kept_in, best)
                is_worse = Greater(rank, place)
                overlaps_worse = And(rivals, is_worse)
                is_beaten = And(overlaps_worse, is_kept)
                is_free = Not(is_beaten)
                kept_out = And(kept_in, is_free)
            }}>(box_count, go, all_kept)
            ranked_kept = GatherElements<axis = 2>(kept, order)
            score_threshold = Constant<value_float = {exact(self.score_threshold)}>()
            is_good = Greater(ranked, score_threshold)
            is_selected = And(ranked_kept, is_good)
            positions = NonZero(is_selected)
            position_rows = Transpose(positions)
            numbers = GatherND(order, position_rows)
            zeros = Constant<value_ints = [0]>()
            image_and_class = Slice(position_rows, zeros, last_axis, single)
            number_column = Unsqueeze(numbers, single)
            selected = Concat<axis = 1>(image_and_class, number_column)
        }}"""
