"""Sessions: an ``onnxruntime.InferenceSession`` whose nodes can be ops of the registry."""

from __future__ import annotations

import copy
import inspect
import os
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import onnxruntime
from onnx import ModelProto

from pyopnb.common import hand_downs, messages, sanitize
from pyopnb.engine.models.model_files import ModelSource, read_model, to_model
from pyopnb.engine.ops.argument_checks import check_arguments, describe
from pyopnb.engine.ops.result import Result
from pyopnb.engine.runtime import _bridge
from pyopnb.engine.runtime.background import run_in_background
from pyopnb.engine.runtime.exceptions import live_sessions
from pyopnb.engine.runtime.legacy_pyop import checked_modules
from pyopnb.engine.runtime.notices import warn_of_lowered
from pyopnb.engine.runtime.ortvalues import checked_ortvalues
from pyopnb.engine.runtime.runtime_options import (
    CPU,
    QUIET,
    check_providers,
    check_run_options,
    model_folder,
)
from pyopnb.engine.runtime.session.build import build_state
from pyopnb.engine.runtime.session.config import SessionConfig
from pyopnb.engine.runtime.session.live_attrs import (
    attrs_of,
    changed_attrs,
    labels_of,
    merge_attrs,
    select_kernels,
)
from pyopnb.engine.runtime.session.state import SessionState, SharedState
from pyopnb.engine.runtime.settings import Setting
from pyopnb.errors import Filled, InputError, SessionRebuilt

if TYPE_CHECKING:
    from pyopnb.engine.models.filled_node import FilledNode
    from pyopnb.engine.ops.types import TensorType

__all__ = ["Session"]

_KEYWORDS = ("disabled_optimizers", "enable_fallback", "read_config_from_model")
"""The keys of ``**kwargs`` that ``InferenceSession`` reads; it takes all others silently."""


