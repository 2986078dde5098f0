"""EfficientNMS in the ONNX operators."""

from __future__ import annotations

from typing import Any

from pyopnb.catalog.cores.candidates import raw_threshold
from pyopnb.catalog.cores.nms_form import best_rows_form, limit_over, suppression_form
from pyopnb.catalog.cores.onnx_text import LOWEST, dtype_number, exact
from pyopnb.engine import TensorType

__all__ = ["efficient_nms_form"]

_MOST_CANDIDATES = 5000


def efficient_nms_form(
    op: Any,
    boxes: TensorType,
    scores: TensorType,
    anchors: TensorType | None,
    *,
    gives_numbers: bool = False,
) -> str:
    """Write EfficientNMS_TRT as a function.

    Parameters
    ----------
    op : EfficientNMS_TRT
        With its attrs.
    boxes, scores, anchors : TensorType
        Of the inputs.
    gives_numbers : bool
        Whether the numbers of the boxes are a fifth output.
    """
    assert boxes.shape is not None  # noqa: S101  # lowering knows all ranks
    is_per_class = len(boxes.shape) == 4
    box_form = "class_boxes = Identity(boxes)"
    if is_per_class:
        # Boxes that all classes share may still have an axis for them.
        box_form = """
        score_shape = Shape(scores)
        single = Constant<value_ints = [1]>()
        box_shape = Concat<axis = 0>(score_shape, single)
        class_boxes = Expand(boxes, box_shape)"""
    outputs = "count, best_boxes, best_scores, best_classes"
    numbers = ""
    if gives_numbers:
        outputs += ", best_numbers"
        numbers = """
        number_rows = GatherElements<axis = 1>(numbers, order)
        real_numbers = Where(is_row, number_rows, zero_64)
        best_numbers = Cast<to = 6>(real_numbers)
        """
    return f"""(boxes, scores, anchors) => ({outputs}) {{
        {box_form}
        boxes_32 = Cast<to = 1>(class_boxes)
        scores_32 = Cast<to = 1>(scores)
        zero_64 = Constant<value_int = 0>()
        {_corners(op, anchors, is_per_class)}
        {_candidates(op, scores)}
        {_pick(is_per_class)}
        {_scores_by_class(op)}
        most = Constant<value_ints = [{op.max_output_boxes}]>()
        {suppression_form(limit_over(op.iou_threshold, inclusive=True), "most")}
        list_scores = Identity(kept_scores)
        {best_rows_form(op.max_output_boxes)}
        one_a_row = Cast<to = 6>(is_row)
        row_axis = Constant<value_ints = [1]>()
        count = ReduceSum<keepdims = 1>(one_a_row, row_axis)
        order_column = Unsqueeze(order, last_axis)
        box_rows = GatherND<batch_dims = 1>(ranked_boxes, order_column)
        zero = Constant<value_float = 0.0>()
        is_row_column = Unsqueeze(is_row, last_axis)
        real_boxes = Where(is_row_column, box_rows, zero)
        best_boxes = Cast<to = {dtype_number(boxes)}>(real_boxes)
        score_rows = {"Sigmoid" if op.is_logit else "Identity"}(best)
        real_scores = Where(is_row, score_rows, zero)
        best_scores = Cast<to = {dtype_number(scores)}>(real_scores)
        class_rows = GatherElements<axis = 1>(classes, order)
        real_classes = Where(is_row, class_rows, zero_64)
        best_classes = Cast<to = 6>(real_classes)
        {numbers}
    }}"""


def _corners(op: Any, anchors: TensorType | None, is_per_class: bool) -> str:
    """Write the nodes that make corners of the boxes."""
    text = ""
    if anchors is not None:
        text = "anchors_32 = Cast<to = 1>(anchors)"
        if is_per_class:
            text += """
        class_axis = Constant<value_ints = [2]>()
        anchor = Unsqueeze(anchors_32, class_axis)"""
        else:
            text += """
        anchor = Identity(anchors_32)"""
    if anchors is None and not op.has_centers:
        return "corners = Identity(boxes_32)"
    if not op.has_centers:
        return f"""{text}
        {_ordered("boxes_32")}
        {_ordered("anchor")}
        corners = Add(ordered_boxes_32, ordered_anchor)"""
    text += """
        two_and_two = Constant<value_ints = [2, 2]>()
        raw_center, raw_size = Split<axis = -1>(boxes_32, two_and_two)"""
    if anchors is None:
        text += """
        center = Identity(raw_center)
        size = Identity(raw_size)"""
    else:
        text += """
        anchor_center, anchor_size = Split<axis = -1>(anchor, two_and_two)
        scaled_center = Mul(raw_center, anchor_size)
        center = Add(scaled_center, anchor_center)
        growth = Exp(raw_size)
        size = Mul(growth, anchor_size)"""
    return f"""{text}
        two = Constant<value_float = 2.0>()
        half_size = Div(size, two)
        first_corner = Sub(center, half_size)
        second_corner = Add(center, half_size)
        corners = Concat<axis = -1>(first_corner, second_corner)"""


