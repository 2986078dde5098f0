"""Traces: every named tensor of one run, with its times, op versions and runtime."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from onnx import ModelProto, numpy_helper

from pyopnb.common import Displayable, messages, plural, sanitize
from pyopnb.engine import Version, add_note, argument_checks, external_files
from pyopnb.errors import UnknownName
from pyopnb.traces.exposure import Exposure
from pyopnb.traces.initializers import Initializers
from pyopnb.traces.summary import Summary
from pyopnb.traces.times import Times

__all__ = ["Trace", "attach_trace", "how_failed", "model_with_weights"]

_UNREAD = Initializers(lambda: ((), None))
_LINES = 12  # of the text of a trace, so that it fits where an assertion fails


class _Summaries(dict[str, Summary]):
    """Summaries by the names of tensors."""

    def __missing__(self, name: object) -> Summary:
        next_ = messages.suggest_key(str(name), self) or "list(trace)"
        raise UnknownName(
            "trace.summaries",
            expected="a tensor of the trace",
            got=sanitize(repr(name)),
            next=next_,
        )


@dataclass(eq=False, repr=False, slots=True, weakref_slot=True, kw_only=True)
class Trace(Displayable):
    """Every named tensor of one run.

    Index it by name. Iterating gives the names: feeds first, then the outputs of the nodes in the
    order in which they ran. ``name in trace`` works, and ``dict(trace)`` gives all arrays. It keeps
    neither the session nor the ONNX Runtime memory alive.

    Attributes
    ----------
    model : ModelProto
        The model that ran, with its original domains, op types and names, and with the attrs that
        the session had, which `Session.set_attrs` may have changed. Local functions that contain
        ops are inlined. The data of large initializers is left out here, and is in
        ``initializers``.
    initializers : Mapping
        Arrays of the model's initializers by name, including external data, read on first use. If
        the session's options replace a weight (``SessionOptions.add_initializer``), this is still
        the weight of the file, because the values in options cannot be read back.
    feeds : dict
        Copies of the arrays that were fed, by name.
    values : dict
        The recorded tensors by name, without the feeds.
    outputs : tuple of str
        Names of the model's outputs.
    summaries : dict
        A `Summary` of each tensor by name, including the feeds.
    times : Times or None
        A `NodeTime` by the name of the node's first output, and the time of the whole run; None if
        nothing was timed.
    versions : dict
        The `Version` of each op that served the run, by the op's name.
    runtime : str
        Where the model ran: ``"onnxruntime 1.31.1, all optimizations"``.
    exposure : Exposure or None
        How the outputs of a normal run differ from this run; None if they were not compared.
    unchecked : str
        Why they could not be compared; empty if they were, or if you did not ask for it.
    left_out : str
        The optimizers of ONNX Runtime that were disabled because they drop a recorded tensor, and
        which tensor; empty otherwise.
    failed : str
        How the run failed, if the trace is the ``trace`` of an exception and has only the tensors
        that were computed before; empty for a whole run.
    by_model : bool
        Whether the nodes of ``model`` computed the values. False if another program did, from which
        the model was made only to name the values.
    sources : dict
        For each tensor, the line of that program that it comes from; empty if no lines are known.
    remarks : dict
        For each tensor, what that program does differently from the model.
    other_python : OtherPython or None
        The Python with its own onnxruntime that ran it; None if this process did.
    providers : list
        The providers of this process with their options, if others than the CPU's ran it.
    """

    model: ModelProto = field(kw_only=False)
    feeds: dict[str, Any]
    values: dict[str, Any]
    initializers: Initializers = field(default_factory=lambda: _UNREAD)
    summaries: dict[str, Summary] = field(default_factory=dict)
    times: Times | None = None
    versions: Mapping[str, Version] = field(default_factory=dict)
    runtime: str = ""
    exposure: Exposure | None = None
    unchecked: str = ""
    left_out: str = ""
    failed: str = ""
    by_model: bool = True
    sources: Mapping[str, str] = field(default_factory=dict)
    remarks: Mapping[str, str] = field(default_factory=dict)
    other_python: Any = None
    providers: Sequence[Any] = ()
    outputs: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        graph = self.model.graph
        self.outputs = tuple(info.name for info in graph.output)
        if self.initializers is _UNREAD:
            self.initializers = Initializers(lambda: (graph.initializer, None))
        summaries = self.summaries or {
            name: Summary.of(value) for name, value in self._arrays().items()
        }
        self.summaries = _Summaries(summaries)

    # ---- names and arrays ------------------------------------------------------------------------

    def __getitem__(self, name: str) -> Any:
        if not isinstance(name, str):
            raise argument_checks.index_error("trace", "tensor", name, self)
        if name in self.values:
            return self.values[name]
        if name in self.feeds:
            return self.feeds[name]
        raise self._unknown(name)

    def _unknown(self, name: str) -> UnknownName:
        expected = "a tensor of the trace"
        advice = messages.suggest_key(name, self) or "list(trace)"
        if name in self.summaries:
            expected = "a tensor that was kept, not only summarized"
            advice = f"trace.summaries[{sanitize(repr(name))}]"
        elif name in self.initializers:
            # Weights are no tensors of the run, and are found elsewhere.
            advice = f"trace.initializers[{sanitize(repr(name))}]"
        return UnknownName("trace", expected=expected, got=sanitize(repr(name)), next=advice)

    def _arrays(self) -> dict[str, Any]:
        """Put the feeds before the tensors that were kept."""
        return {**self.feeds, **self.values}

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays())

    def __len__(self) -> int:
        return len(self._arrays())

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and (name in self.values or name in self.feeds)

    def get(self, name: str, default: Any = None) -> Any:
        """Return a tensor by name, or something else if the trace has none of that name.

        Parameters
        ----------
        name : str
            The tensor.
        default : object, optional
            What to return if there is no such tensor.

        Returns
        -------
        object
            As in ``trace[name]``.
        """
        return self._arrays().get(name, default)

    def keys(self) -> Any:
        """Names of the feeds and of the tensors that were kept; with this, ``dict(trace)`` works.

        Returns
        -------
        dict_keys of str
            Feeds first, then the tensors in the order in which they were computed.
        """
        return self._arrays().keys()

    _ipython_key_completions_ = keys  # The IPython protocol, for ``trace["``

    def items(self) -> Any:
        """Pairs of name and array.

        Returns
        -------
        dict_items of (str, ndarray)
            In the order of `keys`.
        """
        return self._arrays().items()

    # ---- text ------------------------------------------------------------------------------------

    @property
    def first_nonfinite(self) -> str | None:
        """Name the first tensor, in the order of the nodes, that contains a NaN or an infinity.

        It is None if none does.
        """
        for name, summary in self.summaries.items():
            if summary.has_nonfinite:
                return name
        return None

    def __repr__(self) -> str:
        lines = self._head()
        names = list(self.summaries)
        # The last line says how many tensors there is no room for.
        room = _LINES - len(lines)
        shown = names
        if len(names) > room:
            shown = names[: room - 1]
        rows = []
        for name in shown:
            rows.append((sanitize(name, 40), *self.summaries[name].cells, self._time(name)))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        for row in rows:
            # A column that is empty in all rows takes no room.
            cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True) if width]
            lines.append("  ".join(cells).rstrip())
        if len(shown) < len(names):
            lines.append(f"… and {len(names) - len(shown)} more")
        # A name can contain a line break.
        return "\n".join([line.replace("\n", " ") for line in lines])

    def _head(self) -> list[str]:
        """Write the lines on the whole run: the model and runtime, and remarks on the numbers."""
        nodes = plural(len(self.model.graph.node), "node")
        lines = [f"Trace of {nodes}, {plural(len(self.summaries), 'tensor')}"]
        if self.runtime:
            lines[0] += f", {self.runtime}"
        if self.failed:
            lines.append(f"the run failed, and these were computed before: {self.failed}")
        if self.exposure is not None and not self.exposure.same:
            lines.append(str(self.exposure))
        if self.left_out:
            lines.append(f"recorded without {self.left_out}")
        if self.unchecked:
            lines.append(f"not compared with a normal run: {self.unchecked}")
        nonfinite = self.first_nonfinite
        if nonfinite is not None:
            lines.append(f"first NaN or Inf: {sanitize(nonfinite)} ({self._source_of(nonfinite)})")
        if self.times:
            lines.append(str(self.times))
        return lines

    def _source_of(self, name: str) -> Any:
        """Name the operator that gave a tensor."""
        for node in self.model.graph.node:
            if name in node.output:
                return node.op_type
        return "a feed"

    def _time(self, name: str) -> str:
        if self.times is None:
            return ""
        time = self.times.get(name)
        if time is None:
            return ""
        return str(sanitize(str(time), 80))


def how_failed(error: Exception) -> str:
    """Say how a run failed: in which node, or with which exception."""
    notes = getattr(error, "__notes__", None) or [f"{type(error).__name__}: {error}"]
    return messages.one_line(notes[0])


def attach_trace(error: Exception, trace: Trace) -> None:
    """Attach the tensors so far to the exception of a run."""
    error.trace = trace  # type: ignore[attr-defined]
    add_note(error, "the exception's attribute trace has the tensors that were computed before")


def model_with_weights(trace: Trace) -> ModelProto:
    """Copy the model of a trace, with the data of its large initializers."""
    copy = ModelProto()
    copy.CopyFrom(trace.model)
    for tensor in filter(external_files.is_external, copy.graph.initializer):
        tensor.CopyFrom(numpy_helper.from_array(trace.initializers[tensor.name], tensor.name))
    return copy
