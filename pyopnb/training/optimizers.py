"""Optimizers as ONNX nodes.

They follow the operators of ``ai.onnx.preview.training``, for which ONNX Runtime has no kernels.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import ClassVar, TypeVar

from pyopnb.common import messages, sanitize
from pyopnb.engine import check_arguments
from pyopnb.errors import InputError
from pyopnb.training.nodes import Nodes

__all__ = ["SGD", "Adagrad", "Adam", "Momentum", "Optimizer", "find_optimizer"]


_Optimizer = TypeVar("_Optimizer", bound="Optimizer")

# The names that other libraries use.
_ADVICE = {"lr": "learning_rate=1e-3", "betas": "beta1=0.9, beta2=0.999", "eps": "epsilon=1e-8"}


def _check_names(cls: type[_Optimizer]) -> type[_Optimizer]:
    """Refuse parameters that an optimizer does not have, and suggest the right name."""
    constructor = check_arguments(cls.__init__, advice=_ADVICE)
    setattr(cls, "__init__", constructor)  # noqa: B010  # mypy takes no assignment to a method
    return cls


@_check_names
@dataclass(frozen=True)
class Optimizer:
    """Describe how gradients change weights; the base class of the optimizers.

    Parameters
    ----------
    learning_rate : float
        The factor of each step.
    weight_decay : float
        The factor of the L2 regularization, whose gradient ``weight_decay * weight`` is added to
        the gradient of the loss.

    Raises
    ------
    InputError
        A number is out of range.
    """

    learning_rate: float = 1e-3
    weight_decay: float = 0.0
    slots: ClassVar[tuple[str, ...]] = ()
    """Names of the arrays that are kept beside each weight; they begin with zeros."""
    below_one: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            expected = "True or False"
            is_right = isinstance(value, bool)
            if field.type == "float":
                # A bool is an int for Python, and no rate.
                is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
                expected = "a number from 0 on"
                is_right = is_number and math.isfinite(value) and value >= 0
                if field.name in self.below_one:
                    expected = "a number from 0 to below 1"
                    is_right = is_right and value < 1
            if not is_right:
                where = f"{type(self).__name__}, {field.name}"
                got, advice = sanitize(repr(value)), f"{field.name}={field.default}"
                raise InputError(where, expected=expected, got=got, next=advice)

    def rate(self, nodes: Nodes, count: str, dtype: str) -> str:
        """Append the rate that all weights share in step ``count``, which begins at 1."""
        return nodes.constant(self.learning_rate, dtype)

    def update(
        self, nodes: Nodes, weight: str, gradient: str, slots: Sequence[str], rate: str, dtype: str
    ) -> tuple[str, ...]:
        """Append the update of one weight; return the names of the new weight and slots."""
        gradient = self._regularized(nodes, weight, gradient, dtype)
        return (nodes.add("Sub", weight, nodes.add("Mul", rate, gradient)),)

    def _regularized(self, nodes: Nodes, weight: str, gradient: str, dtype: str) -> str:
        if not self.weight_decay:
            return gradient
        decay = nodes.add("Mul", nodes.constant(self.weight_decay, dtype), weight)
        return nodes.add("Add", decay, gradient)


@_check_names
@dataclass(frozen=True)
class SGD(Optimizer):
    """Stochastic gradient descent: ``weight - learning_rate * gradient``.

    Parameters
    ----------
    learning_rate, weight_decay : float
        As for all optimizers.
    """

    learning_rate: float = 1e-2


@_check_names
@dataclass(frozen=True)
class Momentum(Optimizer):
    """Gradient descent with momentum, as the ONNX operator ``Momentum`` defines it.

    Parameters
    ----------
    learning_rate, weight_decay : float
        As for all optimizers.
    momentum : float
        The share of the last step that is kept.
    nesterov : bool
        Whether to use Nesterov's form.
    """

    learning_rate: float = 1e-2
    momentum: float = 0.9
    nesterov: bool = False
    slots: ClassVar[tuple[str, ...]] = ("momentum",)
    below_one: ClassVar[tuple[str, ...]] = ("momentum",)

    def update(
        self, nodes: Nodes, weight: str, gradient: str, slots: Sequence[str], rate: str, dtype: str
    ) -> tuple[str, ...]:
        """Append the update of one weight, as `Optimizer.update` does."""
        momentum = nodes.constant(self.momentum, dtype)
        gradient = self._regularized(nodes, weight, gradient, dtype)
        velocity = nodes.add("Add", nodes.add("Mul", momentum, slots[0]), gradient)
        # Nesterov's form looks ahead by one more step of the velocity.
        step = velocity
        if self.nesterov:
            step = nodes.add("Add", gradient, nodes.add("Mul", momentum, velocity))
        return nodes.add("Sub", weight, nodes.add("Mul", rate, step)), velocity


@_check_names
@dataclass(frozen=True)
class Adagrad(Optimizer):
    """Adagrad, as the ONNX operator ``Adagrad`` defines it (Duchi, Hazan and Singer, 2011).

    Parameters
    ----------
    learning_rate, weight_decay : float
        As for all optimizers.
    epsilon : float
        Added to the root of the sum of squares.
    """

    learning_rate: float = 1e-2
    epsilon: float = 1e-6
    slots: ClassVar[tuple[str, ...]] = ("squares",)

    def update(
        self, nodes: Nodes, weight: str, gradient: str, slots: Sequence[str], rate: str, dtype: str
    ) -> tuple[str, ...]:
        """Append the update of one weight, as `Optimizer.update` does."""
        gradient = self._regularized(nodes, weight, gradient, dtype)
        squares = nodes.add("Add", slots[0], nodes.add("Mul", gradient, gradient))
        root = nodes.add("Add", nodes.add("Sqrt", squares), nodes.constant(self.epsilon, dtype))
        step = nodes.add("Div", nodes.add("Mul", rate, gradient), root)
        return nodes.add("Sub", weight, step), squares


@_check_names
@dataclass(frozen=True)
class Adam(Optimizer):
    """Adam, as the ONNX operator ``Adam`` defines it (Kingma and Ba, 2014).

    The first step is t = 1, as in the paper; the operator does not correct the bias at t = 0.

    Parameters
    ----------
    learning_rate, weight_decay : float
        As for all optimizers.
    beta1, beta2 : float
        The shares that are kept of the running means of gradients and of their squares.
    epsilon : float
        Added to the root of the squares' mean.
    """

    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    slots: ClassVar[tuple[str, ...]] = ("mean", "square")
    below_one: ClassVar[tuple[str, ...]] = ("beta1", "beta2")

    def rate(self, nodes: Nodes, count: str, dtype: str) -> str:
        """Append the rate with the bias correction, as `Optimizer.rate` does."""
        # In float64, as 1 - 0.999 keeps four digits in float32.
        step, unit = nodes.cast(count, "float64"), nodes.constant(1, "float64")
        corrections = []
        for beta in (self.beta1, self.beta2):
            # The running means begin at zero; this divides their bias out.
            power = nodes.add("Pow", nodes.constant(beta, "float64"), step)
            corrections.append(nodes.add("Sub", unit, power))
        rate = nodes.constant(self.learning_rate, "float64")
        rate = nodes.add("Mul", rate, nodes.add("Sqrt", corrections[1]))
        return nodes.cast(nodes.add("Div", rate, corrections[0]), dtype)

    def update(
        self, nodes: Nodes, weight: str, gradient: str, slots: Sequence[str], rate: str, dtype: str
    ) -> tuple[str, ...]:
        """Append the update of one weight, as `Optimizer.update` does."""
        gradient = self._regularized(nodes, weight, gradient, dtype)
        squared = nodes.add("Mul", gradient, gradient)
        means = []
        for beta, slot, new in ((self.beta1, slots[0], gradient), (self.beta2, slots[1], squared)):
            # beta * mean + (1 - beta) * new, for the gradient and for its square.
            kept = nodes.add("Mul", nodes.constant(beta, dtype), slot)
            added = nodes.add("Mul", nodes.constant(1 - beta, dtype), new)
            means.append(nodes.add("Add", kept, added))
        mean, square = means
        root = nodes.add("Add", nodes.add("Sqrt", square), nodes.constant(self.epsilon, dtype))
        step = nodes.add("Div", nodes.add("Mul", rate, mean), root)
        return nodes.add("Sub", weight, step), mean, square


_OPTIMIZERS: dict[str, type[Optimizer]] = {
    "sgd": SGD,
    "momentum": Momentum,
    "adagrad": Adagrad,
    "adam": Adam,
}


def find_optimizer(optimizer: object) -> Optimizer:
    """Return an optimizer by its name, or the one that was passed."""
    if isinstance(optimizer, Optimizer):
        return optimizer
    advice: str | None = "pyopnb.training.Adam(1e-3)"
    if isinstance(optimizer, str):
        if optimizer.lower() in _OPTIMIZERS:
            return _OPTIMIZERS[optimizer.lower()]()
        advice = messages.suggest(optimizer, _OPTIMIZERS)
    expected = f"one of {', '.join(_OPTIMIZERS)}, or an Optimizer"
    got = sanitize(repr(optimizer))
    raise InputError("train, optimizer", expected=expected, got=got, next=advice)
