"""Sessions: an ``onnxruntime.InferenceSession`` whose nodes can be ops of the registry."""

from __future__ import annotations

import os
import threading
import warnings
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import onnxruntime
from onnx import ModelProto

from pyopnb.models.edit.inline import inline_ops
from pyopnb.models.io import ModelSource, read_model
from pyopnb.models.markers import add_markers, remove_markers
from pyopnb.models.nodes import declared_scalars, forget_inferred
from pyopnb.ops.errors import PyopError, sanitize
from pyopnb.ops.registry import registry
from pyopnb.ops.result import Result
from pyopnb.runtime import _bridge
from pyopnb.runtime.callbacks import get_library_path
from pyopnb.runtime.exceptions import living, nothing, passing
from pyopnb.runtime.feeds import Feeds, from_ortvalue, texts_to_ortvalue
from pyopnb.runtime.legacy_pyop import checked_modules
from pyopnb.runtime.live_attrs import attrs_of, chosen, label_of, merged
from pyopnb.runtime.options import LENT, QUIET, session_options
from pyopnb.runtime.plan import Plan, building, is_op, planned_nodes, refuse_unknown

if TYPE_CHECKING:
    from pyopnb.onnx_reference.fill import FilledNode
    from pyopnb.ops.progress import Progress
    from pyopnb.runtime.trace.run import Wanted
    from pyopnb.runtime.trace.trace import Trace

__all__ = ["Session", "SessionRebuilt", "run_each", "run_kernels"]

_CPU = "CPUExecutionProvider"


class SessionRebuilt(UserWarning):
    """An op was redefined with other outputs, and a session was built anew for it."""


