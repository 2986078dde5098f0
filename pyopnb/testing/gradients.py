"""Whether ``backward`` is the gradient of ``compute``: each element against central differences."""

from __future__ import annotations

import html
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from pyopnb.diffs.tolerances import is_float
from pyopnb.errors import DefinitionError
from pyopnb.ops.backward import checked_gradients
from pyopnb.ops.dtypes import dtype
from pyopnb.ops.messages import hide_internal_frames, plural, sanitize
from pyopnb.ops.op import Op
from pyopnb.ops.registry import find_op
from pyopnb.testing.central import central_differences
from pyopnb.testing.sampling import drawn_places, suspected_places
from pyopnb.testing.subject import (
    Arrays,
    Example,
    Subject,
    generate_example,
    read_example,
    refuse_tuples,
)
from pyopnb.testing.trials import format_exception

__all__ = [
    "LOOSEST",
    "TOLERANCES",
    "GradientReport",
    "InputGradient",
    "check_grad",
    "check_gradients",
    "unit",
]

TOLERANCES = {"float64": 1e-6, "float32": 2e-2}
"""Of the largest element of a gradient, by the dtype that an op computes in."""
LOOSEST = 0.1
"""Of the smaller dtypes."""

_RIGHT, _WRONG, _UNDECIDED = "right", "wrong", "undecided"


@dataclass(frozen=True)
class InputGradient:
    """What was found for the gradient in one input.

    Attributes
    ----------
    example : str
        The types of the example's inputs, and its attrs.
    name : str
        Of the input, and of the output whose gradient alone was given, if not all were.
    outcome : str
        ``"right"``, ``"wrong"``, or ``"undecided"``: no element has a derivative that differences can tell.
    dtype : str
        In which the op was called.
    tolerance : float
        Relative to the largest element of the gradient.
    size, tried, kinks, wrong : int
        Elements of the input; those that were moved; those of them at a kink, which are left out; those that differ.
    index : tuple of int or None
        Of the element that differs most.
    analytic, numeric : float or None
        What ``backward`` and the differences say there.
    note : str
        What the wrong elements have in common, or what was raised.
    """

    example: str
    name: str
    outcome: str
    dtype: str = ""
    tolerance: float = 0.0
    size: int = 0
    tried: int = 0
    kinks: int = 0
    wrong: int = 0
    index: tuple[int, ...] | None = None
    analytic: float | None = None
    numeric: float | None = None
    note: str = ""

    def __str__(self) -> str:
        if not self.tried and self.note:
            return f"{self.name}: {self.outcome}, {self.note}"
        counted = plural(self.tried, "element") + (
            f" of {self.size:,}" if self.tried < self.size else ""
        )
        left_out = f", {self.kinks:,} at a kink left out" if self.kinks else ""
        tried = f"{counted} in {self.dtype}{left_out}"
        if self.outcome == _UNDECIDED:
            return f"{self.name}: undecided, no element has a derivative that differences can tell ({tried})"
        worst = "" if self.index is None else f"[{','.join(map(str, self.index))}]"
        if self.outcome == _WRONG:
            noted = f"; {self.note}" if self.note else ""
            return (
                f"{self.name}{worst}: wrong, backward says {self.analytic:.7g}, differences say {self.numeric:.7g} "
                f"({self.wrong:,} of {tried} differ{noted})"
            )
        return f"{self.name}: right within {self.tolerance:g} of the largest ({tried})"


class GradientReport:
    """The gradients that `check_grad` has compared; true if all are right.

    Attributes
    ----------
    op : str
        Name and version.
    gradients : tuple of InputGradient
        Of each example one an input, and for an op of several outputs one an output and input.
    """

    def __init__(self, op: str, gradients: Sequence[InputGradient]) -> None:
        self.op, self.gradients = op, tuple(gradients)

    @property
    def ok(self) -> bool:
        """Whether all gradients are right, and there is one."""
        return bool(self.gradients) and all(found.outcome == _RIGHT for found in self.gradients)

    @property
    def failures(self) -> tuple[InputGradient, ...]:
        """Those that are not right."""
        return tuple(found for found in self.gradients if found.outcome != _RIGHT)

    def __bool__(self) -> bool:
        return self.ok

    def _summary(self) -> str:
        if not self.gradients:
            return f"{self.op}: no floating-point input to check"
        outcomes = {found.outcome for found in self.gradients}
        verdict = _WRONG if _WRONG in outcomes else _UNDECIDED if _UNDECIDED in outcomes else _RIGHT
        return f"{self.op}: backward is {verdict}, against central differences of compute"

    def __repr__(self) -> str:
        return "\n".join([self._summary(), *(f"  {line}" for line in self._lines())])

    def _lines(self) -> Iterator[str]:
        several = len({found.example for found in self.gradients}) > 1
        for found in self.gradients:
            yield sanitize(
                " ".join(f"{found}{f', for {found.example}' if several else ''}".split()), 1000
            )

    def _repr_html_(self) -> str:
        cell = (
            "text-align:left;padding:2px 12px 2px 0;border-bottom:1px solid rgba(128,128,128,0.4)"
        )
        weights = {True: "normal", False: "bold"}
        rows = "".join(
            f'<tr><td style="{cell};font-weight:{weights[found.outcome == _RIGHT]}">{html.escape(line)}</td></tr>'
            for found, line in zip(self.gradients, self._lines(), strict=True)
        )
        return f'<div>{html.escape(self._summary())}</div><table style="border-collapse:collapse">{rows}</table>'


