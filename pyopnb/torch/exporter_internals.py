"""What is asked of modules that torch keeps to itself. Tried with torch 2.13.0.

Without them the same is found by the public exporter, which names one op at a time.
"""

from __future__ import annotations

import threading
import typing
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch

__all__ = ["LOGGER", "TRIED", "Elsewhere", "failed_node", "forget_pending_sizes", "kept_tables", "untranslated"]

TRIED = ("2.13",)
LOGGER = "torch.onnx._internal.exporter._registration"
"""It says for each op of torchvision that there is no torchvision."""


class Elsewhere(Exception):
    """Torch has the modules of its exporter elsewhere; the text says which one was not found."""


def untranslated(program: Any) -> tuple[Any, list[tuple[Any, str]]]:
    """The program as the exporter decomposes it, and the calls in it for which it has no ONNX function.

    Parameters
    ----------
    program : torch.export.ExportedProgram

    Returns
    -------
    tuple of the decomposed program and a list of (torch.fx.Node, reason)

    Raises
    ------
    Elsewhere
    """
    try:
        with kept_tables():
            dispatch, registry, table = _exporter()
    except (ImportError, AttributeError, TypeError) as error:
        said = f"{type(error).__name__}: {error}"
        raise Elsewhere(
            f"torch {torch.__version__} has the tables of its exporter elsewhere than {TRIED[-1]} ({said}): what it lacks is "
            "found call by call, from the text of its errors"
        ) from error
    with kept_tables():
        low = program.run_decompositions(dict(table))
    lacking = []
    for graph in low.graph_module.modules():
        for node in getattr(getattr(graph, "graph", None), "nodes", ()):
            if node.op != "call_function" or _is_served(node):
                continue
            function, reason = dispatch(node, registry)
            if function is None:
                lacking.append((node, reason))
    return low, lacking


def _exporter() -> tuple[Any, Any, Mapping[Any, Any]]:
    """How the exporter chooses the ONNX function of a call, of which ones, and what it decomposes."""
    from torch.onnx._internal.exporter import _decomp, _dispatching, _registration

    registry = _registration.ONNXRegistry.from_torchlib()
    table = _decomp.create_onnx_friendly_decomposition_table(set(_decomp.get_onnx_implemented_overloads(registry)))
    return _dispatching.dispatch, registry, table


# ---- the exporter's tables ---------------------------------------------------------------------------------------------------


@contextmanager
def kept_tables() -> Iterator[None]:
    """Within it the exporter makes its tables again only where they would be others than the last time.

    They are two thirds of the time of exporting a small module: the signatures of five hundred ONNX functions, read from their
    sources, and a walk over every op that C++ registers, once for each namespace. Torch has its own functions back afterwards.
    Where they are elsewhere in this torch, nothing is kept.
    """
    _enter()
    try:
        yield
    finally:
        _leave()


_lock = threading.RLock()
_inside = 0
_swapped: list[tuple[Any, str, Any, Any]] = []


def _enter() -> None:
    global _inside
    with _lock:
        _inside += 1
        _walked.clear()
        if _inside > 1:  # another thread exports; what it swapped serves this one as well
            return
        try:
            _swapped[:] = _swaps()
        except (ImportError, AttributeError, KeyError):
            _swapped.clear()
        for owner, name, _, mine in _swapped:
            setattr(owner, name, mine)


def _leave() -> None:
    global _inside
    with _lock:
        _inside -= 1
        if _inside:
            return
        for owner, name, theirs, mine in _swapped:
            if vars(owner)[name] is mine:  # not where someone else has put in another one meanwhile
                setattr(owner, name, theirs)
        _swapped.clear()


def _swaps() -> list[tuple[Any, str, Any, Any]]:
    """Where the functions are, their names, torch's own, and what takes their places."""
    from torch._export import utils
    from torch.onnx._internal.exporter._registration import ONNXRegistry

    made, walk = vars(ONNXRegistry)["from_torchlib"], utils._materialize_cpp_cia_ops
    return [
        (ONNXRegistry, "from_torchlib", made, staticmethod(_functions_as_kept(made))),
        (utils, "_materialize_cpp_cia_ops", walk, _walk_as_kept(walk)),
        # In an annotation that torch evaluates ten thousand times an export: this one is kept, that of collections.abc is not.
        (torch._ops, "Callable", torch._ops.Callable, typing.Callable),
    ]


