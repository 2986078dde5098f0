"""``python mutants.py fuzz SECONDS`` or ``python mutants.py kept``: mutated models through every function of `takers`.

Exits with 1 where a function raised an exception that belongs neither to pyopnb, onnx or ONNX Runtime, nor
about the run itself; with the mutation's number and the traceback. The random numbers are seeded
with PYOPNB_FUZZ_SEED, 0 if it is not set.
"""

from __future__ import annotations

import os
import pathlib
import random
import resource
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from once_found import KEPT
from onnx import ModelProto, helper
from takers import TAKERS, prepare

import pyopnb
from pyopnb.engine.models.protos import is_repeated

MEMORY = 6 << 30
SLOW = 60.0

_NUMBERS = [0, 1, -1, 2, 7, 2**31 - 1, 2**31, -(2**31), 2**32, 2**62, 2**63 - 1, -(2**63)]
_TEXTS = ["", "x", "y", "\0", "\u3164", "\u202e", "a" * 5000, "::", "pyopnb:demo", "pyopnb_graph:body", "../x", ".", "If", "PyOp",
          "pyopnb.folder", "ai.onnx", "com.microsoft", "onnx.reference", "'", "<b>", "\n", "\ud7ff"]  # fmt: skip
_BYTES = [b"", b"\xff", b"\xff\xfe\xfd", b"abc", bytes(4)]


def seeds() -> list[ModelProto]:
    """Small valid models with everything in them that a file can have."""
    texts = [
        '(float[N,3] x) => (float[N,3] y) <float[3] w = {1, 2, 3}> { a = Add(x, w)  b = Softmax<axis = 1>(a)  y = Neg(b) }',
        '(bool c, float[2] x) => (float[2] y) { y = If(c) <then_branch = t () => (float[2] p) { p = Abs(x) },'
        ' else_branch = e () => (float[2] q) { q = Neg(x) }> }',
        '<ir_version: 10, opset_import: ["" : 21, "local" : 1]> g (float[2] x) => (float[2] y) { a = local.F<k = 2>(x)  y = local.F<k = 1>(a) }'
        ' <domain: "local", opset_import: ["" : 21]> F<k>(i) => (o) { c = Constant<value_int: int = @k>()  d = Cast<to = 1>(c)  o = Mul(i, d) }',
        '(float[2,4] x) => (float[2,4] y) { y = taker.Any<a = 1, b = "text", c = [1.5, 2.5]>(x) }',
        '(float[1,1,4,4] x) => (float[1,1,4,4] y) { k = Constant<value = float[1,1,3,3] {1,1,1,1,1,1,1,1,1}>()  y = Conv<pads = [1,1,1,1]>(x, k) }',
        '(float[N,2] x) => (float[N,2] y) { y = Selu<gamma = 2.0>(x) }',
    ]  # fmt: skip
    made = [pyopnb.parse(text) for text in texts]
    body = helper.make_graph(
        [helper.make_node("Add", ["s", "i"], ["t"]), helper.make_node("Identity", ["t"], ["u"])], "b",
        [helper.make_tensor_value_info(n, 1, [2]) for n in "si"], [helper.make_tensor_value_info(n, 1, [2]) for n in "tu"],
    )  # fmt: skip
    scan = helper.make_node("Scan", ["x0", "x"], ["y0", "y"], body=body, num_scan_inputs=1)
    ends = [
        helper.make_tensor_value_info(n, 1, d)
        for n, d in (("x0", [2]), ("x", [3, 2]), ("y0", [2]), ("y", [3, 2]))
    ]
    made.append(
        pyopnb.model(
            [scan],
            {"x0": "float32[2]", "x": "float32[3,2]"},
            {"y0": "float32[2]", "y": "float32[3,2]"},
        )
    )
    made.append(
        helper.make_model(
            helper.make_graph([scan], "g", ends[:2], ends[2:]),
            ir_version=10,
            opset_imports=[helper.make_opsetid("", 20)],
        )
    )
    retired = helper.make_node(
        "PyOp",
        ["x"],
        ["y"],
        domain="demo",
        module="mymodule",
        class_name="C",
        input_types=[1],
        output_types=[1],
    )
    made.append(pyopnb.model([retired], {"x": "float32[2]"}, {"y": "float32[2]"}))
    packed = pyopnb.parse("(float[2] x) => (float[2] y) { y = taker.Any<a = 1>(x) }")
    packed.graph.node[0].domain, packed.graph.node[0].op_type = "pyopnb:taker", "Any."
    packed.graph.node[0].attribute.append(
        helper.make_attribute("pyopnb_graph:body", body.SerializeToString())
    )
    made.append(packed)
    sparse = pyopnb.parse("(float[2] x, float[2] w) => (float[2] y) { y = Add(x, w) }")
    sparse.graph.input.pop()
    sparse.graph.sparse_initializer.append(
        helper.make_sparse_tensor(
            helper.make_tensor("w", 1, [1], [1.0]), helper.make_tensor("i", 7, [1], [1]), [2]
        )
    )
    made.append(sparse)
    for each in made:
        each.metadata_props.add(key="k", value="v")
        each.graph.doc_string = "words"
    return made