@hide_internal_frames
def check_grad(
    op: str | type | Op, /, *inputs: Any, examples: Sequence[Any] = (), **attrs: Any
) -> GradientReport:
    """Test whether an op's ``backward`` is the gradient of its ``compute``.

    Every floating-point input is moved element by element, and what the outputs change is compared with what ``backward``
    says, for random gradients of the outputs. The op is called in float64 if it takes that, otherwise in the example's own
    dtype with a looser tolerance. An element where the one-sided differences disagree, a kink, is left out and counted.

    Parameters
    ----------
    op : str or type
        The name of an op in the registry, or its class.
    *inputs, examples, **attrs
        As for `check`. Without inputs and examples, some are generated from the hints of ``compute``.

    Returns
    -------
    GradientReport
        True if all gradients are right. What the op raises is in it, and not raised.

    Raises
    ------
    UnknownOp
        The registry has no such op.
    DefinitionError
        Its class has no ``backward``.
    InputError
        As from `check`.

    Notes
    -----
    Of an input with more than 100 elements, 100 are drawn, and the others are moved in groups: where the derivative along a
    group is not the sum of its elements of the gradient, halving the group leads to an element that is moved as well. What
    rounding can do to a difference is allowed for; at kinks that lie closer together than float16 can step, a right gradient
    may still be called wrong.

    Of several outputs, each is also derived alone, with None as the gradient of the others. Each call gets a new instance, so
    that an op that draws random numbers draws the same. A right gradient is asked for again, for other gradients of the outputs
    and twice of one instance: it is linear, and keeps nothing.

    Examples
    --------
    >>> import numpy as np, pyopnb
    >>> @pyopnb.pyop("doctest::Cube")
    ... class Cube:
    ...     def compute(self, x):
    ...         return x ** 3
    ...     def backward(self, inputs, outputs, grads):
    ...         return 2 * inputs[0] ** 2 * grads[0]
    >>> report = check_grad("doctest::Cube", np.float32([1, 2]))
    >>> report.ok, report.gradients[0].note
    (False, 'backward / differences is 0.666667 in all of them')
    """
    target = find_op(op)
    if target.current.gradient is None:
        next_ = "def backward(self, inputs, outputs, grads): …"
        raise DefinitionError(
            f"op {target.name}",
            expected="backward in its class",
            got=f"{target.current}",
            next=next_,
        )
    refuse_tuples(target, inputs)
    given = [*([inputs] if inputs else []), *examples]
    subject_examples = [
        read_example(target, item, attrs, number) for number, item in enumerate(given)
    ]
    subject = Subject(target, subject_examples or [generate_example(target, attrs)])
    return GradientReport(str(target.current), check_gradients(subject))


def check_gradients(subject: Subject) -> list[InputGradient]:
    """What `check_grad` finds for an op under test.

    Parameters
    ----------
    subject : Subject

    Returns
    -------
    list of InputGradient
    """
    found: list[InputGradient] = []
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # what is moved can leave the domain
        for example in subject.examples:
            try:
                found += _Comparison.of(subject, example).gradients()
            except Exception as error:  # an op may raise anything, and that is the finding
                found.append(
                    InputGradient(str(example), "backward", _WRONG, note=format_exception(error))
                )
    return found


