"""Smaller entries of the catalog, against ONNX Runtime kernels and formulas written out."""

import numpy as np
import pytest
from entry_calls import equal, near, run

import pyopnb


@pytest.mark.parametrize("together", [False, True])
def test_dcn_v2_is_deform_conv(together):
    random = np.random.default_rng(0)
    x = random.standard_normal((2, 4, 6, 7), np.float32)
    weight = random.standard_normal((3, 4, 3, 3), np.float32)
    bias = random.standard_normal(3).astype(np.float32)
    offset = random.uniform(-3, 3, (2, 36, 6, 7)).astype(np.float32)
    logits = random.standard_normal((2, 18, 6, 7), np.float32)
    mask = 1 / (1 + np.exp(-logits))
    expected = pyopnb.call(
        "DeformConv", x, weight, offset, bias, mask, pads=[1, 1, 1, 1], offset_group=2
    )
    if together:
        inputs = (x, np.concatenate([offset, logits], 1), weight, bias)
    else:
        inputs = (x, offset, mask, weight, bias)
    result = run("::DCNv2", *inputs, deformable_groups=2)
    near(result, expected, 1e-4, 1e-4)


def test_openvinos_pads_are_in_pairs_of_an_axis():
    random = np.random.default_rng(1)
    x = random.standard_normal((1, 2, 6, 7), np.float32)
    weight = random.standard_normal((3, 2, 3, 3), np.float32)
    offset = random.uniform(-2, 2, (1, 18, 4, 9)).astype(np.float32)
    expected = pyopnb.call("DeformConv", x, weight, offset, pads=[0, 1, 0, 3])
    result = run("org.openvinotoolkit::DeformableConv2D", x, offset, weight, pads=[0, 0, 1, 3])
    near(result, expected, 1e-4, 1e-4)


def test_the_numbers_of_the_boxes_are_those_of_the_input():
    random = np.random.default_rng(2)
    corner = random.uniform(0, 50, (1, 30, 2))
    boxes = np.concatenate([corner, corner + 10], -1).astype(np.float32)
    scores = random.uniform(0, 1, (1, 30, 2)).astype(np.float32)
    attrs = {"score_threshold": 0.4, "max_output_boxes": 40}
    outputs = run("TRT::EfficientIdxNMS_TRT", boxes, scores, **attrs)
    count, best, _, _, numbers = outputs
    rows = int(count[0, 0])
    assert rows > 3
    equal(best[0, :rows], boxes[0, numbers[0, :rows]])
    plain_outputs = run("TRT::EfficientNMS_TRT", boxes, scores, **attrs)
    for output, plain_output in zip(outputs, plain_outputs, strict=False):
        equal(output, plain_output)


def bucket(distance, span):
    """The formula of DeBERTa version 2."""
    middle = span // 2
    if abs(distance) <= middle:
        column = distance
    else:
        share = np.log(abs(distance) / middle) / np.log((2 * span - 1) / middle)
        column = np.sign(distance) * (np.ceil(share * (middle - 1) * (1 - 1e-7)) + middle)
    return int(min(max(column + span, 0), 2 * span - 1))


def test_disentangled_attention_is_its_formula():
    random = np.random.default_rng(3)
    length, span = 21, 4
    content = random.standard_normal((2, length, length), np.float32)
    forward, backward = random.standard_normal((2, 2, length, 2 * span)).astype(np.float32)
    result = run(
        "trt.plugins::DisentangledAttention_TRT", content, forward, backward, span=span, factor=0.5
    )
    expected = content.copy()
    for image, query, key in np.ndindex(2, length, length):
        column = bucket(query - key, span)
        expected[image, query, key] += forward[image, query, column]
        expected[image, query, key] += backward[image, key, column]
    near(result, 0.5 * expected, 1e-5)


def test_pillars_and_cells():
    features = np.arange(12, dtype=np.float32).reshape(1, 3, 4)
    coordinates = np.float32([[[0, 0, 1, 2], [0, 0, 0, 0], [0, 0, 1, 1]]])
    maps = run("::PillarScatterPlugin", features, coordinates, np.int32([2]), dense_shape=[2, 3])
    assert maps.shape == (1, 4, 2, 3)
    equal(maps[0, :, 1, 2], features[0, 0])
    equal(maps[0, :, 0, 0], features[0, 1])
    assert np.count_nonzero(maps) == 8 - 1 and not maps[0, :, 1, 1].any()

    random = np.random.default_rng(4)
    depth = random.uniform(0, 1, (1, 3, 2, 2)).astype(np.float32)
    seen = random.standard_normal((1, 2, 2, 5), np.float32)
    ranks_depth, ranks_feat = np.int32([0, 5, 7, 11]), np.int32([0, 1, 3, 2])
    ranks_bev = np.int32([4, 4, 4, 1])
    pooled = run(
        "::bev_pool_v2",
        *(depth, seen, ranks_depth, ranks_feat, ranks_bev, np.int32([0, 3]), np.int32([3, 1])),
        out_height=2,
        out_width=3,
    )
    expected = np.zeros((6, 5))
    for point in range(4):
        weight = depth.ravel()[ranks_depth[point]]
        expected[ranks_bev[point]] += weight * seen.reshape(-1, 5)[ranks_feat[point]]
    near(pooled.reshape(6, 5), expected, 1e-5, 1e-6)


def test_corners_are_running_maxima():
    x = np.float32([[[[1, 5, 2], [4, 0, 3]]]])
    for mode, expected in enumerate(
        [
            [[4, 5, 3], [4, 0, 3]],
            [[1, 5, 2], [4, 5, 3]],
            [[5, 5, 2], [4, 3, 3]],
            [[1, 5, 5], [4, 4, 4]],
        ]
    ):
        equal(run("mmcv::MMCVCornerPool", x, mode=mode), np.float32([[expected]]))