class Session(onnxruntime.InferenceSession):  # type: ignore[misc]  # onnxruntime ships no types
    """An ``onnxruntime.InferenceSession`` in which ops of the registry run.

    Parameters
    ----------
    model : ModelProto, bytes or path
        External data beside a path is found. The model is never changed.
    sess_options, providers, provider_options, **kwargs
        As ``InferenceSession`` takes them.
    modules : sequence of str
        Exact names of modules that the retired PyOp's nodes may have their classes from; see `ModuleRefused`.
    base_dir : path, optional
        The folder of the external data of a model in memory.
    fill : bool
        Let ONNX's reference implementation stand in for nodes that the runtime lacks, as `pyopnb.fill` does.

    Attributes
    ----------
    filled : tuple of FilledNode
        What ``fill=True`` did; the warning `Filled` says it as well.

    Raises
    ------
    ModelError
        The model, a node or an attr cannot be used.
    ModuleRefused
        A node names a module that was not allowed.
    Exception
        What an op's ``__init__`` or ``infer`` raised, as itself, with a note.

    Notes
    -----
    A redefined op serves from the next run on; a run in flight finishes with the versions that it began with. Where the new
    version has other outputs (dtype or shape), ONNX Runtime's session is built anew and the warning `SessionRebuilt` says so.

    Examples
    --------
    >>> import numpy as np, pyopnb
    >>> @pyopnb.pyop("doctest::Twice")
    ... class Twice:
    ...     def compute(self, x):
    ...         return x * 2
    >>> session = Session(pyopnb.model([pyopnb.node("doctest::Twice", "x", "y")], {"x": "float32[N]"}, "y"))
    >>> session(x=np.float32([1, 2]))
    y: float32[2]
    [2. 4.]
    """

    def __init__(
        self,
        model: ModelProto | bytes | str | os.PathLike[str],
        sess_options: onnxruntime.SessionOptions | None = None,
        providers: Sequence[Any] | None = None,
        provider_options: Sequence[Any] | None = None,
        *,
        modules: Sequence[str] = (),
        base_dir: str | os.PathLike[str] | None = None,
        fill: bool = False,
        **kwargs: Any,
    ) -> None:
        __tracebackhide__ = True  # between the user's line and what went wrong, nothing is of interest
        self._arguments = (sess_options, providers, provider_options, kwargs)
        self._following = threading.RLock()
        self._changed: dict[int, dict[str, Any]] = {}  # attrs that are not those of the file, by the node's number
        try:
            self._modules = checked_modules(modules)
            source = read_model(model, base_dir)
            self.filled = _filled(source) if fill else ()
            self._build(source)
        except PyopError as error:
            raise error.with_traceback(None)  # noqa: B904  # it names the place; the way to it leads through pyopnb alone

    # ---- building ------------------------------------------------------------------------------------------------------------

    def _build(self, source: ModelSource, prepare: Callable[[Plan, ModelProto], None] | None = None) -> None:
        __tracebackhide__ = True
        epoch = registry.epoch
        forget_inferred(source.proto)
        source.proto = inline_ops(source.proto, is_op(source.proto, self._modules))
        plan = Plan(planned_nodes(source.proto, self._modules), epoch)
        for place, values in self._changed.items():
            plan.nodes[place].values.update(values)
        if prepare is not None:
            prepare(plan, source.proto)
        fresh = self._attempt(source, plan)
        if plan.wanted:
            # The runtime cannot be told a dtype without a rank while it infers; it can be told by the op type.
            for place, outputs in plan.wanted.items():
                numbered = plan.nodes[place].numbered
                old = numbered.fixed + (0,) * (plan.nodes[place].outputs - len(numbered.fixed))
                numbered.fixed = tuple(outputs.get(i, n) for i, n in enumerate(old))
            plan.wanted = {}
            if prepare is not None:
                prepare(plan, source.proto)
            fresh = self._attempt(source, plan)
        if isinstance(fresh, BaseException):
            raise fresh
        self.__dict__.update(vars(fresh))
        # The proto is let go: InferenceSession keeps the bytes, and one copy of the weights beside the runtime's is enough.
        self._folder, self._taken_out = source.folder, source.taken_out
        self._ops, self._places, self._epoch = sorted({node.op.name for node in plan.nodes}), plan.places, epoch
        living.add(self)
        self._feeds = Feeds(self, declared_scalars(source.proto))

    def _source(self) -> ModelSource:
        """The model as the session runs it, read anew."""
        if self._model_bytes is None:
            return read_model(self._model_path, self._folder)
        proto = ModelProto.FromString(self._model_bytes)
        remove_markers(proto)
        return ModelSource(proto, self._folder, self._taken_out)

    def _beside(
        self, source: ModelSource, options: onnxruntime.SessionOptions, prepare: Callable[[Plan, ModelProto], None]
    ) -> Session:
        """A session like this one, of a model that was made from this one's."""
        __tracebackhide__ = True
        other = Session.__new__(Session)
        other._arguments = (options, *self._arguments[1:])
        other._following, other._modules, other.filled = threading.RLock(), self._modules, ()
        other._changed = self._changed
        other._build(source, prepare)
        return other

    def _attempt(self, source: ModelSource, plan: Plan) -> onnxruntime.InferenceSession | BaseException:
        __tracebackhide__ = True
        options, providers, provider_options, kwargs = self._arguments
        add_markers(source.proto, [node.numbered for node in plan.nodes])
        options = session_options(options, source)
        keywords = dict(kwargs)
        if not providers or list(providers) == [_CPU]:
            # Falling back from the CPU to the CPU only repeats the failure and prints it.
            keywords.setdefault("enable_fallback", 0)

        def make() -> onnxruntime.InferenceSession:
            __tracebackhide__ = True
            if not plan.nodes and source.given is not None:
                return onnxruntime.InferenceSession(source.given, options, providers, provider_options, **keywords)
            options.register_custom_ops_library(get_library_path())
            data = source.proto.SerializeToString()
            return onnxruntime.InferenceSession(data, options, providers, provider_options, **keywords)

        try:
            with building(plan):
                made = passing(make, plan.epoch, always=not plan.wanted)
            if source.taken_out:
                weakref.finalize(made._sess, nothing, LENT[options]).atexit = False
            return made
        except Exception as error:
            if plan.wanted:
                return error
            refuse_unknown(source.proto, error)
            raise

    def _follow(self) -> None:
        """Make ready for the registry's current versions, building anew where outputs changed."""
        __tracebackhide__ = True
        with self._following:
            epoch = registry.epoch
            if epoch == self._epoch:
                return
            changes = [change for place in list(self._places) if (change := place.stale(epoch))]
            if changes:
                self._build_again()
                warnings.warn(f"session built anew: {'; '.join(sorted(set(changes)))}", SessionRebuilt, stacklevel=4)
            self._epoch = max(epoch, self._epoch)

    def _build_again(self) -> None:
        self._build(self._source())

    def set_providers(self, providers: Sequence[Any] | None = None, provider_options: Sequence[Any] | None = None) -> None:
        """As ``InferenceSession.set_providers``: the session is built anew."""
        if not self._ops:
            super().set_providers(providers, provider_options)
            return
        options, _, _, kwargs = self._arguments
        self._arguments = (options, providers, provider_options, kwargs)
        with self._following:
            self._build_again()

    def nodes(self) -> list[tuple[str, str, dict[str, Any]]]:
        """The nodes that run through ops: name or first output, op, attrs."""
        self._follow()
        places = sorted(self._places, key=lambda place: place.number)
        return [(label_of(place, places), place.op.name, attrs_of(place)) for place in places]

    @property
    def attrs(self) -> dict[str, dict[str, Any]]:
        """The attrs of each node that runs through an op, by the node's name or first output."""
        return {label: attrs for label, _, attrs in self.nodes()}

    def set_attrs(self, where: str | None = None, /, **attrs: Any) -> None:
        """Let nodes have other attrs from the next run on; the model stays as it is, and nothing is built anew.

        Parameters
        ----------
        where : str, optional
            A node's name, its first output, or an op; without it all nodes of the one op that has these attrs.
        **attrs
            Values of the kinds that the op takes. Each node gets a new instance, so that what the op kept on ``self`` is gone.

        Raises
        ------
        ModelError
            No such node or attr, several ops have it, or the value is of another kind. All is as it was.
        Exception
            What an op's ``__init__`` or ``infer`` raised, as itself.

        Notes
        -----
        A run in flight finishes with the attrs that it began with. Where the outputs' dtypes or shapes change with the attrs,
        ONNX Runtime's session is built anew, with the warning `SessionRebuilt`.

        Examples
        --------
        >>> import numpy as np, pyopnb
        >>> @pyopnb.pyop("doctest::Scale")
        ... class Scale:
        ...     def __init__(self, by: float = 2.0):
        ...         self.by = by
        ...     def compute(self, x):
        ...         return x * np.float32(self.by)
        >>> session = Session(pyopnb.model([pyopnb.node("doctest::Scale", "x", "y")], {"x": "float32[N]"}, "y"))
        >>> session.set_attrs(by=10.0)
        >>> session.attrs, session(x=np.float32([1]))["y"].tolist()
        ({'y': {'by': 10.0}}, [10.0])
        """
        __tracebackhide__ = True
        try:
            with self._following:
                self._follow()
                meant = chosen(self._places, where, attrs)
                made = [(place, place.prepared(self._epoch, merged(place, attrs))) for place in meant]
                before = self._changed
                self._changed = {**before, **{p.number: {**before.get(p.number, {}), **attrs} for p in meant}}
                if all(adopt for _, adopt in made):
                    since = registry.epoch + 1  # and then the epoch: a run that begins in it must find these attrs
                    for _, adopt in made:
                        adopt(since)  # type: ignore[misc]  # none of them is None
                    _bridge.set_epoch(registry.begin_epoch())
                    return
                try:
                    self._build_again()
                except BaseException:
                    self._changed = before
                    raise
            warnings.warn(f"session built anew: {', '.join(attrs)} changed outputs", SessionRebuilt, stacklevel=2)
        except PyopError as error:
            raise error.with_traceback(None)  # noqa: B904  # as in __init__

    # ---- running -------------------------------------------------------------------------------------------------------------

    def _pass(self, call: Callable[[], Any], feeds: Any) -> Any:
        __tracebackhide__ = True
        try:
            if self._epoch != registry.epoch:
                self._follow()
            return passing(call, self._epoch, keep=(feeds, self._sess))
        except PyopError as error:
            raise error.with_traceback(None)  # noqa: B904  # as in __init__

    def run(self, output_names: Sequence[str] | None, input_feed: Mapping[str, Any], run_options: Any = None) -> list[Any]:
        """As ``InferenceSession.run``; feeds are checked, and an op's exception arrives as itself.

        Raises
        ------
        FeedError
            A feed has another name, dtype or shape than the model's inputs.
        Exception
            Whatever an op raised, with a note that names node, op and version; ONNX Runtime's error is its context.
        """
        __tracebackhide__ = True
        try:
            if self._epoch != registry.epoch:
                self._follow()  # before the feeds are checked: a rebuilt session may take others
            feeds = self._feeds.checked(input_feed)
        except PyopError as error:
            raise error.with_traceback(None)  # noqa: B904  # as in __init__
        options = QUIET if run_options is None else run_options
        if self._feeds.exotic(output_names) or onnxruntime.OrtValue in map(type, feeds.values()):
            return self._run_exotic(output_names, feeds, options)
        return list(self._pass(lambda: super(Session, self).run(output_names, feeds, options), feeds))

    def _run_exotic(self, output_names: Sequence[str] | None, feeds: dict[str, Any], options: Any) -> list[Any]:
        """A run with dtypes that onnxruntime has no arrays for."""
        names = list(output_names or self._feeds.outputs)
        values = {}
        for name, value in feeds.items():
            if not isinstance(value, np.ndarray):
                values[name] = value
            elif value.dtype.kind in "OUT":
                values[name] = texts_to_ortvalue(value)
            else:
                values[name] = onnxruntime.OrtValue.ortvalue_from_numpy(value)
        outputs = self._pass(lambda: super(Session, self).run_with_ort_values(names, values, options), values)
        kinds = [self._feeds.outputs.get(name) for name in names]
        return [from_ortvalue(v, kind.dtype if kind else None) for v, kind in zip(outputs, kinds, strict=True)]

    def run_with_ort_values(self, output_names: Any, input_dict_ort_values: Any, run_options: Any = None) -> Any:
        """As ``InferenceSession.run_with_ort_values``; an op's exception arrives as itself."""
        return self._pass(
            lambda: super(Session, self).run_with_ort_values(output_names, input_dict_ort_values, run_options or QUIET),
            input_dict_ort_values,
        )

    def run_with_iobinding(self, iobinding: Any, run_options: Any = None) -> None:
        """As ``InferenceSession.run_with_iobinding``; an op's exception arrives as itself."""
        self._pass(lambda: super(Session, self).run_with_iobinding(iobinding, run_options or QUIET), iobinding)

    def run_with_ortvaluevector(self, *arguments: Any) -> None:
        """As ``InferenceSession.run_with_ortvaluevector``; an op's exception arrives as itself."""
        self._pass(lambda: super(Session, self).run_with_ortvaluevector(*arguments), arguments)

    def __call__(self, *feeds: Any, **named: Any) -> Result:
        """Run with feeds by name, in the order of the model's inputs, or in one dict; the result can be indexed and unpacked.

        Examples
        --------
        ``session(x=x)["y"]``, ``y, = session(x)``, ``session({"/x:0": x})``
        """
        __tracebackhide__ = True
        given = self._given(feeds, named)
        outputs = list(self._feeds.outputs)
        return Result(dict(zip(outputs, self.run(outputs, given), strict=True)))

    def _given(self, feeds: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
        __tracebackhide__ = True
        names = list(self._feeds.types)
        if len(feeds) == 1 and isinstance(feeds[0], Mapping) and all(self._feeds.types.values()):  # no input is a map itself
            return {**feeds[0], **named}
        if len(feeds) > len(names):
            raise TypeError(
                f"the model has {len(names)} inputs ({', '.join(map(sanitize, names))}), and {len(feeds)} were given"
            )
        return {**dict(zip(names, feeds, strict=False)), **named}

    def trace(
        self,
        *feeds: Any,
        only: str | Sequence[str] | None = None,
        level: str = "all",
        bodies: bool = False,
        check: bool = True,
        times: bool | int = True,
        optimised: bool = True,
        progress: Progress | bool = False,
        **named: Any,
    ) -> Trace:
        """Run, and look at every named tensor.

        Parameters
        ----------
        *feeds, **named
            As for a call of the session. A feed that is called as a parameter here goes into a dict of feeds by name, given
            alone: ``session.trace({"level": x})``.
        only : str or sequence of str, optional
            The tensors to look at: their names, or globs of them (``"layer1/*"``). The model's outputs are always there.
        level : {"all", "summaries"}
            ``"all"`` keeps every tensor. ``"summaries"`` lets each go once its `Summary` is made, and keeps the outputs.
        bodies : bool
            Also look into the bodies of If, Loop and Scan, at tensors of the dtypes that ops can have. Their names lead there:
            ``"choose/then_branch/t"``, and ``"loop/body/t[3]"`` for the fourth time that the body gave it in this run.
        check : bool
            Compare the outputs with those of an unexposed run.
        times : bool or int
            Measure the times of nodes: in this run, or by a number from 2 on, as the medians of so many more runs after it.
        optimised : bool
            False lets ONNX Runtime run the graph as it stands in the file, without fusions; then there is nothing to check.
        progress : bool or callable
            True shows a bar: in the cell's output where ``%load_ext pyopnb`` ran, as text elsewhere. A callable is called with
            two numbers, after each tensor of the main graph: how many there were, and of how many.

        Returns
        -------
        Trace

        Raises
        ------
        FeedError
            A feed does not fit, or a name in ``only`` is that of no tensor.
        Exception
            Whatever an op raised, as itself.

        Notes
        -----
        The run is that of a session which is built beside this one and let go again: the weights are in memory twice
        meanwhile. What is exposed cannot be fused, and a fused kernel can round otherwise than its parts. So the outputs are
        compared with those of a run of this session, and ``trace.exposure`` says what exposing changed.

        An op that keeps state runs once on its own instance, in the unexposed run, and with the same state once on a copy of
        the instance, in the exposed one; side effects outside the instance happen twice. With ``check=False`` or
        ``optimised=False``, and where an instance cannot be copied, the exposed run is the only one, on the op's own instance.
        More runs for ``times`` are more calls on the instance that the exposed run had.

        With ``level="summaries"`` a run needs, beyond the memory of an unexposed one, that of the largest tensor: the copy that
        is looked at. Sequences, and tensors of dtypes that ops cannot have, are kept to the end of the run; feeds and outputs
        are kept by the trace. The times of If, Loop and Scan contain the look into their bodies.

        Examples
        --------
        >>> import numpy as np, pyopnb
        >>> model = pyopnb.model([pyopnb.node("Exp", "x", "e"), pyopnb.node("Neg", "e", "y")], {"x": "float32[2]"}, "y")
        >>> trace = Session(model).trace(x=np.float32([0, 1]))
        >>> trace["e"]
        array([1.       , 2.7182817], dtype=float32)
        >>> trace.summaries["y"].least, list(trace)
        (-2.7182817459106445, ['x', 'e', 'y'])
        """
        __tracebackhide__ = True
        from pyopnb.runtime.trace.run import Wanted  # what most sessions never need

        try:
            wanted = Wanted(only, level, bodies, check, times, optimised, progress)
        except PyopError as error:
            raise error.with_traceback(None)  # noqa: B904  # as in __init__
        return self._look(feeds, named, wanted)

    def _look(self, feeds: Sequence[Any], named: Mapping[str, Any], wanted: Wanted) -> Trace:
        __tracebackhide__ = True
        from pyopnb.runtime.trace.run import run_traced

        try:
            self._follow()  # here, so that a warning names the user's line
            return run_traced(self, self._given(feeds, named), wanted)
        except PyopError as error:
            raise error.with_traceback(None)  # noqa: B904  # as in __init__

    def __repr__(self) -> str:
        if "_feeds" not in vars(self):
            return "Session (not built)"  # its __init__ raised, and a debugger shows the frame
        takes = ", ".join(f"{sanitize(n)}: {t or 'no tensor'}" for n, t in self._feeds.types.items())
        gives = ", ".join(f"{sanitize(n)}: {t or 'no tensor'}" for n, t in self._feeds.outputs.items())
        return f"Session ({takes}) -> ({gives}), ops: {', '.join(self._ops) or 'none'}"


def _filled(source: ModelSource) -> tuple[FilledNode, ...]:
    from pyopnb.onnx_reference.fill import Filled, fill_source  # what most sessions never need

    done = fill_source(source)
    source.given = None  # the bytes or the file, which are not what is to be loaded now
    if done:
        warnings.warn(Filled(done), stacklevel=3)
    return tuple(done)


def run_kernels(model: ModelProto, feeds: Mapping[str, Any]) -> list[Any]:
    """Run a model once through ONNX Runtime's own kernels, also where the registry has ops of their names."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=[_CPU], enable_fallback=0)
    return list(session.run(None, feeds, QUIET))


def run_each(model: ModelProto, feeds: Sequence[Mapping[str, Any]], level: str = "all") -> list[dict[str, Any]]:
    """Run a model on several feeds in one session; what it gives by name.

    Parameters
    ----------
    model : ModelProto
    feeds : sequence of mapping
    level : str
        Of ONNX Runtime's optimisations: ``"all"``, ``"no"``, ``"basic"`` …
    """
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    name = "ORT_DISABLE_ALL" if level == "no" else f"ORT_ENABLE_{level.upper()}"
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, name)
    session = Session(model, options, [_CPU])
    names = [info.name for info in model.graph.output]
    return [dict(zip(names, session.run(names, one), strict=True)) for one in feeds]
