"""The Numba form of an op: ``compute`` as a function of the interface in ``pyopnb_call.h``.

Compiled code must never differ from Python's. So ``compute`` sees nothing that can change behind it: its globals are
modules, ``self`` has the instance's own numbers, texts and tuples as constants and its arrays by address, and
`numba_rules` refuses operations that Numba would compute in other dtypes than NumPy. Before a form serves,
`numba_check` compares its results with Python's. Where the code raises, the call is left to Python, which raises
the user's own exception.
"""

from __future__ import annotations

import dis
import keyword
import linecache
import math
import threading
import warnings
from collections import OrderedDict
from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise
from types import CodeType
from typing import Any, NamedTuple, cast

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import PassManager
from numba.core.typed_passes import NopythonRewrites
from numba.extending import intrinsic
from numba.np.numpy_support import as_dtype, from_dtype

from pyopnb.compile.numba_check import compare_with_python
from pyopnb.compile.numba_rules import NotInNumpyDtypes, check_body
from pyopnb.errors import NotCompiled
from pyopnb.ops.arguments import describe
from pyopnb.ops.messages import level_of_user, one_line
from pyopnb.ops.progress import bar_if_watched
from pyopnb.ops.types import TensorType

__all__ = ["form_of"]

_FIELDS, _TENSOR = 6, 3  # 64-bit words of pyopnb_call and pyopnb_tensor on every 64-bit system
_DONE, _FAILED, _DECLINED = 0, 1, 2
_Types = Sequence[TensorType | None]
_compiling = threading.RLock()


class _Refused(Exception):
    """Say why an op has no Numba form."""


class _Compiled(NamedTuple):
    """A compiled entry, the arrays whose memory it reads, and where it disagrees with Python."""

    entry: Any
    arrays: tuple[np.ndarray, ...]
    disagreement: str


def form_of(
    instance: object, inputs: _Types, outputs: _Types, where: str
) -> tuple[int, int, int, object] | None:
    """Compile the form of an instance at a node.

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
        None, with the warning `NotCompiled`, where Python is to compute.
    """
    try:
        with _compiling:
            compiled = _compile_once(instance, inputs, outputs)
    except (_Refused, NotInNumpyDtypes) as error:
        reason = str(error)
    # Numba's own errors have many classes, and some of its failures are plain ones.
    except Exception as error:
        reason = _about(error, _python_function(cast(Any, instance).__class__.compute))
    else:
        if not compiled.disagreement:
            return compiled.entry.address, 0, 0, compiled
        reason = f"It does not compute what Python does: {compiled.disagreement}"
    text = f"{where}: Numba does not compile it, so Python computes. {one_line(reason)}"
    warnings.warn(text, NotCompiled, stacklevel=level_of_user())
    return None


_MOST_ENTRIES = 128  # compiled functions that are kept for the next session
_entries: OrderedDict[Any, _Compiled] = OrderedDict()


def _compile_once(instance: Any, inputs: _Types, outputs: _Types) -> _Compiled:
    """Return the compiled function for these types and attributes: compiling takes about a second."""
    # A compute that is decorated already is compiled anew, with our options.
    compute = _python_function(type(instance).compute)
    _check_names(compute)
    constants, arrays = _attributes(instance)
    _check_self(compute, instance, {*constants, *arrays})
    key = _key(compute, constants, arrays, inputs, outputs)
    if key not in _entries:
        # Seconds in which nothing else is seen.
        show = bar_if_watched(f"class compiled by Numba: {type(instance).__name__}")
        show(0, 1)
        try:
            entry = _entry(compute, constants, arrays, inputs, outputs)
            disagreement = compare_with_python(
                compute, constants, arrays, entry.address, inputs, outputs
            )
        finally:
            show(1, 1)
        _entries[key] = _Compiled(entry, tuple(arrays.values()), disagreement)
        if len(_entries) > _MOST_ENTRIES:
            _entries.popitem(last=False)
    return _entries[key]


def _key(
    compute: Any,
    constants: dict[str, Any],
    arrays: dict[str, np.ndarray],
    inputs: _Types,
    outputs: _Types,
) -> tuple[Any, ...]:
    """Put all that the compiler is given into a key: with any of it left out, another node would get the wrong code."""
    constant_keys = [(name, _constant_key(value)) for name, value in constants.items()]
    # An array is read at its address, which stays its own as long as the entry lives.
    array_keys = []
    for name, array in arrays.items():
        array_keys.append((name, array.ctypes.data, array.dtype.str, array.shape))
    return (
        compute,
        compute.__code__,
        repr(compute.__defaults__),
        tuple(map(_dtype_and_rank, inputs)),
        tuple(map(_dtype_name, outputs)),
        tuple(constant_keys),
        tuple(array_keys),
    )