@dataclass(frozen=True)
class _Comparison:
    """An example, in the dtype in which it is compared.

    Attributes
    ----------
    outputs : tuple of ndarray
        What compute gives.
    weights : dict of int to ndarray
        A random gradient for each floating-point output, by its place.
    """

    subject: Subject
    example: Example
    dtype: np.dtype
    outputs: tuple[np.ndarray, ...]
    weights: Mapping[int, np.ndarray]

    @classmethod
    def of(cls, subject: Subject, example: Example) -> _Comparison:
        """In float64 if the op takes it, and gives it."""
        wide = _widened(subject, example)
        example, outputs = wide or (example, subject.call(example))
        random = np.random.default_rng(0)
        weights = {
            n: random.normal(size=y.shape).astype(y.dtype)
            for n, y in enumerate(outputs)
            if is_float(y)
        }
        floats = [
            array for array in (*example.inputs, *outputs) if array is not None and is_float(array)
        ]
        least = max((array.dtype for array in floats), key=unit, default=np.dtype(np.float64))
        if unit(least) < unit(np.dtype(np.float32)) and _rounds(subject, example, outputs):
            least = np.dtype(np.float32)
        return cls(subject, example, least, outputs, weights)

    def gradients(self) -> list[InputGradient]:
        """Those of all floating-point inputs."""
        if not self.weights or not any(
            array is not None and is_float(array) for array in self.example.inputs
        ):
            return []
        combinations: list[tuple[int, ...]] = [tuple(self.weights)]
        if len(self.weights) > 1:
            combinations += [(place,) for place in self.weights]
        analytic = [self._backward(places) for places in combinations]
        found = []
        for number, array in enumerate(self.example.inputs):
            if array is None or not is_float(array) or not array.size:
                continue
            elements = self._elements(number, array, analytic[0][number])
            terms = partial(self._terms, number)
            differences = central_differences(terms, array, elements, unit(self.dtype))
            order = list(self.weights)
            for places, gradients in zip(combinations, analytic, strict=True):
                columns = [order.index(place) for place in places]
                numeric, errors = (
                    each[:, columns].sum(axis=1)
                    for each in (differences.values, differences.errors)
                )
                name = self._name(number, places)
                found.append(
                    self._compare(
                        name, array, elements, gradients[number], numeric, errors, differences.kinks
                    )
                )
        if all(each.outcome != _WRONG for each in found):
            found += [
                InputGradient(str(self.example), "backward", _WRONG, note=note)
                for note in self._faults(analytic[0])
            ]
        return found

    def _faults(self, first: Sequence[np.ndarray | None]) -> Iterator[str]:
        """What is wrong with a backward that is right for one set of gradients, once."""
        places, factor = tuple(self.weights), -3
        times = self._backward(places, factor)
        if not self._are_equal(
            times, [None if gradient is None else factor * gradient for gradient in first]
        ):
            yield f"for {factor} times the gradients of the outputs it does not return {factor} times those of the inputs"
            return
        instance = self.subject.instance(self.example)
        once, twice = (self.subject.call(self.example, instance) for _ in range(2))
        if all(
            np.array_equal(a, b, equal_nan=is_float(a)) for a, b in zip(once, twice, strict=True)
        ):  # it draws no numbers
            instance = self.subject.instance(self.example)
            calls = [self._backward(places, instance=instance) for _ in range(2)]
            if not self._are_equal(calls[0], calls[1]):
                yield "for the same arrays it returns something else the second time: sessions keep one instance"

    def _are_equal(
        self, some: Sequence[np.ndarray | None], others: Sequence[np.ndarray | None]
    ) -> bool:
        tolerance = TOLERANCES.get(dtype(self.dtype).name, LOOSEST)
        for a, b in zip(some, others, strict=True):
            if a is None or b is None:
                continue
            scale = float(np.abs(b[np.isfinite(b)], dtype=np.float64).max(initial=0.0))
            if not np.allclose(
                a.astype(np.float64),
                b.astype(np.float64),
                rtol=0,
                atol=tolerance * scale,
                equal_nan=True,
            ):
                return False
        return True

    def _backward(
        self, places: Sequence[int], factor: int = 1, instance: Any = None
    ) -> tuple[np.ndarray, ...]:
        """The gradients of the inputs, by a new instance if none is given; as in a session, no array can be written."""
        ports = self.subject.schema.inputs
        left_out = 0 if ports and ports[-1].variadic else len(ports) - len(self.example.inputs)
        inputs: Arrays = (*self.example.copies(), *(None,) * left_out)
        given = tuple(
            np.asarray(self.weights[n] * factor, self.weights[n].dtype) if n in places else None
            for n in range(len(self.outputs))
        )
        instance = self.subject.instance(self.example) if instance is None else instance
        outputs = tuple(output.copy() for output in self.outputs)
        for array in (*inputs, *outputs, *given):
            if array is not None:
                array.setflags(write=False)
        returned, version = instance.backward(inputs, outputs, given), self.subject.version
        return checked_gradients(returned, inputs, version.cls.backward, version.schema, version.op)  # type: ignore[attr-defined]

    def _terms(self, number: int, moved: np.ndarray) -> list[np.ndarray]:
        """The outputs with an input moved, times the weights in whose sums they are derived."""
        inputs = (*self.example.inputs[:number], moved, *self.example.inputs[number + 1 :])
        outputs = self.subject.call(Example(inputs, self.example.attrs))
        return [outputs[n].astype(np.float64) * weight for n, weight in self.weights.items()]

    def _elements(
        self, number: int, array: np.ndarray, gradient: np.ndarray
    ) -> list[tuple[int, ...]]:
        """The indices of those to be moved: all, or some at random and those that sums of the others point to."""
        chosen = drawn_places(array.size)
        if chosen.size < array.size:
            tolerance = TOLERANCES.get(dtype(self.dtype).name, LOOSEST)
            suspects = suspected_places(
                lambda x: self._terms(number, x),
                array,
                gradient,
                chosen,
                unit(self.dtype),
                tolerance,
            )
            chosen = np.union1d(chosen, suspects)
        return [
            tuple(int(n) for n in np.unravel_index(int(place), array.shape)) for place in chosen
        ]

    def _name(self, number: int, places: Sequence[int]) -> str:
        name = self.subject.schema.port(number).name
        return name if len(places) == len(self.weights) else f"{name}, of output {places[0]} alone"

    def _compare(
        self,
        name: str,
        array: np.ndarray,
        elements: Sequence[tuple[int, ...]],
        gradient: np.ndarray,
        numeric: np.ndarray,
        errors: np.ndarray,
        kinks: np.ndarray,
    ) -> InputGradient:
        analytic = np.array([float(gradient[element]) for element in elements])
        kind = dtype(self.dtype).name
        tolerance = TOLERANCES.get(kind, LOOSEST)
        found = InputGradient(
            str(self.example),
            name,
            _UNDECIDED,
            kind,
            tolerance,
            size=array.size,
            tried=len(elements),
            kinks=int(kinks.sum()),
        )
        if kinks.all():
            return found
        apart = np.where(kinks, 0.0, np.abs(analytic - numeric))
        apart = np.where(np.isfinite(apart), apart, np.inf)
        scale = float(np.abs(numeric[~kinks]).max())
        wrong = apart > tolerance * max(scale, 1e-3) + 4 * np.where(kinks, 0.0, errors)
        worst = int(np.argmax(apart))
        return replace(
            found,
            outcome=_WRONG if wrong.any() else _RIGHT,
            wrong=int(wrong.sum()),
            index=elements[worst],
            analytic=float(analytic[worst]),
            numeric=float(numeric[worst]),
            note=_common(analytic[wrong], numeric[wrong]),
        )


