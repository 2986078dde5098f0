"""An op at a node: the Python half of a kernel, from the node's attributes to the checks on what compute returns.

What the native half needs for a call of ``compute`` it gets as a `State`, which belongs to one version of the op.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pyopnb.ops.coerce import describe_value, result_array
from pyopnb.ops.dtypes import DTYPES
from pyopnb.ops.errors import EscapedInput, ModelError, PyopError, ResultError, SchemaChanged
from pyopnb.ops.instantiate import add_note, instantiate, promised_types
from pyopnb.ops.registry import Op, Version
from pyopnb.ops.schema import Port, Schema
from pyopnb.ops.types import ANY, TensorType, type_of
from pyopnb.runtime import _bridge
from pyopnb.runtime.legacy_pyop import Retired
from pyopnb.runtime.plan import PlannedNode, building

__all__ = ["OPEN", "Kernel", "promised_outputs"]

OPEN = Schema(attrs=(), open_attrs=True, inputs=(Port("inputs", variadic=True),), outputs=None, copy_inputs=True)
"""The schema of every retired PyOp node: it is the node that says what there is."""

_BY_RUNTIME = {row.runtime: row for row in DTYPES}


class Kernel:
    """An op at a node of one session: the Python half of a kernel.

    Parameters
    ----------
    op : Op
    where : str
    values : dict
        The node's attributes.
    given, resolved : sequence of (TensorType or None)
        The types of inputs and outputs as ONNX Runtime sees them; None for what is left out.
    node : PlannedNode, optional
        None in a bare session.
    epoch : int
        The registry's, when the session was planned: older versions never serve it.
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
    ) -> None:
        self.op, self.where, self.given, self.resolved = op, where, tuple(given), tuple(resolved)
        self.retired, self.number, self.label = (node.retired, node.number, node.label) if node else (None, -1, "")
        self.clock = node.clock if node else None
        self.born = epoch
        self._settings = [(epoch, values)]  # attrs, and the epoch from which on they hold
        # Two threads that meet a new version at once must not make two instances; reentrant, as __init__ may run a session.
        self._making = threading.RLock()
        # By version and the epoch of the attrs; those that a run can still ask for.
        self._states: dict[tuple[int, int], tuple[Version, Any]] = {}
        version = op.at(self.born)
        instance = node.take(version.number) if node else None
        instance, self.told = self._instance(version, values, instance)
        self._keep(version, epoch, instance, self.told)

    @property
    def values(self) -> dict[str, Any]:
        """The attrs that the next run uses."""
        return self._settings[-1][1]

    def _setting(self, epoch: int) -> tuple[int, dict[str, Any]]:
        return next((held for held in reversed(self._settings) if held[0] <= epoch), self._settings[0])

    def schema(self, version: Version) -> Schema:
        """The schema by which this node is read."""
        return OPEN if self.retired else version.schema

    def at(self, epoch: int) -> Any:
        """The state that serves runs of that epoch; called by the bridge when it has none for it.

        Raises
        ------
        SchemaChanged
            The version of that epoch promises other outputs than the runtime was told.
        """
        version = self.op.at(max(epoch, self.born))
        with self._making:
            since, values = self._setting(epoch)
            known = self._states.get((version.number, since))
            if known is None:
                instance, promised = self._instance(version, values)
                if promised != self.told:
                    raise self._changed(version, promised)
                known = self._keep(version, since, instance, promised)
            return known[1]

    def instance_at(self, epoch: int) -> tuple[int, object] | None:
        """Number of the version that serves runs of that epoch, and its instance; None where there is none yet."""
        known = self._states.get((self.op.at(max(epoch, self.born)).number, self._setting(epoch)[0]))
        if known is None:
            return None
        return known[0].number, known[1].instance

    def update(self, epoch: int) -> str | None:
        """Make ready for runs of that epoch; what changed, where ONNX Runtime was told of other outputs."""
        version = self.op.at(max(epoch, self.born))
        since, values = self._setting(epoch)
        if (version.number, since) in self._states:
            return None
        instance, promised = self._instance(version, values)
        if promised != self.told:
            return f"{version} gives {_listed(promised)} instead of {_listed(self.told)}"
        self._keep(version, since, instance, promised)
        return None

    def prepare_attrs(self, epoch: int, values: dict[str, Any]) -> Callable[[int], None] | None:
        """A function that makes these the attrs from an epoch on; None where the outputs change with them."""
        version = self.op.at(max(epoch, self.born))
        instance, promised = self._instance(version, values)
        if promised != self.told:
            return None

        def adopt(since: int) -> None:
            with self._making:
                self._settings.append((since, values))
                self._keep(version, since, instance, promised)

        return adopt

    def _keep(
        self, version: Version, since: int, instance: object, promised: tuple[TensorType | None, ...]
    ) -> tuple[Version, Any]:
        kept = self._states[version.number, since] = version, self._state(version, instance, promised)
        self._prune()
        return kept

    def _prune(self) -> None:
        """Let go of versions and attrs that no run can ask for any more."""
        epoch = max(_bridge.oldest_epoch(), self.born)
        oldest, since = self.op.at(epoch).number, self._setting(epoch)[0]
        self._settings = [held for held in self._settings if held[0] >= since]
        self._states = {key: held for key, held in self._states.items() if key[0] >= oldest and key[1] >= since}

    def _changed(self, version: Version, promised: tuple[TensorType | None, ...]) -> SchemaChanged:
        return SchemaChanged(
            f"{self.where}: {version} has other outputs than the session was built with",
            expected=_listed(self.told),
            got=_listed(promised),
            next="make the session anew, or use pyopnb.Session, which does so by itself",
        )

    def _instance(
        self, version: Version, values: dict[str, Any], instance: object = None
    ) -> tuple[object, tuple[TensorType | None, ...]]:
        """The instance of a version at this node, and what it promises of the outputs."""
        schema = self.schema(version)
        schema.check_inputs(self.given, self.where)
        if self.retired:
            self.retired.check_inputs(self.given, self.where)
        with building(None):  # what the user's code builds in here is not part of the session that is being built
            if instance is None:
                instance = instantiate(version, schema, values, self.where)
            return instance, promised_outputs(schema, instance, self.given, len(self.resolved), self.where, self.retired)

    def _state(self, version: Version, instance: object, promised: tuple[TensorType | None, ...]) -> Any:
        """What the bridge needs for calls of this version."""
        schema = self.schema(version)
        self._check(schema, promised)
        symbols: dict[str, int] = {}
        input_shapes, output_shapes = self._shapes(schema, promised, symbols)
        method = self.retired.compute if self.retired else "compute"
        return _bridge.State(
            instance=instance if self.clock is None else self.clock.around(instance, method),
            method=method if self.clock is None else "compute",
            lock=self.op.lock if schema.serial else None,
            outputs=[t.dtype.runtime if t and t.dtype else 0 for t in self.resolved],
            results=len(schema.outputs) if schema.outputs is not None else len(self.resolved),
            input_shapes=input_shapes,
            output_shapes=output_shapes,
            symbols=len(symbols),
            copy_inputs=schema.copy_inputs,
        )

    def _check(self, schema: Schema, promised: tuple[TensorType | None, ...]) -> None:
        schema.check_outputs(len(self.resolved), self.where)
        for number, (claim, fact) in enumerate(zip(promised, self.resolved, strict=True)):
            if claim and fact and claim.dtype and claim.dtype != fact.dtype:
                raise ModelError(
                    f"{self.where}, output {number}",
                    expected=f"{claim}, as the op says",
                    got=f"{fact} in the model",
                    next="let the op and the model say the same; in a bare session, hint the rank as well",
                )

    def _shapes(
        self, schema: Schema, promised: tuple[TensorType | None, ...], symbols: dict[str, int]
    ) -> tuple[list[Any], list[Any]]:
        """Rows for the bridge: what the dimensions of inputs and results must be."""

        def row(number: int, strict: bool, shape: Sequence[Any], scope: str) -> tuple[int, bool, list[int]]:
            def code(dim: Any) -> int:
                if isinstance(dim, str):
                    return -2 - symbols.setdefault(scope + dim, len(symbols))
                return -1 if dim is None else int(dim)

            return number, strict, [code(dim) for dim in shape]

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
        for number, claim in enumerate(promised if schema.infers else ()):
            if claim and claim.shape is not None:
                gives.append(row(number, True, claim.shape, "graph "))
        return takes, gives

    # ---- what the bridge asks when a result is not simply right --------------------------------------------------------------

    def as_array(self, state: Any, number: int, value: Any) -> np.ndarray:
        """A result as an array of exactly the declared dtype; see `result_array`."""
        want = _BY_RUNTIME[state.outputs[number]]
        expected = str(self._wanted(number) or TensorType(want, None))
        try:
            return result_array(value, want, f"{self.where}, output {number}", expected, arrays_only=self.retired is not None)
        except PyopError as error:
            # Its frames are ours, and hold a result that may be a view of an input: that would look like the op's keeping it.
            del value
            error.__context__ = None
            raise error.with_traceback(None) from None

    def _wanted(self, number: int) -> TensorType | None:
        return self.told[number] if number < len(self.told) and self.told[number] else self.resolved[number]

    def refuse_count(self, state: Any, given: int, value: Any) -> None:
        """Raise for a wrong number of results."""
        one = "one array" if state.results == 1 else f"a tuple of {state.results}"
        got = f"a tuple of {given}" if isinstance(value, tuple) else describe_value(value)
        raise ResultError(f"{self.where}, outputs", expected=one, got=got, next="return one value an output")

    def refuse_input(self, state: Any, number: int, value: Any) -> None:
        """Raise for an input whose dimensions are not those of the hint."""
        port = self.schema(self._version_of(state)).port(number)
        raise ModelError(
            f"{self.where}, input {port.name}",
            expected=f"{port.type}, with one size a symbol",
            got=str(type_of(value)),
            next=f"feed that shape, or change the hint of {port.name} in compute",
        )

    def refuse_result(self, state: Any, number: int, value: Any) -> None:
        """Raise for a result whose dimensions are not those that the op promised."""
        schema = self.schema(self._version_of(state))
        said = schema.outputs[number] if schema.outputs and schema.outputs[number].shape is not None else self.told[number]
        raise ResultError(
            f"{self.where}, output {number}",
            expected=f"{said}, as {'infer' if schema.infers else 'the hint of compute'} says",
            got=str(type_of(value)),
            next="return that shape, or promise another",
        )

    def refuse_escape(self, state: Any, number: int, error: BaseException | None) -> None:
        """Raise for a view that was kept; where ``compute`` raised, put it on that exception as a note."""
        version = self._version_of(state)
        schema = self.schema(version)
        name = schema.port(number).name if schema.inputs else str(number)
        escaped = EscapedInput(
            f"{self.where}: compute kept a view of input {name} past its end (torch.from_numpy, memoryview, .flat …)",
            next=f"keep {name}.copy(), or write copy_inputs = True in the class; the next run hands over copies by itself",
        )
        if error is None:
            raise escaped
        add_note(error, str(escaped))

    def _version_of(self, state: Any) -> Version:
        return next((v for v, held in self._states.values() if held is state), self.op.current)

    def describe(self, state: Any) -> str:
        """Node, op and version, for the note on an exception."""
        served = f" served by {self.op.name}" if self.retired else ""
        return f"{self.where}{served}, version {self._version_of(state).number}"


def _listed(types: Sequence[TensorType | None]) -> str:
    return ", ".join(str(t or ANY) for t in types) or "nothing"


def promised_outputs(
    schema: Schema, instance: object, given: Sequence[TensorType | None], count: int, where: str, retired: Retired | None
) -> tuple[TensorType | None, ...]:
    """What an op, or a retired node, says of the outputs of a node; None for each it says nothing of."""
    if retired:
        return retired.outputs[:count] + (None,) * (count - len(retired.outputs))
    return promised_types(schema, instance, given, count, where)
