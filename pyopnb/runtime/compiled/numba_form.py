"""The Numba form of an op: ``compute`` as a function of the interface in ``pyopnb_call.h``.

Attrs and other plain attributes of the instance are constants of the compiled code. Inputs are read-only arrays over ONNX
Runtime's memory; results are copied into that of the outputs. Where the code raises, the call is left to Python, which raises
the user's own exception.
"""

from __future__ import annotations

import linecache
import threading
import warnings
from collections import OrderedDict, namedtuple
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numba.np.numpy_support import from_dtype

from pyopnb.ops.errors import one_line
from pyopnb.ops.types import TensorType
from pyopnb.runtime.compiled.numba_math import vectorised
from pyopnb.runtime.notices import NotCompiled, level_of_user

__all__ = ["form_of"]

_FIELDS, _TENSOR = 6, 3  # 64-bit words of pyopnb_call and pyopnb_tensor on every 64-bit system
_DONE, _FAILED, _DECLINED = 0, 1, 2
_Types = Sequence[TensorType | None]
_compiling = threading.RLock()


class _NotCompiled(Exception):
    """Why Numba has no form of an op."""


def form_of(instance: object, inputs: _Types, outputs: _Types, where: str) -> tuple[int, int, int, object] | None:
    """The compiled form of an instance at a node.

    Parameters
    ----------
    instance : object
    inputs, outputs : sequence of (TensorType or None)
        Of the node; None for what is left out.
    where : str
        The node, for the warning.

    Returns
    -------
    tuple or None
        None, with the warning `NotCompiled`, where Numba cannot compile ``compute`` for these types.
    """
    try:
        with _compiling:
            entry = _known(instance, inputs, outputs)
    except Exception as error:  # Numba's own errors have many classes, and some of its failures are plain ones
        reason = one_line(str(error) if isinstance(error, _NotCompiled) else f"{type(error).__name__}: {_first_line(error)}")
        warnings.warn(
            f"{where}: Numba does not compile it, so Python computes. {reason}", NotCompiled, stacklevel=level_of_user()
        )
        return None
    return entry.address, 0, 0, entry


_MOST_KNOWN = 128  # compiled functions that are kept for the next session
_entries: OrderedDict[Any, Any] = OrderedDict()


def _known(instance: Any, inputs: _Types, outputs: _Types) -> Any:
    """The compiled function for these types and constants: compiling takes about a second."""
    values = _constants(instance, inputs)
    facts = tuple((name, type(value), np.asarray(value).tobytes()) for name, value in values._asdict().items())
    key = type(instance).compute, tuple(map(_dtype_and_rank, inputs)), tuple(map(_dtype_name, outputs)), facts
    if key not in _entries:
        _entries[key] = _compiled(instance, inputs, outputs)
        if len(_entries) > _MOST_KNOWN:
            _entries.popitem(last=False)
    return _entries[key]


def _compiled(instance: Any, inputs: _Types, outputs: _Types) -> Any:
    compute, options = _compute(instance)
    fast = vectorised(compute)
    if fast is not compute:
        # What Numba takes of NumPy's functions and not of ours, such as a method of a ufunc, is slow and no error.
        with suppress(numba.core.errors.NumbaError):
            return _entry(instance, fast, options, inputs, outputs)
    return _entry(instance, compute, options, inputs, outputs)


def _dtype_and_rank(kind: TensorType | None) -> tuple[str | None, int | None] | None:
    """What compiled code has of an input's type: it reads the sizes in each call."""
    if kind is None:
        return None
    return _dtype_name(kind), None if kind.shape is None else len(kind.shape)


def _dtype_name(kind: TensorType | None) -> str | None:
    return None if kind is None or kind.dtype is None else kind.dtype.name


