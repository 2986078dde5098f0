"""Entries that have a form in plain ONNX operators give it to lower, and plain ONNX Runtime runs it."""

import warnings

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import pytest
from entry_calls import near

import pyopnb
from pyopnb.catalog.index import find_entry


def lowered(name, /, *inputs, **attrs):
    """Lower an entry on arrays; lower itself compares the function with the entry before it returns it."""
    entry = find_entry(name, len(inputs))
    local = f"test.catalog::{entry.op_class.__name__}"
    pyopnb.registry.define(entry.op_class, local)
    function = pyopnb.lower(local, *inputs, **attrs)
    assert "Compared with compute" in function.doc_string
    return {node.op_type for node in function.node}


def normal(*shape, dtype=np.float32):
    return np.random.default_rng(7).normal(size=shape).astype(dtype)


def boxes(*shape, dtype=np.float32):
    random = np.random.default_rng(3)
    corner = random.uniform(0, 20, (*shape, 2))
    return np.concatenate([corner, corner + random.uniform(5, 15, (*shape, 2))], -1).astype(dtype)


def scores(*shape, dtype=np.float32):
    # Few different numbers, so that there are ties.
    return (np.random.default_rng(5).integers(0, 20, shape) / 20).astype(dtype)


EFFICIENT_NMS = {"score_threshold": 0.3, "iou_threshold": 0.4, "max_output_boxes": 25}
SHARED, CLASSES = boxes(2, 24), scores(2, 24, 3)


@pytest.mark.parametrize(
    ("inputs", "attrs"),
    [
        ([SHARED, CLASSES], {}),
        ([SHARED, CLASSES], {"class_agnostic": 1}),
        ([SHARED, CLASSES], {"background_class": 1}),
        ([SHARED, CLASSES], {"score_activation": 1}),
        ([SHARED, CLASSES], {"iou_threshold": 1.0}),
        ([SHARED, CLASSES], {"max_output_boxes": 200}),
        ([SHARED[:, :, None], CLASSES], {"box_coding": 1}),
        ([boxes(2, 24, 3), CLASSES], {}),
        ([SHARED, CLASSES, SHARED[:1] / 16], {"box_coding": 1}),
        ([boxes(2, 24, 3, dtype=np.float16), scores(2, 24, 3, dtype=np.float16)], {}),
        ([SHARED[..., ::-1].copy(), CLASSES, SHARED[:1] / 16], {}),
        ([boxes(2, 24, 3), CLASSES, SHARED[..., ::-1] / 16], {}),
    ],
)
def test_efficient_nms_becomes_non_max_suppression(inputs, attrs):
    used = lowered("TRT::EfficientNMS_TRT", *inputs, **{**EFFICIENT_NMS, **attrs})
    assert "NonMaxSuppression" in used


def test_efficient_nms_looks_at_5000_candidates():
    used = lowered("TRT::EfficientNMS_TRT", boxes(1, 2000), scores(1, 2000, 4))
    assert "NonMaxSuppression" in used