def _dtype_and_rank(type_: TensorType | None) -> tuple[str | None, int | None] | None:
    """Reduce an input's type to what compiled code depends on: it reads the sizes in each call."""
    if type_ is None:
        return None
    rank = None
    if type_.shape is not None:
        rank = len(type_.shape)
    return _dtype_name(type_), rank


def _dtype_name(type_: TensorType | None) -> str | None:
    if type_ is None or type_.dtype is None:
        return None
    return type_.dtype.name


def _about(error: Exception, compute: Any) -> str:
    """Say what a Numba error is about, and in which line of the class; its own lines tell passes and files as well."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    about = [line for line in lines if not line.startswith(("Failed in", "During:", "File ", "- "))]
    # Numba repeats the first line of the function below its message.
    text = f"{type(error).__name__}: {' '.join(about[:2])}".split(" def ")[0]
    code = compute.__code__
    number = getattr(getattr(error, "loc", None), "line", None)
    if number is None or number < code.co_firstlineno:
        return text
    source = linecache.getline(code.co_filename, number).strip()
    text = text.removesuffix(source).strip()
    return f"Line {number}, `{source}`: {text}" if source else text


# ---- what compute may read ---------------------------------------------------------------------------------------------------


def _python_function(compute: Any) -> Any:
    """Return the function that is compiled, refusing options of Numba's that change numbers."""
    if not hasattr(compute, "py_func"):
        return compute
    # fastmath and parallel change the order in which numbers are added.
    options = set(compute.targetoptions) - {"nopython", "boundscheck", "nogil", "cache"}
    if options:
        raise _Refused(
            f"The decorator asks for {', '.join(sorted(options))}, which changes numbers. Try: @numba.njit"
        )
    return compute.py_func


def _check_names(compute: Any) -> None:
    """Refuse names whose values may change while a session lives: compiled code would go on with the first one."""
    if compute.__code__.co_freevars:
        raise _Refused(
            f"compute reads {compute.__code__.co_freevars[0]} of the function around it. {_INSTEAD}"
        )
    for name in _global_names(compute.__code__):
        value = compute.__globals__.get(name, np)
        if value is not np and value is not math:
            raise _Refused(f"compute reads the global {name}, which may change later. {_INSTEAD}")


def _check_self(compute: Any, instance: Any, known: Collection[str]) -> None:
    """Refuse a compute that reads what compiled code cannot have of its object."""
    this = compute.__code__.co_varnames[0]
    steps = list(dis.get_instructions(compute.__code__))
    for step, following in pairwise(steps):
        # From Python 3.13 on one instruction can load two variables, the last of which is the object.
        loaded = step.argval[-1] if isinstance(step.argval, tuple) else step.argval
        is_attribute = following.opname in ("LOAD_ATTR", "LOAD_METHOD")
        if not step.opname.startswith("LOAD_FAST") or loaded != this or not is_attribute:
            continue
        name = following.argval
        if name in known:
            continue
        line = step.positions.lineno if step.positions else None
        value = getattr(instance, name, None)
        noun = "a method" if callable(value) else f"{describe(value)}"
        raise _Refused(
            f"Line {line}: compute reads self.{name}, {noun}, which Numba does not take. {_INSTEAD}"
        )


_INSTEAD = "Try: keep numbers and arrays on self in __init__, and write functions inside compute"


def _global_names(code: CodeType) -> Iterator[str]:
    """Yield the globals that code reads, and the functions inside it."""
    # Names in nested functions and comprehensions count as well.
    for step in dis.get_instructions(code):
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            yield step.argval
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _global_names(constant)


def _attributes(instance: Any) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Split an instance's attributes into constants and arrays; what compiled code cannot have is left out."""
    constants, arrays = {}, {}
    for name, value in vars(instance).items():
        # A name that no code can read need not be there.
        if not name.isidentifier() or keyword.iskeyword(name):
            continue
        if type(value) is np.ndarray and _is_readable(value):
            arrays[name] = value
        elif _is_constant(value):
            constants[name] = value
    return constants, arrays


