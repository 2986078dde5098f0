"""Non-maximum suppression in the ONNX operators.

The ONNX NonMaxSuppression suppresses boxes that overlap by more than its threshold, skips boxes
whose score is not over its score threshold, and returns the boxes of all images and classes in one
list. So the nodes sort the candidates, mark the ones that it keeps, and take the first marked ones:
equal scores stay in the order of the input.
"""

from __future__ import annotations

import numpy as np

from pyopnb.catalog.cores.onnx_text import LOWEST, exact

__all__ = ["best_rows_form", "limit_over", "per_class_form", "suppression_form"]


def limit_over(iou_threshold: float, *, inclusive: bool = False) -> str:
    """Write a threshold for the ONNX operator, which suppresses only boxes above the threshold.

    Raises
    ------
    NotImplementedError
        the ONNX operator takes thresholds from 0 to 1.
    """
    limit = np.float32(iou_threshold)
    if inclusive:
        limit = np.nextafter(limit, np.float32(-1))
    if not 0 <= limit <= 1:
        raise NotImplementedError(f"an IoU threshold of {iou_threshold:g}")
    return exact(limit)


def suppression_form(limit: str, most: str) -> str:
    """Write the nodes that mark the candidates which no better one suppresses.

    Parameters
    ----------
    limit : str
        As `limit_over` writes it.
    most : str
        The name of an int64[1], how many are kept of a class at most.

    Returns
    -------
    str
        Nodes that read ``ranked_boxes`` [I,K,4], ``ranked_scores`` [I,K], which are `LOWEST` where
        there is no candidate, and ``scores_by_class`` [I,C,K], and write ``kept_scores`` [I,K],
        with `LOWEST` for a suppressed candidate.
    """
    return f"""
        lowest = Constant<value_float = {LOWEST!r}>()
        limit = Constant<value_float = {limit}>()
        selected = NonMaxSuppression(ranked_boxes, scores_by_class, {most}, limit, lowest)
        image_and_box = Constant<value_ints = [0, 2]>()
        positions = Gather<axis = 1>(selected, image_and_box)
        ranked_shape = Shape(ranked_scores)
        no_marks = ConstantOfShape<value = int64[1] {{0}}>(ranked_shape)
        selected_count = Shape<end = 1>(selected)
        ones = ConstantOfShape<value = int64[1] {{1}}>(selected_count)
        marks = ScatterND(no_marks, positions, ones)
        is_kept = Cast<to = 9>(marks)
        kept_scores = Where(is_kept, ranked_scores, lowest)
    """


def best_rows_form(keep: int) -> str:
    """Write the nodes that take the best of each image.

    Parameters
    ----------
    keep : int
        How many rows the outputs have.

    Returns
    -------
    str
        Nodes that read ``list_scores`` [B,K] and ``lowest``, and write ``best`` [B,keep],
        ``is_row``, whether a row has a candidate, and ``order``, the candidate's position in the
        list, which has no meaning in a row without a candidate.
    """
    return f"""
        list_images = Shape<end = 1>(list_scores)
        rows = Constant<value_ints = [{keep}]>()
        padding_shape = Concat<axis = 0>(list_images, rows)
        padding = Expand(lowest, padding_shape)
        padded = Concat<axis = 1>(list_scores, padding)
        best, padded_order = TopK<axis = 1>(padded, rows)
        is_row = Greater(best, lowest)
        list_size = Shape<start = 1>(list_scores)
        one = Constant<value_ints = [1]>()
        last = Sub(list_size, one)
        order = Min(padded_order, last)
    """


