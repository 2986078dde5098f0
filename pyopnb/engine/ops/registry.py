"""The registry: ops under their names, each with its versions.

A definition replaces one reference and calls the listeners. Magics, sessions and views know the
registry and not each other. A new version is built and checked completely before the swap, so a
definition that fails leaves the last good one in place.

Time is counted in epochs. Each definition begins one, and a run asks for the versions of the epoch
in which it began, so that a run in flight never sees half of a change.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from pyopnb.common import Displayable, hand_downs, locks, messages
from pyopnb.engine.ops.argument_checks import check_arguments, describe, is_text
from pyopnb.engine.ops.backward import GRADIENT, gradient_class, gradient_schema
from pyopnb.engine.ops.class_texts import class_source, was_changed
from pyopnb.engine.ops.listeners import Listeners
from pyopnb.engine.ops.op import Op, Version
from pyopnb.engine.ops.op_names import canonical_domain, check_opset, split_name
from pyopnb.engine.ops.op_run import as_op, is_written_as, name_of
from pyopnb.engine.ops.signature import schema_of
from pyopnb.errors import DefinitionError, UnknownName

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
        # By module and class name, as the retired PyOp's nodes ask for them.
        self._by_class: dict[tuple[str, str], Op] = {}
        self._listeners = Listeners()
        self._lock = threading.RLock()
        self.epoch = 0

    def __repr__(self) -> str:
        lines = [repr(op) for op in self]
        if not lines:
            return "no op is defined. Try: %%pyop in a cell"
        if len(lines) > _MAX_LISTED:
            lines[_MAX_LISTED:] = [f"and {len(lines) - _MAX_LISTED} more"]
        return "\n".join(lines)

    # ---- definitions -----------------------------------------------------------------------------

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
        """Define the next version of an op, and call the listeners.

        If the class has ``backward``, this also defines the next version of its gradient op.

        Parameters
        ----------
        cls : type
            See `pyopnb.engine.ops.signature.schema_of`.
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
            The new version, which is the current one.

        Raises
        ------
        DefinitionError
            The class cannot be an op, or the name of one of the two ops is taken by the other kind;
            the registry is unchanged.
        Exception
            The first that a listener raises, after all of them were called.
        """
        cls = as_op(cls)
        schema = schema_of(cls)
        if name is None or (isinstance(name, str) and not name):
            name = name_of(cls)
        key = "::".join(split_name(name))
        check_opset(opset, f"op {key}")
        if not (module is None or is_text(module)):
            raise DefinitionError(
                f"op {key}, module",
                expected="str, or None",
                got=describe(module),
                next='module="my_module"',
            )
        # All that can fail comes before the lock: reading the class, and making the class of the
        # gradient op. Number, time and epoch are filled in under it.
        draft = Version(key, 0, cls, schema, opset, source, 0.0, 0, restored)
        if schema.differentiable:
            gradient = Version(
                f"{key}{GRADIENT}",
                0,
                gradient_class(cls, schema, key),
                gradient_schema(schema, key),
                opset,
                source,
                0.0,
                0,
                gradient_of=key,
            )
            draft = replace(draft, gradient=gradient)
        version, dropped = locks.locked(self._lock, self._define, draft, module)
        self._listeners.tell(version.with_gradient, dropped)
        return version

    def _define(self, draft: Version, module: str | None) -> tuple[Version, list[str]]:
        """Add a version, also of the gradient op; return the names of ops that this removes."""
        self._refuse_mixed(draft)
        # Both ops get one epoch, and the registry's own moves last, so that no run sees one of
        # them without the other.
        epoch, now = self.epoch + 1, time.time()
        op = self._ops.get(draft.op) or self._removed.get(draft.op) or Op(draft.op)
        former = op.gradient if draft.op in self._ops else None
        number = op.last_number + 1
        gradient = draft.gradient
        if gradient is not None:
            gradient = replace(gradient, number=number, defined=now, epoch=epoch)
        version = replace(draft, number=number, defined=now, epoch=epoch, gradient=gradient)
        # A removed op that is defined again is the same op to the sessions that use it,
        # so its numbers go on.
        op.add(version)
        self._ops[op.name] = op
        self._removed.pop(op.name, None)
        if module is not None:
            self._by_class[module, version.cls.__name__] = op
        self.epoch = epoch
        return version, [former.name] if former is not None and gradient is None else []

    def _refuse_mixed(self, draft: Version) -> None:
        """Refuse to put an op in place of a gradient op, or the other way round."""
        standing = self._lookup(draft.op)
        if standing is not None and standing.base is not None:
            got = f"the name of the gradient op of {standing.base.name}"
            advice = f"{draft.op}2"
            raise DefinitionError(f"op {draft.op}", expected="another name", got=got, next=advice)
        if draft.gradient is not None and draft.gradient.op in self._ops:
            name = draft.gradient.op
            raise DefinitionError(
                f"op {draft.op}, backward",
                expected=f"the name {name} to be free for its gradient op",
                got="an op of that name",
                next=f'pyopnb.registry.remove("{name}"), or define it under another name',
            )

    def withdraw(self, version: Version, *, modules: Sequence[str] = ()) -> None:
        """Take a version back, as if it had not been defined.

        The version before it serves again; if there is none, the op is removed.
        A run in flight finishes with the version that it began with. The number is not used again.

        Parameters
        ----------
        version : Version
            Nothing happens if the registry does not have it any more.
        modules : sequence of str
            The result of `modules_of` before the definition.
        """
        op, dropped = locks.locked(self._lock, self._withdraw, version, modules)
        if op is None:
            return
        if op.versions:
            self._listeners.tell(op.current.with_gradient, dropped)
        else:
            self.remove(op.name)

    def _withdraw(self, version: Version, modules: Sequence[str]) -> tuple[Op | None, list[str]]:
        op = self._ops.get(version.op)
        if op is None or not any(entry is version for entry in op.versions):
            return None, []
        # A version that was replaced meanwhile only leaves the history.
        was_current = op.current is version
        op.drop(version)
        for module in set(self.modules_of(op.name)) - set(modules):
            self._forget_class(op, module)
        if not op.versions or not was_current:
            return op, []
        self.epoch += 1
        # Under a new epoch, so that runs that began earlier finish with the version that is taken
        # back.
        former = op.versions[-1]
        op.restore(former, self.epoch)
        if version.gradient is not None and former.gradient is None:
            return op, [version.gradient.op]
        return op, []

    # ---- ops from other processes ----------------------------------------------------------------

    def admit(self, version: Version, modules: Sequence[str] = ()) -> Op:
        """Register a version received from another process, under its own number.

        Parameters
        ----------
        version : Version
            With the version of its gradient op, where it has one.
        modules : sequence of str
            Modules under which it serves the retired PyOp's nodes.

        Returns
        -------
        Op
            The registry's, if it had none of that name. Else an op beside it, which
            serves code that keeps it.
        """
        op = locks.locked(self._lock, self._admit, version, modules)
        if self._ops.get(op.name) is op:
            self._listeners.tell(op.current.with_gradient)
        return op

    def _admit(self, version: Version, modules: Sequence[str]) -> Op:
        self.epoch += 1
        gradient = version.gradient
        if gradient is not None:
            gradient = replace(gradient, epoch=self.epoch)
        version = replace(version, epoch=self.epoch, gradient=gradient)
        op = Op(version.op, (version,))
        namesake = self._ops.get(op.name) or self._removed.get(op.name)
        if namesake is not None:
            # The next definition's number is new to both.
            namesake.last_number = max(namesake.last_number, op.last_number)
        elif gradient is None or gradient.op not in self._ops:
            # The names are free: from now on it is an op as any other.
            self._ops[op.name] = op
            for module in modules:
                self._by_class[module, version.cls.__name__] = op
        return op

    # ---- epochs ----------------------------------------------------------------------------------

    def begin_epoch(self) -> int:
        """Begin an epoch without a definition, to tell later runs from earlier ones.

        Returns
        -------
        int
            The number of the new epoch.
        """
        return locks.locked(self._lock, self._advance, 1)

    def begin_private_epoch(self) -> int:
        """Begin an epoch that is never the registry's current one, for the caller's own runs.

        Returns
        -------
        int
            The number of the new epoch.
        """
        return locks.locked(self._lock, self._advance, 2) - 1

    def _advance(self, count: int) -> int:
        self.epoch += count
        return self.epoch

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

    # ---- look-ups --------------------------------------------------------------------------------

    def __getitem__(self, name: str) -> Op:
        key = "::".join(split_name(name))
        op = self._lookup(key)
        if op is not None:
            return op
        # %pyop history SoftClip works while only one domain has a SoftClip.
        namesakes = [op for op in self if op.op_type == name]
        if len(namesakes) == 1:
            return namesakes[0]
        raise UnknownName(
            f"op {name}",
            expected="an op of the registry",
            got=name,
            next=messages.closest(key, self._ipython_key_completions_()) or "define it: %%pyop",
        )

    def find(self, domain: str, op_type: str) -> Op | None:
        """Find the op of exactly this domain and type.

        Parameters
        ----------
        domain, op_type : str
            As a node has them.

        Returns
        -------
        Op or None
            None if there is none in the registry.
        """
        return self._lookup(f"{canonical_domain(domain)}::{op_type}")

    def _lookup(self, name: str) -> Op | None:
        op = self._ops.get(name)
        # A gradient op is kept by the op whose class has `backward`, and not here.
        if op is None and name.endswith(GRADIENT):
            base = self._ops.get(name.removesuffix(GRADIENT))
            op = None if base is None else base.gradient
        return op

    def find_class(self, module: str, class_name: str) -> Op | None:
        """Find the op that serves the retired PyOp's nodes with this ``module`` and ``class_name``.

        Parameters
        ----------
        module, class_name : str
            The attributes of the node.

        Returns
        -------
        Op or None
            None if no op serves them.
        """
        return self._by_class.get((module, class_name))

    @check_arguments
    def modules_of(self, name: str) -> tuple[str, ...]:
        """List the modules under which an op serves the retired PyOp's nodes.

        Parameters
        ----------
        name : str
            ``domain::OpType``.

        Returns
        -------
        tuple of str
            Empty for an op that serves no such nodes.
        """
        return tuple(module for (module, _), op in list(self._by_class.items()) if op.name == name)

    def _ipython_key_completions_(self) -> list[str]:
        # Users never type the name of a generated op.
        return [op.name for op in self if not op.is_generated]

    def __contains__(self, name: object) -> bool:
        try:
            return isinstance(name, str) and bool(self[name])
        except (UnknownName, DefinitionError):
            return False

    def __iter__(self) -> Iterator[Op]:
        ops = list(self._ops.values())
        ops += [op.gradient for op in ops if op.gradient is not None]
        return iter(sorted(ops, key=lambda op: op.name))

    def __len__(self) -> int:
        ops = list(self._ops.values())
        return len(ops) + sum(op.gradient is not None for op in ops)

    # ---- history ---------------------------------------------------------------------------------

    @check_arguments
    def history(self, name: str) -> tuple[Version, ...]:
        """List the last 100 versions of an op, oldest first.

        Parameters
        ----------
        name : str
            ``domain::OpType``.

        Returns
        -------
        tuple of Version
            The current version is the last.

        Raises
        ------
        UnknownName
            There is no such op.
        """
        return self[name].versions

    @check_arguments
    def rollback(self, name: str, number: int | None = None) -> Version:
        """Make an earlier version current again, as a new version.

        Parameters
        ----------
        name : str
            ``domain::OpType``.
        number : int, optional
            The version to restore; the one before the current if not given.

        Returns
        -------
        Version
            The new version, whose ``restored`` is the number of the old one.

        Raises
        ------
        UnknownName
            There is no such op or no such version.
        DefinitionError
            It is a gradient op, which goes with its op; or the class was changed in place.
        """
        op = self._refuse_gradient(self[name], "rollback")
        # The tuple is replaced and never changed, so another thread cannot empty it below.
        versions = op.versions
        if number is not None:
            old = op.find_version(number, ", rollback")
        elif len(versions) > 1:
            # The number before the current one may belong to a withdrawn version.
            old = versions[-2]
        else:
            raise UnknownName(
                f"op {op.name}, rollback",
                expected="two versions",
                got="one",
                next="edit its class and run that again",
            )
        if was_changed(old.cls, old.source):
            raise DefinitionError(
                f"op {op.name}, rollback",
                expected=f"an unchanged class of version {old.number}",
                got="one that was changed in place, as by %autoreload",
                next=f"%pyop source {op.name} {old.number}, and that text in a %%pyop cell",
            )
        return self.define(
            old.cls, op.name, opset=old.opset, source=old.source, restored=old.number
        )

    @check_arguments
    def remove(self, name: str) -> None:
        """Remove an op and its gradient op.

        Sessions keep the version that they use, and follow when the op is defined again.

        Parameters
        ----------
        name : str
            ``domain::OpType``.

        Raises
        ------
        UnknownName
            There is no such op.
        DefinitionError
            It is a gradient op, which goes with its op.
        """
        op = self._refuse_gradient(self[name], "remove")
        self._listeners.tell((), locks.locked(self._lock, self._remove, op))

    def _refuse_gradient(self, op: Op, method: str) -> Op:
        if op.base is not None:
            name = op.base.name
            raise DefinitionError(
                f"op {op.name}, {method}",
                expected="an op that was defined by itself",
                got=f"the gradient op of {name}",
                next=f'pyopnb.registry.{method}("{name}")',
            )
        return op

    def _remove(self, op: Op) -> list[str]:
        if op.name in self._ops:  # another thread may have been faster
            # First, because an op in neither place would be a different one when it is defined
            # again.
            self._removed[op.name] = op
            del self._ops[op.name]
        for module in self.modules_of(op.name):
            self._forget_class(op, module)
        return [op.name] if op.gradient is None else [op.name, op.gradient.name]

    def _forget_class(self, op: Op, module: str) -> None:
        """Stop serving the retired PyOp's nodes by an op's class in a module."""
        for key, serving in list(self._by_class.items()):
            if serving is op and key[0] == module:
                del self._by_class[key]

    def clear(self) -> None:
        """Remove every op; version numbers begin at 1 again."""
        self._listeners.tell((), locks.locked(self._lock, self._clear))

    def _clear(self) -> list[str]:
        # The removed ones are also forgotten: a session does not follow ops that are
        # defined from now on.
        names = [op.name for op in self]
        self._ops.clear()
        self._removed.clear()
        self._by_class.clear()
        return names


registry = Registry()
"""The registry that sessions use."""


def find_op(op: object) -> Op:
    """Find an op of the registry by its name or class.

    Parameters
    ----------
    op : str, type or Op

    Raises
    ------
    UnknownName
        There is no such op, or a class belongs to two ops or to an earlier version.
    """
    if isinstance(op, Op):
        return registry[op.name]
    if isinstance(op, str):
        try:
            return registry[op]
        except UnknownName:
            of_catalog: Op | None = hand_downs.handed_down("catalog_op")(op)
            if of_catalog is None:
                raise
            return of_catalog
    # One class can be defined under two names, and then does not say which op is meant.
    ops = [c for c in registry if is_written_as(c.current.cls, op)]
    if len(ops) == 1:
        return ops[0]
    # %autoreload changes the classes of earlier versions into the current one.
    for candidate in registry:
        is_earlier = any(is_written_as(version.cls, op) for version in candidate.versions)
        if isinstance(op, type) and is_earlier and not ops:
            source = class_source(op)
            if source is not None and source == candidate.current.source:
                return candidate
    # An instance of an op's class is a frequent slip, as is a variable that holds an earlier class.
    advice = "the name of an op, as %pyop lists them"
    for candidate in ops or registry:
        classes = [version.cls for version in candidate.versions]
        if op in classes or type(op) in classes:
            advice = repr(candidate.name)
            break
    raise UnknownName("op", expected="the name or class of one op", got=describe(op), next=advice)