def _is_readable(array: np.ndarray) -> bool:
    """Tell whether compiled code can read an array where it is."""
    is_number = array.dtype.kind in "biuf" and array.dtype.isnative
    return is_number and array.flags.c_contiguous


def _is_constant(value: Any) -> bool:
    """Tell whether a value cannot change and compiles to the same number or text."""
    if type(value) is int:
        return -(2**63) <= value < 2**63
    if type(value) is tuple:
        return bool(value) and all(map(_is_constant, value))
    return value is None or type(value) in _CONSTANT_TYPES


_CONSTANT_TYPES = (bool, float, str, np.bool_, np.int64, np.float32, np.float64)


def _constant_key(value: Any) -> Any:
    """Return a key that tells 0.0 from -0.0, 1 from True, and one dtype from another."""
    if type(value) is tuple:
        return tuple(map(_constant_key, value))
    return type(value), repr(value)


def _array(type_: TensorType, position: int) -> types.Array:
    if type_.dtype is None or type_.shape is None:
        raise _Refused(
            f"The rank of input {position} is not known. Declare its type in the model: float32[N,3]"
        )
    # ONNX Runtime packs two int4 into a byte.
    if type_.dtype.bits < 8:
        raise _Refused(f"Input {position} is {type_.dtype}, which Numba does not have")
    return types.Array(from_dtype(type_.dtype.numpy), len(type_.shape), "C", readonly=True)


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
def _allocate(
    typing: Any, function: Any, call: Any, index: Any, dtype: Any, shape: Any, rank: Any
) -> Any:
    """Call the function ``output`` of a call; the memory's address, or 0."""
    word, half = ir.IntType(64), ir.IntType(32)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        output = ir.FunctionType(word, [word, half, half, word, half])
        pointer = builder.inttoptr(args[0], output.as_pointer())
        narrow = [builder.trunc(args[n], half) for n in (2, 3, 5)]
        return builder.call(pointer, [args[1], narrow[0], narrow[1], args[4], narrow[2]])

    return types.intp(*[types.intp] * 6), generate


@numba.njit  # type: ignore[untyped-decorator]  # Numba has no types there
def _output(call: Any, function: Any, index: Any, number: Any, shape: Any) -> Any:
    # The address of an array with no elements is not one.
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


class _Result(NamedTuple):
    """A result that the node wants: its position, how the code gets it as an array, and its dtype."""

    position: int
    value: str
    dtype: Any


class _Unfused(CompilerBase):  # type: ignore[misc]  # Numba has no types there
    """Compile without fusing NumPy's operations, so that each has a result in its dtype."""

    def define_pipelines(self) -> list[PassManager]:
        usual = DefaultPassBuilder.define_nopython_pipeline(self.state)
        unfused = PassManager("unfused")
        for step, description in usual.passes:
            if step is not NopythonRewrites:
                unfused.add_pass(step, description)
        unfused.finalize()
        return [unfused]


def _entry(
    compute: Any,
    constants: dict[str, Any],
    arrays: dict[str, np.ndarray],
    inputs: _Types,
    outputs: _Types,
) -> Any:
    """Compile a ``cfunc`` of the interface that calls ``compute`` for inputs of these types."""
    array_types: list[types.Array | None] = []
    for position, type_ in enumerate(inputs):
        array_types.append(None if type_ is None else _array(type_, position))
    function = numba.njit(boundscheck=True, pipeline_class=_Unfused)(compute)
    inner = _inner(function, constants, arrays, array_types)
    given_types = tuple(array_type for array_type in array_types if array_type is not None)
    returned = _returned(inner, given_types)
    # Compiling has inferred the types; they tell whether the numbers would be NumPy's.
    (overload,) = function.overloads.values()
    check_body(overload.type_annotation.blocks, overload.type_annotation.typemap)
    results = _results(returned, outputs)
    namespace = {"np": np, "carray": numba.carray, "compute": inner}
    namespace |= {"_pointer": _pointer, "_read_only": _read_only, "_output": _output}
    for position, array_type in enumerate(array_types):
        if array_type is not None:
            namespace[f"t{position}"] = as_dtype(array_type.dtype).type
    for result in results:
        namespace[f"u{result.position}"] = result.dtype.numpy.type
    entry = _define(_text(array_types, results), "entry", namespace)
    return numba.cfunc(types.int32(types.intp))(entry)


