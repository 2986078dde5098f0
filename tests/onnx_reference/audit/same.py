"""Cases that mean the same, for versions and dtypes of which ONNX Runtime has no kernel."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np
import onnx

from audit.cases import Case

__all__ = ["same_cases"]


def same_cases(case: Case) -> Iterator[tuple[Case, Callable[[list[Any]], list[Any]]]]:
    """Yield cases of the same meaning, each with a function that converts its results."""
    for rewritten in _in_other_versions(case):
        yield rewritten, list
    yield from _in_other_forms(case)
    for rewritten in [case, *_in_other_versions(case)]:
        for wide in _in_other_dtypes(rewritten):
            yield wide, lambda results, case=case: _narrowed(results, case)


# ---- versions ----------------------------------------------------------------------------------

_HINT = "consumed_inputs"

# The versions from which an operator means something else although its schema looks the same.
_BREAKS = {
    ("PRelu", 7),
    ("Equal", 7),
    ("Upsample", 9),
    ("Cast", 6),
    ("LpPool", 2),
    ("GlobalLpPool", 2),
}


@cache
def _versions(domain: str, op: str) -> tuple[Any, ...]:
    found = [
        s for s in onnx.defs.get_all_schemas_with_history() if (s.domain, s.name) == (domain, op)
    ]
    return tuple(sorted((s for s in found if not s.deprecated), key=lambda s: s.since_version))


def _form(schema: Any) -> Any:
    """What a version takes: its attributes with their defaults, and its inputs."""
    attributes = {
        name: str(a.default_value) for name, a in schema.attributes.items() if name != _HINT
    }
    return attributes, [(i.name, i.option) for i in schema.inputs], len(schema.outputs)


def _takes(schema: Any, case: Case, own: Any) -> Case | None:
    """Return the case in another version, with the defaults of its own; None if that cannot be."""
    if len(case.inputs) > schema.max_input or len(case.inputs) < schema.min_input:
        return None
    theirs, ours = _form(schema)[0], _form(own)[0]
    attrs = dict(case.attrs)
    if not set(attrs) <= set(theirs):
        return None
    for name, default in theirs.items():
        if name in attrs or default == ours.get(name, ""):
            continue
        own_default = own.attributes[name].default_value if name in own.attributes else None
        if own_default is None or not own_default.type:
            return None
        attrs[name] = onnx.helper.get_attribute_value(own_default)
    # A default that the other version lacks has to be said as well, and cannot.
    if any(default and name not in theirs for name, default in ours.items()):
        return None
    return dataclasses.replace(case, version=schema.since_version, attrs=attrs)


def _in_other_versions(case: Case) -> Iterator[Case]:
    attrs = {name: value for name, value in case.attrs.items() if name != _HINT}
    bare = dataclasses.replace(case, attrs=attrs)
    for old in _of_old_forms(bare):
        yield old
        bare = old
    versions = _versions(bare.domain, bare.op)
    own = next(s for s in versions if s.since_version == bare.version)
    newer = [s for s in versions if s.since_version > bare.version]
    older = [s for s in reversed(versions) if s.since_version < bare.version]
    for schema in newer:
        if (bare.op, schema.since_version) in _BREAKS:
            break
        candidate = _takes(schema, bare, own)
        if candidate is not None:
            yield candidate
    limit = bare.version
    for schema in older:
        if (bare.op, limit) in _BREAKS:
            break
        limit = schema.since_version
        candidate = _takes(schema, bare, own)
        if candidate is not None:
            yield candidate


_LEGACY = {"Add", "Sub", "Mul", "Div", "Pow", "And", "Or", "Xor", "Equal", "Greater", "Less"}


def _of_old_forms(case: Case) -> Iterator[Case]:
    """Yield the same call in a form that came later."""
    attrs = dict(case.attrs)

    def changed(version: int, inputs: Any = case.inputs, attrs: Any = attrs, **more: Any) -> Case:
        return dataclasses.replace(case, version=version, inputs=tuple(inputs), attrs=attrs, **more)

    key = case.op, case.version
    if case.op in _LEGACY and case.version < 7:
        a, b = case.inputs
        axis = attrs.pop("axis", None)
        if attrs.pop("broadcast", 0) and axis is not None:
            axis = axis % a.ndim
            b = b.reshape(*b.shape, *[1] * (a.ndim - axis - b.ndim))
        yield changed(7, (a, b))
    if key in (("Sum", 1), ("Max", 1), ("Min", 1), ("Mean", 1), ("Sum", 6), ("Mean", 6)):
        yield changed(8)
    if key in (("Max", 6), ("Min", 6)):
        yield changed(8)
    if key == ("PRelu", 1) or key == ("PRelu", 6):
        x, slope = case.inputs
        if slope.size > 1:
            slope = slope.reshape(-1, *[1] * (x.ndim - 2))
        yield changed(7, (x, slope))
    if key == ("Concat", 1):
        yield changed(4, attrs={"axis": attrs.get("axis", 1)})
    if case.op == "Gemm" and case.version < 7:
        attrs.pop("broadcast", None)
        yield changed(7)
    if (
        case.op == "BatchNormalization"
        and case.version < 7
        and attrs.get("is_test")
        and case.outputs == 1
    ):
        attrs.pop("is_test")
        yield changed(7)
        if attrs.get("spatial", 1):
            attrs.pop("spatial", None)
            yield changed(9)
    if case.op == "BatchNormalization" and case.version < 7 and case.outputs == 5:
        attrs.pop("is_test", None)
        yield changed(9)
    if case.op == "Dropout" and case.version < 7 and attrs.get("is_test"):
        attrs.pop("is_test")
        yield changed(7)
    if case.op == "Clip" and case.version < 11:
        x = case.inputs[0]
        low, high = attrs.get("min"), attrs.get("max")
        bounds = [None if v is None else np.asarray(v, x.dtype) for v in (low, high)]
        yield changed(12, (x, *bounds), {})
    if case.op == "LpPool" and case.version < 2:
        if "p" in attrs:
            attrs["p"] = int(attrs["p"])
        yield changed(11)
    if case.op == "GlobalLpPool" and case.version < 2:
        if "p" in attrs:
            attrs["p"] = int(attrs["p"])
        yield changed(2)
    if key == ("Pad", 1):
        attrs["pads"] = attrs.pop("paddings")
        yield changed(2)
    if key == ("Split", 1):
        attrs.setdefault("axis", 0)
        if len(case.inputs) > 1:
            attrs["split"] = [int(v) for v in case.inputs[1]]
        yield changed(2, case.inputs[:1])
    if key == ("Tile", 1):
        x, tiles, axis = case.inputs
        repeats = [1] * x.ndim
        repeats[int(axis)] = int(tiles)
        yield changed(6, (x, np.int64(repeats)))
    if key == ("Upsample", 1):
        scales = [1.0, 1.0, attrs.pop("height_scale"), attrs.pop("width_scale")]
        mode = {"bilinear": "linear"}.get(attrs.pop("mode", "nearest"), "nearest")
        yield changed(7, attrs={"scales": scales, "mode": mode})
    if key == ("Cast", 1):
        yield changed(6, attrs={"to": onnx.TensorProto.DataType.Value(attrs["to"])})
    if case.op in ("RNN", "LSTM", "GRU") and case.version < 7:
        attrs.pop("output_sequence", None)
        yield changed(7)
    if key == ("AveragePool", 1):
        yield changed(7)
    if case.op == "SpaceToDepth" and case.version >= 28 and attrs.get("mode", "DCR") == "DCR":
        attrs.pop("mode", None)
        yield changed(13)
    if case.op == "Scatter":
        yield changed(11, op="ScatterElements")
    if case.op in ("OptionalGetElement", "OptionalHasElement") and case.version == 15:
        yield changed(18)


# ---- forms that the kernels lack ---------------------------------------------------------------


def _in_other_forms(case: Case) -> Iterator[tuple[Case, Callable[[list[Any]], list[Any]]]]:
    """Yield the same computation by another operator, or with other inputs."""
    inputs, attrs = list(case.inputs), dict(case.attrs)

    def changed(new_inputs: Any = inputs, new_attrs: Any = attrs, **more: Any) -> Case:
        return dataclasses.replace(case, inputs=tuple(new_inputs), attrs=new_attrs, **more)

    if case.op == "Attention" and len(inputs) > 5 and case.outputs < 3:
        # The kernel wants present keys where there are past ones.
        yield changed(outputs=3), lambda results: results[: case.outputs]
    if case.op == "Attention" and len(inputs) > 3 and inputs[1].ndim == 4:
        # A short mask forbids the last keys, by definition.
        lacking = inputs[1].shape[2] - inputs[3].shape[-1]
        if lacking > 0 and len(inputs) == 4:
            wide = [(0, 0)] * (inputs[3].ndim - 1) + [(0, lacking)]
            forbidden = False if inputs[3].dtype == bool else -np.inf
            mask = np.pad(inputs[3], wide, constant_values=forbidden)
            yield changed([*inputs[:3], mask]), list
    if case.op in ("RNN", "GRU", "LSTM"):
        attrs.setdefault("hidden_size", inputs[2].shape[-1])
        batch_first = attrs.pop("layout", 0)
        if batch_first:
            for place in (0, 5, 6):
                if place < len(inputs) and inputs[place] is not None:
                    inputs[place] = np.ascontiguousarray(inputs[place].swapaxes(0, 1))
        yield changed(), lambda results: _batch_first(results) if batch_first else results
    if case.op == "CenterCropPad":
        x, sizes = inputs[0], inputs[1].astype(np.int64)
        yield changed([x, sizes]), list
        if x.dtype.itemsize == 2 and x.dtype.kind in "iu":
            yield changed([x.astype(np.int64), sizes]), lambda results: [results[0].astype(x.dtype)]
    if case.op in ("ConvInteger", "MatMulInteger"):
        x, w, *zeros = inputs
        zeros += [None] * (2 - len(zeros))
        x, w = x.astype(np.float32), w.astype(np.float32)
        if zeros[0] is not None:
            x = x - zeros[0].astype(np.float32)
        if zeros[1] is not None:
            zero = zeros[1].astype(np.float32)
            if case.op == "ConvInteger" and zero.ndim:
                zero = zero.reshape(-1, *[1] * (w.ndim - 1))
            w = w - zero
        plain, version = ("Conv", 11) if case.op == "ConvInteger" else ("MatMul", 13)
        yield (
            changed([x, w], op=plain, version=version),
            lambda results: [np.rint(results[0]).astype(np.int32)],
        )
    if case.op in ("MelWeightMatrix", "BlackmanWindow", "HammingWindow", "HannWindow"):
        dtype = onnx.helper.tensor_dtype_to_np_dtype(attrs.get("output_datatype", 1))
        yield (
            changed(new_attrs={**attrs, "output_datatype": 1}),
            lambda results: [results[0].astype(dtype)],
        )
    if case.op == "OneHot":
        whole = [inputs[0].astype(np.int64), np.asarray(inputs[1]).astype(np.int64), inputs[2]]
        yield changed(whole), list
        if not whole[0].ndim:
            whole[0] = whole[0].reshape(1)
            yield changed(whole), lambda results: [results[0].reshape(-1)]
    if case.op == "Resize" and case.version > 10:
        x, roi, *lengths = inputs
        if x.ndim == 1 and not (roi is not None and roi.size):
            lengths = [
                v if v is None else np.concatenate([np.ones(1, v.dtype), v]) for v in lengths
            ]
            yield changed([x[None], roi, *lengths]), lambda results: [results[0][0]]
        if attrs.get("mode", "nearest") == "nearest" and attrs.pop("antialias", 0):
            # Only the other modes have a filter.
            yield changed(new_attrs=attrs), list
    if case.op == "Pow":
        dtype = np.asarray(inputs[0]).dtype
        doubles = [np.asarray(value).astype(np.float64) for value in inputs]
        yield changed(doubles), lambda results: [results[0].astype(dtype)]


def _batch_first(results: list[Any]) -> list[Any]:
    return [results[0].transpose(2, 0, 1, 3), *[state.swapaxes(0, 1) for state in results[1:]]]


# ---- dtypes ------------------------------------------------------------------------------------

_WIDER = {
    "float16": ("float32", "float64"),
    "bfloat16": ("float32",),
    "float32": ("float64",),
    "float64": ("float32",),
    "int8": ("int32", "int64", "float32"),
    "int16": ("int32", "int64", "float32"),
    "int32": ("int64", "float32", "float64"),
    "int64": ("int32", "float32", "float64"),
    "uint8": ("int32", "int64", "float32"),
    "uint16": ("int32", "int64", "float32"),
    "uint32": ("int64", "uint64", "float32", "float64"),
    "uint64": ("int64", "uint32", "float32", "float64"),
    "bool": ("uint8", "int32", "int64", "float32"),
}

# They move elements, count or compute with numbers that a wider dtype also holds; what depends
# on the width itself is left out.
_BY_WIDTH = {
    "Cast",
    "CastLike",
    "BitCast",
    "QuantizeLinear",
    "DequantizeLinear",
    "BitShift",
    "BitwiseNot",
    "Not",
    "And",
    "Or",
    "Xor",
}
_NOT_THROUGH_FLOATS = {"Div", "Mod", "Pow", "Mean", "ReduceMean", "AveragePool", "Sign"}


def _in_other_dtypes(case: Case) -> Iterator[Case]:
    """Yield the case with the dtype of its first input that is a number replaced by another."""
    if case.op == "QuantizeLinear" and case.inputs[0].dtype == np.int32:
        x, *rest = case.inputs
        yield dataclasses.replace(case, inputs=(x.astype(np.float32), *rest))
    if case.op in _BY_WIDTH or (case.op == "EyeLike" and "dtype" not in case.attrs):
        return
    arrays = [value for value in case.inputs if isinstance(value, (np.ndarray, np.generic))]
    place = 1 if case.op == "Where" else 0
    if len(arrays) <= place or arrays[place].dtype.name not in _WIDER:
        return
    first = arrays[place].dtype
    for name in _WIDER[first.name]:
        if name.startswith("float") and first.kind != "f" and case.op in _NOT_THROUGH_FLOATS:
            continue
        inputs = []
        for position, value in enumerate(case.inputs):
            if (
                isinstance(value, (np.ndarray, np.generic))
                and value.dtype == first
                and not _is_index(case, position)
            ):
                value = np.asarray(value).astype(name)
            inputs.append(value)
        yield dataclasses.replace(case, inputs=tuple(inputs))


def _is_index(case: Case, position: int) -> bool:
    """Tell whether an input holds places or sizes, whose dtype the operator prescribes."""
    schema = onnx.defs.get_schema(case.op, case.version, case.domain)
    port = schema.inputs[min(position, len(schema.inputs) - 1)]
    first = schema.inputs[1 if case.op == "Where" else 0]
    return port.type_str != first.type_str


def _narrowed(results: list[Any], case: Case) -> list[Any]:
    """Give results the dtypes that the case has at its outputs."""
    schema = onnx.defs.get_schema(case.op, case.version, case.domain)
    place = 1 if case.op == "Where" else 0
    dtype, kind = np.asarray(case.inputs[place]).dtype, schema.inputs[place].type_str
    narrowed = []
    for position, value in enumerate(results):
        port = schema.outputs[min(position, len(schema.outputs) - 1)]
        if port.type_str == kind and isinstance(value, np.ndarray):
            with np.errstate(all="ignore"):
                value = value.astype(dtype)
        narrowed.append(value)
    return narrowed
