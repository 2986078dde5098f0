"""The registry: ops under their names, each with its versions.

A definition replaces one reference and calls the listeners. Magics, sessions and views know the registry and not each other. A
new version is built and checked completely before the swap, so a definition that fails leaves the last good one in place.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from pyopnb.errors import DefinitionError, UnknownOp
from pyopnb.ops.arguments import check_arguments, describe, is_text
from pyopnb.ops.backward import gradient_class, gradient_name, gradient_schema
from pyopnb.ops.displayable import Displayable
from pyopnb.ops.listeners import Listeners
from pyopnb.ops.locks import locked
from pyopnb.ops.messages import hide_internal_frames, sanitize, suggest
from pyopnb.ops.names import check_opset, split_name
from pyopnb.ops.op import MAX_VERSIONS, Op, Version, find_version
from pyopnb.ops.schema import Schema
from pyopnb.ops.signature import schema_of

__all__ = ["Registry", "find_op", "registry"]

_MAX_LISTED = 50  # ops in the repr of the registry


class Registry(Displayable):
    """Ops by name. `pyopnb.registry` is the one that sessions use; tests make their own.

    Examples
    --------
    >>> registry = Registry()
    >>> class Twice:
    ...     def compute(self, x): return x * 2
    >>> str(registry.define(Twice, "demo::Twice"))
    'demo::Twice, version 1'
    >>> [op.name for op in registry]
    ['demo::Twice']
    """

    def __init__(self) -> None:
        self._ops: dict[str, Op] = {}
        # Sessions may still use these; they keep them alive.
        self._removed: weakref.WeakValueDictionary[str, Op] = weakref.WeakValueDictionary()
        self._modules: dict[tuple[str, str], Op] = {}
        self._listeners = Listeners()
        self._lock = threading.RLock()
        self.epoch = 0

    def __repr__(self) -> str:
        ops = list(self)
        if not ops:
            return "no op is defined. Try: %%pyop in a cell"
        return "\n".join(
            [repr(op) for op in ops[:_MAX_LISTED]]
            + [f"and {len(ops) - _MAX_LISTED} more"] * (len(ops) > _MAX_LISTED)
        )

    def define(
        self,
        cls: type,
        name: str | None = None,
        *,
        opset: int = 1,
        module: str | None = None,
        source: str | None = None,
        restored: int | None = None,
    ) -> Version:
        """Define the next version of an op, and of its gradient op where the class has ``backward``, and call the listeners.

        Parameters
        ----------
        cls : type
            See `pyopnb.ops.signature.schema_of`.
        name : str, optional
            ``domain::OpType``; the class's own name in the default domain if not given.
        opset : int
            First version of the domain that has the op.
        module : str, optional
            Also serve the retired PyOp's nodes that ask for this module and the class's name.
        source : str, optional
            Its text, for `history`.
        restored : int, optional
            Number of the version that this one restores.

        Returns
        -------
        Version

        Raises
        ------
        DefinitionError
            The class cannot be an op, or the name of one of the two ops is taken by the other kind; the registry is unchanged.
        Exception
            The first that a listener raises, after all of them were called.
        """
        schema = schema_of(cls)
        domain, op_type = split_name(
            cls.__name__ if name is None or (isinstance(name, str) and not name) else name
        )
        key = f"{domain}::{op_type}"
        check_opset(opset, f"op {key}")
        if not (module is None or is_text(module)):
            raise DefinitionError(
                f"op {key}, module",
                expected="str, or None",
                got=describe(module),
                next='module="my_module"',
            )
        twin = (
            (gradient_class(cls, schema, key), gradient_schema(schema, key))
            if schema.differentiable
            else None
        )
        version, dropped = locked(
            self._lock, self._define, key, cls, schema, opset, source, restored, module, twin
        )
        self._listeners.defined(_with_gradient(version))
        self._listeners.removed(dropped)
        return version

    def _define(
        self,
        key: str,
        cls: type,
        schema: Schema,
        opset: int,
        source: str | None,
        restored: int | None,
        module: str | None,
        twin: tuple[type, Schema] | None,
    ) -> tuple[Version, list[str]]:
        self._refuse_mixed(key, twin is not None)
        now, epoch, gradient = time.time(), self.epoch + 1, None
        if twin is not None:
            beside = self._op_to_define(gradient_name(key))
            numbers = beside._last + 1, *twin
            gradient = Version(beside.name, *numbers, opset, source, now, epoch, gradient_of=key)
            self._add(beside, gradient)
        op = self._op_to_define(key)
        version = Version(
            key, op._last + 1, cls, schema, opset, source, now, epoch, restored, gradient
        )
        self._add(op, version)
        if module is not None:
            self._modules[module, cls.__name__] = op
        self.epoch = epoch  # one for both, so that no run sees one without the other
        return version, self._drop_gradient(key) if gradient is None else []

    def _op_to_define(self, key: str) -> Op:
        # A removed op that is defined again is the same op to the sessions that use it, so its numbers go on.
        return self._ops.get(key) or self._removed.get(key) or Op(key)

    def _add(self, op: Op, version: Version) -> None:
        op._serve(version, version.epoch)
        op.versions = (*op.versions, version)[-MAX_VERSIONS:]
        self._ops[op.name] = op
        self._removed.pop(op.name, None)

    def _refuse_mixed(self, key: str, differentiable: bool) -> None:
        """Refuse to put an op in the place of a gradient op, or the other way round."""
        standing = self._ops.get(key)
        if standing is not None and standing.current.gradient_of is not None:
            raise DefinitionError(
                f"op {key}",
                expected="a name of its own",
                got=f"that of the gradient op of {standing.current.gradient_of}, which comes with its backward",
                next="another name, or change backward",
            )
        beside = self._ops.get(gradient_name(key)) if differentiable else None
        if beside is not None and beside.current.gradient_of is None:
            raise DefinitionError(
                f"op {key}, backward",
                expected=f"the name {beside.name} to be free for its gradient op",
                got=f"{beside.current}, an op of its own",
                next=f'pyopnb.registry.remove("{beside.name}"), or define it under another name',
            )

    def _gradient_op(self, key: str) -> Op | None:
        """Return the gradient op of an op."""
        op = self._ops.get(gradient_name(key))
        return op if op is not None and op.current.gradient_of == key else None

    def _drop_gradient(self, key: str) -> list[str]:
        """Remove the gradient op of an op; the names of what was removed."""
        op = self._gradient_op(key)
        if op is None:
            return []
        self._remove(op)
        return [op.name]

    def withdraw(self, version: Version, *, modules: Sequence[str] = ()) -> None:
        """Take a version back, as if it had not been defined: the one before it serves again, or the op is removed.

        A run in flight finishes with the version that it began with. The number is not used again.

        Parameters
        ----------
        version : Version
            Nothing happens if the registry does not have it any more.
        modules : sequence of str
            What `modules_of` returned before the definition.
        """
        op, dropped = locked(self._lock, self._withdraw, version, modules)
        if op is None:
            return
        if op.versions:
            self._listeners.defined(_with_gradient(op.current))
            self._listeners.removed(dropped)
        else:
            self.remove(op.name)

    def _withdraw(self, version: Version, modules: Sequence[str]) -> tuple[Op | None, list[str]]:
        op = self._ops.get(version.op)
        if op is None or all(other is not version for other in op.versions):
            return None, []
        op.versions = tuple(other for other in op.versions if other is not version)
        self._modules = {
            key: other
            for key, other in self._modules.items()
            if other is not op or key[0] in modules
        }
        if not op.versions or op.current is not version:
            return op, []
        self.epoch += 1
        op._serve(op.versions[-1], self.epoch)
        return op, self._withdraw_gradient(version, op.current.gradient)

    def _withdraw_gradient(self, version: Version, former: Version | None) -> list[str]:
        """Let the gradient op follow its op back to the version before; the names of what was removed."""
        if former is None:
            return self._drop_gradient(version.op)
        op = self._op_to_define(former.op)
        op.versions = tuple(other for other in op.versions if other is not version.gradient) or (
            former,
        )
        op._serve(former, self.epoch)
        self._ops[op.name] = op
        self._removed.pop(op.name, None)
        return []

    # ---- ops from other processes --------------------------------------------------------------------------------------------

    def admit(self, version: Version, modules: Sequence[str] = ()) -> Op:
        """Have a version that was defined in another process, under its own number.

        Parameters
        ----------
        version : Version
            With that of its gradient op, where it has one.
        modules : sequence of str
            Modules under which it serves the retired PyOp's nodes.

        Returns
        -------
        Op
            The registry's, if it had none of that name. Else an op beside it, which serves whoever keeps it.
        """
        op = locked(self._lock, self._admit, version, modules)
        if self._ops.get(op.name) is op:
            self._listeners.defined(_with_gradient(op.current))
        return op

    def _admit(self, version: Version, modules: Sequence[str]) -> Op:
        self.epoch += 1
        gradient = version.gradient and replace(version.gradient, epoch=self.epoch)
        version = replace(version, epoch=self.epoch, gradient=gradient)
        admitted = _with_gradient(version)
        ops = [Op(one.op, (one,)) for one in admitted]
        if not any(one.op in held for one in admitted for held in (self._ops, self._removed)):
            self._ops |= {op.name: op for op in ops}
            self._modules |= {(module, version.cls.__name__): ops[0] for module in modules}
            return ops[0]
        for op in ops:
            known = self._ops.get(op.name) or self._removed.get(op.name)
            if known is not None:
                known._last = max(
                    known._last, op._last
                )  # the next definition's number is new to both
            op.beside = ops  # neither goes without the other
        return ops[0]

    def gradient_of(self, op: Op) -> Op | None:
        """Find the gradient op of an op: the registry's, or one beside it.

        Parameters
        ----------
        op : Op

        Returns
        -------
        Op or None
        """
        return next((other for other in op.beside if other is not op), None) or self._gradient_op(
            op.name
        )

    def defining(self, version: Version) -> Version:
        """Return the version that the user defined, which for a gradient op is the one it came with.

        Parameters
        ----------
        version : Version

        Returns
        -------
        Version
        """
        name = version.gradient_of
        if name is None:
            return version
        ops = filter(None, (self._ops.get(name), self._removed.get(name)))
        return next((one for op in ops for one in op.versions if one.gradient is version), version)

    # ---- epochs --------------------------------------------------------------------------------------------------------------

    def begin_epoch(self) -> int:
        """Begin an epoch without a definition, to tell later runs from earlier ones.

        Returns
        -------
        int
        """
        return locked(self._lock, self._advance, 1)

    def begin_private_epoch(self) -> int:
        """Begin an epoch that is never the registry's current one, for the caller's own runs.

        Returns
        -------
        int
        """
        return locked(self._lock, self._advance, 2) - 1

    def _advance(self, by: int) -> int:
        self.epoch += by
        return self.epoch

    @hide_internal_frames
    @check_arguments
    def subscribe(
        self, listener: Callable[[Version], None], *, removed: Callable[[str], None] | None = None
    ) -> Callable[[], None]:
        """Call a function after each definition.

        Parameters
        ----------
        listener : callable
            Called with the new `Version`.
        removed : callable, optional
            Called with the name of an op after `remove` or `clear`.

        Returns
        -------
        callable
            Ends it when called.
        """
        return self._listeners.add(listener, removed)

    def __getitem__(self, name: str) -> Op:
        domain, op_type = split_name(name)
        op = self._ops.get(f"{domain}::{op_type}")
        if op is None:
            op = self._by_type(name)
            if op is None:
                raise UnknownOp(
                    f"op {sanitize(name)}",
                    expected="an op of the registry",
                    got=sanitize(name),
                    next=suggest(f"{domain}::{op_type}", list(self._ops))
                    if self._ops
                    else "define it: %%pyop",
                )
        return op

    def _by_type(self, name: str) -> Op | None:
        # %pyop history SoftClip works while only one domain has a SoftClip.
        ops = [op for op in list(self._ops.values()) if op.op_type == name]
        return ops[0] if len(ops) == 1 else None

    def find(self, domain: str, op_type: str) -> Op | None:
        """Find the op of exactly this domain and type.

        Parameters
        ----------
        domain, op_type : str

        Returns
        -------
        Op or None
        """
        return self._ops.get(f"{'' if domain == 'ai.onnx' else domain}::{op_type}")

    def definer(self, op: Op) -> Op:
        """Return the op whose class defines an op, which for a gradient op is the one it differentiates.

        Parameters
        ----------
        op : Op

        Returns
        -------
        Op
        """
        return self._ops.get(op.current.gradient_of or "", op)

    def find_class(self, module: str, class_name: str) -> Op | None:
        """Find the op that serves the retired PyOp's nodes with this ``module`` and ``class_name``.

        Parameters
        ----------
        module, class_name : str

        Returns
        -------
        Op or None
        """
        return self._modules.get((module, class_name))

    @hide_internal_frames
    @check_arguments
    def modules_of(self, name: str) -> tuple[str, ...]:
        """List the modules under which an op serves the retired PyOp's nodes.

        Parameters
        ----------
        name : str

        Returns
        -------
        tuple of str
        """
        return tuple(module for (module, _), op in list(self._modules.items()) if op.name == name)

    def _ipython_key_completions_(self) -> list[str]:
        return sorted(self._ops)

    def __contains__(self, name: object) -> bool:
        try:
            return isinstance(name, str) and bool(self[name])
        except (UnknownOp, DefinitionError):
            return False

    def __iter__(self) -> Iterator[Op]:
        return iter(sorted(self._ops.values(), key=lambda op: op.name))

    def __len__(self) -> int:
        return len(self._ops)

    @hide_internal_frames
    @check_arguments
    def history(self, name: str) -> tuple[Version, ...]:
        """List the last `MAX_VERSIONS` versions of an op, oldest first.

        Parameters
        ----------
        name : str

        Returns
        -------
        tuple of Version

        Raises
        ------
        UnknownOp
            There is no such op.
        """
        return self[name].versions

    @hide_internal_frames
    @check_arguments
    def rollback(self, name: str, number: int | None = None) -> Version:
        """Make an earlier version current again, as a new version.

        Parameters
        ----------
        name : str
        number : int, optional
            The version to restore; the one before the current if not given.

        Returns
        -------
        Version

        Raises
        ------
        UnknownOp
            There is no such op or no such version.
        DefinitionError
            It is a gradient op, which goes with its op.
        """
        op = self._refuse_gradient(self[name], "rollback")
        # The number before the current one may be that of a withdrawn version. The tuple is replaced, never changed.
        old = op.versions[-2:-1] if number is None else (find_version(op, number, ", rollback"),)
        if not old:
            next_ = "edit its class and run that again"
            raise UnknownOp(
                f"op {op.name}, rollback", expected="two versions", got="one", next=next_
            )
        return self.define(
            old[0].cls, op.name, opset=old[0].opset, source=old[0].source, restored=old[0].number
        )

    @hide_internal_frames
    @check_arguments
    def remove(self, name: str) -> None:
        """Remove an op, and its gradient op. Sessions keep the version that they use, and follow when it is defined again.

        Parameters
        ----------
        name : str

        Raises
        ------
        UnknownOp
            There is no such op.
        DefinitionError
            It is a gradient op, which goes with its op.
        """
        op = self._refuse_gradient(self[name], "remove")
        self._listeners.removed(locked(self._lock, self._remove_both, op))

    def _remove_both(self, op: Op) -> list[str]:
        dropped = self._drop_gradient(op.name)
        self._remove(op)
        return [op.name, *dropped]

    def _refuse_gradient(self, op: Op, what: str) -> Op:
        of = op.current.gradient_of
        if of is not None and self._gradient_op(of) is op:
            raise DefinitionError(
                f"op {op.name}, {what}",
                expected="an op that was defined by itself",
                got=f"the gradient op of {of}",
                next=f'pyopnb.registry.{what}("{of}")',
            )
        return op

    def _remove(self, op: Op) -> None:
        if op.name in self._ops:  # another thread may have been faster
            self._removed[op.name] = (
                op  # first: an op that is in neither would be another one when it is defined again
            )
            del self._ops[op.name]
        self._modules = {key: other for key, other in self._modules.items() if other is not op}

    def clear(self) -> None:
        """Remove every op; version numbers begin at 1 again."""
        self._listeners.removed(locked(self._lock, self._clear))

    def _clear(self) -> list[str]:
        names = list(self._ops)
        self._ops.clear()
        self._removed.clear()
        self._modules.clear()
        return names


def _with_gradient(version: Version) -> list[Version]:
    return [version] if version.gradient is None else [version, version.gradient]


registry = Registry()
"""The registry that sessions use."""


def find_op(op: str | type | Op) -> Op:
    """Find an op of the registry by its name or class.

    Parameters
    ----------
    op : str, type or Op

    Returns
    -------
    Op

    Raises
    ------
    UnknownOp
        There is none, or the class has two names.
    """
    if isinstance(op, str):
        return registry[op]
    if isinstance(op, Op):
        return registry[op.name]
    if not isinstance(op, type):
        raise UnknownOp(
            "op",
            expected="the name of an op, or its class",
            got=f"an object of {type(op).__name__}",
        )
    ops = [candidate for candidate in registry if candidate.current.cls is op]
    if len(ops) == 1:
        return ops[0]
    where = f"class {sanitize(op.__name__)}"
    if ops:
        got = f"the class of {', '.join(candidate.name for candidate in ops)}"
        raise UnknownOp(where, expected="the class of one op", got=got, next=repr(ops[0].name))
    older = next(
        (other for other in registry if any(version.cls is op for version in other.versions)), None
    )
    if older is not None:
        raise UnknownOp(
            where,
            expected="the class of an op's current version",
            got=f"that of an earlier version of {older.name}",
            next=f"{older.name!r}, or registry.rollback",
        )
    known = suggest(op.__name__, [other.name for other in registry])
    expected = "the class of an op in the registry"
    raise UnknownOp(
        where, expected=expected, got="one that is not in it", next=f"@pyopnb.pyop, or {known}"
    )