def _inner(
    function: Any,
    constants: dict[str, Any],
    arrays: dict[str, np.ndarray],
    array_types: Sequence[types.Array | None],
) -> Any:
    """Make a function of the inputs that are there, which puts ``self`` together and calls ``compute``."""
    names, arguments = [], []
    for position, array_type in enumerate(array_types):
        if array_type is None:
            arguments.append("None")
        else:
            names.append(f"x{position}")
            arguments.append(f"x{position}")
    namespace: dict[str, Any] = {"function": function, "carray": numba.carray}
    namespace |= {
        "_pointer": _pointer,
        "_read_only": _read_only,
        "pack": _self_class([*constants, *arrays]),
    }
    values = []
    for position, value in enumerate(constants.values()):
        namespace[f"c{position}"] = value
        values.append(f"c{position}")
    for position, array in enumerate(arrays.values()):
        namespace[f"d{position}"] = array.dtype.type
        address = array.ctypes.data
        values.append(f"_read_only(carray(_pointer({address}), {array.shape!r}, d{position}))")
    this = "None"
    if values:
        this = f"pack({', '.join(values)})"
    text = f"def inner({', '.join(names)}):\n    return function({', '.join([this, *arguments])})\n"
    return numba.njit(pipeline_class=_Unfused)(_define(text, "inner", namespace))


def _self_class(names: Sequence[str]) -> Any:
    """Make the class of ``self`` in compiled code: a named tuple whose fields may begin with an underscore."""
    arguments = "".join(f"{name}, " for name in names)
    text = f"def __new__(cls, {arguments}): return tuple.__new__(cls, ({arguments}))\n"
    members: dict[str, Any] = {}
    exec(text, {}, members)  # noqa: S102  # the names are identifiers
    # Numba knows the class of a named tuple by these two.
    return type("self", (tuple,), {"_fields": tuple(names), "_asdict": None, **members})


def _define(text: str, name: str, namespace: dict[str, Any]) -> Any:
    file = f"<numba form: {name} {id(namespace)}>"
    # Numba reads the source of what it compiles.
    linecache.cache[file] = len(text), None, text.splitlines(keepends=True), file
    # The text is of this module, with numbers alone filled in.
    exec(compile(text, file, "exec"), namespace)  # noqa: S102
    return namespace[name]


def _returned(inner: Any, signature: tuple[types.Array, ...]) -> Any:
    # Compiled for these types alone: a call with others must not compile during a run.
    inner.compile(signature)
    return inner.overloads[signature].signature.return_type


def _results(returned: Any, outputs: _Types) -> list[_Result]:
    """List the results that the node wants, refusing other dtypes than it declares."""
    is_tuple = isinstance(returned, types.BaseTuple)
    result_types = list(returned) if is_tuple else [returned]
    if len(result_types) < len(outputs):
        raise _Refused(
            f"compute returns {len(result_types)} results, and the node has {len(outputs)} outputs"
        )
    rows = []
    for position, declared in enumerate(outputs):
        if declared is None or declared.dtype is None:
            continue
        result_type = types.unliteral(result_types[position])
        value = f"result[{position}]" if is_tuple else "result"
        element = result_type
        # A scalar becomes an array when it is copied out.
        if isinstance(result_type, types.Array):
            element = result_type.dtype
        else:
            value = f"np.array({value})"
        if element != from_dtype(declared.dtype.numpy):
            raise _Refused(
                f"Compiled, result {position} is {result_type}, where the node has {declared}"
            )
        rows.append(_Result(position, value, declared.dtype))
    return rows


def _text(array_types: Sequence[types.Array | None], results: list[_Result]) -> str:
    """Write the text of the entry: it reads the inputs, calls ``compute`` and copies what that returns."""
    inputs, arguments = "", []
    for position, array_type in enumerate(array_types):
        if array_type is None:
            continue
        arguments.append(f"x{position}")
        rank = array_type.ndim
        inputs += _INPUT.format(
            n=position,
            word=_TENSOR * position,
            rank=rank,
            most=max(rank, 1),
            shape="".join(f"s{position}[{axis}], " for axis in range(rank)),
            declined=_DECLINED,
        )
    outputs = ""
    for position, value, dtype in results:
        outputs += _OUTPUT.format(n=position, value=value, number=dtype.runtime, failed=_FAILED)
    body = _BODY.format(arguments=", ".join(arguments), outputs=outputs, done=_DONE)
    words = max(_TENSOR * len(array_types), 1)
    return _ENTRY.format(fields=_FIELDS, count=words, inputs=inputs, body=body, declined=_DECLINED)
