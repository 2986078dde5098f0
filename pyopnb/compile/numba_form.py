"""The Numba form of an op: ``compute`` compiled by `numba.njit` for the dtypes and ranks of a node.

Compiled code must never differ from Python's. So ``compute`` sees nothing that can change behind
it: its globals are modules, ``self`` is a tuple of the instance's own numbers, texts and arrays,
and `numba_rules` refuses operations that Numba would compute in other dtypes than NumPy. Before a
form serves, `numba_check` compares its results with Python's. Where the code raises, the call is
left to Python, which raises the user's own exception.
"""

from __future__ import annotations

import dis
import keyword
import linecache
import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from types import CodeType
from typing import Any

import numba
import numpy as np
from numba import types
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import PassManager
from numba.core.typed_passes import NopythonRewrites
from numba.np.numpy_support import as_dtype, from_dtype

from pyopnb.compile.numba_check import compare_with_python
from pyopnb.compile.numba_rules import NotInNumpyDtypes, check_body
from pyopnb.errors import NotCompiled
from pyopnb.ops.messages import level_of_user, one_line
from pyopnb.ops.types import TensorType

__all__ = ["form_of"]

_Types = Sequence[TensorType | None]
_disagreements: dict[Any, str] = {}


class _Refused(Exception):
    """Say why an op has no Numba form."""


def form_of(
    instance: Any, inputs: _Types, outputs: _Types, where: str
) -> Callable[..., Any] | None:
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
    callable or None
        What serves in the place of ``compute``. None, with the warning `NotCompiled`, where
        Python is to compute.
    """
    compute = type(instance).compute
    try:
        # A compute that is decorated already is compiled anew, with our options.
        compute = _python_function(compute)
        call, key = _compiled(instance, compute, inputs)
        if key not in _disagreements:
            values = _attributes(instance)
            _disagreements[key] = compare_with_python(compute, values, call, inputs, outputs)
        if not _disagreements[key]:
            return _with_exceptions(call, compute, instance)
        reason = f"It does not compute what Python does: {_disagreements[key]}"
    except (_Refused, NotInNumpyDtypes) as error:
        reason = str(error)
    # Numba's own errors have many classes, and some of its failures are plain ones.
    except Exception as error:
        reason = _about(error, compute)
    text = f"{where}: Numba does not compile it, so Python computes. {one_line(reason)}"
    warnings.warn(text, NotCompiled, stacklevel=level_of_user())
    return None


def _with_exceptions(
    call: Callable[..., Any], compute: Callable[..., Any], instance: object
) -> Callable[..., Any]:
    def computed(*inputs: np.ndarray | None) -> Any:
        try:
            return call(*inputs)
        except Exception:
            # Python raises the same, with the line of the class.
            return compute(instance, *inputs)

    return computed


def _compiled(
    instance: Any, compute: Any, inputs: _Types
) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Compile ``compute`` for a node.

    Return the function of the inputs, and a key with everything that its results depend on.
    """
    _check_names(compute)
    values = _attributes(instance)
    this = _self_class(tuple(values))(map(_read_only, values.values()))
    array_types: list[types.Type] = [numba.typeof(this)]
    for position, type_ in enumerate(inputs):
        array_types.append(types.none if type_ is None else _array(type_, position))
    # Inputs that the node leaves out at its end are None.
    missing = compute.__code__.co_argcount - len(array_types)
    signature = (*array_types, *[types.none] * missing)
    dispatcher = _dispatcher(compute)
    dispatcher.compile(signature)
    overload = dispatcher.overloads[signature]
    # Compiling has inferred the types; they tell whether the numbers would be NumPy's.
    check_body(overload.type_annotation.blocks, overload.type_annotation.typemap)
    returned = overload.signature.return_type
    is_tuple = isinstance(returned, types.BaseTuple)
    result_types = list(returned) if is_tuple else [returned]

    def call(*inputs: np.ndarray | None) -> Any:
        results = dispatcher(this, *map(_read_only, inputs), *[None] * missing)
        # A scalar is one of Python's without its dtype.
        arrays = []
        for result, result_type in zip(
            results if is_tuple else [results], result_types, strict=True
        ):
            if not isinstance(result, np.ndarray):
                result = as_dtype(types.unliteral(result_type)).type(result)
            arrays.append(result)
        return tuple(arrays) if is_tuple else arrays[0]

    keys = []
    for name, value in values.items():
        keys.append((name, value.tobytes() if isinstance(value, np.ndarray) else repr(value)))
    return call, (compute, repr(compute.__defaults__), signature, *keys)


@lru_cache(128)
def _dispatcher(compute: Any) -> Any:
    return numba.njit(boundscheck=True, nogil=True, pipeline_class=_Unfused)(compute)


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


@lru_cache(128)
def _self_class(names: tuple[str, ...]) -> Any:
    """Make the class of ``self`` in compiled code, a named tuple.

    Unlike those of `collections.namedtuple`, its fields may begin with an underscore.
    """
    # Numba knows the class of a named tuple by these two.
    return type("self", (tuple,), {"_fields": names, "_asdict": None})


def _read_only(value: Any) -> Any:
    if not isinstance(value, np.ndarray):
        return value
    view = np.ascontiguousarray(value).view() if value.ndim else value.view()
    view.flags.writeable = False
    return view


def _about(error: Exception, compute: Any) -> str:
    """Shorten a Numba error to its subject and the line of the class.

    The lines of the error that name passes of the compiler and files are left out.
    """
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


# ---- what compute may read -----------------------------------------------------------------------


def _python_function(compute: Any) -> Any:
    """Return the function that is compiled, refusing options of Numba's that change numbers."""
    if not hasattr(compute, "py_func"):
        return compute
    # fastmath and parallel change the order in which numbers are added.
    options = set(compute.targetoptions) - {"nopython", "boundscheck", "nogil", "cache"}
    if options:
        raise _Refused(
            f"The decorator asks for {', '.join(sorted(options))}, which changes numbers. "
            "Try: @numba.njit"
        )
    return compute.py_func


def _check_names(compute: Any) -> None:
    """Refuse names whose values may change while a session lives.

    Compiled code would keep the first value.
    """
    if compute.__code__.co_freevars:
        raise _Refused(
            f"compute reads {compute.__code__.co_freevars[0]} of the function around it. {_INSTEAD}"
        )
    for name in _global_names(compute.__code__):
        value = compute.__globals__.get(name, np)
        if value is not np and value is not math:
            raise _Refused(f"compute reads the global {name}, which may change later. {_INSTEAD}")


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


def _attributes(instance: Any) -> dict[str, Any]:
    """Return the attributes that compiled code can have: arrays, and values that cannot change."""
    values = {}
    for name, value in vars(instance).items():
        # A name that no code can read need not be there.
        if not name.isidentifier() or keyword.iskeyword(name):
            continue
        is_array = type(value) is np.ndarray and _is_readable(value)
        if is_array or _is_constant(value):
            values[name] = value
    return values


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


def _array(type_: TensorType, position: int) -> types.Array:
    if type_.dtype is None or type_.shape is None:
        raise _Refused(
            f"The rank of input {position} is not known. "
            "Declare its type in the model: float32[N,3]"
        )
    # ONNX Runtime packs two int4 into a byte.
    if type_.dtype.bits < 8:
        raise _Refused(f"Input {position} is {type_.dtype}, which Numba does not have")
    return types.Array(from_dtype(type_.dtype.numpy), len(type_.shape), "C", readonly=True)