class Session(onnxruntime.InferenceSession):  # type: ignore[misc]  # onnxruntime ships no types
    """An ``onnxruntime.InferenceSession`` in which ops of the registry run.

    Parameters
    ----------
    model : ModelProto, bytes or path
        Or an object that holds or writes a model: the torch ``ONNXProgram``, an onnxscript
        function, an ``onnx_ir.Model``. External data is found beside a path. The model is never
        changed.
    sess_options, providers, provider_options, **kwargs
        As for ``InferenceSession``.
    modules : sequence of str
        Exact names of the modules from which nodes of the retired PyOp may take their classes; see
        `ModuleRefused`.
    base_dir : path, optional
        The folder of the external data of a model in memory.
    fill : bool
        Let the ONNX reference implementation or the catalog run the nodes that the runtime lacks,
        as `pyopnb.fill` does.

    Attributes
    ----------
    filled : tuple of FilledNode
        What ``fill=True`` did; the warning `Filled` says the same.
    lowered : tuple of str
        Versions that were too new for the installed onnxruntime, and were lowered because the model
        means the same in older ones: ``("IR version 14 → 13", "opset 28 → 26")``. The warning
        `VersionsLowered` says so the first time.

    Raises
    ------
    ModelError
        The model, a node or an attr cannot be used.
    ModuleRefused
        A node names a module that was not allowed.
    InputError
        There is no such keyword argument.
    Exception
        The exception that an op's ``__init__`` or ``infer`` raised, with a note.

    Notes
    -----
    After a redefinition, the next run uses the new version; a run in progress finishes with the
    versions that it started with. If the new version has outputs of another dtype or shape, the
    ONNX Runtime session is rebuilt, with the warning `SessionRebuilt`.

    Only the ops of the model are registered with ONNX Runtime. If you pass the same options to
    several sessions, they collect the ops of all of them, because nothing can be removed from
    options; each such session then takes as long to create as if it had all of these ops.

    Examples
    --------
    >>> import numpy as np, pyopnb
    >>> @pyopnb.pyop("doctest::Twice")
    ... class Twice:
    ...     def compute(self, x):
    ...         return x * 2
    >>> session = Session(
    ...     pyopnb.model([pyopnb.node("doctest::Twice", "x", "y")], {"x": "float32[N]"}, "y")
    ... )
    >>> session(x=np.float32([1, 2]))
    y: float32[2]
    [2. 4.]
    """

    @check_arguments
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
        # Frames between the user's line and the error are of no interest.
        __tracebackhide__ = True
        # A script that only defines ops never needs these.
        from pyopnb.engine.models.opset_versions import lower_versions, version_numbers

        _refuse_keywords(kwargs)
        if not (sess_options is None or isinstance(sess_options, onnxruntime.SessionOptions)):
            expected = "onnxruntime.SessionOptions, or None"
            next_ = "onnxruntime.SessionOptions()"
            raise InputError(
                "Session, sess_options", expected=expected, got=describe(sess_options), next=next_
            )
        # Refuse wrong arguments before anything is read or built.
        check_providers(providers, provider_options)
        self._prepare()
        allowed = checked_modules(modules)
        config = SessionConfig(sess_options, providers, provider_options, kwargs, allowed)
        folder = model_folder(sess_options) if base_dir is None else base_dir
        source = read_model(model, folder, absent=sess_options is not None)
        lowered = version_numbers(source.proto)
        self.filled = _fill(source) if fill else ()
        lower_versions(source.proto, filled=fill)
        self.lowered = lowered()
        if self.lowered:
            # The original bytes or file no longer match the model that is loaded.
            source.given = None
            warn_of_lowered(self.lowered, source.proto, self.filled)
        state = self._swap(build_state(replace(config, filled=bool(self.filled)), source))
        if state.left_out:
            text = f"this session runs without {state.left_out}"
            warnings.warn(text, UserWarning, stacklevel=messages.level_of_user())

    def _prepare(self) -> None:
        self._updating = threading.RLock()
        self._attr_listeners: set[Callable[[], None]] = set()  # called after attrs were set
        live_sessions.add(self)

    def _swap(self, state: SessionState) -> SessionState:
        """Switch to another state in one assignment, so that no thread sees half of it."""
        self._state = state
        return state

    def __getattr__(self, name: str) -> Any:
        # The attributes of `InferenceSession` belong to the session that is swapped.
        state = self.__dict__.get("_state")
        if state is None or name.startswith("__"):
            raise AttributeError(
                f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self
            )
        return getattr(state.runtime, name)

    @property
    def _enable_fallback(self) -> bool:
        return bool(self._state.runtime._enable_fallback)

    @_enable_fallback.setter
    def _enable_fallback(self, value: bool) -> None:
        self._state.runtime._enable_fallback = value

    # ---- for code that builds on sessions --------------------------------------------------------

    @property
    def state(self) -> SessionState:
        """Return the state of the last run: types of feeds and outputs, ops, options."""
        return self._state

    def update(self) -> SessionState:
        """Return the state for the next run, brought up to date with the registry."""
        __tracebackhide__ = True
        # Almost every run ends here: nothing was redefined since the last one,
        # and no lock is taken.
        state = self._state
        if state.is_ready:
            return state
        return _bridge.locked(self._updating, self._catch_up)  # type: ignore[no-any-return]

    def subscribe(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call a function after each change of attrs, until the returned function is called."""
        self._attr_listeners.add(listener)
        return partial(self._attr_listeners.discard, listener)

    # ---- building --------------------------------------------------------------------------------

    @classmethod
    def _with_state(
        cls,
        filled: tuple[FilledNode, ...],
        lowered: tuple[str, ...],
        make_state: Callable[[], SessionState],
    ) -> Session:
        """Make a session from an existing state: derived, shared or unpickled."""
        __tracebackhide__ = True
        session = cls.__new__(cls)
        session._prepare()
        session.filled, session.lowered = filled, lowered
        session._swap(make_state())
        return session

    def _catch_up(self) -> SessionState:
        __tracebackhide__ = True
        state = self._state
        if state.is_ready:
            return state  # another thread was faster
        following, changes = state.advance()
        if changes:
            return self._rebuild(following, state.setting, changes)
        return self._swap(following)

    def _rebuild(
        self, state: SessionState, setting: Setting, reason: str = "", **changes: Any
    ) -> SessionState:
        """Rebuild the ONNX Runtime session with new attrs or configuration."""
        __tracebackhide__ = True
        config = replace(state.config, **changes)
        rebuilt = self._swap(build_state(config, state.source(), setting=setting))
        if reason:
            warnings.warn(
                f"session rebuilt: {reason}", SessionRebuilt, stacklevel=messages.level_of_user()
            )
        return rebuilt

    def set_providers(
        self, providers: Sequence[Any] | None = None, provider_options: Sequence[Any] | None = None
    ) -> None:
        """Set the providers as ``InferenceSession.set_providers`` does: the session is rebuilt.

        Raises
        ------
        InputError
            The providers are not a list of names, or the options are not a list of equally many
            dicts.
        """
        check_providers(providers, provider_options, available=True)
        _bridge.locked(self._updating, self._set_providers, providers, provider_options)

    def _set_providers(
        self, providers: Sequence[Any] | None, provider_options: Sequence[Any] | None
    ) -> None:
        state = self._state
        changes: dict[str, Any] = {"providers": providers, "provider_options": provider_options}
        # `InferenceSession.set_providers` builds its session again, and without
        # the plan that ops need.
        if state.ops:
            self._rebuild(state, state.setting, **changes)
            return
        # Other threads must not see a half-changed session.
        runtime = copy.copy(state.runtime)
        runtime.set_providers(providers, provider_options)
        only_cpu = runtime.get_providers() == [CPU]
        # Copies of this session, also in other processes, inherit them.
        config = replace(state.config, **changes)
        self._swap(replace(state, config=config, runtime=runtime, only_cpu=only_cpu))

    def nodes(self) -> list[tuple[str, str, dict[str, Any]]]:
        """List the nodes that run through ops.

        Returns
        -------
        list of (str, str, dict)
            Name or first output, op, and attrs of each node.
        """
        state = self.update()
        labels = labels_of(state.kernels)
        rows = []
        for kernel, label in labels.items():
            rows.append((label, kernel.op.name, attrs_of(kernel, state.values(kernel))))
        return rows

    def to_model_proto(self) -> ModelProto:
        """Return the model of the session, with the attrs that `set_attrs` has changed.

        Functions that take a model also take a session, and call this method.

        Returns
        -------
        ModelProto
            A copy. A session in this process finds its external data.
        """
        return to_model(self.update().source(in_use=True))

    @property
    def attrs(self) -> dict[str, dict[str, Any]]:
        """Return the attrs of each node that runs through an op, by its name or first output."""
        return {label: attrs for label, _, attrs in self.nodes()}

    @property
    def changed_attrs(self) -> dict[str, dict[str, Any]]:
        """Return the attrs that `set_attrs` has changed, by node."""
        state = self.update()
        model = state.setting.model
        changes = {}
        for kernel, label in labels_of(state.kernels).items():
            # `set_attrs` has met no other nodes.
            if kernel.number not in model:
                continue
            attrs = changed_attrs(kernel, state.values(kernel), model[kernel.number])
            # An attr that was set back to the model's value is no change.
            if attrs:
                changes[label] = attrs
        return changes

    @check_arguments
    def with_attrs(self, where: str | None = None, /, **attrs: Any) -> Session:
        """Make a session with its own attrs that shares the ONNX Runtime session.

        Nothing is rebuilt. The new session starts with this session's attrs. From then on,
        `set_attrs` of one session does not change the other. Redefined ops serve both.

        Parameters
        ----------
        where, **attrs
            As for `set_attrs`.

        Returns
        -------
        Session
            It follows redefined ops like this one.

        Raises
        ------
        ModelError, Exception
            As for `set_attrs`.

        Notes
        -----
        Its nodes have their own instances, so state on ``self`` is not shared. If the attrs change
        the dtypes or shapes of outputs, it gets its own ONNX Runtime session, with the warning
        `SessionRebuilt`.

        Examples
        --------
        >>> import numpy as np, pyopnb
        >>> @pyopnb.pyop("doctest::Scale")
        ... class Scale:
        ...     def __init__(self, by: float = 2.0):
        ...         self.by = by
        ...     def compute(self, x):
        ...         return x * np.float32(self.by)
        >>> session = Session(
        ...     pyopnb.model([pyopnb.node("doctest::Scale", "x", "y")], {"x": "float32[N]"}, "y")
        ... )
        >>> x = np.float32([1])
        >>> session.with_attrs(by=10.0)(x)["y"].tolist(), session(x)["y"].tolist()
        ([10.0], [2.0])
        """
        __tracebackhide__ = True
        session = Session._with_state(self.filled, self.lowered, lambda: SharedState.of(self))
        session.update()
        if attrs:
            session.set_attrs(where, **attrs)
        return session

    @check_arguments
    def set_attrs(self, where: str | None = None, /, **attrs: Any) -> None:
        """Change attrs of nodes from the next run on.

        The model does not change, and nothing is rebuilt.

        Parameters
        ----------
        where : str, optional
            The name of a node, its first output, or an op. By default, all nodes of the only op
            that has these attrs.
        **attrs
            Values of the kinds that the op takes. Each node gets a new instance, so that state on
            ``self`` is lost.

        Raises
        ------
        ModelError
            There is no such node or attr, several ops have the attr, or the value is of another
            kind. Nothing is changed then.
        Exception
            The exception that an op's ``__init__`` or ``infer`` raised.

        Notes
        -----
        A run in progress finishes with the attrs that it started with. If the attrs change the
        dtypes or shapes of outputs, the ONNX Runtime session is rebuilt, with the warning
        `SessionRebuilt`.

        Examples
        --------
        >>> import numpy as np, pyopnb
        >>> @pyopnb.pyop("doctest::Scale")
        ... class Scale:
        ...     def __init__(self, by: float = 2.0):
        ...         self.by = by
        ...     def compute(self, x):
        ...         return x * np.float32(self.by)
        >>> session = Session(
        ...     pyopnb.model([pyopnb.node("doctest::Scale", "x", "y")], {"x": "float32[N]"}, "y")
        ... )
        >>> session.set_attrs(by=10.0)
        >>> session.attrs, session(x=np.float32([1]))["y"].tolist()
        ({'y': {'by': 10.0}}, [10.0])
        """
        __tracebackhide__ = True
        _bridge.locked(self._updating, self._set_attrs, where, attrs)
        # Outside the lock, as a listener may run the session.
        for listener in list(self._attr_listeners):
            listener()

    @check_arguments
    def reset(self, where: str | None = None) -> None:
        """Give nodes new instances, so that the state that ops keep on ``self`` starts afresh.

        The attrs stay, and nothing is rebuilt.

        Parameters
        ----------
        where : str, optional
            The name of a node, its first output, or an op. By default, all nodes that run through
            ops.

        Raises
        ------
        ModelError
            There is no such node or op.
        Exception
            The exception that an op's ``__init__`` or ``infer`` raised; then all instances stay.

        Notes
        -----
        A run in progress finishes with the instances that it started with. Sessions made by
        `with_attrs` have instances of their own.

        Examples
        --------
        >>> import numpy as np, pyopnb
        >>> @pyopnb.pyop("doctest::Total")
        ... class Total:
        ...     def __init__(self):
        ...         self.total = np.float32(0)
        ...     def compute(self, x):
        ...         self.total = self.total + x
        ...         return self.total
        >>> session = Session(
        ...     pyopnb.model([pyopnb.node("doctest::Total", "x", "y")], {"x": "float32[N]"}, "y")
        ... )
        >>> x = np.float32([1])
        >>> [session(x)["y"].tolist() for _ in range(2)]
        [[1.0], [2.0]]
        >>> session.reset()
        >>> session(x)["y"].tolist()
        [1.0]
        """
        __tracebackhide__ = True
        # A session without ops has no state.
        if where is not None or self.update().kernels:
            _bridge.locked(self._updating, self._set_attrs, where, {})

    def _set_attrs(self, where: str | None, attrs: Mapping[str, Any]) -> None:
        __tracebackhide__ = True
        state = self.update()
        before = state.setting
        values = dict(before.values)
        changes = dict(before.changes)
        model = dict(before.model)
        outputs_changed = False
        for kernel in select_kernels(state.kernels, where, attrs):
            earlier = state.values(kernel)
            # This calls the op's `__init__` and `infer`; where they raise, nothing has changed yet.
            prepared = kernel.prepare_attrs(state.epoch, merge_attrs(kernel, earlier, attrs))
            if prepared is None:
                outputs_changed = True
            else:
                values[kernel.number] = prepared
            changes[kernel.number] = {**changes.get(kernel.number, {}), **attrs}
            # Before its first change, a node has the attrs of the model.
            model.setdefault(kernel.number, earlier)
        if outputs_changed:
            reason = f"{', '.join(attrs) or 'reset'} changed outputs"
            self._rebuild(state, Setting({}, changes, model), reason)
        else:
            self._swap(state.with_setting(Setting(values, changes, model)))

    # ---- running ---------------------------------------------------------------------------------

    @messages.hide_internal_frames
    def run(
        self,
        output_names: Sequence[str] | None = None,
        input_feed: Mapping[str, Any] | None = None,
        run_options: Any = None,
    ) -> list[Any]:
        """Run as ``InferenceSession.run`` does, with checks of each feed.

        An op's exception arrives unchanged.

        Returns
        -------
        list
            An array for each output; a list of arrays for a sequence, None for an empty optional.

        Raises
        ------
        InputError
            A feed's name, dtype or shape does not fit the model's inputs.
        Exception
            The exception that an op raised, with a note that names node, op and version; the ONNX
            Runtime error is its context.
        """
        __tracebackhide__ = True
        if input_feed is None:
            raise InputError(
                "run, input_feed",
                expected="a dict of arrays, after the outputs' names or None",
                got="nothing",
                next="session.run(None, feeds), or session(feeds)",
            )
        return self.update().run(output_names, input_feed, run_options)

    @messages.hide_internal_frames
    def run_async(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        callback: Callable[[list[Any], Any, str], Any],
        user_data: Any,
        run_options: Any = None,
    ) -> None:
        """Run as ``InferenceSession.run_async`` does; a session with ops uses a Python thread.

        Parameters
        ----------
        output_names, input_feed, run_options
            As for `run`.
        callback : callable
            Called on that thread with the list of results, ``user_data`` and a str that is empty or
            the error message. After an error the list is empty, and the attribute ``exception`` of
            the str is the exception, an op's own with its traceback.
        user_data : object
            Passed to the callback as it is.

        Raises
        ------
        InputError
            A feed does not fit.
        """
        __tracebackhide__ = True
        state = self.update()
        check_run_options(run_options)
        if not callable(callback):
            raise InputError(
                "run_async, callback",
                expected="a function of three arguments",
                got=describe(callback),
                next="lambda results, user_data, error: print(results)",
            )
        feeds, with_ortvalues = state.feeds.check(input_feed)
        state.check_output_names(output_names)
        # On the ONNX Runtime threads, nothing says which run an op's call belongs to.
        if not (state.ops or with_ortvalues or state.feeds.needs_ortvalues(output_names)):
            state.runtime.run_async(output_names, feeds, callback, user_data, run_options)
            return
        run_in_background(lambda: state.run(output_names, feeds, run_options), callback, user_data)

    @messages.hide_internal_frames
    def run_with_ort_values(
        self, output_names: Any, input_dict_ort_values: Any, run_options: Any = None
    ) -> Any:
        """Run as ``InferenceSession.run_with_ort_values`` does.

        An op's exception arrives unchanged.

        Returns
        -------
        list of OrtValue
            The outputs, in the order of ``output_names`` or of the model.
        """
        __tracebackhide__ = True
        state = self.update()
        feeds = checked_ortvalues(input_dict_ort_values)
        state.feeds.check_names(feeds)
        state.check_output_names(output_names)
        options = QUIET if run_options is None else run_options
        return state.call(
            state.runtime.run_with_ort_values,
            (output_names, feeds, options),
            feeds,
            options=options,
        )

    def io_binding(self) -> onnxruntime.IOBinding:
        """Make a binding of the session as it is now; after a rebuild it takes another.

        Returns
        -------
        onnxruntime.IOBinding
            For `run_with_iobinding` of this session.
        """
        runtime = self.update().runtime
        binding = onnxruntime.IOBinding(runtime)
        # Older versions of onnxruntime do not keep the bound values.
        binding._session = runtime._sess
        return binding

    @messages.hide_internal_frames
    def run_with_iobinding(self, iobinding: Any, run_options: Any = None) -> None:
        """Run as ``InferenceSession.run_with_iobinding`` does.

        An op's exception arrives unchanged.

        Raises
        ------
        InputError
            The binding is of another session, or from before a rebuild of this one.
        """
        __tracebackhide__ = True
        state = self.update()
        if not isinstance(iobinding, onnxruntime.IOBinding):
            next_ = "session.io_binding()"
            raise InputError(
                "run_with_iobinding, iobinding",
                expected="an IOBinding",
                got=describe(iobinding),
                next=next_,
            )
        # In older versions, a binding that `io_binding` has not made does not list its values.
        if getattr(iobinding, "_session", state.runtime._sess) is not state.runtime._sess:
            raise InputError(
                "run_with_iobinding, iobinding",
                expected="a binding of the session as it is now",
                got="one of another session, or from before this one was rebuilt",
                next="session.io_binding(), and bind again",
            )
        options = QUIET if run_options is None else run_options
        state.call(state.runtime.run_with_iobinding, (iobinding, options), options=options)

    @messages.hide_internal_frames
    def run_with_ortvaluevector(self, *arguments: Any) -> None:
        """Run as ``InferenceSession.run_with_ortvaluevector`` does.

        An op's exception arrives unchanged.
        """
        __tracebackhide__ = True
        state = self.update()
        state.call(
            state.runtime.run_with_ortvaluevector,
            arguments,
            options=arguments[0] if arguments else QUIET,
        )

    def __call__(self, /, *feeds: Any, **named: Any) -> Result:
        """Run with feeds by name, in the order of the model's inputs, or in one dict.

        Python numbers and lists of them get the dtype of the input, if that has their values;
        arrays keep their dtype. A dimension that several inputs name must have one size; `run`
        leaves that to ONNX Runtime, which may broadcast.

        Returns
        -------
        Result
            Can be indexed and unpacked.

        Raises
        ------
        InputError, Exception
            As for `run`.

        Examples
        --------
        ``session(x=x)["y"]``, ``y, = session(x)``, ``session({"/x:0": x})``
        """
        __tracebackhide__ = True
        return self._result(feeds, named)

    @messages.hide_internal_frames
    def _result(self, feeds: Sequence[Any], named: Mapping[str, Any]) -> Result:
        __tracebackhide__ = True
        # This comes before the feeds are checked: a rebuilt session may take others.
        state = self.update()
        values = state.run(None, state.feeds.by_name(feeds, named))
        return Result(dict(zip(state.feeds.output_names, values, strict=True)))

    @check_arguments
    def trace(
        self,
        /,
        *feeds: Any,
        only: str | Sequence[str] | None = None,
        level: Literal["all", "summaries"] = "all",
        bodies: bool = False,
        check: bool = True,
        times: bool = True,
        optimized: bool = True,
        **named: Any,
    ) -> Any:
        """Run, and record every named tensor.

        Parameters
        ----------
        *feeds, **named
            As in a call of the session. If a feed has the name of one of the parameters below, pass
            one dict of all feeds: ``session.trace({"level": x})``.
        only : str or sequence of str, optional
            The tensors to record: names, or globs of names (``"layer1/*"``). The model's outputs
            are always recorded.
        level : {"all", "summaries"}
            ``"all"`` keeps every tensor. ``"summaries"`` keeps only the outputs and a `Summary` of
            each tensor.
        bodies : bool
            Also record tensors in the bodies of If, Loop and Scan, if they have dtypes that ops can
            have. Their names are paths: ``"choose/then_branch/t"``, and ``"loop/body/t[3]"`` for
            the fourth iteration.
        check : bool
            Compare the outputs with a normal run.
        times : bool
            Measure the time of each node, see `Times`; `profile` measures many runs.
        optimized : bool
            False makes ONNX Runtime run the graph as it is in the file, without fusions; then there
            is nothing to check.

        Returns
        -------
        Trace
            The feeds, then the tensors in the order in which they were computed, by name.

        Raises
        ------
        InputError
            A feed does not fit, or ``only`` has a name that no tensor has.
        Exception
            The exception that an op or ONNX Runtime raised, with a note that names the node. Its
            attribute ``trace`` is a `Trace` of the tensors that were computed before, from one more
            run on copies of the ops' instances; it is absent if there are none, or they cannot be
            copied.

        Notes
        -----
        The run uses a second session, which is built for it and released afterwards; meanwhile, the
        weights are in memory twice. Nodes whose tensors are recorded cannot be fused, and a fused
        kernel can round differently from its parts. So the outputs are compared with a normal run
        of this session, and ``trace.exposure`` says whether recording changed them.

        An op with state runs on its own instance in the normal run, and on a copy of the instance,
        with the same state, in the recorded run. Side effects outside the instance happen twice.
        With ``check=False`` or ``optimized=False``, or if an instance cannot be copied, there is
        only the recorded run, on the op's own instance.

        With ``level="summaries"``, a run needs as much memory as a normal one plus one copy of the
        largest tensor, which is copied to summarize it. Sequences, and tensors of dtypes that ops
        cannot have, are kept until the run ends. The trace keeps feeds and outputs.

        Every microsecond of the run belongs to a node or to ``trace.times.unattributed``. Nodes
        that ONNX Runtime ran as one share one time; which nodes those are depends on the tensors
        that are recorded, all by default or the ones in ``only``. The time of If, Loop or Scan
        includes its bodies.

        Examples
        --------
        >>> import numpy as np, pyopnb
        >>> model = pyopnb.model(
        ...     [pyopnb.node("Exp", "x", "e"), pyopnb.node("Neg", "e", "y")],
        ...     {"x": "float32[2]"},
        ...     "y",
        ... )
        >>> trace = Session(model).trace(x=np.float32([0, 1]))
        >>> trace["e"]
        array([1.       , 2.7182817], dtype=float32)
        >>> trace.summaries["y"].least, list(trace)
        (-2.7182817459106445, ['x', 'e', 'y'])
        """
        __tracebackhide__ = True
        tracer = hand_downs.handed_down("tracer")
        options = tracer.TraceOptions(only, level, bodies, check, times, optimized)
        state = self.update()
        return tracer.run_traced(state, state.feeds.by_name(feeds, named), options)

    @messages.hide_internal_frames
    def __reduce_ex__(self, protocol: Any) -> Any:
        """Take the session apart for a pickle; see `pyopnb.engine.runtime.session.pickling`."""
        __tracebackhide__ = True
        from pyopnb.engine.runtime.session.pickling import (
            reduce_session,  # most sessions never need it
        )

        return reduce_session(self)

    def __repr__(self) -> str:
        if "_state" not in vars(self):
            # Its __init__ raised, and a debugger shows the frame.
            return "Session (not built)"
        feeds = self._state.feeds
        inputs = _format_ports(feeds.types, feeds.others)
        outputs = _format_ports(feeds.outputs, feeds.others)
        ops = ", ".join(self._state.ops) or "none"
        return f"Session ({inputs}) -> ({outputs}), ops: {ops}"


def _format_ports(types: Mapping[str, TensorType | None], others: Mapping[str, str]) -> str:
    ports = []
    for name, tensor_type in types.items():
        ports.append(f"{sanitize(name)}: {tensor_type or others.get(name, 'no tensor')}")
    return ", ".join(ports)


def _refuse_keywords(keywords: Mapping[str, Any]) -> None:
    __tracebackhide__ = True
    # `InferenceSession` would take a misspelled one silently.
    for name in keywords:
        if name not in _KEYWORDS:
            known = (*inspect.signature(Session).parameters, *_KEYWORDS)
            got = f"{name}="
            raise InputError(
                "Session",
                expected="one of its parameters",
                got=got,
                next=messages.suggest(name, known),
            )


def _fill(source: ModelSource) -> tuple[FilledNode, ...]:
    filled = hand_downs.handed_down("fill")(source)
    # The original bytes or file no longer match the model that is loaded.
    source.given = None
    if filled:
        warnings.warn(Filled(filled), stacklevel=messages.level_of_user())
    return tuple(filled)
