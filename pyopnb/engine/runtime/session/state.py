"""The states of a session: ready or outdated, in its own ONNX Runtime session or in another's.

The check of feeds and the call of ONNX Runtime are in one file, because every run needs both.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import onnxruntime
from onnx import ModelProto

from pyopnb.common import messages, plural, progress, sanitize
from pyopnb.engine.models.markers import MARKER, remove_markers
from pyopnb.engine.models.model_files import ModelSource, read_model
from pyopnb.engine.models.ort_types import to_notation
from pyopnb.engine.models.protos import set_attribute, walk
from pyopnb.engine.ops.dtypes import DTYPES
from pyopnb.engine.ops.dtypes import dtype as find_dtype
from pyopnb.engine.ops.registry import registry
from pyopnb.engine.ops.types import TensorType
from pyopnb.engine.runtime import _bridge
from pyopnb.engine.runtime.exceptions import call_runtime
from pyopnb.engine.runtime.feed_checks import (
    check_feed,
    check_names,
    check_output_names,
    check_sizes,
    known_dims,
    shared_dims,
)
from pyopnb.engine.runtime.interruptible import call_interruptibly
from pyopnb.engine.runtime.ortvalues import (
    RUNTIME_NAMES,
    as_ortvalues,
    from_ortvalue,
    needs_ml_dtypes,
    to_ortvalue,
)
from pyopnb.engine.runtime.runtime_options import (
    QUIET,
    SHRINKAGE,
    check_run_options,
    quiet_options,
    shrinks_arena,
)
from pyopnb.engine.runtime.session.config import SessionConfig
from pyopnb.engine.runtime.settings import Setting, Settings, numbered
from pyopnb.errors import InputError, RunRefused, UnknownName

if TYPE_CHECKING:
    from pyopnb.engine.runtime.kernel import Kernel

__all__ = ["Feeds", "SessionState", "SharedState", "feeds_by_name"]


# ---- what a session takes and gives --------------------------------------------------------------

_TENSOR = re.compile(r"tensor\((\w+)\)")
_BY_TEXT = {
    **{row.name.replace("_", ""): row for row in DTYPES},
    "float4e2m1": find_dtype("float4_e2m1fn"),
    "float8e8m0": find_dtype("float8_e8m0fnu"),
}


def _declared(meta: Any, scalars: Collection[str]) -> TensorType | None:
    """Read the type of a session's input or output; None if it is not a tensor.

    onnxruntime shows an unknown rank as it shows a scalar's, so the model itself must say which
    of them is a scalar.
    """
    match = _TENSOR.fullmatch(meta.type)
    if match is None:
        return None
    row = _BY_TEXT.get(RUNTIME_NAMES.get(match[1], match[1]))
    if row is None:
        return None
    shape = None
    if meta.shape or meta.name in scalars:
        shape = known_dims(meta.shape)
    return TensorType(row, shape)


def _other_type(meta: Any) -> str:
    """Write the type of an input or output that is not a tensor: ``optional(float32[N])``."""
    text = to_notation(meta.type)
    # onnxruntime shows the shape of an optional tensor, and no shape inside a sequence.
    is_known = all(isinstance(dim, int) or str(dim).isidentifier() for dim in meta.shape)
    if text.startswith("optional(") and meta.shape and is_known:
        text = f"{text[:-1]}[{','.join(map(str, meta.shape))}])"
    return text


def _declared_types(metas: Sequence[Any], scalars: Collection[str]) -> dict[str, TensorType | None]:
    types = {}
    for meta in metas:
        types[meta.name] = _declared(meta, scalars)
    return types


class Feeds:
    """A session's inputs, and the checks on its feeds.

    Parameters
    ----------
    scalars : collection of str
        Names of inputs and outputs that the model declares as scalars.
    """

    def __init__(
        self, session: onnxruntime.InferenceSession, scalars: Collection[str] = ()
    ) -> None:
        inputs = session.get_inputs()
        self.types = _declared_types(inputs, scalars)
        # The types of inputs that are no tensors, as text.
        self.others = {
            meta.name: _other_type(meta)
            for meta in (*inputs, *session.get_outputs())
            if _TENSOR.fullmatch(meta.type) is None
        }
        self._takes_maps = any(meta.type.startswith("map(") for meta in inputs)
        self._shared_dims = shared_dims(self.types)
        # Initializers that are also inputs; feeding them is optional.
        self._optional = _declared_types(session.get_overridable_initializers(), scalars)
        self.outputs = _declared_types(session.get_outputs(), scalars)
        self.output_names = list(self.outputs)
        unlike_numpy = set()
        for name, tensor_type in self.outputs.items():
            if needs_ml_dtypes(tensor_type):
                unlike_numpy.add(name)
        self._unlike_numpy = frozenset(unlike_numpy)
        # The facts that the quick check of a plain array compares. A row with None leaves the feed
        # to the full check.
        self._rows = []
        for name, tensor_type in self.types.items():
            self._rows.append((name, *_plain_row(tensor_type)))

    def check(self, feeds: Mapping[str, Any]) -> tuple[dict[str, Any], bool]:
        """Check feeds, and tell whether an OrtValue is among them.

        Raises
        ------
        InputError
            A name is missing or unknown, or an array has another dtype or shape
            than the model's input.
        """
        try:
            checked = dict(feeds)
        except (TypeError, ValueError):
            got = type(feeds).__name__
            next_ = f'{{"{next(iter(self.types), "x")}": x}}'
            raise InputError(
                "feeds", expected="a dict of name to array", got=got, next=next_
            ) from None
        # Every run passes here, so each array is looked at only once.
        if len(checked) == len(self._rows):
            for name, dtype, shape in self._rows:
                value = checked.get(name)
                if (
                    type(value) is not np.ndarray
                    or value.dtype is not dtype
                    or len(value.shape) != len(shape)
                ):
                    break
                if shape != value.shape and not _same_sizes(value.shape, shape):
                    break
            else:
                return checked, False
        return self._check_each(checked)

    def check_names(self, feeds: Collection[str]) -> None:
        """Raise `InputError` where a name is missing or unknown."""
        if set(feeds) != self.types.keys():
            check_names(feeds, self._inputs(), self._optional)

    def _inputs(self) -> dict[str, TensorType | str | None]:
        """Return the types of the inputs, as texts where they are no tensors."""
        return {name: kind or self.others.get(name) for name, kind in self.types.items()}

    def _check_each(self, feeds: dict[str, Any]) -> tuple[dict[str, Any], bool]:
        self.check_names(feeds)
        checked = {}
        with_ortvalues = False
        for name, value in feeds.items():
            checked[name] = self.convert(name, value)
            with_ortvalues |= isinstance(checked[name], onnxruntime.OrtValue)
        return checked, with_ortvalues

    def by_name(self, feeds: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
        """Return the feeds of a call as one dict; see `feeds_by_name` and `check_sizes`."""
        __tracebackhide__ = True
        # A single dict is itself a feed where an input is a map.
        by_name = feeds_by_name(list(self.types), feeds, named, takes_dict=not self._takes_maps)
        if self._shared_dims:
            check_sizes(by_name, self.types, self._shared_dims)
        return by_name

    def arrays(self, feeds: Mapping[str, Any]) -> dict[str, Any]:
        """Convert feeds to arrays that may be kept; OrtValues stay as they are.

        Raises
        ------
        InputError
            As from `check`.
        """
        self.check_names(feeds)
        return {name: self._to_array(name, value) for name, value in feeds.items()}

    def _to_array(self, name: str, value: Any) -> Any:
        if isinstance(value, onnxruntime.OrtValue):
            return value
        return check_feed(name, value, self._expected(name))

    def _expected(self, name: str) -> TensorType | str | None:
        if name in self.types:
            return self.types[name] or self.others.get(name)
        return self._optional[name]

    def convert(self, name: str, value: Any) -> Any:
        """Check a feed, and make an array or an OrtValue of it that onnxruntime takes."""
        expected = self._expected(name)
        array = self._to_array(name, value)
        if isinstance(array, onnxruntime.OrtValue):
            return array
        # onnxruntime makes no tensors of ml_dtypes arrays, such as bfloat16 and int4.
        if isinstance(expected, TensorType) and expected.dtype and needs_ml_dtypes(expected):
            return to_ortvalue(array, expected.dtype)
        return array

    def needs_ortvalues(self, names: Sequence[str] | None) -> bool:
        """Tell whether onnxruntime cannot return one of these outputs as an array."""
        return bool(self._unlike_numpy) and (not names or not self._unlike_numpy.isdisjoint(names))


def _plain_row(kind: TensorType | None) -> tuple[np.dtype[Any] | None, tuple[Any, ...]]:
    """Return the dtype and shape of a plain array; None if the slow check must decide."""
    if kind is None or kind.dtype is None or kind.shape is None:
        return None, ()
    # Texts are looked at one by one, and arrays of ml_dtypes become OrtValues.
    if kind.dtype.name == "string" or needs_ml_dtypes(kind):
        return None, ()
    return kind.dtype.numpy, kind.shape


def _same_sizes(shape: Sequence[int], expected: Sequence[Any]) -> bool:
    # A generator costs twice as much.
    for size, dim in zip(shape, expected, strict=True):
        if size != dim and isinstance(dim, int):
            return False
    return True


def feeds_by_name(
    names: Sequence[str], feeds: Sequence[Any], named: Mapping[str, Any], *, takes_dict: bool = True
) -> dict[str, Any]:
    """Collect feeds given by keyword, by position or as a dict into one dict.

    Parameters
    ----------
    names : sequence of str
        The model's inputs.
    feeds : sequence
        In that order, or a single dict.
    takes_dict : bool
        Whether a single dict holds the feeds, or else is itself a feed.

    Raises
    ------
    InputError
        There are more feeds than inputs, or two for one input.
    """
    __tracebackhide__ = True
    given: Mapping[str, Any] = {}
    if takes_dict and feeds and isinstance(feeds[0], Mapping):
        given = feeds[0]
        if len(feeds) > 1:
            got = f"a dict and {plural(len(feeds) - 1, 'more feed')}"
            listed = ", ".join(f'"{name}": …' for name in names)
            advice = f"{{{listed}}}"
            raise InputError("feeds", expected="one dict of all feeds", got=got, next=advice)
    else:
        # One feed for several inputs is a table or a mistake, so nothing else pays for the look.
        if len(names) > 1 and len(feeds) + len(named) == 1:
            columns = _columns(names, next(iter((*feeds, *named.values()))))
            if columns:
                return columns
        if len(feeds) > len(names):
            listed = ", ".join(names)
            expected = f"{plural(len(names), 'input')} ({listed})"
            advice = f"only the first {plural(len(names), 'feed')}" if names else "no feeds"
            raise InputError("feeds", expected=expected, got=str(len(feeds)), next=advice)
        given = dict(zip(names, feeds, strict=False))
    for name in named:
        if name in given:
            got = "two, of which one is given by name"
            raise InputError(f"feed {name}", expected="one value", got=got, next=f"only {name}=")
    return {**given, **named}


def _columns(names: Sequence[str], table: Any) -> dict[str, Any]:
    """Read a model's inputs from the columns of a DataFrame; {} if it is not one."""
    # Recognized by its attributes, because neither pandas nor polars is imported.
    if not hasattr(table, "columns") or not hasattr(table, "to_numpy"):
        return {}
    known = [name for name in names if name in table.columns]
    return {name: table[[name]].to_numpy() for name in known}