def test_a_threshold_of_zero_is_refused():
    # Every box overlaps every other one by at least 0, which the ONNX operator cannot say.
    with pytest.raises(pyopnb.errors.NotLowered, match="an IoU threshold of 0"):
        lowered("TRT::EfficientNMS_TRT", boxes(1, 4), scores(1, 4, 2), iou_threshold=0.0)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize(
    ("name", "inputs", "attrs", "operator"),
    [
        (
            "TRT::EfficientIdxNMS_TRT",
            [SHARED, CLASSES],
            EFFICIENT_NMS,
            "NonMaxSuppression",
        ),
        ("mmcv::NonMaxSuppression", [boxes(30), scores(30)], {}, "NonMaxSuppression"),
        (
            "mmdeploy::MMCVModulatedDeformConv2d",
            [normal(2, 4, 7, 6), normal(2, 36, 7, 6), normal(2, 18, 7, 6), normal(6, 2, 3, 3)],
            {"padding": [1, 1], "groups": 2, "deform_groups": 2},
            "DeformConv",
        ),
        (
            "mmcv::MMCVDeformConv2d",
            [normal(2, 4, 7, 6), normal(2, 18, 3, 4), normal(6, 4, 3, 3)],
            {"stride": [2, 2], "padding": [0, 0, 2, 2]},
            "DeformConv",
        ),
        (
            "::DCNv2",
            [normal(1, 4, 7, 6), normal(1, 27, 7, 6), normal(6, 4, 3, 3), normal(6)],
            {},
            "DeformConv",
        ),
        (
            "org.openvinotoolkit::DeformableConv2D",
            [normal(1, 2, 6, 7), normal(1, 18, 4, 9), normal(3, 2, 3, 3)],
            {"pads": [0, 0, 1, 3]},
            "DeformConv",
        ),
        (
            "com.microsoft::GroupNorm",
            [normal(2, 5, 3, 8), normal(8), normal(8)],
            {"groups": 4, "activation": 1},
            "ReduceMean",
        ),
        (
            "com.microsoft::SkipGroupNorm",
            [normal(2, 5, 3, 8), normal(8), normal(8), normal(2, 8), normal(8)],
            {"groups": 4, "activation": 0},
            "ReduceMean",
        ),
        (
            "mmcv::MMCVRoiAlign",
            [normal(2, 3, 12, 16), np.float32([[0, 1, 2, 9, 8], [1, 3, 3, 12, 20]])],
            {"output_height": 3, "output_width": 4, "sampling_ratio": 2},
            "RoiAlign",
        ),
    ],
    ids=lambda value: value.replace("::", ".") if isinstance(value, str) else "",
)
def test_a_form_agrees_with_the_entry(name, inputs, attrs, operator, dtype):
    fed = [array.astype(dtype) for array in inputs]
    if name.endswith("GroupNorm"):
        # Scale and shift are float32 beside images of float16.
        fed[1:3] = inputs[1:3]
    assert operator in lowered(name, *fed, **attrs)


@pytest.mark.parametrize(
    ("name", "inputs", "attrs"),
    [
        ("TRT::EfficientNMS_TRT", [SHARED, CLASSES], EFFICIENT_NMS),
        ("com.microsoft::ComplexMul", [normal(3, 4, 2), normal(4, 2)], {}),
        ("org.pytorch.aten::max_pool2d", [normal(1, 2, 7, 9), np.int64([3, 2])], {}),
    ],
    ids=lambda value: value.replace("::", ".") if isinstance(value, str) else "",
)
def test_a_form_of_bfloat16(name, inputs, attrs):
    """NumPy has no such dtype, so that plain ONNX Runtime takes no arrays of it."""
    halves = [x.astype(ml_dtypes.bfloat16) if x.dtype.kind == "f" else x for x in inputs]
    lowered(name, *halves, **attrs)


@pytest.mark.parametrize(
    ("name", "make", "attrs"),
    [
        (
            "com.microsoft::GroupNorm",
            lambda b: [normal(b, 5, 3, 8), normal(8), normal(8)],
            {"groups": 4, "activation": 1},
        ),
        ("TRT::InstanceNormalization_TRT", lambda b: [normal(b, 4, 3), normal(4), normal(4)], {}),
        (
            "com.microsoft::NhwcConv",
            lambda b: [normal(b, 6, 5, 4), normal(6, 3, 2, 2)],
            {"group": 2},
        ),
        (
            "org.pytorch.aten::adaptive_avg_pool2d",
            lambda b: [normal(b, 3, 7, 9), np.int64([3, 4])],
            {},
        ),
        ("org.pytorch.aten::max_pool2d", lambda b: [normal(b, 2, 7, 9), np.int64([3, 2])], {}),
        (
            "org.pytorch.aten::max_unpool2d",
            lambda b: [
                normal(b, 2, 1, 2),
                np.tile(np.int64([0, 5]), (b, 2, 1, 1)),
                np.int64([2, 3]),
            ],
            {},
        ),
        ("com.microsoft::GeluGrad", lambda b: [normal(b, 4), normal(b, 4)], {}),
    ],
    ids=lambda value: value.replace("::", ".") if isinstance(value, str) else "",
)
def test_a_batch_of_no_images(name, make, attrs):
    """A detector's second stage gets none where the first one has found nothing."""
    local = "test.catalog::" + name.partition("::")[2]
    pyopnb.registry.define(find_entry(name, len(make(1))).op_class, local)
    names = [f"i{number}" for number in range(len(make(1)))]
    types, constants = {}, {}
    for number, (one, two) in enumerate(zip(make(1), make(2), strict=True)):
        sizes = [str(size) for size in two.shape]
        if one.shape != two.shape:
            sizes[0] = "N"
        if two.dtype == np.int64 and two.ndim == 1:
            constants[names[number]] = two
        else:
            types[names[number]] = f"{two.dtype}[{','.join(sizes)}]"
    model = pyopnb.model(
        pyopnb.node(local, names, "y", **attrs), types, "y", initializers=constants
    )
    given = {name: array for name, array in zip(names, make(2), strict=True) if name in types}
    plain = onnxruntime.InferenceSession(pyopnb.lower(model, given).SerializeToString())
    for count in (0, 1):
        feeds = dict(zip(names, make(count), strict=True))
        given = {name: feeds[name] for name in types}
        expected = pyopnb.Session(model)(given)["y"]
        assert len(expected) == count
        near(plain.run(None, given)[0], expected, 1e-5, 1e-6)


