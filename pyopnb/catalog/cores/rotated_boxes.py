"""Boxes that are turned, and how much they overlap, in NumPy and in the ONNX operators.

A box is five numbers: the center's x and y, width, height, and an angle in radians.
"""

from __future__ import annotations

import numpy as np

from pyopnb.catalog.cores.boxes import suppress_greedily

__all__ = ["rotated_overlaps", "rotated_overlaps_form", "suppress_rotated"]

_RIGHT = np.array([-0.5, 0.5, 0.5, -0.5])
_UP = np.array([-0.5, -0.5, 0.5, 0.5])
"""The corners of a box in order, as shares of its width and height."""


def rotated_overlaps(box: np.ndarray, boxes: np.ndarray) -> np.ndarray:
    """Compute the intersection over union of one box with many.

    Parameters
    ----------
    box : ndarray
        float64[5].
    boxes : ndarray
        float64[N,5].

    Returns
    -------
    ndarray
        float64[N]; 0 where both boxes have no area.
    """
    overlaps = np.zeros(len(boxes))
    relative = boxes - [*box[:2], 0, 0, box[4]]
    # Boxes whose circles do not meet cannot overlap; most pairs are such.
    radii = np.hypot(boxes[:, 2], boxes[:, 3])
    radii = radii + np.hypot(box[2], box[3])
    distances = np.hypot(relative[:, 0], relative[:, 1])
    near = distances <= radii / 2
    # In the axes of the one box, it lies between two numbers in x, and in y.
    x, y, width, height, angle = relative[near].T[..., None]
    cosine, sine = np.cos(box[4]), np.sin(box[4])
    center_x = x * cosine + y * sine
    center_y = y * cosine - x * sine
    across, along = width * _RIGHT, height * _UP
    turn_cosine, turn_sine = np.cos(angle), np.sin(angle)
    corner_x = center_x + across * turn_cosine
    corner_x = corner_x - along * turn_sine
    corner_y = center_y + across * turn_sine
    corner_y = corner_y + along * turn_cosine
    half_width, half_height = np.abs(box[2:4]) / 2
    intersection = _area_inside(corner_x, corner_y, half_width, half_height)
    areas = np.abs(width * height)[:, 0]
    areas = areas + abs(box[2] * box[3])
    union = areas - intersection
    overlaps[near] = np.divide(intersection, union, out=np.zeros_like(union), where=union > 0)
    return overlaps


def _area_inside(x: np.ndarray, y: np.ndarray, half_width: float, half_height: float) -> np.ndarray:
    """Compute the area of polygons, float64[N,4] each way, inside a box around 0.

    By Green's theorem it is the integral of x over dy along the polygon, where y is cut off at
    the box's edges, and x is clipped to them. Unlike cutting corners off, it has no case that
    jumps with a rounding.
    """
    next_x = np.roll(x, -1, axis=1)
    next_y = np.roll(y, -1, axis=1)
    # The part of each side between the lower and the upper edge.
    start = y.clip(-half_height, half_height)
    end = next_y.clip(-half_height, half_height)
    rise = next_y - y
    divisor = np.where(rise == 0, 1, rise)
    slope = (next_x - x) / divisor
    start_x = x + (start - y) * slope
    reach = (end - start) * slope
    # Where that part crosses the left and the right edge; x does not change outside of them.
    span = np.where(reach == 0, 1, reach)
    left = (-half_width - start_x) / span
    left = left.clip(0, 1)
    right = (half_width - start_x) / span
    right = right.clip(0, 1)
    points = [0.0, np.minimum(left, right), np.maximum(left, right), 1.0]
    clipped = [(start_x + point * reach).clip(-half_width, half_width) for point in points]
    mean = np.zeros_like(x)
    for number in range(3):
        share = points[number + 1] - points[number]
        both = clipped[number] + clipped[number + 1]
        mean = mean + share * both / 2
    strips = mean * (end - start)
    return np.abs(strips.sum(axis=1))


def suppress_rotated(
    boxes: np.ndarray, iou_threshold: float, limit: int | None = None
) -> np.ndarray:
    """Keep each box that overlaps no box kept before it by more than a threshold.

    Parameters
    ----------
    boxes : ndarray
        float[N,5], the best box first.
    limit : int, optional
        Stop after this many boxes.

    Returns
    -------
    ndarray
        int64[K], the positions of the boxes that are kept.
    """
    # In float32, boxes far from 0 would lose the digits of their overlap.
    wide = boxes.astype(np.float64)

    def find_beaten(best: int, rivals: np.ndarray) -> np.ndarray:
        return rotated_overlaps(wide[best], wide[rivals]) > iou_threshold

    return suppress_greedily(len(boxes), find_beaten, limit)