def per_class_form(
    *,
    score_threshold: float,
    limit: str,
    top_k: int,
    keep: int,
    background: int,
    sorts_corners: bool = True,
) -> str:
    """Write the nodes that select the best boxes of each class and then of the image.

    They compute the same as `pyopnb.catalog.cores.per_class_nms.select_per_class`.

    Parameters
    ----------
    score_threshold, top_k, keep, background
        As that function takes them.
    limit : str
        As `limit_over` writes it.
    sorts_corners : bool
        Whether a box whose corners are swapped counts as if they were in order, as for ONNX's
        operator. Otherwise it has no area.

    Returns
    -------
    str
        Nodes that read ``boxes_32`` [B,N,1 or C,4], ``scores_32`` [B,N,C] and ``last_axis``, and
        write what
        `best_rows_form` does, ``box_rows`` [B,keep,4], ``number_rows`` [B,keep],
        ``score_rows`` and ``label_rows`` with 0 and -1 where nothing is, and the numbers
        ``zero``, ``unit`` and ``nobody``, -1.
    """
    most = top_k if top_k > 0 else 2**31
    compared = "ranked_boxes = Identity(given_boxes)"
    if not sorts_corners:
        compared = """
        two_and_two = Constant<value_ints = [2, 2]>()
        first, second = Split<axis = -1>(given_boxes, two_and_two)
        high = Max(first, second)
        ranked_boxes = Concat<axis = -1>(first, high)"""
    return f"""
        zero_64 = Constant<value_int = 0>()
        step = Constant<value_int = 1>()
        images = Shape<end = 1>(scores_32)
        class_count = Shape<start = 2>(scores_32)
        box_count = Shape<start = 1, end = 2>(scores_32)
        label_end = Squeeze(class_count)
        labels = Range(zero_64, label_end, step)
        label_column = Unsqueeze(labels, last_axis)
        background = Constant<value_int = {background}>()
        is_background = Equal(label_column, background)
        scores_of_classes = Transpose<perm = [0, 2, 1]>(scores_32)
        threshold = Constant<value_float = {exact(score_threshold)}>()
        is_good = Greater(scores_of_classes, threshold)
        is_foreground = Not(is_background)
        is_candidate = And(is_good, is_foreground)
        no_score = Constant<value_float = {LOWEST!r}>()
        candidates = Where(is_candidate, scores_of_classes, no_score)
        most_of_class = Constant<value_ints = [{most}]>()
        candidate_count = Min(box_count, most_of_class)
        top_scores, top_numbers = TopK<axis = 2>(candidates, candidate_count)
        # A last candidate that is none: no list is empty.
        one_more = Constant<value_ints = [0, 0, 0, 0, 0, 1]>()
        class_scores = Pad(top_scores, one_more, no_score)
        class_numbers = Pad(top_numbers, one_more)
        one_long = Constant<value_ints = [1]>()
        length = Add(candidate_count, one_long)
        # Each class of each image has a list of its own, as if it were an image.
        four = Constant<value_ints = [4]>()
        list_count = Mul(images, class_count)
        lists_shape = Concat<axis = 0>(list_count, length)
        ranked_scores = Reshape<allowzero = 1>(class_scores, lists_shape)
        all_boxes_shape = Concat<axis = 0>(images, box_count, class_count, four)
        all_boxes = Expand(boxes_32, all_boxes_shape)
        boxes_of_classes = Transpose<perm = [0, 2, 1, 3]>(all_boxes)
        number_column = Unsqueeze(top_numbers, last_axis)
        top_boxes = GatherND<batch_dims = 2>(boxes_of_classes, number_column)
        one_more_box = Constant<value_ints = [0, 0, 0, 0, 0, 0, 1, 0]>()
        class_boxes = Pad(top_boxes, one_more_box)
        box_lists_shape = Concat<axis = 0>(list_count, length, four)
        given_boxes = Reshape<allowzero = 1>(class_boxes, box_lists_shape)
        {compared}
        class_axis = Constant<value_ints = [1]>()
        scores_by_class = Unsqueeze(ranked_scores, class_axis)
        most = Constant<value_ints = [{keep}]>()
        {suppression_form(limit, "most")}
        image_length = Mul(class_count, length)
        image_shape = Concat<axis = 0>(images, image_length)
        list_scores = Reshape<allowzero = 1>(kept_scores, image_shape)
        {best_rows_form(keep)}
        image_boxes_shape = Concat<axis = 0>(images, image_length, four)
        image_boxes = Reshape<allowzero = 1>(class_boxes, image_boxes_shape)
        order_column = Unsqueeze(order, last_axis)
        box_rows = GatherND<batch_dims = 1>(image_boxes, order_column)
        class_rows = Div(order, length)
        image_numbers = Reshape<allowzero = 1>(class_numbers, image_shape)
        number_rows = GatherElements<axis = 1>(image_numbers, order)
        is_row_column = Unsqueeze(is_row, last_axis)
        zero = Constant<value_float = 0.0>()
        unit = Constant<value_float = 1.0>()
        nobody = Constant<value_int = -1>()
        one_a_row = Cast<to = 6>(is_row)
        score_rows = Where(is_row, best, zero)
        label_rows = Where(is_row, class_rows, nobody)
    """