@pytest.mark.parametrize("classes", [1, 3], ids=["shared boxes", "boxes for each class"])
@pytest.mark.parametrize(
    ("name", "outputs"),
    [
        ("TRT::EfficientNMS_TRT", 4),
        ("TRT::EfficientIdxNMS_TRT", 5),
        ("TRT::BatchedNMSDynamic_TRT", 4),
        ("mmdeploy::TRTBatchedNMS", 3),
    ],
)
def test_a_form_takes_no_image_and_no_box(name, outputs, classes):
    local = "test.catalog::" + name.partition("::")[2]
    pyopnb.registry.define(find_entry(name, 2).op_class, local)
    names = [f"o{number}" for number in range(outputs)]
    types = {"boxes": f"float32[B,N,{classes},4]", "scores": "float32[B,N,3]"}
    model = pyopnb.model(pyopnb.node(local, [*types], names), types, names)
    plain = pyopnb.lower(model, {"boxes": boxes(2, 8, classes), "scores": scores(2, 8, 3)})
    session = onnxruntime.InferenceSession(plain.SerializeToString())
    for images, count in ((0, 8), (2, 0), (0, 0), (1, 1)):
        feeds = {"boxes": boxes(images, count, classes), "scores": scores(images, count, 3)}
        expected = pyopnb.Session(model)(feeds)
        for array, output in zip(session.run(names, feeds), names, strict=True):
            near(array, expected[output], 1e-6)


BATCHED = {"scoreThreshold": 0.2, "iouThreshold": 0.45, "keepTopK": 20, "topK": 15}
TRT_BATCHED = {"score_threshold": 0.2, "iou_threshold": 0.45, "keep_topk": 20}
ROIS = np.float32([[0, 1, 2, 9, 8], [1, 3, 3, 12, 20]])
POOLING = [np.int64(numbers) for numbers in ([3, 3], [2, 1], [1, 1], [1, 2])]
BAGS = [normal(6, 3), np.int64([1, 5, 3, 0]), np.int64([0, 2, 2])]
LAST = [*BAGS[:2], np.int64([0, 2, 2, 4])]
TURNED = np.concatenate([boxes(1, 5) / 4, normal(1, 5, 1)], -1)