# ---- states --------------------------------------------------------------------------------------


_DESCRIBING = {"_left_out", "_model_bytes", "_model_path", "_provider_options", "_providers"}
"""The attributes of an ONNX Runtime session that are needed after its end."""


@dataclass(frozen=True, eq=False)
class SessionState:
    """The ONNX Runtime session with everything that a session needs to run in it.

    A `Session` has one state at a time and goes to another by one assignment, so that a run, an
    interrupt or another thread meets the old state or the new one. A state is *ready* when it
    serves the registry's newest versions. When it is not, `advance` makes the next one, unless
    outputs have changed: then the session is built again from its `config`. The state of a session
    that `Session.with_attrs` made is a `SharedState`.

    Attributes
    ----------
    runtime : onnxruntime.InferenceSession
    feeds : Feeds
        The session's inputs and outputs.
    ops : tuple of str
        The ops that it uses.
    kernels : collection of Kernel
        Of its nodes that run through ops.
    settings : Settings
        Their attrs; the kernels have the same object.
    epoch : int
        The versions and attrs of that epoch serve its runs.
    seen : int
        The registry's epoch for which it is ready, -1 for none.
    folder, taken_out
        The folder of the external data, and the data that is in no file; see `ModelSource`.
    only_cpu : bool
        Whether ONNX Runtime runs all of it on the CPU.
    is_large : bool
        Whether a run may take seconds in ONNX Runtime, which Ctrl-C ends.
    """

    config: SessionConfig
    runtime: Any
    feeds: Feeds
    ops: tuple[str, ...]
    kernels: Collection[Kernel]
    settings: Settings
    epoch: int
    seen: int
    folder: str | None
    taken_out: dict[str, Any]
    only_cpu: bool
    is_large: bool

    @property
    def setting(self) -> Setting:
        """Return the attrs that serve its runs."""
        return self.settings.at(self.epoch)

    @property
    def left_out(self) -> str:
        """Name the optimizers that ONNX Runtime had to run without, and say why."""
        return str(self.runtime._left_out)

    def values(self, kernel: Kernel) -> dict[str, Any]:
        """Return the attrs that the next run uses at a node."""
        return kernel.values_in(self.setting)[1]

    @property
    def is_ready(self) -> bool:
        """Tell whether the state serves the registry's newest versions."""
        return self.seen == registry.epoch

    def advance(self) -> tuple[SessionState, str]:
        """Prepare the next state, and name the outputs whose change forces a rebuild."""
        __tracebackhide__ = True
        # Read once; later definitions wait for the next run.
        epoch = registry.epoch
        changes = self.update_kernels(epoch)
        return replace(self, epoch=epoch, seen=epoch), changes

    def with_setting(self, setting: Setting) -> SessionState:
        """Put prepared attrs into force from the next run on."""
        epoch = registry.begin_epoch()
        # No run begins in that epoch before the change is whole, as the caller
        # has the session's lock.
        self.settings.begin(epoch, setting)
        # Another thread may have defined an op before that epoch, so the new state is not ready.
        return replace(self, epoch=epoch, seen=-1)

    def update_kernels(self, epoch: int) -> str:
        """Prepare the kernels for an epoch, and name the kernels whose outputs changed."""
        __tracebackhide__ = True
        changes = {kernel.update(epoch) for kernel in list(self.kernels)}
        return "; ".join(sorted(change for change in changes if change is not None))

    def close(self) -> None:
        """Free the ONNX Runtime session with its weights; the state only describes it from now on.

        Nothing may use it any more: it cannot be opened again.
        """
        # What onnxruntime knows of inputs and outputs also keeps the session.
        for name in vars(self.runtime).keys() - _DESCRIBING:
            setattr(self.runtime, name, None)

    def source(self, *, in_use: bool = False) -> ModelSource:
        """Read the model again as the session runs it.

        With ``in_use``, it has the attrs that `set_attrs` changed.
        """
        if self.runtime._model_bytes is None:
            return read_model(self.runtime._model_path, self.folder, absent=True)
        proto = ModelProto.FromString(self.runtime._model_bytes)
        if in_use and self.setting.changes:
            self._write_attrs(proto)
        remove_markers(proto)
        return ModelSource(proto, self.folder, self.taken_out)

    def _write_attrs(self, proto: ModelProto) -> None:
        """Give the nodes of a model, which has their numbers, the attrs that were changed."""
        kernels = {kernel.number: kernel for kernel in self.kernels}
        for site in walk(proto):
            number = next((attr.i for attr in site.node.attribute if attr.name == MARKER), -1)
            changes = self.setting.changes.get(number, {})
            for name, value in changes.items():
                kernel = kernels[number]
                attrs = {attr.name: attr for attr in kernel.schema(kernel.op.at(self.epoch)).attrs}
                # An attr of **attrs is not in the schema, and is written as it was given.
                if name in attrs:
                    value = attrs[name].take(value, kernel.where)
                set_attribute(site.node, name, value)

    def call(
        self,
        function: Callable[..., Any],
        arguments: tuple[Any, ...],
        feeds: Any = None,
        *,
        options: Any = QUIET,
    ) -> Any:
        """Call ONNX Runtime as one run; see `call_runtime`."""
        __tracebackhide__ = True
        owners = None if feeds is None else (feeds, self.runtime._lent)
        if options is not QUIET:
            check_run_options(options)
        shrinks = options is not QUIET and shrinks_arena(options)
        if shrinks:
            self._refuse_shrinking()
        try:
            return call_runtime(self.epoch, function, arguments, feeds=owners, shrinks=shrinks)
        except Exception as error:
            # In a model that was derived from the user's, nodes may have other names. No node is to
            # blame for a run that was ended.
            if not (self.config.derived or options.terminate):
                self.name_failed_node(error, feeds)
            raise
        finally:
            # The traceback of an exception holds this frame, which must not hold the session.
            del function

    def name_failed_node(self, error: Exception, feeds: Mapping[str, Any] | None) -> None:
        """Add a note that names the node to an error of a run in ONNX Runtime."""
        from pyopnb.engine.runtime.session.failed_run import name_node  # only for errors

        name_node(error, self, feeds)

    def _refuse_shrinking(self) -> None:
        """Raise if an op still holds inputs whose memory the run is about to free."""
        __tracebackhide__ = True
        keeping = set(_bridge.kept_by())
        kernel = next((kernel for kernel in list(self.kernels) if id(kernel) in keeping), None)
        if kernel is not None:
            raise RunRefused(
                f"run with {SHRINKAGE}",
                expected="no array in the memory that this option frees",
                got=f"an input that {kernel.where} kept in an earlier run",
                next="release it and the exception that told you, or run without the option",
            )

    def run(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        run_options: Any = None,
    ) -> list[Any]:
        """Run in these versions and with these attrs; see `Session.run`."""
        __tracebackhide__ = True
        if self.is_large and run_options is None:
            own = quiet_options()
            progress.phase("running")
            return call_interruptibly(
                partial(self.run, output_names, input_feed, own),
                partial(setattr, own, "terminate", True),
                partial(progress.advance, progress.LOADED, 0),
            )
        feeds, with_ortvalues = self.feeds.check(input_feed)
        options = QUIET if run_options is None else run_options
        runtime = self.runtime
        try:
            names = output_names or self.feeds.output_names
            if with_ortvalues or self.feeds.needs_ortvalues(output_names):
                return self._run_with_ortvalues(names, feeds, options)
            # InferenceSession.run checks the names again, and falls back to other providers.
            is_direct = self.only_cpu and not runtime._enable_fallback
            return self.call(  # type: ignore[no-any-return]
                runtime._sess.run if is_direct else runtime.run,
                (names, feeds, options),
                feeds,
                options=options,
            )
        except Exception as error:
            # The ONNX Runtime error does not list the outputs that exist.
            self.check_output_names(output_names)
            # Nodes pass on any bytes, and onnxruntime makes str of an output. An op's has a
            # note, and its class, which isinstance would ask for, may raise.
            if issubclass(type(error), UnicodeDecodeError) and not hasattr(error, "__notes__"):
                kinds = self.feeds.outputs
                texts = [name for name in names if str(kinds.get(name)).startswith("string")]
                error.add_note(f"in a text of output {sanitize(' or '.join(texts))}")
            raise

    def check_output_names(self, names: Sequence[str] | None) -> None:
        """Raise `UnknownName` for a name that no output has, with advice for inner tensors."""
        __tracebackhide__ = True
        try:
            check_output_names(() if names is None else names, self.feeds.output_names)
        except UnknownName as error:
            inner = {name for site in walk(self.source().proto) for name in site.node.output}
            for name in names or ():
                if name in inner and name not in self.feeds.outputs:
                    shown = sanitize(repr(name))
                    advice = f"session.trace(feeds, only={shown})[{shown}]"
                    raise messages.moved(error, error.where, advice) from None
            raise

    def _run_with_ortvalues(
        self, names: Sequence[str], feeds: dict[str, Any], options: Any
    ) -> list[Any]:
        """Run with dtypes that onnxruntime has no arrays for."""
        __tracebackhide__ = True
        values = as_ortvalues(feeds)
        outputs = self.call(
            self.runtime.run_with_ort_values,
            (list(names), values, options),
            values,
            options=options,
        )
        types = [self.feeds.outputs.get(name) for name in names]
        return [
            from_ortvalue(value, tensor_type.dtype if tensor_type else None)
            for value, tensor_type in zip(outputs, types, strict=True)
        ]