def messages(top: Any) -> Iterator[Any]:
    waiting = [top]
    while waiting:
        message = waiting.pop()
        yield message
        for field, value in message.ListFields():
            if field.message_type:
                waiting += value if is_repeated(field) else [value]


def mutate(model: ModelProto, choose: random.Random) -> None:
    """Change one field of one message, or what it is repeated by."""
    message = choose.choice(list(messages(model)))
    field = choose.choice(message.DESCRIPTOR.fields)
    if field.message_type is not None:
        _mutate_messages(message, field, choose)
        return
    value = _value(field, getattr(message, field.name), choose)
    try:
        if is_repeated(field):
            values = getattr(message, field.name)
            kind = choose.randrange(4)
            if kind == 0 or not values:
                values.append(value)
            elif kind == 1:
                del values[choose.randrange(len(values))]
            elif kind == 2:
                values[choose.randrange(len(values))] = value
            else:
                values.append(values[choose.randrange(len(values))])
        elif choose.random() < 0.15:
            message.ClearField(field.name)
        else:
            setattr(message, field.name, value)
    except (ValueError, TypeError):  # a number that the field does not have
        message.ClearField(field.name)


def _mutate_messages(message: Any, field: Any, choose: random.Random) -> None:
    others = [each for each in messages(message) if each.DESCRIPTOR is field.message_type]
    if not is_repeated(field):
        if message.HasField(field.name) and choose.random() < 0.5:
            message.ClearField(field.name)
        else:
            getattr(message, field.name).SetInParent()
        return
    values = getattr(message, field.name)
    kind = choose.randrange(4)
    if kind == 0 and values:
        del values[choose.randrange(len(values))]
    elif kind == 1 and len(values) > 1:
        one, other = (choose.randrange(len(values)) for _ in range(2))
        kept = type(values[0])()
        kept.CopyFrom(values[one])
        values[one].CopyFrom(values[other])
        values[other].CopyFrom(kept)
    else:
        added = values.add()
        if others:
            kept = type(added)()
            kept.CopyFrom(choose.choice(others))
            added.CopyFrom(kept)


def _value(field: Any, now: Any, choose: random.Random) -> Any:
    if field.type == field.TYPE_STRING:
        return choose.choice(_TEXTS)
    if field.type == field.TYPE_BYTES:
        return choose.choice(_BYTES)
    if field.type in (field.TYPE_FLOAT, field.TYPE_DOUBLE):
        return choose.choice([0.0, -1.0, float("nan"), float("inf"), 1e30])
    if field.type == field.TYPE_ENUM:
        return choose.choice(field.enum_type.values).number
    return choose.choice([*_NUMBERS, choose.randrange(30)])