def _first_line(error: Exception) -> str:
    """What a Numba error is about: its lines tell passes and files as well."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    about = [line for line in lines if not line.startswith(("Failed in", "During:", "File ", "- "))]
    return " ".join(about[:3])


# ---- types and constants -----------------------------------------------------------------------------------------------------


def _array(kind: TensorType, place: int) -> types.Array:
    if kind.dtype is None or kind.shape is None:
        raise _NotCompiled(f"The rank of input {place} is not known. Declare its type in the model: float32[N,3]")
    if kind.dtype.bits < 8:
        raise _NotCompiled(f"Input {place} is {kind.dtype}, which Numba does not have")
    return types.Array(from_dtype(kind.dtype.numpy), len(kind.shape), "C", readonly=True)


def _constants(instance: object, inputs: _Types) -> Any:
    """The plain attributes of an instance and its class, as a named tuple: what ``self`` is in compiled code."""
    floats = {kind.dtype.numpy for kind in inputs if kind and kind.dtype and kind.dtype.numpy.kind == "f"}
    # A Python float takes the dtype of the array that it meets, as NumPy has it; Numba takes it for float64.
    narrow = floats.pop().type if len(floats) == 1 else float
    found = {name: value for cls in reversed(type(instance).__mro__[:-1]) for name, value in vars(cls).items()}
    found.update(getattr(instance, "__dict__", {}))
    plain = {name: _constant(value, narrow) for name, value in found.items() if not name.startswith("_")}
    plain = {name: value for name, value in plain.items() if value is not None}
    return namedtuple("self", list(plain))(**plain)  # its fields are known only now


def _constant(value: Any, narrow: type) -> Any:
    """A value that compiled code can hold; None for any other."""
    if isinstance(value, float):
        return narrow(value)
    if isinstance(value, (bool, int, str, np.generic)):
        return value
    if isinstance(value, np.ndarray) and value.dtype != object:
        return np.ascontiguousarray(value)
    if isinstance(value, (list, tuple)) and value and all(isinstance(item, (bool, int, float, str)) for item in value):
        return tuple(_constant(item, narrow) for item in value)
    return None


# ---- memory in compiled code -------------------------------------------------------------------------------------------------


@intrinsic  # type: ignore[untyped-decorator]  # Numba has no types there
def _pointer(typing: Any, address: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.inttoptr(args[0], context.get_value_type(types.voidptr))

    return types.voidptr(types.intp), generate


@intrinsic  # type: ignore[untyped-decorator]  # Numba has no types there
def _read_only(typing: Any, array: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return args[0]

    return array.copy(readonly=True)(array), generate


@intrinsic  # type: ignore[untyped-decorator]  # Numba has no types there
def _allocate(typing: Any, function: Any, call: Any, index: Any, dtype: Any, shape: Any, rank: Any) -> Any:
    """Call the function ``output`` of a call; the memory's address, or 0."""
    word, half = ir.IntType(64), ir.IntType(32)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = ir.FunctionType(word, [word, half, half, word, half])
        pointer = builder.inttoptr(args[0], kind.as_pointer())
        narrow = [builder.trunc(args[n], half) for n in (2, 3, 5)]
        return builder.call(pointer, [args[1], narrow[0], narrow[1], args[4], narrow[2]])

    return types.intp(*[types.intp] * 6), generate


@numba.njit  # type: ignore[untyped-decorator]  # Numba has no types there
def _output(call: Any, function: Any, index: Any, number: Any, shape: Any) -> Any:
    dims = np.empty(max(len(shape), 1), np.int64)
    for d in range(len(shape)):
        dims[d] = shape[d]
    return _allocate(function, call, index, number, dims.ctypes.data, len(shape))


# ---- the compiled function ---------------------------------------------------------------------------------------------------

_ENTRY = """\
def entry(call):
    try:
        words = carray(_pointer(call), ({fields},), np.int64)
        tensors = carray(_pointer(words[2]), ({count},), np.int64)
{inputs}        result = compute({arguments})
{outputs}        return {done}
    except Exception:
        return {declined}
"""

_INPUT = """\
        if tensors[{word} + 2] & 0xFFFFFFFF != {rank}:
            return {declined}
        s{n} = carray(_pointer(tensors[{word} + 1]), ({most},), np.int64)
        x{n} = _read_only(carray(_pointer(tensors[{word}]), ({shape}), t{n}))
"""

_OUTPUT = """\
        y{n} = {value}
        m{n} = _output(call, words[4], {n}, {number}, y{n}.shape)
        if m{n} == 0:
            return {failed}
        carray(_pointer(m{n}), y{n}.shape, u{n})[...] = y{n}
"""


