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
from types import FunctionType
from typing import Any, NamedTuple

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numba.np.numpy_support import as_dtype, from_dtype

from pyopnb.ops.errors import one_line
from pyopnb.ops.types import TensorType
from pyopnb.runtime.compiled.elementwise import loop_text, read_elementwise
from pyopnb.runtime.compiled.numba_math import vectorised, wide_vectors
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
    exact = _attributes(instance)  # a constant may be narrower
    facts = tuple((name, type(exact[name]), np.asarray(exact[name]).tobytes()) for name in values._fields)
    key = type(instance).compute, tuple(map(_dtype_and_rank, inputs)), tuple(map(_dtype_name, outputs)), facts
    if key not in _entries:
        _entries[key] = _compiled(instance, inputs, outputs)
        if len(_entries) > _MOST_KNOWN:
            _entries.popitem(last=False)
    return _entries[key]


def _compiled(instance: Any, inputs: _Types, outputs: _Types) -> Any:
    compute, options = _compute(instance)
    loop = _loop(instance, inputs, outputs)
    if loop is not None and len(loop.whole) == 1:
        return _entry(instance, None, options, inputs, outputs, loop)
    fast = vectorised(compute)
    if fast is not compute:
        # What Numba takes of NumPy's functions and not of ours, such as a method of a ufunc, is slow and no error.
        with suppress(numba.core.errors.NumbaError):
            return _entry(instance, fast, options, inputs, outputs, loop)
    return _entry(instance, compute, options, inputs, outputs, loop)


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
    plain = {name: _constant(value, narrow) for name, value in _attributes(instance).items() if not name.startswith("_")}
    plain = {name: value for name, value in plain.items() if value is not None}
    return namedtuple("self", list(plain))(**plain)  # its fields are known only now


def _attributes(instance: object) -> dict[str, Any]:
    found = {name: value for cls in reversed(type(instance).__mro__[:-1]) for name, value in vars(cls).items()}
    found.update(getattr(instance, "__dict__", {}))
    return found


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
{inputs}{body}    except Exception:
        return {declined}
"""

_INPUT = """\
        if tensors[{word} + 2] & 0xFFFFFFFF != {rank}:
            return {declined}
        s{n} = carray(_pointer(tensors[{word} + 1]), ({most},), np.int64)
        x{n} = _read_only(carray(_pointer(tensors[{word}]), ({shape}), t{n}))
"""

_BODY = """\
        result = compute({arguments})
{outputs}        return {done}
"""

_OUTPUT = """\
        y{n} = {value}
        m{n} = _output(call, words[4], {n}, {number}, y{n}.shape)
        if m{n} == 0:
            return {failed}
        carray(_pointer(m{n}), y{n}.shape, u{n})[...] = y{n}
"""

_LOOP = """\
        wide_vectors()
        if {same}:
{outputs}            loop({flat})
            return {done}
"""

_LOOP_OUTPUT = """\
            m{n} = _output(call, words[4], {n}, {number}, {shape})
            if m{n} == 0:
                return {failed}