@pytest.mark.parametrize(
    ("name", "inputs", "attrs"),
    [
        ("TRT::BatchedNMS_TRT", [boxes(2, 20, 1), scores(2, 20, 3)], BATCHED),
        ("TRT::BatchedNMS_TRT", [boxes(2, 20, 3), scores(2, 20, 3)], {**BATCHED, "clipBoxes": 0}),
        ("TRT::BatchedNMS_TRT", [boxes(1, 9, 1), scores(1, 9, 2, 1)], {"backgroundLabelId": 0}),
        ("mmdeploy::TRTBatchedNMS", [boxes(2, 20, 1), scores(2, 20, 3)], TRT_BATCHED),
        (
            "mmdeploy::TRTBatchedNMS",
            [boxes(2, 20, 3), scores(2, 20, 3)],
            {**TRT_BATCHED, "topk": -1, "clip_boxes": 1, "return_index": 1},
        ),
        (
            "mmdeploy::TRTBatchedNMS",
            [
                np.where(normal(2, 20, 1, 1) > 0, boxes(2, 20, 1), boxes(2, 20, 1)[..., ::-1]),
                CLASSES[:, :20],
            ],
            {**TRT_BATCHED, "clip_boxes": 0},
        ),
        ("com.microsoft::BiasSplitGelu", [normal(2, 3, 8), normal(8)], {}),
        (
            "com.microsoft::RestorePadding",
            [normal(3, 4), np.int32([[0, 1, 4], [2, 3, 5]])],
            {},
        ),
        (
            "com.microsoft::NhwcConv",
            [normal(2, 6, 5, 4), normal(6, 3, 2, 2), normal(6)],
            {"group": 2, "pads": [1, 0, 1, 1], "strides": [2, 1]},
        ),
        (
            "com.microsoft::NhwcConv",
            [normal(1, 6, 5, 2), normal(3, 2, 2, 2)],
            {"auto_pad": "SAME_LOWER", "strides": [1, 2]},
        ),
        ("com.microsoft::ComplexMul", [normal(3, 4, 2), normal(4, 2)], {}),
        ("com.microsoft::ComplexMulConj", [normal(3, 4, 2), normal(3, 4, 2)], {}),
        ("com.microsoft::TorchEmbedding", [normal(5, 3), np.int64([[0, 4], [2, 2]])], {}),
        ("com.microsoft::IsAllFinite", [normal(3), normal(2, 2)], {}),
        ("com.microsoft::IsAllFinite", [normal(3)], {"isinf_only": 1}),
        ("::LoopIndexTensor", [normal(3, 4), np.int32(1)], {"axis": 1}),
        (
            "::GRUUnit",
            [normal(1, 3, 4), normal(1, 3, 12), np.int32([1, 2, 3]), np.int32([1])],
            {},
        ),
        ("com.microsoft::GeluGrad", [normal(3, 4), normal(3, 4)], {}),
        ("com.microsoft::LogSoftmaxGrad_13", [normal(3, 4), normal(3, 4)], {"axis": 0}),
        ("com.microsoft::InPlaceAccumulatorV2", [normal(3), normal(3), np.bool_([True])], {}),
        ("com.microsoft::InPlaceAccumulatorV2", [normal(3), normal(3)], {}),
        ("com.microsoft::ConcatTraining", [normal(3, 2), normal(3, 4)], {"axis": 1}),
        ("com.microsoft::GemmFastGelu", [normal(2, 3), normal(3, 4), normal(4)], {}),
        ("org.pytorch._caffe2::AliasWithName", [normal(2, 4)], {}),
        ("org.pytorch._caffe2::ResizeNearest", [normal(1, 2, 3, 4)], {"height_scale": 2.0}),
        ("org.pytorch._caffe2::RoIAlign", [normal(2, 3, 12, 16), ROIS], {"pooled_h": 3}),
        (
            "TRT::GroupNormalizationPlugin",
            [normal(1, 4, 3), normal(4), normal(4)],
            {"num_groups": 2},
        ),
        (
            "TRT::InstanceNormalization_TRT",
            [normal(1, 4, 3), normal(4), normal(4)],
            {"relu": 1, "alpha": 0.1},
        ),
        (
            "TRT::ModulatedDeformConv2d",
            [normal(1, 4, 5, 5), normal(1, 18, 3, 3), normal(1, 9, 3, 3), normal(2, 4, 3, 3)],
            {},
        ),
        ("::GridSampler2DTRT", [normal(1, 2, 5, 7), 9 * normal(1, 2, 3, 2)], {}),
        (
            "mmdeploy::NMSRotated",
            [TURNED, scores(1, 2, 5)],
            {"iou_threshold": 0.3, "score_threshold": 0.2},
        ),
        ("org.pytorch.aten::adaptive_avg_pool2d", [normal(2, 3, 7, 9), np.int64([3, 4])], {}),
        ("org.pytorch.aten::adaptive_max_pool2d", [normal(2, 3, 7, 9), np.int64([3, 4])], {}),
        ("org.pytorch.aten::max_pool2d", [normal(1, 2, 7, 9), np.int64([3, 2])], {}),
        ("org.pytorch.aten::max_pool2d_with_indices", [normal(1, 2, 7, 9), *POOLING], {}),
        (
            "org.pytorch.aten::max_unpool2d",
            [normal(1, 2, 1, 2), np.int64([[[[0, 5]], [[1, 3]]]]), np.int64([2, 3])],
            {},
        ),
        (
            "org.pytorch.aten::grid_sampler",
            [normal(1, 2, 5, 7), normal(1, 3, 2, 2), np.int64(0), np.int64(1), np.bool_(False)],
            {},
        ),
        ("org.pytorch.aten::group_norm", [normal(2, 4, 3), np.int64(2)], {}),
        ("org.pytorch.aten::group_norm", [normal(2, 4, 3), np.int64(2), normal(4), normal(4)], {}),
        ("org.pytorch.aten::embedding_bag", [*BAGS, None, np.int64(0), None, normal(4)], {}),
        ("::ATen", BAGS, {"operator": "embedding_bag", "mode": 1, "sparse": 0, "padding_idx": 3}),
        ("::ATen", BAGS, {"operator": "embedding_bag", "mode": 2}),
        ("::ATen", LAST, {"operator": "embedding_bag", "mode": 0, "include_last_offset": 1}),
    ],
    ids=lambda value: value.replace("::", ".") if isinstance(value, str) else "",
)
def test_a_form_of_few_operators_agrees_with_the_entry(name, inputs, attrs):
    lowered(name, *inputs, **attrs)


