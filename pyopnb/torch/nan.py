"""Give operators that pass over NaN in ONNX Runtime a branch in which they follow torch."""

from __future__ import annotations

from collections.abc import Mapping

import onnx.parser
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto, helper
from onnx.compose import add_prefix_graph

from pyopnb.engine import protos

__all__ = ["write_nan"]

_FLOATS = (TensorProto.FLOAT16, TensorProto.FLOAT, TensorProto.DOUBLE)

_GUARD = """
    total = ReduceSum <keepdims = 0> (x)
    is_needed = IsNaN (total)
"""
# MaxPool of float32 gives the lowest finite number where there is only -inf, and recurrent
# operators give numbers where two infinities meet.
_POOL_GUARD = """
    total = ReduceSum <keepdims = 0> (x)
    rest = Sub (total, total)
    is_needed = IsNaN (rest)
"""
_STATE_GUARD = """
    of_x = ReduceSum <keepdims = 0> (x)
    of_h = ReduceSum <keepdims = 0> (h)
    of_c = ReduceSum <keepdims = 0> (c)
    total = Sum (of_x, of_h, of_c)
    rest = Sub (total, total)
    is_needed = IsNaN (rest)
"""

# Same is the operator itself, and Largest the maximum of the same elements.
_EXTREME = """
    wide = Cast <to = 11> (x)
    extreme = Same (wide)
    is_nan = IsNaN (x)
    marks = Cast <to = 11> (is_nan)
    largest = Largest (marks)
    has_mark = Cast <to = 9> (largest)
    nan = Constant <value = double {nan}> ()
    chosen = Where (has_mark, nan, extreme)
    out0 = CastLike (chosen, x)
"""
# The index of a window is that of its last NaN.
_POOLED = """
    wide = Cast <to = 11> (x)
    extreme, index = Same (wide)
    is_nan = IsNaN (x)
    size = Size (x)
    one = Constant <value_int = 1> ()
    end = Add (size, one)
    row = Range (one, end, one)
    shape = Shape (x)
    numbers = Reshape (row, shape)
    zero = Constant <value_int = 0> ()
    numbers_of_nan = Where (is_nan, numbers, zero)
    marks = Cast <to = 11> (numbers_of_nan)
    largest = Largest (marks)
    has_mark = Cast <to = 9> (largest)
    nan = Constant <value = double {nan}> ()
    chosen = Where (has_mark, nan, extreme)
    out0 = CastLike (chosen, x)
    last = Cast <to = 7> (largest)
    place = Sub (last, one)
    out1 = Where (has_mark, place, index)
"""
# The index along an axis is that of the first NaN.
_PLACE = """
    wide = Cast <to = 11> (x)
    is_nan = IsNaN (x)
    marks = Cast <to = 11> (is_nan)
    axes = Constant <value_ints = [AXIS]> ()
    largest = ReduceMax (marks, axes)
    has_mark = Cast <to = 9> (largest)
    extreme_marks = SIGN (marks)
    chosen = Where (has_mark, extreme_marks, wide)
    out0 = Same (chosen)
"""
_AXES = """
    first = Constant <value_ints = [0]> ()
    second = Constant <value_ints = [1]> ()
"""
# One direction of a recurrent operator, as a loop over its formula.
_DIRECTION = """
    number@ = Constant <value_int = @> ()
    w@ = Gather (w, number@)
    r@ = Gather (r, number@)
    b@ = Gather (b, number@)
    bw@, br@ = Split <axis = 0, num_outputs = 2> (b@)
    h@ = Gather (h, number@)
    c@ = Gather (c, number@)
    last_h@, last_c@, steps@ = Scan <num_scan_inputs = 1, scan_input_directions = [@],
        scan_output_directions = [@],
        body = step@ (float[n,m] p@, float[n,m] q@, float[n,k] s@)
            => (float[n,m] next_h@, float[n,m] next_c@, float[n,m] y@) {
        gx@ = Gemm <transB = 1> (s@, w@, bw@)
        gh@ = Gemm <transB = 1> (p@, r@, br@)
        STEP
        y@ = Identity (next_h@)
    }> (h@, c@, x)
    y_of@ = Unsqueeze (steps@, second)
    h_of@ = Unsqueeze (last_h@, first)
    c_of@ = Unsqueeze (last_c@, first)
"""
_LSTM = """
        gates@ = Add (gx@, gh@)
        i@, o@, f@, z@ = Split <axis = 1, num_outputs = 4> (gates@)
        si@ = Sigmoid (i@)
        so@ = Sigmoid (o@)
        sf@ = Sigmoid (f@)
        tz@ = Tanh (z@)
        kept@ = Mul (sf@, q@)
        new@ = Mul (si@, tz@)
        next_c@ = Add (kept@, new@)
        tc@ = Tanh (next_c@)
        next_h@ = Mul (so@, tc@)
"""
_GRU = """
        xz@, xr@, xn@ = Split <axis = 1, num_outputs = 3> (gx@)
        hz@, hr@, hn@ = Split <axis = 1, num_outputs = 3> (gh@)
        z@ = Add (xz@, hz@)
        sz@ = Sigmoid (z@)
        r_of@ = Add (xr@, hr@)
        sr@ = Sigmoid (r_of@)
        reset@ = Mul (sr@, hn@)
        n@ = Add (xn@, reset@)
        tn@ = Tanh (n@)
        difference@ = Sub (p@, tn@)
        kept@ = Mul (difference@, sz@)
        next_h@ = Add (kept@, tn@)
        next_c@ = Identity (q@)
"""
_RNN = """
        sum@ = Add (gx@, gh@)
        next_h@ = ACTIVATION (sum@)
        next_c@ = Identity (q@)
"""
_ONE_WAY = """
    out0 = Identity (y_of0)
    out1 = Identity (h_of0)
    out2 = Identity (c_of0)
"""
_BOTH_WAYS = """
    out0 = Concat <axis = 1> (y_of0, y_of1)
    out1 = Concat <axis = 0> (h_of0, h_of1)
    out2 = Concat <axis = 0> (c_of0, c_of1)
"""

