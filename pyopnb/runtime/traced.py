"""Runs that are looked at: the session beside a session that gives every tensor, and what ONNX Runtime's profile says."""

from __future__ import annotations

import copy
import json
import os
import statistics
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnxruntime
from onnx import ModelProto

from pyopnb.models.nodes import first_output, walk
from pyopnb.models.source import Source, lean
from pyopnb.ops.registry import Version
from pyopnb.runtime.plan import Clock, Plan
from pyopnb.traces.exposed import chosen_names, expose, made_names
from pyopnb.traces.exposure import exposure_of
from pyopnb.traces.initializers import Initializers
from pyopnb.traces.summary import summary_of
from pyopnb.traces.timed import NodeTime
from pyopnb.traces.trace import Trace

__all__ = ["Wanted", "traced"]


@dataclass(frozen=True)
class Wanted:
    """What a trace is to tell; see `pyopnb.Session.trace`."""

    only: str | Sequence[str] | None = None
    level: str = "all"
    check: bool = True
    times: bool | int = True
    progress: Callable[[int, int], object] | None = None


@dataclass
class _Preparation:
    """What is done to the plan of the exposed session before ONNX Runtime sees it."""

    instances: Mapping[int, tuple[int, object]]
    timed: bool
    versions: dict[str, Version] = field(default_factory=dict)
    clocks: dict[str, Clock] = field(default_factory=dict)
    nodes: dict[str, tuple[str, str, str]] = field(default_factory=dict)

    def __call__(self, plan: Plan, proto: ModelProto) -> None:
        main = {id(node): first_output(node) for node in proto.graph.node}
        if self.timed and not self.nodes:
            self._name(proto)
        for place, node in enumerate(plan.nodes):
            version = node.op.at(plan.epoch)
            self.versions[node.op.name] = version
            if place in self.instances and self.instances[place][0] == version.number:
                node.early[version.number] = self.instances[place][1]
            output = main.get(id(node.numbered.site.node))
            if self.timed and output is not None:
                node.clock = self.clocks.setdefault(output, Clock())

    def _name(self, proto: ModelProto) -> None:
        """Give every node a name of its own, by which the profile tells its times."""
        taken = {site.node.name for site in walk(proto)}
        used: set[str] = set()
        for number, node in enumerate(proto.graph.node):
            old = node.name
            if not old or old in used:
                node.name = f"{node.op_type}_{number}"
                while node.name in taken:
                    node.name += "_"
                taken.add(node.name)
            used.add(node.name)
            self.nodes[node.name] = (first_output(node), old or first_output(node), node.op_type)


def traced(session: Any, given: Mapping[str, Any], wanted: Wanted) -> Trace:
    """A run of a session, with its tensors."""
    __tracebackhide__ = True
    session._follow()
    source = session._source()
    model = lean(source.proto).proto
    names = made_names(model)
    if wanted.only is not None:
        names = chosen_names(names, wanted.only)
    instances = _instances(session, copies=wanted.check)
    outputs = list(session._feeds.outputs)
    plain = dict(zip(outputs, session.run(outputs, given), strict=True)) if wanted.check else None
    expose(source.proto, names)
    preparation = _Preparation(instances, bool(wanted.times))
    with tempfile.TemporaryDirectory(prefix="pyopnb-") as folder:
        with _options(session, folder, profiled=bool(wanted.times)) as options:
            exposed = session._beside(source, options, preparation)
        asked = list(exposed._feeds.outputs)
        arrays = dict(zip(asked, exposed.run(asked, given), strict=True))
        times = _times(exposed, preparation) if wanted.times else None
    values = {name: arrays[name] for name in [*names, *(n for n in outputs if n not in names)]}
    feeds = {name: _kept(value) for name, value in given.items()}
    return Trace(
        model,
        feeds=feeds,
        values=values,
        summaries={name: summary_of(value) for name, value in {**feeds, **values}.items()},
        initializers=Initializers(_loader(session)),
        times=times,
        versions=preparation.versions,
        runtime=f"onnxruntime {onnxruntime.__version__}, all optimisations",
        exposure=None if plain is None else exposure_of(plain, values),
    )


def _loader(session: Any) -> Callable[[], tuple[ModelProto, str | None]]:
    """How to read the initializers later, without the session: it lets go of ONNX Runtime's memory when the user does."""
    data, path, folder, taken_out = session._model_bytes, session._model_path, session._folder, session._taken_out

    def load() -> tuple[ModelProto, str | None]:
        from pyopnb.models.source import edited, read

        source = read(path, folder) if data is None else Source(ModelProto.FromString(data), folder, taken_out)
        return edited(source), folder

    return load


def _instances(session: Any, *, copies: bool) -> dict[int, tuple[int, object]]:
    """The instances of the session's ops by the number of their node, with the number of their version."""
    found: dict[int, tuple[int, object]] = {}
    for place in list(session._places):
        version = place.op.at(session._epoch)
        state = place._states.get(version.number)
        if state is not None:
            instance = state[1].instance
            found[place.number] = version.number, copy.deepcopy(instance) if copies else instance
    return found


def _kept(value: Any) -> Any:
    if isinstance(value, onnxruntime.OrtValue):
        return value.numpy() if value.is_tensor() else value
    return np.array(value) if isinstance(value, np.ndarray) or np.isscalar(value) else copy.copy(value)


@contextmanager
def _options(session: Any, folder: str, *, profiled: bool) -> Iterator[onnxruntime.SessionOptions]:
    """The session's options with those of the look at it, which are taken back afterwards: options cannot be copied."""
    options = session._arguments[0]
    if options is None:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
    mine = {
        "enable_profiling": profiled,
        "profile_file_prefix": os.path.join(folder, "profile"),
        "optimized_model_filepath": "",
    }
    before = {name: getattr(options, name) for name in mine}
    try:
        for name, value in mine.items():
            setattr(options, name, value)
        yield options
    finally:
        for name, value in before.items():
            setattr(options, name, value)


def _times(exposed: Any, preparation: _Preparation) -> dict[str, NodeTime]:
    path = exposed.end_profiling()
    with open(path, encoding="utf-8") as file:
        events = json.load(file)
    spent: dict[str, list[float]] = defaultdict(list)
    for event in events:
        name = event.get("name", "")
        if event.get("cat") == "Node" and name.endswith("_kernel_time"):
            spent[name.removesuffix("_kernel_time")].append(event["dur"])
    times = {}
    for name, (output, node, op_type) in preparation.nodes.items():
        if name in spent:
            clock = preparation.clocks.get(output)
            python = statistics.median(clock.spent) / 1000 if clock and clock.spent else None
            times[output] = NodeTime(node, op_type, statistics.median(spent[name]), python, len(spent[name]))
    return times