_tables: dict[Any, tuple[list[Any], list[str], Any]] = {}
"""By opset: what the table of ONNX functions was made from, the ops that torch did not have then, and the table."""


def _functions_as_kept(theirs: Any) -> Callable[..., Any]:
    from torch.onnx._internal.exporter import _registration

    def from_torchlib(opset_version: int = _registration._constants.TORCHLIB_OPSET) -> Any:
        with _lock:
            parts, absent, table = _tables.get(opset_version, ([], [], None))
            now = [theirs, *_registered()]
            same = len(now) == len(parts) and all(a is b for a, b in zip(now, parts, strict=True))
            if not same or len(_absent(absent)) < len(absent):
                table = theirs.__get__(None, _registration.ONNXRegistry)(opset_version=opset_version)
                _tables[opset_version] = now, _absent(_names()), table
        copy = _registration.ONNXRegistry()  # the exporter writes the functions of one export into it
        copy._opset_version = table._opset_version
        copy.functions = {target: list(functions) for target, functions in table.functions.items()}
        return copy

    return from_torchlib


def _registered() -> Iterator[Any]:
    """All of which torch makes its table: its own functions, and those of onnxscript under the names of their ops."""
    from torch.onnx._internal.exporter._torchlib import _torchlib_registry

    yield from _torchlib_registry.get_torchlib_ops()
    for name, entry in _of_onnxscript():
        yield name
        yield from entry.overloads
        yield None
        yield from entry.complex


def _of_onnxscript() -> Any:
    from onnxscript.function_libs.torch_lib import ops, registration

    del ops  # the import of which fills the registry
    return registration.default_registry.items()


def _names() -> list[str]:
    return [name for name, _ in _of_onnxscript() if not name.startswith("internal::")]


def _absent(names: list[str]) -> list[str]:
    """Those of these ops that torch does not have now; it has torchvision's once that is imported."""
    from torch.onnx._internal.exporter import _registration

    return [name for name in names if _registration._get_overload(name) is None]


_walked = threading.Event()
_seen: list[frozenset[str]] = []


def _walk_as_kept(theirs: Any) -> Callable[[], None]:
    def materialize() -> None:
        if _walked.is_set():  # in this export already
            return
        there = frozenset(torch._C._dispatch_get_registrations_for_dispatch_key("CompositeImplicitAutograd"))
        if there not in _seen:
            theirs()
            _seen[:] = [there]
        _walked.set()

    return materialize


def failed_node(failure: BaseException | None, name: str) -> Any:
    """The call of that name at which the exporter gave up; None where this torch names it otherwise.

    Parameters
    ----------
    failure : BaseException or None
        What the exporter raised.
    name : str

    Returns
    -------
    torch.fx.Node or None
    """
    while failure is not None:
        step = failure.__traceback__
        while step is not None:
            node = step.tb_frame.f_locals.get("node")
            if isinstance(node, torch.fx.Node) and node.name == name:
                return node
            step = step.tb_next
        failure = failure.__cause__
    return None


def forget_pending_sizes(program: Any) -> None:
    """Let a program be decomposed again: torch complains of sizes that the values decide if an earlier attempt left some.

    Parameters
    ----------
    program : torch.export.ExportedProgram
    """
    for node in program.graph_module.graph.nodes:
        mode = getattr(node.meta.get("val"), "fake_mode", None)
        pending = getattr(getattr(mode, "shape_env", None), "pending_fresh_unbacked_symbols", None)
        if pending:
            pending.clear()


def _is_served(node: Any) -> bool:
    """Whether the exporter passes over a call, or another table serves it."""
    name = str(node.target)
    return name.startswith(("pyopnb.", "aten._assert", "aten.sym_constrain_range")) or name in _ASIDE


_ASIDE = ("<built-in function getitem>",)
