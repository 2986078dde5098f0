"""What is asked of modules that torch keeps to itself. Tried with torch 2.13.0.

Without them the same is found by the public exporter, which names one op at a time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

__all__ = ["LOGGER", "TRIED", "Elsewhere", "failed_node", "forget_pending_sizes", "untranslated"]

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
        dispatch, registry, table = _exporter()
    except (ImportError, AttributeError, TypeError) as error:
        said = f"{type(error).__name__}: {error}"
        raise Elsewhere(
            f"torch {torch.__version__} has the tables of its exporter elsewhere than {TRIED[-1]} ({said}): what it lacks is "
            "found call by call, from the text of its errors"
        ) from error
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
    table = _decomp.create_onnx_friendly_decomposition_table(
        set(_decomp.get_onnx_implemented_overloads(registry))
    )
    return _dispatching.dispatch, registry, table


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
    return (
        name.startswith(("pyopnb.", "aten._assert", "aten.sym_constrain_range")) or name in _ASIDE
    )


_ASIDE = ("<built-in function getitem>",)
