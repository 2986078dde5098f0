"""A fitted estimator as an op, one class of the registry each."""

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

from pyopnb.models.nodes import walk
from pyopnb.ops.locks import locked
from pyopnb.ops.op import Version
from pyopnb.ops.registry import registry
from pyopnb.ops.text_table import Table
from pyopnb.ops.types import TensorType, tensor_type
from pyopnb.sklearn import stored
from pyopnb.sklearn.columns import Columns
from pyopnb.sklearn.samples import outputs_of

__all__ = ["DOMAIN", "Filled", "FittedEstimator", "define", "filled"]

DOMAIN = "sklearn"


class FittedEstimator:
    """The base of the ops that `convert` makes: each holds one fitted estimator, and calls it.

    Attributes
    ----------
    estimator : object
        The fitted estimator; a copy, so that fitting the original again changes no model.
    methods : tuple of str
        The methods whose results are the outputs.
    outputs : tuple of str
        The types of the outputs.
    columns : Columns
        What the estimator was called with, from which the inputs are put together again.
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
        def compute(self: Any, *inputs: np.ndarray) -> tuple[np.ndarray, ...]:
            results = outputs_of(self.estimator, list(self.methods), self.columns.join(inputs))
            return tuple(_as(result, kind) for result, kind in zip(results, types, strict=True))

        types = [tensor_type(text) for text in cls.outputs]
        ports = [Parameter("self", Parameter.POSITIONAL_OR_KEYWORD), Parameter("inputs", Parameter.VAR_POSITIONAL)]
        compute.__signature__ = inspect.Signature(ports, return_annotation=types)  # type: ignore[attr-defined]
        cls.compute = compute  # type: ignore[attr-defined]

    def __init__(self) -> None:
        locked(_lock, self._load)

    @classmethod
    def _load(cls) -> None:
        if cls.estimator is None:
            cls.estimator = stored.load(cls.__name__, cls.stored, cls.format, cls.trusted)

    @classmethod
    def _module_source(cls, version: Version) -> str:
        """The text of a module that defines the op anew, with the fitted estimator in it."""
        if cls.format is None:
            cls.stored, cls.format, cls.trusted = stored.dump(f"op {version.op}", cls.estimator)
        return stored.module_text(cls, version.op)


_lock = threading.RLock()
_numbers = itertools.count()


def _as(result: np.ndarray, kind: TensorType) -> np.ndarray:
    if kind.dtype is None or kind.dtype.name == "string":
        return result.astype(object)
    return result.astype(kind.dtype.numpy)  # the declared dtype is the one that this estimator gave, or its floats' width


def define(estimator: Any, methods: Sequence[str], types: Sequence[TensorType], columns: Columns, reason: str) -> str:
    """Make an op of a fitted estimator.

    Parameters
    ----------
    estimator : object
    methods : sequence of str
    types : sequence of TensorType
        Of the outputs.
    columns : Columns
    reason : str

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
        "__doc__": f"{type(estimator).__module__.partition('._')[0]}.{type(estimator).__name__}, as it was fitted.",
    }
    digits = stored.digest((estimator, body["methods"], body["outputs"], repr(columns)))
    # Without one, as for a lambda, every conversion is an op of its own.
    name = f"{type(estimator).__name__}_{digits[:10] if digits else f'in_this_process_{next(_numbers)}'}"
    if registry.find(DOMAIN, name) is None:
        registry.define(type(name, (FittedEstimator,), body), f"{DOMAIN}::{name}")
    return name


@dataclass(frozen=True)
class Filled:
    """An estimator that runs as an op.

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


class _Table(tuple[Filled, ...]):
    def __repr__(self) -> str:
        return repr(self._table())

    def _repr_html_(self) -> str:
        return self._table()._repr_html_()

    def _table(self) -> Table:
        rows = [(one.op, type(one.estimator).__name__, one.reason) for one in self]
        return Table(("op", "estimator", "why"), rows, "No estimator runs as an op: skl2onnx converts all of them.")


def filled(model: ModelProto) -> tuple[Filled, ...]:
    """The estimators of a model that run as ops, because skl2onnx does not convert them.

    Parameters
    ----------
    model : ModelProto
        What `convert` returned.

    Returns
    -------
    tuple of Filled
        It is shown as a table.
    """
    rows: dict[str, Filled] = {}
    for site in walk(model):
        op = registry.find(site.node.domain, site.node.op_type)
        if op is not None and issubclass(op.current.cls, FittedEstimator):
            cls = op.current.cls
            rows[op.name] = Filled(op.name, cls.estimator, cls.reason, _cell(op.op_type, cls))
    return _Table(rows.values())


def _cell(op_type: str, cls: type[FittedEstimator]) -> str:
    returned = ", ".join(f'"{text}"' for text in cls.outputs)
    lines = [
        f"%%pyop -d {DOMAIN}",
        f"class {op_type}:",
        f'    """{cls.__doc__}"""',
        f"    def compute(self, *inputs) -> {returned if len(cls.outputs) == 1 else f'({returned})'}:",
        f"        raise NotImplementedError  # {', '.join(cls.methods)} of {cls.columns}",
    ]
    return "\n".join(lines) + "\n"