def _widened(subject: Subject, example: Example) -> tuple[Example, tuple[np.ndarray, ...]] | None:
    """The example in float64 and its outputs; None where the op does not take it, or gives less."""
    wide = Example(
        tuple(a if a is None or not is_float(a) else a.astype(np.float64) for a in example.inputs),
        example.attrs,
    )
    try:
        subject.schema.check_inputs(wide.types, subject.op.name)
        outputs = subject.call(wide)
    except Exception:  # an op need not take every dtype that its ports leave open
        return None
    if _rounds(subject, wide, outputs):
        return None
    return (
        (wide, outputs) if all(not is_float(y) or y.dtype == np.float64 for y in outputs) else None
    )


def _rounds(subject: Subject, example: Example, outputs: tuple[np.ndarray, ...]) -> bool:
    """Whether an op calculates in less than the float64 that it is given: a move of 2**-40 then changes next to nothing."""
    for number, array in enumerate(example.inputs):
        if array is None or not is_float(array):
            continue
        moved = []
        for relative in (2.0**-40, 2.0**-8):
            inputs = (
                *example.inputs[:number],
                array * (1 + relative),
                *example.inputs[number + 1 :],
            )
            moved.append(subject.call(Example(inputs, example.attrs)))
        for before, slightly, clearly in zip(outputs, *moved, strict=True):
            if before.shape == slightly.shape == clearly.shape and is_float(before):
                changed = clearly != before
                if changed.any() and (slightly != before)[changed].mean() < 0.1:
                    return True
    return False


def unit(kind: np.dtype) -> float:
    """Return the relative rounding error of a floating-point dtype."""
    import ml_dtypes

    return float(ml_dtypes.finfo(kind).eps)  # type: ignore[no-untyped-call]  # NumPy's own lacks bfloat16


def _common(analytic: np.ndarray, numeric: np.ndarray) -> str:
    """What the wrong elements have in common: one factor."""
    large = np.abs(numeric) > 1e-6 * np.abs(numeric).max(initial=0.0)
    ratios = analytic[large] / numeric[large]
    if (
        len(ratios) < 2
        or not np.isfinite(ratios).all()
        or np.ptp(ratios) > 1e-3 * np.abs(ratios).max()
    ):
        return ""
    return f"backward / differences is {ratios.mean():.6g} in all of them"