def rotated_overlaps_form(iou_threshold: float) -> str:
    """Write the nodes that tell which boxes overlap by more than a threshold.

    Returns
    -------
    str
        Nodes that read ``boxes`` [B,N,5], and write ``overlap`` [B,N,N], a bool,
        ``box_count`` and ``go``, true.
    """
    return f"""
        turned = Cast<to = 11>(boxes)
        threshold = Constant<value = double {{{float(iou_threshold)!r}}}>()
        five_ones = Constant<value_ints = [1, 1, 1, 1, 1]>()
        x, y, width, height, angle = Split<axis = 2>(turned, five_ones)
        half = Constant<value = double {{0.5}}>()
        none = Constant<value = double {{0.0}}>()
        whole = Constant<value = double {{1.0}}>()
        right_shares = Constant<value = double[4] {{-0.5, 0.5, 0.5, -0.5}}>()
        up_shares = Constant<value = double[4] {{-0.5, -0.5, 0.5, 0.5}}>()
        next_corners = Constant<value_ints = [1, 2, 3, 0]>()
        across = Mul(width, right_shares)
        along = Mul(height, up_shares)
        product = Mul(width, height)
        area = Abs(product)
        box_counts = Shape<start = 1, end = 2>(boxes)
        box_count = Squeeze(box_counts)
        go = Constant<value = bool {{1}}>()
        single = Constant<value_ints = [1]>()
        corner_axis = Constant<value_ints = [2]>()
        rows = Loop<body = overlap_row (int64 number, bool go_in) => (bool go_out, bool[B,N] row) {{
            go_out = Identity(go_in)
            this = Reshape(number, single)
            box_x = Gather<axis = 1>(x, this)
            box_y = Gather<axis = 1>(y, this)
            box_angle = Gather<axis = 1>(angle, this)
            box_area = Gather<axis = 1>(area, this)
            box_width = Gather<axis = 1>(width, this)
            box_height = Gather<axis = 1>(height, this)
            positive_width = Abs(box_width)
            positive_height = Abs(box_height)
            high_x = Mul(positive_width, half)
            high_y = Mul(positive_height, half)
            low_x = Neg(high_x)
            low_y = Neg(high_y)
            cosine = Cos(box_angle)
            sine = Sin(box_angle)
            from_x = Sub(x, box_x)
            from_y = Sub(y, box_y)
            x_cosine = Mul(from_x, cosine)
            y_sine = Mul(from_y, sine)
            center_x = Add(x_cosine, y_sine)
            y_cosine = Mul(from_y, cosine)
            x_sine = Mul(from_x, sine)
            center_y = Sub(y_cosine, x_sine)
            turn = Sub(angle, box_angle)
            turn_cosine = Cos(turn)
            turn_sine = Sin(turn)
            across_cosine = Mul(across, turn_cosine)
            along_sine = Mul(along, turn_sine)
            moved_x = Add(center_x, across_cosine)
            corner_x = Sub(moved_x, along_sine)
            across_sine = Mul(across, turn_sine)
            along_cosine = Mul(along, turn_cosine)
            moved_y = Add(center_y, across_sine)
            corner_y = Add(moved_y, along_cosine)
            next_x = Gather<axis = 2>(corner_x, next_corners)
            next_y = Gather<axis = 2>(corner_y, next_corners)
            start_up = Max(corner_y, low_y)
            start = Min(start_up, high_y)
            end_up = Max(next_y, low_y)
            end = Min(end_up, high_y)
            rise = Sub(next_y, corner_y)
            is_level = Equal(rise, none)
            divisor = Where(is_level, whole, rise)
            run = Sub(next_x, corner_x)
            slope = Div(run, divisor)
            cut = Sub(start, corner_y)
            cut_x = Mul(cut, slope)
            start_x = Add(corner_x, cut_x)
            height_inside = Sub(end, start)
            reach = Mul(height_inside, slope)
            is_upright = Equal(reach, none)
            span = Where(is_upright, whole, reach)
            to_low = Sub(low_x, start_x)
            to_high = Sub(high_x, start_x)
            low_share = Div(to_low, span)
            high_share = Div(to_high, span)
            low_up = Max(low_share, none)
            left = Min(low_up, whole)
            high_up = Max(high_share, none)
            right = Min(high_up, whole)
            first = Min(left, right)
            second = Max(left, right)
            first_reach = Mul(first, reach)
            second_reach = Mul(second, reach)
            first_x = Add(start_x, first_reach)
            second_x = Add(start_x, second_reach)
            end_x = Add(start_x, reach)
            start_low = Max(start_x, low_x)
            value_0 = Min(start_low, high_x)
            first_low = Max(first_x, low_x)
            value_1 = Min(first_low, high_x)
            second_low = Max(second_x, low_x)
            value_2 = Min(second_low, high_x)
            end_low = Max(end_x, low_x)
            value_3 = Min(end_low, high_x)
            middle = Sub(second, first)
            last = Sub(whole, second)
            sum_01 = Add(value_0, value_1)
            sum_12 = Add(value_1, value_2)
            sum_23 = Add(value_2, value_3)
            part_0 = Mul(first, sum_01)
            part_1 = Mul(middle, sum_12)
            part_2 = Mul(last, sum_23)
            twice_mean = Sum(part_0, part_1, part_2)
            mean = Mul(twice_mean, half)
            strips = Mul(mean, height_inside)
            signed = ReduceSum(strips, corner_axis)
            intersection = Abs(signed)
            both = Add(area, box_area)
            union = Sub(both, intersection)
            has_area = Greater(union, none)
            safe_union = Where(has_area, union, whole)
            ratio = Div(intersection, safe_union)
            real_ratio = Where(has_area, ratio, none)
            is_over = Greater(real_ratio, threshold)
            row = Squeeze(is_over, corner_axis)
        }}>(box_count, go)
        overlap = Transpose<perm = [1, 0, 2]>(rows)
    """
