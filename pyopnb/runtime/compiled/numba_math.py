"""NumPy's elementary functions for Numba, in a way that LLVM vectorises loops over them with glibc's libmvec.

Numba calls ``tanhf`` and its like for one element at a time: the LLVM of its wheels is not the patched one that knows Intel's
library. Here each call names the vector functions that do the same, in the attribute ``vector-function-abi-variant``
(https://llvm.org/docs/LangRef.html#call-site-attributes; their names: https://sourceware.org/glibc/wiki/libmvec). They are at
most 4 units in the last place off, as NumPy's own and as those of ops in C++.
"""

from __future__ import annotations

import ctypes
import platform
import types as python_types
from collections.abc import Callable
from functools import cache
from typing import Any

import llvmlite.binding
import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic, overload

__all__ = ["vectorised", "wide_vectors"]

_LIBRARY = "libmvec.so.1"
# The names of NumPy and of C.
_NAMES = {
    **{f"arc{name}": f"a{name}" for name in ("cos", "cosh", "sin", "sinh", "tan", "tanh")},
    **{name: name for name in ("cbrt", "cos", "cosh", "exp", "exp2", "expm1", "log", "log10", "log1p", "log2")},
    **{name: name for name in ("sin", "sinh", "tan", "tanh")},
}


def vectorised(function: Callable[..., Any], *, wide: bool = False) -> Callable[..., Any]:
    """A function whose ``np.tanh`` and its like are those of this module.

    Parameters
    ----------
    function : function
        What Numba is to compile. Functions that it calls stay as they are.
    wide : bool
        Whether vectors may have 512 bits. The loop that calls it, and what calls the loop, must have `wide_vectors()` then.

    Returns
    -------
    function
        `function` itself where it names none of them, or where this machine has no vector functions.
    """
    replaced = {name: _replacement(value, function.__code__.co_names, wide) for name, value in _globals(function).items()}
    replaced = {name: value for name, value in replaced.items() if value is not None}
    if not replaced:
        return function
    namespace = {**function.__globals__, **replaced}
    made = python_types.FunctionType(
        function.__code__, namespace, function.__name__, function.__defaults__, function.__closure__
    )
    made.__kwdefaults__, made.__module__, made.__qualname__ = (
        function.__kwdefaults__,
        function.__module__,
        function.__qualname__,
    )
    return made


def _globals(function: Callable[..., Any]) -> dict[str, Any]:
    """The values of the global names in a function's code."""
    return {name: function.__globals__[name] for name in function.__code__.co_names if name in function.__globals__}


def _replacement(value: Any, names: tuple[str, ...], wide: bool) -> Any:
    """What stands for NumPy or for one of its functions; None for all else."""
    if value is np:
        found = {name: made for name in _NAMES if name in names and (made := _ufunc(name, wide)) is not None}
        return _numpy_with(found) if found else None
    name = value.__name__ if isinstance(value, np.ufunc) else None
    return _ufunc(name, wide) if name in _NAMES and value is getattr(np, name) else None


def _numpy_with(functions: dict[str, Any]) -> python_types.ModuleType:
    module = python_types.ModuleType("numpy")
    vars(module).update(functions, __getattr__=lambda name: getattr(np, name))
    return module


@cache
def _ufunc(name: str, wide: bool) -> Any:
    """NumPy's function of this name for Numba, or None where there is no vector function for it."""
    original, calls = getattr(np, name), {dtype: _calling(name, dtype, wide) for dtype in ("float32", "float64")}
    if None in calls.values():
        return None

    def scalar(x: Any) -> Any:
        raise NotImplementedError("for compiled code")

    @overload(scalar)
    def choose(x):  # type: ignore[no-untyped-def]  # Numba wants the very signature of the lambda
        call = calls.get(str(x), original)
        return lambda x: call(x)

    def compute(x: Any) -> Any:
        return scalar(x)

    return numba.vectorize(compute)


def _calling(name: str, dtype: str, wide: bool) -> Any:
    """Numba's call of a function of C whose vector functions LLVM is told of; None where there are none."""
    is_float = dtype == "float32"
    function = _NAMES[name] + "f" * is_float
    variants = {f"_ZGV{letter}N{bits // (32 if is_float else 64)}v_{function}": bits for letter, bits in _vectors(wide).items()}
    if not variants or not all(hasattr(_library(), variant) for variant in variants):
        return None
    kind, element = (types.float32, ir.FloatType()) if is_float else (types.float64, ir.DoubleType())

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        declared = [
            _declared(builder.module, variant, ir.VectorType(element, bits // (32 if is_float else 64)))
            for variant, bits in variants.items()
        ]
        _keep(builder.module, declared)
        call = builder.call(_declared(builder.module, function, element), args, attrs=("nounwind", "readnone"))
        # llvmlite's own add knows LLVM's enumerated attributes alone. Without this one, the loop is right and slow.
        set.add(call.attributes, f'"vector-function-abi-variant"="{",".join(f"{name}({name})" for name in variants)}"')
        return call

    @intrinsic  # type: ignore[untyped-decorator]  # Numba has no types there
    def call(typing: Any, x: Any) -> Any:
        return kind(kind), generate

    return call


@cache
def _library() -> Any:
    """The loaded libmvec; None where there is none."""
    try:
        library = ctypes.CDLL(_LIBRARY)
    except OSError:
        return None
    llvmlite.binding.load_library_permanently(_LIBRARY)  # so that compiled code finds its functions
    return library


@cache
def _vectors(wide: bool) -> dict[str, int]:
    """The letters of libmvec's functions that compiled code may call here, and the bits of their vectors.

    Those for 512 bits are left out by default: where LLVM prefers 256, it would hand them a vector in two halves.
    """
    if platform.machine() != "x86_64" or _library() is None or numba.config.USING_SVML:
        return {}
    settings = numba.config.CPU_NAME, numba.config.CPU_FEATURES
    host = llvmlite.binding.get_host_cpu_features() if numba.config.ENABLE_AVX and settings == (None, None) else {}
    known = {"b": 128} | ({"d": 256} if host.get("avx2") else {})
    return known | ({"e": 512} if wide and host.get("avx2") and host.get("avx512f") else {})


@intrinsic  # type: ignore[untyped-decorator]  # Numba has no types there
def wide_vectors(typing: Any) -> Any:
    """Let LLVM give vectors of 512 bits to the function that calls this; by itself it prefers 256."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        set.add(builder.function.attributes, '"prefer-vector-width"="512"')  # as above
        return context.get_dummy_value()

    return types.none(), generate


def _declared(module: Any, name: str, kind: Any) -> Any:
    """A function from one value of a type to another, in a module of LLVM."""
    return module.globals.get(name) or ir.Function(module, ir.FunctionType(kind, [kind]), name)


def _keep(module: Any, functions: list[Any]) -> None:
    """Have LLVM keep declarations that nothing calls yet."""
    pointer = ir.IntType(8).as_pointer()
    name = "llvm.compiler.used"
    used = module.globals.get(name) or ir.GlobalVariable(module, ir.ArrayType(pointer, 0), name)
    used.linkage, used.section = "appending", "llvm.metadata"
    former = used.initializer.constant if used.initializer else []
    kept = list({str(value): value for value in (*former, *(value.bitcast(pointer) for value in functions))}.values())
    used.value_type = ir.ArrayType(pointer, len(kept))
    used.type, used.initializer = used.value_type.as_pointer(), ir.Constant(used.value_type, kept)