# ---- a state in the ONNX Runtime session of another session --------------------------------------


@dataclass(frozen=True, eq=False)
class SharedState(SessionState):
    """The state of a session with its own attrs in the ONNX Runtime session of another session.

    Its runs are distinguished from the other session's by their epoch, which is never the
    registry's current one. A rebuild gives the session its own ONNX Runtime session, and then it
    shares nothing.

    Attributes
    ----------
    base : Session
    own : Setting
        Its attrs. The kernels know them for as long as the state lives, which each run of it keeps.
    """

    base: Any
    own: Setting

    @classmethod
    def of(cls, base: Any) -> SharedState:
        """Share the ONNX Runtime session of another session, beginning with its attrs.

        Parameters
        ----------
        base : Session
        """
        state = base.update()
        # The attrs get new numbers, so that the two sessions share no instance.
        values = {kernel.number: numbered(state.values(kernel)) for kernel in state.kernels}
        return cls._in(base, state, replace(state.setting, values=values))

    @classmethod
    def _in(cls, base: Any, state: SessionState, setting: Setting) -> SharedState:
        """Begin a private epoch with these attrs in the ONNX Runtime session of a state."""
        # Each epoch has its own copy, which ends with it.
        own = replace(setting)
        fields = {name: getattr(state, name) for name in SessionState.__dataclass_fields__}
        fields["epoch"] = registry.begin_private_epoch()
        fields["seen"] = -1
        state.settings.private[fields["epoch"]] = own
        return cls(**fields, base=base, own=own)

    @property
    def setting(self) -> Setting:
        """Return the attrs that serve its runs."""
        return self.own

    @property
    def is_ready(self) -> bool:
        """Tell whether it serves the newest versions, and the other session was not rebuilt."""
        return self.seen == registry.epoch and self.runtime is self.base.state.runtime

    def advance(self) -> tuple[SessionState, str]:
        """Make the next state ready, and say which outputs changed."""
        __tracebackhide__ = True
        state = self
        seen = registry.epoch
        base_state = self.base.update()
        if base_state.runtime is not self.runtime:  # the other session was rebuilt
            state = self._in(self.base, base_state, self.own)
        elif any(kernel.op.current.epoch > self.epoch for kernel in list(self.kernels)):
            state = self.with_setting(self.own)
        changes = state.update_kernels(state.epoch)
        # An epoch of its own makes the next one the registry's; an op defined from
        # then on needs another.
        return replace(state, seen=max(seen, state.epoch + 1)), changes

    def with_setting(self, setting: Setting) -> SharedState:
        """Put prepared attrs into force from the next run on."""
        return self._in(self.base, self, setting)
