"""Optimizers as ONNX nodes, after the operators of ``ai.onnx.preview.training``, for which ONNX Runtime has no kernels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import ClassVar

from pyopnb.errors import InputError
from pyopnb.ops.messages import sanitize, suggest
from pyopnb.training.nodes import Nodes

__all__ = ["SGD", "Adagrad", "Adam", "Momentum", "Optimizer", "find_optimizer"]


@dataclass(frozen=True)
class Optimizer:
    """How weights follow from gradients; the base class of the four.

    Parameters
    ----------
    learning_rate : float
    norm_coefficient : float
        Of the L2 regularization, whose gradient ``norm_coefficient * weight`` is added to that of the loss.

    Raises
    ------
    InputError
        A number that makes no sense there.
    """

    learning_rate: float = 1e-3
    norm_coefficient: float = 0.0
    slots: ClassVar[tuple[str, ...]] = ()
    """Names of the arrays that are kept beside each weight; they begin with zeros."""
    below_one: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.type == "bool" and not isinstance(value, bool):
                raise InputError(
                    f"{type(self).__name__}, {field.name}",
                    expected="True or False",
                    got=sanitize(repr(value)),
                )
            if field.type == "float":
                good = (
                    type(value) is not bool
                    and isinstance(value, (int, float))
                    and math.isfinite(value)
                    and value >= 0
                )
                expected = (
                    "a number from 0 on"
                    if field.name not in self.below_one
                    else "a number from 0 to below 1"
                )
                if not good or (field.name in self.below_one and value >= 1):
                    raise InputError(
                        f"{type(self).__name__}, {field.name}",
                        expected=expected,
                        got=sanitize(repr(value)),
                    )

    def rate(self, nodes: Nodes, count: str, dtype: str) -> str:
        """Append what all weights share: the rate of a step, whose number from 1 on is the int64 ``count``."""
        return nodes.constant(self.learning_rate, dtype)

    def update(
        self, nodes: Nodes, weight: str, gradient: str, slots: Sequence[str], rate: str, dtype: str
    ) -> tuple[str, ...]:
        """Append the update of one weight; the names of the new weight and the new slots."""
        return (
            nodes.add(
                "Sub",
                weight,
                nodes.add("Mul", rate, self._regularized(nodes, weight, gradient, dtype)),
            ),
        )

    def _regularized(self, nodes: Nodes, weight: str, gradient: str, dtype: str) -> str:
        if not self.norm_coefficient:
            return gradient
        return nodes.add(
            "Add", nodes.add("Mul", nodes.constant(self.norm_coefficient, dtype), weight), gradient
        )


@dataclass(frozen=True)
class SGD(Optimizer):
    """Stochastic gradient descent: ``weight - learning_rate * gradient``.

    Parameters
    ----------
    learning_rate, norm_coefficient : float
        As for all optimizers.
    """

    learning_rate: float = 1e-2


@dataclass(frozen=True)
class Momentum(Optimizer):
    """Gradient descent with momentum, as ONNX's operator ``Momentum`` defines it.

    Parameters
    ----------
    learning_rate, norm_coefficient : float
        As for all optimizers.
    alpha : float
        The share of the last step that is kept.
    beta : float
        The weight of the gradient.
    nesterov : bool
        Nesterov's form.
    """

    learning_rate: float = 1e-2
    alpha: float = 0.9
    beta: float = 1.0
    nesterov: bool = False
    slots: ClassVar[tuple[str, ...]] = ("momentum",)
    below_one: ClassVar[tuple[str, ...]] = ("alpha",)

    def update(
        self, nodes: Nodes, weight: str, gradient: str, slots: Sequence[str], rate: str, dtype: str
    ) -> tuple[str, ...]:
        """As `Optimizer.update`."""
        alpha = nodes.constant(self.alpha, dtype)
        gradient = self._regularized(nodes, weight, gradient, dtype)
        scaled = (
            gradient
            if self.beta == 1
            else nodes.add("Mul", nodes.constant(self.beta, dtype), gradient)
        )
        kept = nodes.add("Add", nodes.add("Mul", alpha, slots[0]), scaled)
        step = nodes.add("Add", gradient, nodes.add("Mul", alpha, kept)) if self.nesterov else kept
        return nodes.add("Sub", weight, nodes.add("Mul", rate, step)), kept


@dataclass(frozen=True)
class Adagrad(Optimizer):
    """Adagrad, as ONNX's operator ``Adagrad`` defines it (Duchi, Hazan and Singer, 2011).

    Parameters
    ----------
    learning_rate, norm_coefficient : float
        As for all optimizers.
    decay_factor : float
        In step t, counted from 1, the rate is ``learning_rate / (1 + t * decay_factor)``.
    epsilon : float
        Added to the root of the sum of squares.
    """

    learning_rate: float = 1e-2
    decay_factor: float = 0.0
    epsilon: float = 1e-6
    slots: ClassVar[tuple[str, ...]] = ("squares",)

    def rate(self, nodes: Nodes, count: str, dtype: str) -> str:
        """As `Optimizer.rate`."""
        if not self.decay_factor:
            return super().rate(nodes, count, dtype)
        decay = nodes.add(
            "Mul", nodes.cast(count, "float64"), nodes.constant(self.decay_factor, "float64")
        )
        decay = nodes.add("Add", nodes.constant(1, "float64"), decay)
        return nodes.cast(
            nodes.add("Div", nodes.constant(self.learning_rate, "float64"), decay), dtype
        )

    def update(
        self, nodes: Nodes, weight: str, gradient: str, slots: Sequence[str], rate: str, dtype: str
    ) -> tuple[str, ...]:
        """As `Optimizer.update`."""
        gradient = self._regularized(nodes, weight, gradient, dtype)
        squares = nodes.add("Add", slots[0], nodes.add("Mul", gradient, gradient))
        root = nodes.add("Add", nodes.add("Sqrt", squares), nodes.constant(self.epsilon, dtype))
        return nodes.add(
            "Sub", weight, nodes.add("Div", nodes.add("Mul", rate, gradient), root)
        ), squares


@dataclass(frozen=True)
class Adam(Optimizer):
    """Adam, as ONNX's operator ``Adam`` defines it (Kingma and Ba, 2014).

    The first step is t = 1, as in the paper; the operator leaves the correction of the bias out where it is given t = 0.

    Parameters
    ----------
    learning_rate, norm_coefficient : float
        As for all optimizers.
    alpha, beta : float
        The shares of the running means of gradients and of their squares that are kept.
    epsilon : float
        Added to the root of the squares' mean.
    """

    alpha: float = 0.9
    beta: float = 0.999
    epsilon: float = 1e-8
    slots: ClassVar[tuple[str, ...]] = ("mean", "square")
    below_one: ClassVar[tuple[str, ...]] = ("alpha", "beta")

    def rate(self, nodes: Nodes, count: str, dtype: str) -> str:
        """As `Optimizer.rate`; in float64, as 1 - 0.999 keeps four digits in float32."""
        step, one = nodes.cast(count, "float64"), nodes.constant(1, "float64")

        def left(kept: float) -> str:
            return nodes.add("Sub", one, nodes.add("Pow", nodes.constant(kept, "float64"), step))

        root = nodes.add(
            "Mul", nodes.constant(self.learning_rate, "float64"), nodes.add("Sqrt", left(self.beta))
        )
        return nodes.cast(nodes.add("Div", root, left(self.alpha)), dtype)

    def update(
        self, nodes: Nodes, weight: str, gradient: str, slots: Sequence[str], rate: str, dtype: str
    ) -> tuple[str, ...]:
        """As `Optimizer.update`."""
        gradient = self._regularized(nodes, weight, gradient, dtype)

        def running(kept: float, old: str, new: str) -> str:
            return nodes.add(
                "Add",
                nodes.add("Mul", nodes.constant(kept, dtype), old),
                nodes.add("Mul", nodes.constant(1 - kept, dtype), new),
            )

        mean = running(self.alpha, slots[0], gradient)
        square = running(self.beta, slots[1], nodes.add("Mul", gradient, gradient))
        root = nodes.add("Add", nodes.add("Sqrt", square), nodes.constant(self.epsilon, dtype))
        return (
            nodes.add("Sub", weight, nodes.add("Div", nodes.add("Mul", rate, mean), root)),
            mean,
            square,
        )


_OPTIMIZERS: dict[str, type[Optimizer]] = {
    "sgd": SGD,
    "momentum": Momentum,
    "adagrad": Adagrad,
    "adam": Adam,
}


def find_optimizer(given: object) -> Optimizer:
    """An optimizer by its name, or the one that was given."""
    if isinstance(given, Optimizer):
        return given
    if isinstance(given, str) and given.lower() in _OPTIMIZERS:
        return _OPTIMIZERS[given.lower()]()
    names = ", ".join(_OPTIMIZERS)
    next_ = suggest(given, _OPTIMIZERS) if isinstance(given, str) else "pyopnb.training.Adam(1e-3)"
    raise InputError(
        "train, optimizer",
        expected=f"one of {names}, or an Optimizer",
        got=sanitize(repr(given)),
        next=next_,
    )