# When the right form of an operator is needed, and the form.
_FORMS = {
    "MaxPool": (_POOL_GUARD, _POOLED),
    "ReduceMax": (_GUARD, _EXTREME),
    "ReduceMin": (_GUARD, _EXTREME),
    "ReduceLogSumExp": (_GUARD, _EXTREME),
    "ArgMax": (_GUARD, _PLACE.replace("SIGN", "Identity")),
    "ArgMin": (_GUARD, _PLACE.replace("SIGN", "Neg")),
    "LSTM": (_STATE_GUARD, _DIRECTION.replace("STEP", _LSTM)),
    "GRU": (_STATE_GUARD, _DIRECTION.replace("STEP", _GRU)),
    "RNN": (_STATE_GUARD, _DIRECTION.replace("STEP", _RNN)),
}


def write_nan(model: ModelProto) -> None:
    """Put operators of floats that pass over NaN into a branch, with another one for NaN.

    The right form takes several times as long as the operator, and nets of small layers took half
    as long again with it. A sum of the inputs tells in a fraction whether it is needed.

    Parameters
    ----------
    model : ModelProto
        It is changed.
    """
    _write(model.graph, {})


def _write(graph: GraphProto, outer: Mapping[str, ValueInfoProto]) -> None:
    infos = (*graph.input, *graph.value_info, *graph.output)
    declared = {**outer, **{info.name: info for info in infos}}
    nodes = []
    for node in graph.node:
        for body in protos.bodies(node):
            _write(body, declared)
        info = declared.get(node.input[0]) if node.op_type in _FORMS else None
        if info is not None and info.type.tensor_type.elem_type in _FLOATS:
            nodes += _choice(node, info.type.tensor_type.elem_type, declared)
        else:
            nodes.append(node)
    del graph.node[:]
    graph.node.extend(nodes)


def _choice(node: NodeProto, dtype: int, declared: Mapping[str, ValueInfoProto]) -> list[NodeProto]:
    """Follow a node by a choice between its results and those of the right form."""
    prefix = f"{next(filter(None, node.output))}_nan_"
    guard, form = _FORMS[node.op_type]
    # The inputs of a recurrent operator. Only an LSTM has cells: the states go in their place, and
    # nothing reads the result.
    names = dict(zip("xwrb hc", [*node.input, node.input[-1]], strict=False))
    before = _parsed(guard, names, prefix)
    right, plain = _parsed(_written(form, node), names, prefix), GraphProto(name="plain")
    for entry in right.node:
        if entry.op_type in ("Same", "Largest"):
            is_same = entry.op_type == "Same" or node.op_type == "MaxPool"
            entry.op_type = node.op_type if is_same else "ReduceMax"
            entry.input.extend(node.input[1:])
            entry.attribute.extend(node.attribute)
    outputs = list(node.output)
    for number, name in enumerate(outputs):
        info = ValueInfoProto()
        info.CopyFrom(declared.get(name, helper.make_tensor_value_info("", dtype, None)))
        info.name = f"{prefix}out{number}"
        right.output.append(info)
        info.name = f"{prefix}same{number}"
        plain.output.append(info)
        node.output[number] = f"{prefix}plain{number}"
        plain.node.append(helper.make_node("Identity", [node.output[number]], [info.name]))
        # An If has no outputs that are left out.
        outputs[number] = name or f"{prefix}left_out{number}"
    is_needed = f"{prefix}is_needed"
    choice = helper.make_node("If", [is_needed], outputs, then_branch=right, else_branch=plain)
    return [node, *before.node, choice]


def _written(form: str, node: NodeProto) -> str:
    """Fill in what a form says of an axis or a direction."""
    attributes = {entry.name: helper.get_attribute_value(entry) for entry in node.attribute}
    if "@" not in form:
        return form.replace("AXIS", str(attributes.get("axis", 0)))
    activation, *_ = attributes.get("activations", [b"Tanh"])
    form = form.replace("ACTIVATION", activation.decode())
    ways = [_AXES, form.replace("@", "0"), _ONE_WAY]
    if attributes.get("direction") == b"bidirectional":
        ways[2:] = [form.replace("@", "1"), _BOTH_WAYS]
    return "".join(ways)


def _parsed(text: str, names: Mapping[str, str], prefix: str) -> GraphProto:
    graph = onnx.parser.parse_graph(f"right () => () {{ {text} }}")
    # The inputs get the names of the model, and what is new gets names of its own.
    return add_prefix_graph(graph, prefix, inplace=True, name_map=dict(names))
