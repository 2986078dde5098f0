"""Find the node that an error of ONNX Runtime is about.

Nodes made by hand have no names, and the ONNX Runtime text then says ``Node () Op (MatMul)``. So a
copy of the model whose nodes have numbers as names is made to fail once more.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from onnx import FunctionProto, ModelProto

from pyopnb.engine import GraphIndex, markers, model_functions, protos
from pyopnb.errors import ModelError

__all__ = ["Retry", "failing_node"]

Retry = Callable[[ModelProto], str]
"""Loads a model, or runs it, and returns the text of the ONNX Runtime error; empty without one."""

_NUMBER = re.compile(r"pyopnb_node_(\d+)_")
_TEXTS = (
    re.compile(r"running (?P<op>\S+) node\. Name:'(?P<name>.*?)' "),
    re.compile(r"Node \((?P<name>.*?)\) Op \((?P<op>\w+)\)"),
    re.compile(r"operator \((?P<op>\w+)\) in node \((?P<name>.*?)\)"),
    re.compile(r"Optype \((?P<op>\w+)\) .*in node \((?P<name>.*?)\)"),
    re.compile(r'In Node, \("(?P<name>.*?)", (?P<op>\w+), '),
)
_FEW = 5


def failing_node(proto: ModelProto, said: str, retry: Retry | None) -> str | None:
    """Name the node that an error is about, or the few that it may be about.

    Parameters
    ----------
    proto : ModelProto
        The model that ONNX Runtime got. Its markers are removed.
    said : str
        The text of the error.
    retry : callable, optional
        None if the model cannot fail once more.

    Returns
    -------
    str or None
        None if the text is about no node.
    """
    sites = list(protos.walk(proto))
    found = _mentioned(sites, said)
    is_sure = len(found) == 1 and bool(found[0].node.name) and found[0].node.name in said
    if retry is not None and not is_sure:
        numbers = [int(digits) for digits in _NUMBER.findall(retry(_numbered(proto)))]
        # Calls of functions and nodes with bodies come before the node inside them.
        traced = [sites[number] for number in dict.fromkeys(numbers)]
        if not traced and not found:
            traced = _first_failing(proto, sites, retry)
        if traced:
            found, is_sure = traced, True
    # From here on the nodes are named as they are in the file.
    markers.remove_markers(proto)
    if is_sure:
        return _described(proto, sites, found)
    if not 1 <= len(found) <= _FEW:
        return None
    return "one of: " * (len(found) > 1) + ", ".join(site.where for site in found)


def _mentioned(sites: Sequence[protos.Site], said: str) -> list[protos.Site]:
    """Return the nodes whose name and type are the last that a text has."""
    matches = [match for text in _TEXTS for match in text.finditer(said)]
    if not matches:
        return []
    last = max(matches, key=lambda match: match.start())
    of_type = [site for site in sites if site.node.op_type == last["op"]]
    named = [site for site in of_type if site.node.name == last["name"]]
    # An optimizer gives merged nodes names of its own.
    return named or of_type


def _numbered(proto: ModelProto) -> ModelProto:
    """Copy a model with numbers as the names of its nodes, and of the functions that they call."""
    copy = ModelProto()
    copy.CopyFrom(proto)
    functions = {model_functions.function_key(function): function for function in copy.functions}
    calls = []
    for number, site in enumerate(protos.walk(copy)):
        name = f"pyopnb_node_{number}_"
        site.node.name = name
        function = functions.get(model_functions.function_key(site.node))
        if function is not None:
            # ONNX Runtime names inlined nodes by their function: each call gets one of its own.
            site.node.op_type += name
            calls.append((function, name))
    for function, name in calls:
        copy.functions.add().CopyFrom(function)
        copy.functions[-1].name += name
    return copy


def _first_failing(
    proto: ModelProto, sites: Sequence[protos.Site], retry: Retry
) -> list[protos.Site]:
    """Find the node that makes a model fail, by bisection; [] where no node alone does."""
    ordered = ModelProto()
    ordered.CopyFrom(proto)
    try:
        GraphIndex.sort_nodes(ordered.graph)
    except ModelError:
        return []
    least, most = 0, len(ordered.graph.node)
    # A failure without any node, or only with the declared outputs, is the fault of none.
    if not retry(_beginning(ordered, most)) or retry(_beginning(ordered, 0)):
        return []
    while most - least > 1:
        middle = (least + most) // 2
        if retry(_beginning(ordered, middle)):
            most = middle
        else:
            least = middle
    node = ordered.graph.node[most - 1]
    return [site for site in sites if not site.path and site.node == node][:1]


def _beginning(proto: ModelProto, count: int) -> ModelProto:
    """Copy a model with its first nodes only, and with the tensors that none of them reads."""
    copy = ModelProto()
    copy.CopyFrom(proto)
    graph = copy.graph
    del graph.node[count:]
    read = {name for node in graph.node for name in node.input}
    declared = {info.name: info for info in graph.output}
    del graph.output[:]
    if not count:
        # A model without nodes still needs an output.
        graph.output.extend(graph.input[:1])
    for node in graph.node:
        for name in node.output:
            if name in declared:
                graph.output.add().CopyFrom(declared[name])
            elif name and name not in read:
                graph.output.add(name=name)
    return copy


def _described(proto: ModelProto, sites: Sequence[protos.Site], path: Sequence[protos.Site]) -> str:
    """Name the last node of a path, and the calls of functions that led to it."""
    functions = {model_functions.function_key(function): function for function in proto.functions}
    known = [site for site in path[:-1] if model_functions.function_key(site.node) in functions]
    inner, text = path[-1], path[-1].where
    for _ in range(_FEW):
        function = functions.get(model_functions.function_key(inner.node))
        given = len(inner.node.input)
        if function is not None and given != len(function.input):
            text += f", which has {given} of the inputs {', '.join(function.input)}"
        if known:
            callers = [known.pop()]
        else:
            # ONNX Runtime does not name the calls of a function by other functions.
            callers = [site for site in sites if _is_call_of(site, inner, functions)]
        if not callers:
            break
        text += ", called by " + " or ".join(caller.where for caller in callers[:_FEW])
        inner = callers[0]
        if len(callers) > 1:
            break
    return text


def _is_call_of(
    site: protos.Site, inner: protos.Site, functions: Mapping[Any, FunctionProto]
) -> bool:
    """Tell whether a node calls the function that another node is in."""
    function = functions.get(model_functions.function_key(site.node))
    return function is not None and inner.path.partition(", ")[0] == protos.path_of_function(
        function
    )