def _ordered(name: str) -> str:
    """Write the nodes that put the lower corner first, into the name with ``ordered_`` before."""
    return f"""
        halves_of_{name} = Constant<value_ints = [2, 2]>()
        {name}_1, {name}_2 = Split<axis = -1>({name}, halves_of_{name})
        low_{name} = Min({name}_1, {name}_2)
        high_{name} = Max({name}_1, {name}_2)
        ordered_{name} = Concat<axis = -1>(low_{name}, high_{name})"""


def _candidates(op: Any, scores: TensorType) -> str:
    """Write the nodes that sort the scores which count, of all classes in one list."""
    assert scores.dtype is not None  # noqa: S101  # lowering knows all dtypes
    raw = raw_threshold(op.score_threshold, scores.dtype.numpy, is_logit=op.is_logit)
    threshold = max(raw, LOWEST)
    foreground = "is_candidate = Identity(is_good)"
    if op.background_class >= 0:
        foreground = f"""
        background = Constant<value_int = {op.background_class}>()
        is_background = Equal(labels, background)
        is_foreground = Not(is_background)
        is_candidate = And(is_good, is_foreground)"""
    return f"""
        lowest_score = Constant<value_float = {LOWEST!r}>()
        threshold = Constant<value_float = {exact(threshold)}>()
        is_good = GreaterOrEqual(scores_32, threshold)
        class_count = Shape<start = 2>(scores)
        label_end = Squeeze(class_count)
        label_step = Constant<value_int = 1>()
        labels = Range(zero_64, label_end, label_step)
        {foreground}
        candidate_scores = Where(is_candidate, scores_32, lowest_score)
        every_score = Flatten(candidate_scores)
        available = Shape<start = 1>(every_score)
        most_candidates = Constant<value_ints = [{_MOST_CANDIDATES}]>()
        candidate_count = Min(available, most_candidates)
        top_scores, ranks = TopK<axis = 1>(every_score, candidate_count)
        # A last candidate that is none: no list is empty.
        one_more = Constant<value_ints = [0, 0, 0, 1]>()
        ranked_scores = Pad(top_scores, one_more, lowest_score)
        top_numbers = Div(ranks, class_count)
        numbers = Pad(top_numbers, one_more)
        top_classes = Mod(ranks, class_count)
        classes = Pad(top_classes, one_more)
        last_axis = Constant<value_ints = [-1]>()"""


def _pick(is_per_class: bool) -> str:
    """Write the nodes that look the candidates' boxes up."""
    text = """
        rank_column = Unsqueeze(top_numbers, last_axis)
        every_box = Identity(corners)"""
    if is_per_class:
        text = """
        rank_column = Unsqueeze(ranks, last_axis)
        images = Shape<end = 1>(corners)
        four = Constant<value_ints = [4]>()
        list_shape = Concat<axis = 0>(images, available, four)
        every_box = Reshape<allowzero = 1>(corners, list_shape)"""
    return f"""{text}
        top_boxes = GatherND<batch_dims = 1>(every_box, rank_column)
        one_more_box = Constant<value_ints = [0, 0, 0, 0, 1, 0]>()
        ranked_boxes = Pad(top_boxes, one_more_box)"""


def _scores_by_class(op: Any) -> str:
    """Write the nodes that give each class a list, in which the others' candidates are absent."""
    text = """
        class_axis_of_list = Constant<value_ints = [1]>()
        scores_row = Unsqueeze(ranked_scores, class_axis_of_list)"""
    if op.is_class_agnostic:
        return f"{text}\n        scores_by_class = Identity(scores_row)"
    return f"""{text}
        classes_row = Unsqueeze(classes, class_axis_of_list)
        label_column = Unsqueeze(labels, last_axis)
        has_label = Equal(classes_row, label_column)
        scores_by_class = Where(has_label, scores_row, lowest_score)"""