def _entry(instance: Any, compute: Any, options: dict[str, Any], inputs: _Types, outputs: _Types) -> Any:
    """A ``cfunc`` of the interface that calls ``compute`` for inputs of these types."""
    arrays = [None if kind is None else _array(kind, place) for place, kind in enumerate(inputs)]
    constants = _constants(instance, inputs)
    function = numba.njit(**options)(compute)
    names = [f"x{n}" for n, kind in enumerate(arrays) if kind is not None]
    namespace = {"numba": numba, "function": function, "constants": constants}
    arguments = ", ".join("None" if kind is None else f"x{n}" for n, kind in enumerate(arrays))
    text = f"def inner({', '.join(names)}):\n    return function(constants, {arguments})\n"
    inner = numba.njit(**options)(_define(text, "inner", namespace))
    returned = _returned(inner, [kind for kind in arrays if kind is not None])
    text, memory = _text(arrays, _results(returned, outputs, inputs), names)
    namespace = {"np": np, "carray": numba.carray, "compute": inner, "_pointer": _pointer, "_read_only": _read_only, **memory}
    entry = _define(text, "entry", {**namespace, "_output": _output})
    return numba.cfunc(types.int32(types.intp))(entry)


def _compute(instance: Any) -> tuple[Any, dict[str, Any]]:
    """The function of an op's class, and how it is to be compiled."""
    compute = type(instance).compute
    if hasattr(compute, "py_func"):
        return compute.py_func, {name: value for name, value in compute.targetoptions.items() if name != "nopython"}
    # In Python an index out of range raises; compiled code would read whatever is there.
    return compute, {"boundscheck": True}


def _define(text: str, name: str, namespace: dict[str, Any]) -> Any:
    file = f"<numba form: {name} {id(namespace)}>"
    linecache.cache[file] = (
        len(text),
        None,
        text.splitlines(keepends=True),
        file,
    )  # Numba reads the source of what it compiles
    exec(compile(text, file, "exec"), namespace)  # noqa: S102  # text of this module, with numbers alone filled in
    return namespace[name]


def _returned(inner: Any, arrays: list[types.Array]) -> Any:
    signature = tuple(arrays)
    inner.compile(signature)
    return inner.overloads[signature].signature.return_type


def _results(returned: Any, outputs: _Types, inputs: _Types) -> list[tuple[str, Any, int]]:
    """For each result: how the code gets it as an array, the element type to write, and its number in ONNX Runtime."""
    several = isinstance(returned, types.BaseTuple)
    kinds = list(returned) if several else [returned]
    if len(kinds) < len(outputs):
        raise _NotCompiled(f"compute returns {len(kinds)} results, and the node has {len(outputs)} outputs")
    double = any(kind and kind.dtype and kind.dtype.name == "float64" for kind in inputs)
    rows = []
    for n, kind in enumerate(kinds):
        value = f"result[{n}]" if several else "result"
        want = outputs[n] if n < len(outputs) else None
        if want is None or want.dtype is None:
            continue
        element = kind.dtype if isinstance(kind, types.Array) else kind
        declared = from_dtype(want.dtype.numpy)
        # Where a literal of the code has made float64 of it, as no input has, the result is rounded once.
        rounds = not double and element == types.float64 and declared == types.float32
        if not isinstance(element, (types.Number, types.Boolean)) or not (element == declared or rounds):
            raise _NotCompiled(f"Compiled, result {n} is {kind}, where the node has {want}")
        rows.append((value if isinstance(kind, types.Array) else f"np.array({value})", want.dtype, want.dtype.runtime))
    return rows


def _text(arrays: list[Any], results: list[tuple[str, Any, int]], names: list[str]) -> tuple[str, dict[str, Any]]:
    """The text of the entry, and the element types that it names."""
    memory: dict[str, Any] = {}
    inputs = outputs = ""
    for n, kind in enumerate(arrays):
        if kind is None:
            continue
        memory[f"t{n}"] = numba.np.numpy_support.as_dtype(kind.dtype).type
        shape = "".join(f"s{n}[{d}], " for d in range(kind.ndim))
        inputs += _INPUT.format(n=n, word=_TENSOR * n, rank=kind.ndim, most=max(kind.ndim, 1), shape=shape, declined=_DECLINED)
    for n, (value, element, number) in enumerate(results):
        memory[f"u{n}"] = element.numpy.type
        outputs += _OUTPUT.format(n=n, value=value, number=number, failed=_FAILED)
    text = _ENTRY.format(
        fields=_FIELDS,
        count=max(_TENSOR * len(arrays), 1),
        inputs=inputs,
        outputs=outputs,
        arguments=", ".join(names),
        done=_DONE,
        declined=_DECLINED,
    )
    return text, memory
