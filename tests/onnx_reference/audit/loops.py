"""Operators as their definitions say, in plain loops: where ONNX Runtime has no kernel or a wrong one."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import onnx

from audit.cases import Case
from audit.judges import NoJudge

__all__ = ["LOOPS"]


def _inputs(case: Case, count: int) -> list[Any]:
    return [*case.inputs, *[None] * (count - len(case.inputs))]


# ---- windows -----------------------------------------------------------------------------------


def _axis_of_window(
    size: int, kernel: int, stride: int, dilation: int, begin: int, end: int, auto: str, ceil: int
) -> tuple[int, int]:
    """The number of windows along an axis, and the padding before it."""
    reach = (kernel - 1) * dilation + 1
    if auto in ("SAME_UPPER", "SAME_LOWER"):
        count = -(-size // stride)
        total = max(0, (count - 1) * stride + reach - size)
        return count, total // 2 if auto == "SAME_UPPER" else total - total // 2
    if auto == "VALID":
        return -(-(size - reach + 1) // stride), 0
    span = size + begin + end - reach
    count = (-(-span // stride) if ceil else span // stride) + 1
    # A window that would begin in the padding at the end is left out.
    if ceil and (count - 1) * stride >= size + begin:
        count -= 1
    return count, begin


def _windows(case: Case, shape: tuple[int, ...], kernel: Any):
    """Yield each place of the output with the places of its window; they may lie outside."""
    attrs, axes = case.attrs, len(kernel)
    strides, dilations = attrs.get("strides", [1] * axes), attrs.get("dilations", [1] * axes)
    pads = attrs.get("pads", [0] * 2 * axes)
    plans = [
        _axis_of_window(
            shape[n],
            kernel[n],
            strides[n],
            dilations[n],
            pads[n],
            pads[n + axes],
            attrs.get("auto_pad", "NOTSET"),
            attrs.get("ceil_mode", 0),
        )
        for n in range(axes)
    ]
    counts = tuple(count for count, _ in plans)
    window = {}
    for place in np.ndindex(*counts):
        window[place] = [
            tuple(
                place[n] * strides[n] + offset[n] * dilations[n] - plans[n][1] for n in range(axes)
            )
            for offset in np.ndindex(*kernel)
        ]
    return counts, window


def _is_inside(
    place: tuple[int, ...], shape: tuple[int, ...], before: Any = None, after: Any = None
) -> bool:
    before, after = before or [0] * len(shape), after or [0] * len(shape)
    return all(-before[n] <= place[n] < shape[n] + after[n] for n in range(len(shape)))


def _pool(case: Case) -> list[Any]:
    x = case.inputs[0]
    kernel, shape = case.attrs["kernel_shape"], x.shape[2:]
    counts, windows = _windows(case, shape, kernel)
    result = np.zeros((*x.shape[:2], *counts), x.dtype)
    indices = np.zeros(result.shape, np.int64)
    pads = case.attrs.get("pads", [0] * 2 * len(kernel))
    for image, channel in np.ndindex(*x.shape[:2]):
        data = x[image, channel].astype(np.float64)
        for place, window in windows.items():
            inside = [p for p in window if _is_inside(p, shape)]
            if case.op == "MaxPool":
                best = max(inside, key=lambda p: data[p]) if inside else None
                result[image, channel][place] = data[best]
                numbers = np.arange(data.size).reshape(
                    shape, order="F" if case.attrs.get("storage_order") else "C"
                )
                indices[image, channel][place] = (
                    image * x.shape[1] + channel
                ) * data.size + numbers[best]
            elif case.op == "LpPool":
                p = case.attrs.get("p", 2)
                result[image, channel][place] = sum(abs(data[q]) ** p for q in inside) ** (1 / p)
            else:
                count = len(inside)
                if case.attrs.get("count_include_pad"):
                    axes = len(kernel)
                    if case.attrs.get("auto_pad", "NOTSET").startswith("SAME"):
                        count = len(window)
                    else:
                        count = sum(_is_inside(q, shape, pads[:axes], pads[axes:]) for q in window)
                result[image, channel][place] = sum(data[q] for q in inside) / count
    return [result, indices][: case.outputs]


def _max_unpool(case: Case) -> list[Any]:
    x, places, shape = _inputs(case, 3)
    kernel = case.attrs["kernel_shape"]
    strides = case.attrs.get("strides", [1] * len(kernel))
    inferred = [(n - 1) * s + k for n, s, k in zip(x.shape[2:], strides, kernel, strict=True)]
    flat = np.zeros(x.shape[0] * x.shape[1] * math.prod(inferred), x.dtype)
    flat[places.ravel()] = x.ravel()
    result = np.zeros(shape, x.dtype)
    inside = flat.reshape(*x.shape[:2], *inferred)
    result[tuple(slice(0, n) for n in inside.shape)] = inside
    return [result]


def _conv(case: Case) -> list[Any]:
    x, w, bias = _inputs(case, 3)
    group = case.attrs.get("group", 1)
    counts, windows = _windows(case, x.shape[2:], w.shape[2:])
    result = np.zeros((len(x), len(w), *counts))
    offsets = list(np.ndindex(*w.shape[2:]))
    for image, out in np.ndindex(len(x), len(w)):
        first = out // (len(w) // group) * w.shape[1]
        for place, window in windows.items():
            for offset, inner in zip(offsets, window, strict=True):
                if _is_inside(inner, x.shape[2:]):
                    values = x[(image, slice(first, first + w.shape[1]), *inner)].astype(np.float64)
                    result[image, out][place] += values @ w[(out, slice(None), *offset)].astype(
                        np.float64
                    )
        if bias is not None:
            result[image, out] += bias[out]
    return [result.astype(x.dtype)]


def _resize(case: Case) -> list[Any]:
    """Resize by align_corners."""
    x, scales = case.inputs[0], case.inputs[2]
    if case.attrs.get("coordinate_transformation_mode") != "align_corners":
        raise NoJudge("no loop for its coordinates")
    result = x.astype(np.float64)
    for axis, scale in enumerate(np.float64(scales)):
        if scale == 1:
            continue
        length = x.shape[axis]
        rows = [
            _pixel(
                np.moveaxis(result, axis, 0), i * (length - 1) / (length * scale - 1), case.attrs
            )
            for i in range(int(length * scale + 1e-4))
        ]
        result = np.moveaxis(np.stack(rows), 0, axis)
    return [result.astype(x.dtype)]


def _pixel(rows: Any, place: float, attrs: dict[str, Any]) -> Any:
    mode, last = attrs.get("mode", "nearest"), len(rows) - 1
    low = math.floor(place)
    if mode == "nearest":
        nearest = {
            "round_prefer_floor": math.ceil(place - 0.5 - 1e-6),
            "round_prefer_ceil": math.floor(place + 0.5 + 1e-6),
            "floor": math.floor(place + 1e-6),
            "ceil": math.ceil(place - 1e-6),
        }[attrs.get("nearest_mode", "round_prefer_floor")]
        return rows[min(max(nearest, 0), last)]
    if mode == "linear":
        part = place - low
        return rows[min(low, last)] * (1 - part) + rows[min(low + 1, last)] * part
    a, total = attrs.get("cubic_coeff_a", -0.75), 0
    for near in range(low - 1, low + 3):
        d = abs(place - near)
        weight = (a + 2) * d**3 - (a + 3) * d**2 + 1 if d <= 1 else 0
        if 1 < d < 2:
            weight = a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a
        total = total + weight * rows[min(max(near, 0), last)]
    return total


# ---- the first versions ------------------------------------------------------------------------


def _lrn(case: Case) -> list[Any]:
    x, size = case.inputs[0], case.attrs["size"]
    alpha, beta, bias = (
        case.attrs.get(name, default)
        for name, default in (("alpha", 1e-4), ("beta", 0.75), ("bias", 1.0))
    )
    result = np.zeros(x.shape)
    for place in np.ndindex(*x.shape):
        total = 0.0
        for channel in range(
            max(0, place[1] - (size - 1) // 2),
            min(x.shape[1] - 1, place[1] + math.ceil((size - 1) / 2)) + 1,
        ):
            total += float(x[(place[0], channel, *place[2:])]) ** 2
        result[place] = x[place] / (bias + alpha / size * total) ** beta
    return [result.astype(x.dtype)]


# ---- texts and pictures ------------------------------------------------------------------------


def _string_normalizer(case: Case) -> list[Any]:
    (x,), attrs = case.inputs, case.attrs
    exact, stops = attrs.get("is_case_sensitive", 0), attrs.get("stopwords", [])
    kept = []
    for text in x.ravel():
        if (exact and text in stops) or (
            not exact and text.lower() in [stop.lower() for stop in stops]
        ):
            continue
        action = attrs.get("case_change_action", "NONE")
        kept.append(
            text.lower() if action == "LOWER" else text.upper() if action == "UPPER" else text
        )
    kept = kept or [""]
    return [np.array(kept, object).reshape((len(kept),) if x.ndim == 1 else (1, len(kept)))]


def _string_split(case: Case) -> list[Any]:
    (x,), attrs = case.inputs, case.attrs
    if not attrs.get("delimiter"):
        raise NoJudge("no loop for white space")
    rows = [str(text).split(attrs["delimiter"], attrs.get("maxsplit", -1)) for text in x.ravel()]
    longest = max(map(len, rows))
    parts = [row + [""] * (longest - len(row)) for row in rows]
    return [
        np.array(parts, object).reshape(*x.shape, longest),
        np.int64([len(row) for row in rows]).reshape(x.shape),
    ]


def _image_decoder(case: Case) -> list[Any]:
    from audit.networks import PIXELS

    pixel = case.attrs.get("pixel_format", "RGB")
    if pixel == "BGR":
        return [PIXELS[:, :, ::-1]]
    if pixel == "Grayscale":
        weighted = PIXELS.astype(np.int64) @ np.int64([19595, 38470, 7471])
        return [((weighted + 0x8000) >> 16).astype(np.uint8)[:, :, None]]
    return [PIXELS]


# ---- element by element ------------------------------------------------------------------------


def _bit_cast(case: Case) -> list[Any]:
    from onnx.helper import tensor_dtype_to_np_dtype

    raw = np.ascontiguousarray(case.inputs[0]).tobytes()
    return [
        np.frombuffer(raw, tensor_dtype_to_np_dtype(case.attrs["to"])).reshape(
            np.shape(case.inputs[0])
        )
    ]


def _swiglu(case: Case) -> list[Any]:
    a, b = case.inputs
    gate = a.astype(np.float64)
    return [np.asarray(gate / (1 + np.exp(-case.attrs.get("alpha", 1.0) * gate)) * b, a.dtype)]


def _non_zero(case: Case) -> list[Any]:
    places = [place for place in np.ndindex(*case.inputs[0].shape) if case.inputs[0][place] != 0]
    return [np.int64(places).reshape(len(places), case.inputs[0].ndim).T]


def _log_sum_exp(case: Case) -> list[Any]:
    x = case.inputs[0].astype(np.longdouble)
    assert x.ndim == 1
    total = np.log(np.exp(x - x.max()).sum()) + x.max()
    return [np.asarray(total, case.inputs[0].dtype).reshape([1] * case.attrs.get("keepdims", 1))]


def _dft(case: Case) -> list[Any]:
    x, length, axis = _inputs(case, 3)
    axis = int(axis) if axis is not None else case.attrs.get("axis", 1 if case.version < 20 else -2)
    axis %= x.ndim
    signal = np.moveaxis(x, axis, 0).astype(np.float64)
    signal = signal[..., 0] + 1j * signal[..., 1] if x.shape[-1] == 2 else signal[..., 0] + 0j
    inverse, onesided = case.attrs.get("inverse", 0), case.attrs.get("onesided", 0)
    count = int(length) if length is not None else x.shape[axis]
    if inverse and onesided:
        if length is None:
            count = 2 * (x.shape[axis] - 1)
        half = np.zeros((count // 2 + 1, *signal.shape[1:]), complex)
        taken = min(len(half), len(signal))
        half[:taken] = signal[:taken]
        # The other half is the conjugate, backward.
        signal = np.concatenate([half, np.conj(half[1 : (count + 1) // 2][::-1])])
        signal[0] = signal[0].real
        if count % 2 == 0:
            signal[count // 2] = signal[count // 2].real
    padded = np.zeros((count, *signal.shape[1:]), complex)
    padded[: min(count, len(signal))] = signal[:count]
    places = np.arange(count)
    turns = np.exp((2j if inverse else -2j) * np.pi * np.outer(places, places) / count)
    result = np.tensordot(turns, padded, 1) / (count if inverse else 1)
    if onesided and not inverse:
        result = result[: count // 2 + 1]
    parts = [result.real] if inverse and onesided else [result.real, result.imag]
    return [np.moveaxis(np.stack(parts, -1), 0, axis).astype(x.dtype)]


def _split_to_sequence(case: Case) -> list[Any]:
    x, split = _inputs(case, 2)
    axis = case.attrs.get("axis", 0) % x.ndim
    lengths = [1] * x.shape[axis]
    if split is not None and np.ndim(split) == 0:
        lengths = [
            min(int(split), x.shape[axis] - start) for start in range(0, x.shape[axis], int(split))
        ]
    elif split is not None:
        lengths = split.tolist()
    parts = np.split(x, np.cumsum(lengths)[:-1], axis)
    if split is None and not case.attrs.get("keepdims", 1):
        parts = [part.squeeze(axis) for part in parts]
    return [list(parts)]


def _erf(case: Case) -> list[Any]:
    x = case.inputs[0]
    return [np.array([math.erf(value) for value in x.ravel()], x.dtype).reshape(x.shape)]


def _binarizer(case: Case) -> list[Any]:
    return [np.asarray(case.inputs[0] > case.attrs.get("threshold", 0.0), case.inputs[0].dtype)]


def _cast(case: Case) -> list[Any]:
    """Cast to float4_e2m1: to the nearest of its values, to the even one of two.

    NaN becomes -0 by ONNX's own tests, and 6 by its page on the dtype.
    """
    if case.attrs["to"] != onnx.TensorProto.FLOAT4E2M1:
        raise NoJudge("no loop for this dtype")
    magnitudes = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]  # even at even places
    numbers = []
    for number in np.clip(np.nan_to_num(case.inputs[0].ravel(), nan=-0.0), -6, 6).tolist():
        order = sorted(range(8), key=lambda n: (abs(abs(number) - magnitudes[n]), n % 2))
        numbers.append(math.copysign(magnitudes[order[0]], number))
    return [np.float32(numbers).astype(ml_dtypes.float4_e2m1fn).reshape(case.inputs[0].shape)]


def _tree_ensemble(case: Case) -> list[Any]:
    """Walk the trees of a TreeEnsemble."""
    rows, attrs = case.inputs[0], case.attrs
    if attrs.get("post_transform", 0):
        raise NoJudge("no loop for its post_transform")
    modes, splits, weights = (
        onnx.numpy_helper.to_array(attrs[name]).tolist()
        for name in ("nodes_modes", "nodes_splits", "leaf_weights")
    )
    members = _members(attrs, modes)
    tests = [np.less_equal, np.less, np.greater_equal, np.greater, np.equal, np.not_equal]
    aggregate = (np.mean, np.sum, np.min, np.max)[attrs.get("aggregate_function", 1)]
    result = np.zeros((len(rows), attrs["n_targets"]))
    for number, row in enumerate(rows.astype(np.float64)):
        found: dict[int, list[float]] = {}
        for root in attrs["tree_roots"]:
            node, is_leaf = root, 0
            while not is_leaf:
                value = row[attrs["nodes_featureids"][node]]
                if modes[node] == 6:
                    is_true = value in members[node]
                else:
                    is_true = bool(tests[modes[node]](value, splits[node]))
                if np.isnan(value):
                    tracks = attrs.get("nodes_missing_value_tracks_true")
                    is_true = is_true or bool(tracks and tracks[node])
                side = "true" if is_true else "false"
                is_leaf = attrs[f"nodes_{side}leafs"][node]
                node = attrs[f"nodes_{side}nodeids"][node]
            found.setdefault(attrs["leaf_targetids"][node], []).append(weights[node])
        for target, values in found.items():
            result[number, target] = aggregate(values)
    return [result.astype(rows.dtype)]


def _members(attrs: dict[str, Any], modes: list[int]) -> dict[int, set[float]]:
    """The sets of the nodes that test for membership, which NaNs separate."""
    sets: list[set[float]] = [set()]
    if "membership_values" in attrs:
        for value in onnx.numpy_helper.to_array(attrs["membership_values"]).tolist():
            if math.isnan(value):
                sets.append(set())
            else:
                sets[-1].add(value)
    return dict(zip([n for n, mode in enumerate(modes) if mode == 6], sets, strict=False))


def _eye_like(case: Case) -> list[Any]:
    result = np.zeros(case.inputs[0].shape, case.inputs[0].dtype)
    for row, column in np.ndindex(*result.shape):
        result[row, column] = column - row == case.attrs.get("k", 0)
    return [result]


# ---- training ----------------------------------------------------------------------------------


def _optimizer(case: Case) -> list[Any]:
    rate, step, *rest = case.inputs
    kinds = {"Adagrad": 3, "Adam": 4, "Momentum": 3}[case.op]
    count = len(rest) // kinds
    groups = [rest[n * count : (n + 1) * count] for n in range(kinds)]
    groups = [[value.astype(np.float64) for value in group] for group in groups]
    step_function = {"Adagrad": _adagrad, "Adam": _adam, "Momentum": _momentum}[case.op]
    rows = [
        step_function(float(rate), int(step), *values, case.attrs)
        for values in zip(*groups, strict=True)
    ]
    return [value.astype(np.float32) for column in zip(*rows, strict=True) for value in column]


def _adagrad(rate, step, x, g, h, attrs):
    rate = rate / (1 + step * attrs.get("decay_factor", 0.0))
    g = attrs.get("norm_coefficient", 0.0) * x + g
    h = h + g * g
    return x - rate * g / (np.sqrt(h) + attrs.get("epsilon", 1e-6)), h


def _adam(rate, step, x, g, v, h, attrs):
    alpha, beta = attrs.get("alpha", 0.9), attrs.get("beta", 0.999)
    g = attrs.get("norm_coefficient", 0.0) * x + g
    v = alpha * v + (1 - alpha) * g
    h = beta * h + (1 - beta) * g * g
    if step > 0:
        rate = rate * math.sqrt(1 - beta**step) / (1 - alpha**step)
    new = x - rate * v / (np.sqrt(h) + attrs.get("epsilon", 1e-6))
    return (1 - attrs.get("norm_coefficient_post", 0.0)) * new, v, h


def _momentum(rate, step, x, g, v, attrs):
    g = attrs["norm_coefficient"] * x + g
    v = attrs["alpha"] * v + (attrs["beta"] if step > 0 else 1) * g
    if attrs["mode"] == "nesterov":
        return x - rate * (g + attrs["alpha"] * v), v
    return x - rate * v, v


_MODIFIERS = {"tanh": np.tanh, "twice": lambda probabilities: 2 * probabilities}


def _flex_attention(case: Case) -> list[Any]:
    q, k, v = (np.float64(value) for value in case.inputs)
    scale = case.attrs.get("scale", 1 / math.sqrt(q.shape[-1]))
    result = np.zeros((*q.shape[:3], v.shape[-1]))
    for batch, head in np.ndindex(q.shape[:2]):
        shared = head * k.shape[1] // q.shape[1]
        scores = q[batch, head] @ k[batch, shared].T * scale
        if "score_mod" in case.attrs:
            scores = _MODIFIERS[case.attrs["score_mod"].name](scores)
        exponents = np.exp(scores - scores.max(-1, keepdims=True))
        probabilities = exponents / exponents.sum(-1, keepdims=True)
        if "prob_mod" in case.attrs:
            probabilities = _MODIFIERS[case.attrs["prob_mod"].name](probabilities)
        result[batch, head] = probabilities @ v[batch, shared]
    return [result.astype(case.inputs[0].dtype)]


LOOPS = {
    "Adagrad": _optimizer,
    "Adam": _optimizer,
    "AveragePool": _pool,
    "BitCast": _bit_cast,
    "Binarizer": _binarizer,
    "Cast": _cast,
    "Conv": _conv,
    "DFT": _dft,
    "Erf": _erf,
    "EyeLike": _eye_like,
    "FlexAttention": _flex_attention,
    "ImageDecoder": _image_decoder,
    "LRN": _lrn,
    "LpPool": _pool,
    "MaxPool": _pool,
    "MaxUnpool": _max_unpool,
    "Momentum": _optimizer,
    "NonZero": _non_zero,
    "ReduceLogSumExp": _log_sum_exp,
    "Resize": _resize,
    "SplitToSequence": _split_to_sequence,
    "StringNormalizer": _string_normalizer,
    "StringSplit": _string_split,
    "SwiGLU": _swiglu,
    "TreeEnsemble": _tree_ensemble,
}
