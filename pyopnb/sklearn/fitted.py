"""Fitted estimators as ops of the registry."""

from __future__ import annotations

import inspect
import itertools
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from inspect import Parameter
from typing import Any

import numpy as np
from onnx import ModelProto

from pyopnb.common import Table, locks, plural
from pyopnb.engine import TensorType, Version, protos, registry
from pyopnb.sklearn import stored
from pyopnb.sklearn.columns import Columns
from pyopnb.sklearn.samples import outputs_of

__all__ = ["DOMAIN", "FilledEstimator", "FittedEstimator", "RunsInPython", "define", "filled"]

DOMAIN = "sklearn"
_CELL = '''\
%%pyop -d {domain}
class {name}:
    """{doc}"""
    def compute(self, *inputs) -> ({hint}):
        raise NotImplementedError  # {methods} of {columns}
'''


class FittedEstimator:
    """The base of the ops that `convert` makes, each of which calls one fitted estimator.

    Attributes
    ----------
    estimator : object
        The fitted estimator; a copy, so that fitting the original again changes no model.
    methods : tuple of str
        The methods whose results are the outputs.
    outputs : tuple of str
        The types of the outputs.
    columns : Columns
        The form of the rows, to rebuild them from the inputs.
    reason : str
        Why skl2onnx does not convert it.
    """

    estimator: Any = None
    methods: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    columns: Columns = Columns()
    reason = ""
    format: str | None = None
    trusted: tuple[str, ...] = ()
    stored = ""

    def __init_subclass__(cls) -> None:
        # A file's module defines the class again, with types as texts.
        types = [TensorType.read(text) for text in cls.outputs]

        def compute(self: Any, *inputs: np.ndarray) -> tuple[np.ndarray, ...]:
            results = outputs_of(self.estimator, list(self.methods), self.columns.join(inputs))
            pairs = zip(results, types, strict=True)
            return tuple(_as_declared(result, declared) for result, declared in pairs)

        # pyopnb reads an op's ports from the signature.
        parameters = [
            Parameter("self", Parameter.POSITIONAL_OR_KEYWORD),
            Parameter("inputs", Parameter.VAR_POSITIONAL),
        ]
        signature = inspect.Signature(parameters, return_annotation=types)
        compute.__signature__ = signature  # type: ignore[attr-defined]
        cls.compute = compute  # type: ignore[attr-defined]

    def __init__(self) -> None:
        locks.locked(_lock, self._load)

    @classmethod
    def _load(cls) -> None:
        # Read when the op first runs, and by one thread only.
        if cls.estimator is None:
            cls.estimator = stored.load(cls.__name__, cls.stored, cls.format, cls.trusted)

    @classmethod
    def _module_source(cls, version: Version) -> str:
        """Write a module that defines the op again, with the fitted estimator in it."""
        if cls.format is None:
            cls.stored, cls.format, cls.trusted = stored.dump(f"op {version.op}", cls.estimator)
        return stored.module_text(cls, version.op)


_lock = threading.RLock()
_numbers = itertools.count()


def _as_declared(result: np.ndarray, declared: TensorType) -> np.ndarray:
    if declared.dtype is None or declared.dtype.name == "string":
        return result.astype(object)
    # The estimator gave that dtype for the example; only the width of its floats may be another.
    return result.astype(declared.dtype.numpy)


def define(
    estimator: Any,
    methods: Sequence[str],
    types: Sequence[TensorType],
    columns: Columns,
    reason: str,
) -> str:
    """Define an op that calls a fitted estimator.

    Parameters
    ----------
    types : sequence of TensorType
        The types of the outputs.

    Returns
    -------
    str
        The op type in the domain `DOMAIN`; the same one for the same fitted estimator.
    """
    body = {
        "estimator": estimator,
        "methods": tuple(methods),
        "outputs": tuple(map(str, types)),
        "columns": columns,
        "reason": reason,
        "__doc__": (
            f"{type(estimator).__module__.partition('._')[0]}."
            f"{type(estimator).__name__}, as it was fitted."
        ),
    }
    # The same fitted estimator is the same op, so that converting again makes no new version.
    digits = stored.digest((estimator, body["methods"], body["outputs"], repr(columns)))
    # An estimator without a digest, such as one with a lambda, is a new op each time.
    suffix = digits[:10] if digits else f"in_this_process_{next(_numbers)}"
    name = f"{type(estimator).__name__}_{suffix}"
    if registry.find(DOMAIN, name) is None:
        registry.define(type(name, (FittedEstimator,), body), f"{DOMAIN}::{name}")
    return name


@dataclass(frozen=True)
class FilledEstimator:
    """A Python node of a converted model: an estimator that runs as an op.

    Attributes
    ----------
    op : str
        ``sklearn::OpType``.
    estimator : object
        The fitted estimator.
    reason : str
        Why skl2onnx does not convert it.
    cell : str
        The ``%%pyop`` cell that would replace it, with its types.
    """

    op: str
    estimator: Any
    reason: str
    cell: str


class RunsInPython(UserWarning):
    """Python nodes of a converted model: estimators that run as ops.

    Attributes
    ----------
    parts : tuple of FilledEstimator
        The estimators, and why skl2onnx does not convert them.
    """

    def __init__(self, parts: Sequence[FilledEstimator]) -> None:
        self.parts = tuple(parts)
        nodes = plural(len(self.parts), "Python node")
        lines = [f"{nodes}, run by scikit-learn because skl2onnx refuses:"]
        lines += [f"  {type(part.estimator).__name__}: {part.reason}" for part in self.parts]
        super().__init__("\n".join(lines))

    def __reduce__(self) -> tuple[Any, ...]:
        # Another process need not have scikit-learn to read the warning.
        return UserWarning, (str(self),)


class _Table(tuple[FilledEstimator, ...]):
    def __repr__(self) -> str:
        return repr(self._table())

    def _repr_html_(self) -> str:
        return self._table()._repr_html_()

    def _table(self) -> Table:
        rows = [(part.op, type(part.estimator).__name__, part.reason) for part in self]
        empty = "No Python node: skl2onnx converts every estimator"
        return Table(("op", "estimator", "reason"), rows, empty)


def filled(model: ModelProto) -> tuple[FilledEstimator, ...]:
    """List the estimators of a model that run as ops, because skl2onnx does not convert them.

    Parameters
    ----------
    model : ModelProto
        A model from `convert`.

    Returns
    -------
    tuple of FilledEstimator
        A tuple that displays as a table.
    """
    rows: dict[str, FilledEstimator] = {}
    for site in protos.walk(model):
        op = registry.find(site.node.domain, site.node.op_type)
        if op is not None and issubclass(op.current.cls, FittedEstimator):
            cls = op.current.cls
            cell = _CELL.format(
                domain=DOMAIN,
                name=op.op_type,
                doc=cls.__doc__,
                hint=", ".join(map(repr, cls.outputs)),
                methods=", ".join(cls.methods),
                columns=cls.columns,
            )
            rows[op.name] = FilledEstimator(op.name, cls.estimator, cls.reason, cell)
    return _Table(rows.values())