@pytest.mark.parametrize("signed", [0, 1])
@pytest.mark.parametrize("narrow", [0, 1])
def test_quant_keeps_to_its_limits_and_rounds_as_it_is_told(signed, narrow):
    x = np.float32([-100, -1.25, -0.75, -0.25, 0, 0.25, 0.75, 1.25, 100])
    scale, zero, bits = np.float32(0.5), np.float32(1), np.float32(3)
    lowest, highest = (-4 + narrow, 3) if signed else (0, 7 - narrow)
    shifted = np.clip(x.astype(float) / 0.5 + 1, lowest, highest)
    for mode, rounding in {
        "ROUND": np.rint,
        "CEIL": np.ceil,
        "FLOOR": np.floor,
        "ROUND_TO_ZERO": np.trunc,
        "UP": lambda v: np.copysign(np.ceil(np.abs(v)), v),
        "HALF_UP": lambda v: np.copysign(np.floor(np.abs(v) + 0.5), v),
        "HALF_DOWN": lambda v: np.copysign(np.ceil(np.abs(v) - 0.5), v),
    }.items():
        result = run(
            "qonnx.custom_op.general::Quant",
            *(x, scale, zero, bits),
            signed=signed,
            narrow=narrow,
            rounding_mode=mode,
        )
        np.testing.assert_array_equal(result, (rounding(shifted) - 1) * 0.5, mode)
    bipolar = run("qonnx.custom_op.general::BipolarQuant", x, scale)
    equal(bipolar, np.where(x >= 0, 0.5, -0.5))


def test_constants_and_slices_of_old_files():
    filled = run("::ConstantFill", shape=[2], extra_shape=[3], value=1.5)
    equal(filled, np.full((2, 3), np.float32(1.5)))
    like = run("::ConstantFill", np.zeros((2, 1), np.float32), dtype=7, value=4.0)
    assert like.dtype == np.int64 and like.tolist() == [[4], [4]]
    shaped = run("::ConstantFill", np.int64([3]), input_as_shape=1, extra_shape=[1])
    assert shaped.tolist() == [[0], [0], [0]]
    tensor = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert run("::LoopIndexTensor", tensor, np.int32(2), axis=1).tolist() == [2, 5]
    assert run("org.pytorch._caffe2::AliasWithName", tensor).tolist() == tensor.tolist()


@pytest.mark.parametrize("drop", [0, 1])
def test_a_step_of_caffe2s_gru(drop):
    random = np.random.default_rng(5)
    hidden = random.standard_normal((1, 3, 4), np.float32)
    gates = random.standard_normal((1, 3, 12), np.float32)
    result = run("::GRUUnit", hidden, gates, np.int32([5, 2, 3]), np.int32([2]), drop_states=drop)
    for sentence in range(3):
        for unit in range(4):
            past = float(hidden[0, sentence, unit])
            update = 1 / (1 + np.exp(-float(gates[0, sentence, 4 + unit])))
            mixed = past * update + np.tanh(float(gates[0, sentence, 8 + unit])) * (1 - update)
            ended = 0 if drop else past
            expected = ended if sentence == 1 else mixed
            near(result[0, sentence, unit], expected, 1e-5, 1e-7)


@pytest.mark.parametrize("size", [(3, 5), (4, 4), (1, 1), (7, 9)], ids=str)
def test_adaptive_pools_take_torchs_windows(size):
    x = np.random.default_rng(6).standard_normal((2, 3, 7, 9), np.float32)
    means = run("org.pytorch.aten::adaptive_avg_pool2d", x, np.int64(size))
    maxima, places = run("org.pytorch.aten::adaptive_max_pool2d", x, np.int64(size))
    for row, column in np.ndindex(size):
        top, bottom = int(np.floor(row * 7 / size[0])), int(np.ceil((row + 1) * 7 / size[0]))
        left, right = int(np.floor(column * 9 / size[1])), int(np.ceil((column + 1) * 9 / size[1]))
        window = x[:, :, top:bottom, left:right].astype(float)
        near(means[..., row, column], window.mean((2, 3)), 1e-5)
        equal(maxima[..., row, column], window.max((2, 3)))
    flat = x.reshape(2, 3, -1)
    found = np.take_along_axis(flat, places.reshape(2, 3, -1), -1)
    equal(found, maxima.reshape(2, 3, -1))


@pytest.mark.parametrize("mode", [0, 1, 2])
def test_bags_of_embeddings(mode):
    weight = np.random.default_rng(7).standard_normal((6, 3)).astype(np.float32)
    indices, offsets = np.int64([1, 5, 1, 0, 2]), np.int64([0, 2, 2])
    bags, *_ = run(
        "org.pytorch.aten::embedding_bag",
        *(weight, indices, offsets, np.bool_(False), np.int64(mode)),
    )
    reduce = [np.sum, np.mean, np.max][mode]
    near(bags[0], reduce(weight[[1, 5]], axis=0), 1e-6)
    assert not bags[1].any()
    near(bags[2], reduce(weight[[1, 0, 2]], axis=0), 1e-6)


@pytest.mark.parametrize("dtype", [np.int64, np.uint8, np.uint64])
def test_offsets_without_order_are_refused_in_every_dtype(dtype):
    weight, indices = np.ones((3, 2), np.float32), np.int64([0, 1, 2, 0])
    for offsets in ([0, 3, 1], [1, 2]):
        with pytest.raises(ValueError, match="expected 0 first, then no smaller ones"):
            pyopnb.call(
                "org.pytorch.aten::embedding_bag", weight, indices, np.array(offsets, dtype)
            )