"""


class _Result(NamedTuple):
    """A result that the node wants: its place, how the code gets it as an array, and its dtype."""

    place: int
    value: str
    dtype: Any


class _Loop(NamedTuple):
    """A loop over the elements: the inputs that are no single numbers, what the node wants, and the function of Numba."""

    whole: list[int]
    results: list[_Result]
    function: Any


def _entry(instance: Any, compute: Any, options: dict[str, Any], inputs: _Types, outputs: _Types, loop: _Loop | None) -> Any:
    """A ``cfunc`` of the interface that calls ``compute``, or the loop alone, for inputs of these types."""
    arrays = [None if kind is None else _array(kind, place) for place, kind in enumerate(inputs)]
    namespace = {"np": np, "carray": numba.carray, "_pointer": _pointer, "_read_only": _read_only, "_output": _output}
    namespace |= {f"t{n}": as_dtype(kind.dtype).type for n, kind in enumerate(arrays) if kind is not None}
    results, body = [], ""
    if loop is not None:
        results, body = loop.results, _loop_text(arrays, loop)
        namespace |= {"loop": loop.function, "wide_vectors": wide_vectors}  # the loop may be inlined
    if compute is not None:
        inner = _inner(compute, options, _constants(instance, inputs), arrays)
        results = _results(_returned(inner, [kind for kind in arrays if kind is not None]), outputs, inputs)
        namespace["compute"], body = inner, body + _body_text(arrays, results)
    namespace |= {f"u{result.place}": result.dtype.numpy.type for result in results}
    entry = _define(_text(arrays, body), "entry", namespace)
    return numba.cfunc(types.int32(types.intp))(entry)


def _loop(instance: Any, inputs: _Types, outputs: _Types) -> _Loop | None:
    """The loop over the elements, where the body treats each by itself and Numba compiles it."""
    ranks = [None if kind is None or kind.shape is None else len(kind.shape) for kind in inputs]
    whole = [place for place, rank in enumerate(ranks) if rank]
    dtypes = [None if kind is None or kind.dtype is None else kind.dtype.numpy for kind in inputs]
    compute = type(instance).compute
    if not whole or len({ranks[place] for place in whole}) > 1 or not isinstance(compute, FunctionType):
        return None
    if any(kind is not None and kind.shape is None for kind in inputs):
        return None
    body = read_elementwise(compute, _attributes(instance), dtypes)
    wanted = [(place, kind.dtype) for place, kind in enumerate(outputs) if kind and kind.dtype]
    if body is None or not wanted or len(body.dtypes) < len(outputs):
        return None
    if any(body.dtypes[place] != dtype.numpy for place, dtype in wanted):
        return None
    text = loop_text(body, [None if rank is None else bool(rank) for rank in ranks], [place for place, _ in wanted])
    one = _define(body.text, "one", body.namespace)
    signature = [types.Array(from_dtype(dtype), 1, "C", readonly=True) for dtype in dtypes if dtype is not None]
    signature += [types.Array(from_dtype(dtype.numpy), 1, "C") for _, dtype in wanted]
    for function in dict.fromkeys((vectorised(one, wide=True), one)):
        namespace = {"wide_vectors": wide_vectors, "one": numba.njit(error_model="numpy")(function)}
        loop = numba.njit(_define(text, "loop", namespace))
        with suppress(numba.core.errors.NumbaError):
            loop.compile(tuple(signature))
            return _Loop(whole, [_Result(place, "", dtype) for place, dtype in wanted], loop)
    return None


def _inner(compute: Any, options: dict[str, Any], constants: Any, arrays: Sequence[Any]) -> Any:
    """``compute`` as a function of Numba of the inputs that are there."""
    names = [f"x{n}" for n, kind in enumerate(arrays) if kind is not None]
    arguments = ", ".join("None" if kind is None else f"x{n}" for n, kind in enumerate(arrays))
    text = f"def inner({', '.join(names)}):\n    return function(constants, {arguments})\n"
    return numba.njit(**options)(_define(text, "inner", {"function": numba.njit(**options)(compute), "constants": constants}))


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


def _results(returned: Any, outputs: _Types, inputs: _Types) -> list[_Result]:
    """The results that the node wants."""
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
        rows.append(_Result(n, value if isinstance(kind, types.Array) else f"np.array({value})", want.dtype))
    return rows


def _loop_text(arrays: Sequence[Any], loop: _Loop) -> str:
    """The text that calls the loop where the arrays have one shape."""
    first, *others = (f"x{place}" for place in loop.whole)
    flat = [
        f"_read_only(carray(_pointer(tensors[{_TENSOR * n}]), (x{n}.size,), t{n}))"
        for n, kind in enumerate(arrays)
        if kind is not None
    ]
    flat += [f"carray(_pointer(m{result.place}), ({first}.size,), u{result.place})" for result in loop.results]
    outputs = "".join(
        _LOOP_OUTPUT.format(n=result.place, number=result.dtype.runtime, shape=f"{first}.shape", failed=_FAILED)
        for result in loop.results
    )
    same = " and ".join(f"{name}.shape == {first}.shape" for name in others) or "True"
    return _LOOP.format(same=same, outputs=outputs, flat=", ".join(flat), done=_DONE)


def _body_text(arrays: Sequence[Any], results: list[_Result]) -> str:
    """The text that calls ``compute`` and copies what it returns."""
    outputs = "".join(
        _OUTPUT.format(n=place, value=value, number=dtype.runtime, failed=_FAILED) for place, value, dtype in results
    )
    arguments = ", ".join(f"x{n}" for n, kind in enumerate(arrays) if kind is not None)
    return _BODY.format(arguments=arguments, outputs=outputs, done=_DONE)


def _text(arrays: Sequence[Any], body: str) -> str:
    """The text of the entry."""
    inputs = ""
    for n, kind in enumerate(arrays):
        if kind is None:
            continue
        shape = "".join(f"s{n}[{d}], " for d in range(kind.ndim))
        inputs += _INPUT.format(n=n, word=_TENSOR * n, rank=kind.ndim, most=max(kind.ndim, 1), shape=shape, declined=_DECLINED)
    return _ENTRY.format(fields=_FIELDS, count=max(_TENSOR * len(arrays), 1), inputs=inputs, body=body, declined=_DECLINED)