def mutate_bytes(data: bytes, choose: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(choose.randint(1, 4)):
        at = choose.randrange(len(changed))
        kind = choose.randrange(4)
        if kind == 0:
            changed[at] ^= 1 << choose.randrange(8)
        elif kind == 1:
            changed[at] = choose.choice([0, 0xFF, 0x7F, 0x80, choose.randrange(256)])
        elif kind == 2:
            del changed[at : at + choose.randint(1, 8)]
        else:
            changed[at:at] = changed[at : at + choose.randint(1, 8)]
    return bytes(changed)


def mutants(choose: random.Random) -> Iterator[ModelProto]:
    valid = seeds()
    data = [each.SerializeToString() for each in valid]
    while True:
        model = ModelProto()
        try:
            if choose.random() < 0.3:
                model.ParseFromString(mutate_bytes(choose.choice(data), choose))
            else:
                model.CopyFrom(choose.choice(valid))
                for _ in range(choose.choice([1, 1, 1, 2, 3])):
                    mutate(model, choose)
        except DecodeError:
            continue
        yield model


# ---- what may be raised ------------------------------------------------------------------------------------------------------


def raised_inside(error: BaseException) -> bool:
    """Whether an exception is a raw one from inside pyopnb: neither pyopnb's own nor raised by onnx, ONNX Runtime or an op."""
    if isinstance(error, (pyopnb.PyopError, SystemExit)):
        return False
    if type(error).__module__.startswith("onnxruntime"):
        return False
    frames = traceback.extract_tb(error.__traceback__)
    last = next(
        (
            f
            for f in reversed(frames)
            if "/contextlib" not in f.filename and "/functools" not in f.filename
        ),
        frames[-1],
    )
    folder = str(pathlib.Path(onnx.__file__).parent)
    if f"{os.sep}onnxruntime{os.sep}" in last.filename:
        return False
    inside = any(
        f.filename.startswith(folder + os.sep + "reference") for f in frames
    )  # the reference runs what the file says
    return not inside


def check(
    name: str,
    take: Callable[[ModelProto, pathlib.Path], Any],
    model: ModelProto,
    folder: pathlib.Path,
) -> str:
    start = time.monotonic()
    try:
        with np.errstate(all="ignore"):
            take(model, folder)
    except Exception as error:
        if raised_inside(error):
            return f"{name}: {''.join(traceback.format_exception(error)[-14:])}"
    spent = time.monotonic() - start
    return f"{name}: took {spent:.0f} s" if spent > SLOW else ""


def main() -> int:
    prepare()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    seed = int(os.environ.get("PYOPNB_FUZZ_SEED", "0"))
    choose, found, count, calls = random.Random(seed), {}, 0, 0
    end = time.monotonic() + float(sys.argv[2]) if sys.argv[1] == "fuzz" else None
    models = (
        mutants(choose)
        if end is not None
        else (ModelProto.FromString(bytes.fromhex(text)) for text in KEPT)
    )
    names = list(TAKERS)
    with tempfile.TemporaryDirectory() as kept:
        last = pathlib.Path(os.environ.get("PYOPNB_FUZZ_LAST", os.path.join(kept, "last.hex")))
        for model in models:
            if end is not None and time.monotonic() > end:
                break
            count += 1
            last.write_text(
                model.SerializeToString().hex(), encoding="utf-8"
            )  # what a crash leaves behind
            for name in names if end is None else choose.sample(names, 6):
                calls += 1
                fault = check(name, TAKERS[name], model, pathlib.Path(kept))
                key = "\n".join(
                    line for line in fault.splitlines() if line.strip().startswith("File")
                )[-300:]
                if fault and (name, key) not in found:
                    found[name, key] = fault
                    print(
                        f"mutant {count} of seed {seed}, {fault}\n  {model.SerializeToString().hex()}\n",
                        flush=True,
                    )
    print(f"{len(found)} faults in {calls} calls")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
