"""The Python half of a kernel: an op at a node, from the node's attributes to checked results.

The native half gets all that a call of ``compute`` needs as a `State`, which belongs to one
version of the op.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from pyopnb.engine.ops.dtypes import BY_RUNTIME, DType
from pyopnb.engine.ops.instantiate import add_note, failure_notes, instantiate
from pyopnb.engine.ops.op import Op, Version
from pyopnb.engine.ops.op_schema import Port, Schema
from pyopnb.engine.ops.output_types import promised_types
from pyopnb.engine.ops.returns import Output, wrong_count
from pyopnb.engine.ops.types import ANY, TensorType, type_of
from pyopnb.engine.runtime import _bridge
from pyopnb.engine.runtime.forms import compiled_form, original, python_form
from pyopnb.engine.runtime.legacy_pyop import LegacySpec
from pyopnb.engine.runtime.node_plans import PlannedNode
from pyopnb.engine.runtime.profilers import are_frames_held
from pyopnb.engine.runtime.settings import Setting, Settings, Values, numbered
from pyopnb.errors import (
    EscapedInput,
    InputError,
    ModelError,
    PyopError,
    ResultError,
    SchemaChanged,
)

__all__ = ["OPEN", "Kernel", "promised_outputs"]

OPEN = Schema(
    attrs=(),
    open_attrs=True,
    inputs=(Port("inputs", variadic=True),),
    outputs=None,
    copy_inputs=True,
)
"""The schema of every retired PyOp node: the node itself declares its ports."""


class Kernel:
    """An op at a node of one session: the Python half of a kernel.

    Parameters
    ----------
    values : dict
        The node's attributes.
    given, resolved : sequence of (TensorType or None)
        The types of inputs and outputs as ONNX Runtime sees them; None for one that is left out.
    node : PlannedNode, optional
        None in a bare session.
    epoch : int
        The registry's, when the session was planned: older versions never serve it.
    settings : Settings, optional
        Of the session.
    """

    def __init__(
        self,
        op: Op,
        where: str,
        values: dict[str, Any],
        given: Sequence[TensorType | None],
        resolved: Sequence[TensorType | None],
        node: PlannedNode | None,
        epoch: int,
        settings: Settings | None = None,
    ) -> None:
        self.op, self.where, self.given, self.resolved = op, where, tuple(given), tuple(resolved)
        # In a bare session nothing is known of the node.
        self.legacy: LegacySpec | None = None
        self.number, self.label = -1, ""
        self.wrap: Callable[[object, str], object] | None = None
        self.undeclared: tuple[bool, ...] = ()
        if node is not None:
            self.legacy, self.number, self.label = node.legacy, node.number, node.label
            self.wrap = node.wrap
            if node.legacy is None:
                # Mark the outputs whose dtype is not declared in the model but decided by the op.
                declared = node.numbered.declared
                self.undeclared = tuple([output.dtype is None for output in declared])
        self.first_epoch = epoch
        self.settings = settings or Settings(Setting())
        self._made_with: Values = 0, values
        # Two threads that meet a new version at once must not make two instances; reentrant, as
        # __init__ may run a session.
        self._lock = threading.RLock()
        # By version and the number of the attrs; only the ones that a run can still use. Other
        # threads add and remove some while one reads: the dict is changed in place, one entry at a
        # time, and copied before a look at all of it.
        self._states: dict[tuple[int, int], tuple[Version, Any]] = {}
        version = op.at(self.first_epoch)
        instance = None
        if node:
            instance = node.instances.get(version.number)
        instance, self.declared = self._instance(version, values, instance)
        self._add_state(version, 0, instance, self.declared)

    @property
    def values(self) -> dict[str, Any]:
        """Return the attrs that the session's next run uses."""
        return self.values_in(self.settings.newest)[1]

    def values_in(self, setting: Setting) -> Values:
        """Return the attrs of a setting at this node."""
        return setting.values.get(self.number, self._made_with)

    def schema(self, version: Version) -> Schema:
        """Return the schema by which this node is read."""
        if self.legacy:
            return OPEN
        return version.schema

    def at(self, epoch: int) -> Any:
        """Return the state that serves runs of an epoch; the bridge calls this when it has none.

        Raises
        ------
        SchemaChanged
            The version of that epoch promises other outputs than ONNX Runtime was told of.
        """
        return _bridge.locked(self._lock, self._at, epoch)

    def _at(self, epoch: int) -> Any:
        version, (number, values) = self._asked(epoch)
        entry = self._states.get((version.number, number))
        if entry is None:
            instance, promised = self._instance(version, values)
            # ONNX Runtime has planned the later nodes with the declared type.
            if promised != self.declared:
                raise self._schema_changed(version, promised)
            entry = self._add_state(version, number, instance, promised)
            self._prune()
        return entry[1]

    def _asked(self, epoch: int) -> tuple[Version, Values]:
        """Find the version and the attrs that serve runs of an epoch."""
        # Versions from before the session was planned never serve it.
        return self.op.at(max(epoch, self.first_epoch)), self.values_in(self.settings.at(epoch))

    def instance_at(self, epoch: int) -> tuple[int, object] | None:
        """Return the number and the instance of the version that serves runs of an epoch.

        None is returned if that version has no instance yet.
        """
        version, (number, _) = self._asked(epoch)
        entry = self._states.get((version.number, number))
        if entry is None:
            return None
        return entry[0].number, original(entry[1].instance)

    def update(self, epoch: int) -> str | None:
        """Prepare for runs of an epoch.

        Return how the outputs differ from the declaration in ONNX Runtime, or None if they do not.
        """
        version, (number, values) = self._asked(epoch)
        if (version.number, number) in self._states:
            return None
        instance, promised = self._instance(version, values)
        # In this case the session is built again, and this kernel is dropped with the old session.
        if promised != self.declared:
            return (
                f"{version} gives {_format_types(promised)} "
                f"instead of {_format_types(self.declared)}"
            )
        self._add_state(version, number, instance, promised)
        self._prune()
        return None

    def prepare_attrs(self, epoch: int, attrs: dict[str, Any]) -> Values | None:
        """Prepare for new attrs; return None if they change the outputs."""
        version = self.op.at(max(epoch, self.first_epoch))
        instance, promised = self._instance(version, attrs)
        if promised != self.declared:
            return None
        values = numbered(attrs)
        # Prune before the new state is added: no setting refers to that state yet.
        self._prune()
        self._add_state(version, values[0], instance, promised)
        return values

    def _add_state(
        self,
        version: Version,
        number: int,
        instance: object,
        promised: tuple[TensorType | None, ...],
    ) -> tuple[Version, Any]:
        # Another thread may have been faster, and a version has only one instance per node.
        return self._states.setdefault(
            (version.number, number), (version, self._state(version, instance, promised))
        )

    def _prune(self) -> None:
        """Release versions and attrs that no run can need any more."""
        epoch = _bridge.oldest_epoch()
        versions = self.op.numbers_since(epoch)
        used = {self.values_in(setting)[0] for setting in self.settings.prune(epoch)}
        for key in list(self._states):
            if key[0] not in versions or key[1] not in used:
                self._states.pop(key, None)

    def _schema_changed(
        self, version: Version, promised: tuple[TensorType | None, ...]
    ) -> SchemaChanged:
        return SchemaChanged(
            f"{self.where}: {version} has other outputs than the session was built with",
            expected=_format_types(self.declared),
            got=_format_types(promised),
            next="rebuild the session, or use pyopnb.Session, which does so by itself",
        )

    def _instance(
        self, version: Version, values: dict[str, Any], instance: object = None
    ) -> tuple[object, tuple[TensorType | None, ...]]:
        """Make the instance of a version, and ask it for the types of the outputs."""
        schema = self.schema(version)
        schema.check_inputs(self.given, self.where)
        if self.legacy:
            # A retired node says its types itself, and the op's schema takes any.
            self.legacy.check_inputs(self.given, self.where)
        if instance is None:
            instance = instantiate(version, schema, values, self.where)
        return instance, promised_outputs(
            schema, instance, self.given, len(self.resolved), self.where, self.legacy
        )

    def _state(
        self, version: Version, instance: object, promised: tuple[TensorType | None, ...]
    ) -> Any:
        """Build the record that the bridge calls this version by."""
        schema = self.schema(version)
        self._check(schema, promised)
        symbols: dict[str, int] = {}
        input_shapes, output_shapes = self._shapes(schema, promised, symbols)
        method = "compute"
        if self.legacy:
            method = self.legacy.compute
        native = None
        # A compiled function runs without the lock of a serial op.
        if not self.legacy and not schema.serial:
            native = compiled_form(instance, self.given, self.resolved)
        called = instance
        if not self.legacy:
            called = python_form(instance, len(self.resolved))
        if self.wrap is not None:
            called, method = self.wrap(called, method), "compute"
        # 0 where there is no output, or none of a dtype that we know.
        elements = []
        for tensor_type in self.resolved:
            elements.append(tensor_type.dtype.runtime if tensor_type and tensor_type.dtype else 0)
        # Without hints, `compute` returns as many results as the node has outputs.
        results = len(self.resolved)
        if schema.outputs is not None:
            results = len(schema.outputs)
        # A serial op has one lock for all its nodes in all sessions.
        lock = None
        if schema.serial:
            lock = self.op.lock
        state = _bridge.State(
            instance=called,
            method=method,
            lock=lock,
            outputs=elements,
            results=results,
            input_shapes=input_shapes,
            output_shapes=output_shapes,
            symbols=len(symbols),
            copy_inputs=schema.copy_inputs,
            native=native,
        )
        # Frames that a profiler holds keep the inputs, as if the op did.
        if are_frames_held():
            state.copies = True
        return state

    def _check(self, schema: Schema, promised: tuple[TensorType | None, ...]) -> None:
        schema.check_outputs(len(self.resolved), self.where)
        for number, (claim, fact) in enumerate(zip(promised, self.resolved, strict=True)):
            # A result goes to memory of the dtype that ONNX Runtime has resolved.
            if claim and fact and claim.dtype and claim.dtype != fact.dtype:
                raise ModelError(
                    f"{self.where}, output {number}",
                    expected=f"{claim}, as the op says",
                    got=f"{fact} in the model",
                    next="declare the same type in the op and the model; "
                    "in a bare session, also hint the rank",
                )

    def _shapes(
        self, schema: Schema, promised: tuple[TensorType | None, ...], symbols: dict[str, int]
    ) -> tuple[list[Any], list[Any]]:
        """Rows for the bridge: the dimensions that inputs and results must have."""

        def row(number: int, strict: bool, shape: Sequence[Any], scope: str) -> Any:
            codes = []
            for dim in shape:
                # The bridge has -1 for any size, and a number below for each symbol.
                code = -1 if dim is None else dim
                if isinstance(dim, str):
                    code = -2 - symbols.setdefault(scope + dim, len(symbols))
                codes.append(int(code))
            return number, strict, codes

        # A symbol of a hint and a symbol of the graph are different ones, even
        # where they have one name.
        takes, gives = [], []
        for number, fact in enumerate(self.given):
            hint = schema.port(number).type if schema.inputs else ANY
            if fact and hint.shape is not None:
                takes.append(row(number, True, hint.shape, "hint "))
            if fact and schema.infers and fact.shape is not None:
                takes.append(row(number, False, fact.shape, "graph "))
        for number, hint in enumerate(schema.outputs or ()):
            if hint.shape is not None:
                gives.append(row(number, True, hint.shape, "hint "))
        # Results must also have the shapes that `infer` promised for the graph.
        for number, claim in enumerate(promised if schema.infers else ()):
            if claim and claim.shape is not None:
                gives.append(row(number, True, claim.shape, "graph "))
        return takes, gives

    # ---- called by the bridge where a value is not plainly right ---------------------------------

    def as_array(self, state: Any, number: int, value: Any) -> np.ndarray:
        """Make an array of exactly the declared dtype of a result; see `Output.array`."""
        try:
            want = BY_RUNTIME[state.outputs[number]]
            return self._output(state, number, want).array(
                value, want, arrays_only=self.legacy is not None
            )
        except PyopError as error:
            # Its frames are pyopnb's, and hold a result that may be a view of an input, as
            # if the op had kept it.
            del value
            error.__context__ = None
            raise error.with_traceback(None) from None

    def _output(self, state: Any, number: int, want: DType | None = None) -> Output:
        schema = self.schema(self._version_of(state))
        expected = self.resolved[number]
        if number < len(self.declared) and self.declared[number]:
            expected = self.declared[number]
        hintable = number < len(self.undeclared) and self.undeclared[number]
        expected = expected or TensorType(want, None)
        return Output(
            self.where, self._compute(state), schema, number, state.results, expected, hintable
        )

    def _compute(self, state: Any) -> Any:
        """Find the function that a state calls."""
        name = "compute"
        if self.legacy:
            name = self.legacy.compute
        return getattr(self._version_of(state).cls, name)

    def refuse_count(self, state: Any, given: int, value: Any) -> None:
        """Raise for a wrong number of results."""
        raise wrong_count(self.where, self._compute(state), value, state.results)

    def refuse_input(self, state: Any, number: int, value: Any) -> None:
        """Raise for an input whose dimensions differ from the hint."""
        port = self._port(state, number)
        raise ModelError(
            f"{self.where}, input {port.name}",
            expected=f"{port.type}, with one size for each symbol",
            got=str(type_of(value)),
            next=f"feed that shape, or change the hint of {port.name} in compute",
        )

    def refuse_result(self, state: Any, number: int, value: Any) -> None:
        """Raise for a result whose dimensions differ from the op's promise."""
        output = self._output(state, number)
        hints = output.schema.outputs
        if hints and hints[number].shape is not None:
            output = replace(output, expected=hints[number])
        raise output.wrong_shape(value)

    def refuse_unset(self, state: Any, number: int, _: None) -> None:
        """Raise for an output that a compiled function did not allocate."""
        raise ResultError(
            f"{self.where}, output {number}",
            expected=str(self._output(state, number).expected),
            got="nothing: the function returned without allocating it",
            next="call allocate on every output, on every path through the function",
        )

    def refuse_overlap(self, state: Any, output: int, number: int) -> None:
        """Raise for an output that the caller bound over the memory of an input."""
        raise InputError(
            f"{self.where}, output {output}",
            expected="memory that no input uses",
            got=f"memory that is also bound to input {self._port(state, number).name}",
            next="bind the output to another array: numpy.empty_like(…)",
        )

    def _port(self, state: Any, number: int) -> Port:
        schema = self.schema(self._version_of(state))
        return schema.port(number) if schema.inputs else Port(str(number))

    def refuse_escape(
        self, state: Any, number: int, array: np.ndarray, error: BaseException | None, held: int
    ) -> None:
        """Raise if a view of an input was kept.

        If ``compute`` raised, its exception gets a note instead. ``held`` counts the references to
        the array; the frames of a traceback have some of them.
        """
        name = self._port(state, number).name
        escaped = EscapedInput(
            f"{self.where}: compute kept input {name}, or a view of it, after it returned",
            next=f"keep {name}.copy(), or write copy_inputs = True in the class; "
            "the next run passes copies anyway",
        )
        if error is None:
            raise escaped
        trace = error.__traceback__
        while trace is not None:
            frame, trace = trace.tb_frame, trace.tb_next
            for variable in frame.f_code.co_varnames:
                # A variable that a closure shares is one reference for several frames.
                if variable not in frame.f_code.co_cellvars:
                    held -= frame.f_locals.get(variable) is array
        if held > 0:
            add_note(error, str(escaped))

    def _version_of(self, state: Any) -> Version:
        for version, kept_state in list(self._states.values()):
            if kept_state is state:
                return version
        # Without a state the call did not come as far as `compute`: the newest
        # version names its ports.
        return self.op.current

    def notes(
        self, state: Any, types: Sequence[TensorType | None], error: BaseException
    ) -> list[str]:
        """Node, op and version, and the types of the inputs, for the notes on an exception."""
        alias = f" served by {self.op.name}" if self.legacy else ""
        version = self._version_of(state)
        where = f"{self.where}{alias}, version {version.number}"
        try:
            schema = self.schema(version)
            return failure_notes(
                error, where, schema, None if state is None else types or self.given
            )
        except Exception:  # a class can make its instances unreadable
            return [f"in {where}"]


def _format_types(types: Sequence[TensorType | None]) -> str:
    return ", ".join(str(t or ANY) for t in types) or "nothing"


def promised_outputs(
    schema: Schema,
    instance: object,
    given: Sequence[TensorType | None],
    count: int,
    where: str,
    legacy: LegacySpec | None,
) -> tuple[TensorType | None, ...]:
    """Return the types that an op or a retired node promises for its outputs; None if open."""
    if legacy:
        # The node itself declares the types of its outputs; its class has no hints.
        return legacy.outputs[:count] + (None,) * (count - len(legacy.outputs))
    return promised_types(schema, instance, given, count, where)
