"""``serial = True``: a result is the caller's before the next call of the op begins, also where it is a buffer of the op's own."""

import time

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator
from small_ops import chain
from together import together

import pyopnb
from pyopnb.onnx_reference import reference_ops

THREADS, RUNS = 3, 8
SIZE = 1_000_000  # so large that the interpreter's lock is free for a while when a result is copied


def define(give, *, infer=False):
    """An op that writes to the same buffer in every call, in every node, and returns the result of ``give`` on it."""

    class Buffer:
        serial = True
        buffer = np.zeros((2, SIZE // 2), np.float32)

        def compute(self, x):
            self.buffer[...] = x[0]
            return give(self.buffer)

    if infer:
        Buffer.infer = lambda self, x: "float32[2,M]"
    else:
        Buffer.compute.__annotations__["return"] = "float32[2,N]"
    return pyopnb.registry.define(Buffer, "serial::Buffer")


def same(buffer):
    return buffer


def other_strides(buffer):
    return buffer[:, ::-1]


class Lazy:
    """What becomes an array only when pyopnb asks for it."""

    def __init__(self, buffer):
        self.buffer = buffer

    def __array__(self, dtype=None, copy=None):
        time.sleep(0.001)  # another thread may go on
        return self.buffer


def managed(model):
    session = pyopnb.Session(model)
    return lambda x: session.run(None, {"x": x})[0]


def bare(model):
    options = onnxruntime.SessionOptions()
    options.register_custom_ops_library(pyopnb.get_library_path())
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    return lambda x: session.run(None, {"x": x})[0]


def traced(model):
    session = pyopnb.Session(model)
    return lambda x: session.trace(x=x, times=False)["y"]


def evaluated(model):
    evaluator = ReferenceEvaluator(model, new_ops=reference_ops())
    return lambda x: evaluator.run(None, {"x": x})[0]


def function():
    """The op inside a local function, twice."""
    body = [helper.make_node("Buffer", ["a"], ["b"], domain="serial")]
    imports = [
        helper.make_opsetid("", 18),
        helper.make_opsetid("serial", 1),
        helper.make_opsetid("local", 1),
    ]
    proto = helper.make_function("local", "Both", ["a"], ["b"], body, imports)
    model = chain("::Identity")
    model.functions.append(proto)
    del model.graph.node[:]
    nodes = [
        helper.make_node("Both", ["x"], ["t"], domain="local"),
        helper.make_node("Flatten", ["t"], ["y"], axis=0),
    ]
    model.graph.node.extend(nodes)
    del model.graph.output[:]
    model.graph.output.append(helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None))
    del model.opset_import[:]
    model.opset_import.extend(imports)
    return model


def plain():
    return chain("serial::Buffer")


WAYS = {
    "session": (managed, plain, same, False),
    "bare session": (bare, plain, same, False),
    "infer": (managed, plain, same, True),
    "other strides": (managed, plain, other_strides, False),
    "converted": (managed, plain, Lazy, False),
    "function": (managed, function, same, False),
    "trace": (traced, plain, same, False),
    "reference": (evaluated, plain, same, False),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_buffer_of_the_ops_own_reaches_its_caller_whole(way):
    run, model, give, infer = WAYS[way]
    define(give, infer=infer)
    call = run(model())

    def job(number):
        def runs():
            for n in range(RUNS):
                value = np.float32(1 + number * RUNS + n)
                y = call(np.full(3, value, np.float32))
                assert (y.min(), y.max()) == (value, value)

        return runs

    together(*map(job, range(THREADS)))


def test_results_of_a_reference_evaluator_are_not_the_ops_buffer():
    define(same)
    call = evaluated(plain())
    first, second = call(np.ones(3, np.float32)), call(np.full(3, 2, np.float32))
    assert (first.max(), second.max()) == (1, 2)


def test_the_lock_is_free_after_a_result_that_is_refused():
    define(lambda buffer: buffer.astype(np.float64))
    call = managed(plain())

    def job():
        for _ in range(3):
            with pytest.raises(pyopnb.errors.ResultError):
                call(np.ones(3, np.float32))

    together(job, job)
