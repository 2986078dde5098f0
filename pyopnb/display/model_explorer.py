"""The colors of a graph for Google's Model Explorer, in the files that it reads for nodes."""

from __future__ import annotations

import atexit
import importlib
import json
import math
import shutil
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from onnx import GraphProto, ModelProto

from pyopnb.display.views import Canvas, View
from pyopnb.engine import model_files, protos
from pyopnb.errors import InputError, PyopError

__all__ = ["explore", "node_data"]

_ADAPTER = "model_explorer_onnx"


def node_data(canvas: Canvas) -> str:
    """Write the numbers and colors of a graph's nodes as JSON for Model Explorer."""
    return json.dumps(_of_graph(canvas, canvas.model.graph, {}), allow_nan=False)


def explore(view: View) -> None:
    """Open the graph of a view, or both graphs of a diff, in Model Explorer.

    Raises
    ------
    InputError
        It has no graph.
    PyopError
        Model Explorer is not installed.
    """
    canvas = view.canvas
    if canvas is None:
        expected = "something with a graph"
        raise InputError("explore", expected=expected, got=view.title, next="pyopnb.show(…)")
    try:
        explorer = importlib.import_module("model_explorer")
        importlib.import_module(_ADAPTER)
    except ImportError as error:
        next_ = "pip install ai-edge-model-explorer model-explorer-onnx"
        raise PyopError("explore", expected="Model Explorer", got=str(error), next=next_) from None
    folder = Path(tempfile.mkdtemp(prefix="pyopnb-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    config = explorer.config()
    panes = []
    for name, model, partners in _models(view.thing, canvas):
        # The page tells graphs apart by their names.
        model.graph.name = name
        path = folder / f"{name}.onnx"
        path.write_bytes(model.SerializeToString())
        data = json.dumps(_of_graph(canvas, model.graph, partners), allow_nan=False)
        config.add_model_from_path(str(path))
        # A slash would end the name of the data in the address.
        legend = canvas.legend.replace("/", " per ") or name
        config.add_node_data(legend, data, path.name)
        panes.append(_pane(path.name, name))
    share = {"widthFraction": 1 / len(panes)}
    state = {"paneStates": [{**pane, **share} for pane in panes]}
    # The page opens two panes, in which a click selects both nodes of a name, only if its address
    # says so.
    address = json.loads(unquote(config.to_url_param_value()))
    address |= {"uiState": state, "sync": {"mode": "match_node_id"}}
    config.to_url_param_value = lambda: quote(json.dumps(address))
    # It serves until the process ends.
    serve = explorer.visualize_from_config
    options = {"config": config, "extensions": [_ADAPTER]}
    threading.Thread(target=serve, kwargs=options, daemon=True).start()


def _models(thing: Any, canvas: Canvas) -> Iterator[tuple[str, ModelProto, Mapping[str, str]]]:
    """Yield the graphs to show, and the tensors of the canvas by the ones of each graph."""
    models = getattr(thing, "models", None) or (canvas.model,)
    partners = getattr(thing, "partners", {})
    for name, model in zip(("a", "b") if len(models) > 1 else ("model",), models, strict=True):
        copy = model_files.without_weights(model_files.as_proto(model)).proto
        yield name, copy, partners if name == "a" else {}


def _pane(file: str, graph: str) -> dict[str, Any]:
    return {
        "deepestExpandedGroupNodeIds": [f"{graph}___group___"],
        "selectedNodeId": "",
        "selectedGraphId": graph,
        "selectedCollectionLabel": file,
    }


def _of_graph(canvas: Canvas, graph: GraphProto, partners: Mapping[str, str]) -> dict[str, Any]:
    """Give the nodes of a graph what the canvas shows at the nodes of the same tensors."""
    shown = {}
    for node, value, color, about in canvas.nodes:
        result: dict[str, Any] = {"value": about.partition("\n")[0] if value is None else value}
        if value is not None and not math.isfinite(value):
            result["value"] = str(value)
        # Without a color there is only a text for the card.
        if color:
            result["bgColor"] = color
            shown[protos.first_output(node)] = result
    results = {}
    for node, key in zip(graph.node, _keys(graph, Counter()), strict=True):
        name = protos.first_output(node)
        name = partners.get(name, name)
        if name in shown:
            results[key] = shown[name]
    return {graph.name or "<main>": {"name": canvas.legend, "results": results}}


def _keys(graph: GraphProto, counts: Counter[str]) -> list[str]:
    """Name each node as model-explorer-onnx does: unnamed nodes and repeated names get numbers."""
    keys: dict[str, None] = {}
    for node in graph.node:
        name = node.name or "node"
        key = name
        while key in keys:
            counts[name] += 1
            key = f"{name}_{counts[name]}"
        keys[key] = None
        # The numbers go on in bodies, whose names are their own.
        for _, body in protos.named_bodies(node):
            _keys(body, counts)
    return list(keys)