TRACED = [
    ("com.microsoft::BiasAdd", [normal(2, 3, 4), normal(4), normal(2, 3, 4)], {}),
    ("com.microsoft::BiasDropout", [normal(2, 4), normal(4)], {}),
    ("com.microsoft::ReluGrad", [normal(2, 4), normal(2, 4)], {}),
    ("qonnx.custom_op.general::BipolarQuant", [normal(2, 4), np.float32(0.5)], {}),
]


@pytest.mark.parametrize(("name", "inputs", "attrs"), TRACED, ids=[row[0] for row in TRACED])
def test_an_entry_without_a_form_is_traced(name, inputs, attrs):
    assert not hasattr(find_entry(name, len(inputs)).op_class, "lowered")
    lowered(name, *inputs, **attrs)


@pytest.mark.parametrize(
    ("mode", "padding", "corners"),
    [(0, 0, 0), (0, 1, 1), (1, 0, 1), (1, 1, 0), (2, 0, 0), (2, 1, 1)],
)
def test_grid_sampler_becomes_grid_sample(mode, padding, corners):
    grid = np.random.default_rng(2).uniform(-1.5, 1.5, (2, 6, 4, 2)).astype(np.float32)
    attrs = {"interpolation_mode": mode, "padding_mode": padding, "align_corners": corners}
    assert "GridSample" in lowered("mmdeploy::grid_sampler", normal(2, 3, 5, 7), grid, **attrs)


def test_a_model_of_an_old_opset_runs_in_plain_onnx_runtime():
    """DeformConv is of opset 19, and ONNX Runtime takes no function of a newer opset than its model's."""
    model = onnx.parser.parse_model("""<ir_version: 7, opset_import: ["" : 11, "mmdeploy" : 1]>
        deformable (float[2,6,7] image, float[1,18,6,7] offset, float[3,2,3,3] weight) => (float[1,3,1,1] mean) {
            x = Unsqueeze<axes = [0]>(image)
            y = mmdeploy.MMCVDeformConv2d<padding = [1, 1, 1, 1]>(x, offset, weight)
            mean = ReduceMean<axes = [2, 3]>(y)
        }""")
    feeds = {
        "image": normal(2, 6, 7),
        "offset": normal(1, 18, 6, 7),
        "weight": normal(3, 2, 3, 3),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pyopnb.errors.Filled)
        filled = pyopnb.fill(model)
    expected = pyopnb.Session(filled)(feeds)["mean"]
    plain = pyopnb.lower(filled, feeds, strict=True)
    session = onnxruntime.InferenceSession(plain.SerializeToString())
    near(session.run(None, feeds)[0], expected, 1e-5)
