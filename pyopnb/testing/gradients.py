"""Compare each element of a gradient that ``backward`` returns with central differences of ``compute``."""

from __future__ import annotations

import html
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from pyopnb.diffs.tolerances import TOLERANCES, is_float
from pyopnb.errors import DefinitionError
from pyopnb.ops.arguments import check_arguments
from pyopnb.ops.backward import checked_gradients
from pyopnb.ops.dtypes import dtype
from pyopnb.ops.messages import hide_internal_frames, plural, sanitize
from pyopnb.ops.op import Op
from pyopnb.ops.registry import find_op
from pyopnb.testing.central import central_differences
from pyopnb.testing.sampling import drawn_places, suspected_places
from pyopnb.testing.subject import Arrays, Example, Subject, read_subject
from pyopnb.testing.trials import format_exception

__all__ = [
    "GradientReport",
    "InputGradient",
    "check_grad",
    "check_gradients",
    "unit",
]

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
        tried = plural(self.tried, "element")
        if self.tried < self.size:
            tried += f" of {self.size:,}"
        tried += f" in {self.dtype}"
        if self.kinks:
            tried += f", {self.kinks:,} at a kink left out"
        if self.outcome == _UNDECIDED:
            return f"{self.name}: undecided, no element has a derivative that differences can tell ({tried})"
        if self.outcome == _RIGHT:
            return f"{self.name}: right within {self.tolerance:g} of the largest ({tried})"
        worst = note = ""
        if self.index is not None:
            worst = f"[{','.join(map(str, self.index))}]"
        if self.note:
            note = f"; {self.note}"
        return (
            f"{self.name}{worst}: wrong, backward says {self.analytic:.7g}, differences say {self.numeric:.7g} "
            f"({self.wrong:,} of {tried} differ{note})"
        )


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
        """Tell whether all gradients are right, and there is one."""
        return bool(self.gradients) and not self.failures

    @property
    def failures(self) -> tuple[InputGradient, ...]:
        """Return those that are not right."""
        return tuple(gradient for gradient in self.gradients if gradient.outcome != _RIGHT)

    def __bool__(self) -> bool:
        return self.ok

    def _summary(self) -> str:
        if not self.gradients:
            return f"{self.op}: no floating-point input to check"
        outcomes = {gradient.outcome for gradient in self.gradients}
        # The worst outcome is that of the op.
        for verdict in (_WRONG, _UNDECIDED, _RIGHT):
            if verdict in outcomes:
                break
        return f"{self.op}: backward is {verdict}, against central differences of compute"

    def __repr__(self) -> str:
        return "\n".join([self._summary(), *(f"  {line}" for line in self._lines())])

    def _lines(self) -> Iterator[str]:
        examples = {gradient.example for gradient in self.gradients}
        for gradient in self.gradients:
            line = str(gradient)
            if len(examples) > 1:
                line += f", for {gradient.example}"
            yield sanitize(" ".join(line.split()), 1000)

    def _repr_html_(self) -> str:
        cell = (
            "text-align:left;padding:2px 12px 2px 0;border-bottom:1px solid rgba(128,128,128,0.4)"
        )
        rows = ""
        for gradient, line in zip(self.gradients, self._lines(), strict=True):
            weight = "normal" if gradient.outcome == _RIGHT else "bold"
            rows += f'<tr><td style="{cell};font-weight:{weight}">{html.escape(line)}</td></tr>'
        summary = html.escape(self._summary())
        return f'<div>{summary}</div><table style="border-collapse:collapse">{rows}</table>'


@hide_internal_frames
@check_arguments
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
    subject = read_subject(target, inputs, examples, attrs)
    return GradientReport(str(target.current), check_gradients(subject))


def check_gradients(subject: Subject) -> list[InputGradient]:
    """Compare the gradients of an op under test, as `check_grad` does.

    Parameters
    ----------
    subject : Subject

    Returns
    -------
    list of InputGradient
    """
    gradients: list[InputGradient] = []
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        # What is moved can leave the domain.
        warnings.simplefilter("ignore")
        for example in subject.examples:
            try:
                gradients += _Comparison.of(subject, example).gradients()
            except Exception as error:
                # An op may raise anything, and that is the result.
                note = format_exception(error)
                gradients.append(InputGradient(str(example), "backward", _WRONG, note=note))
    return gradients


@dataclass(frozen=True)
class _Comparison:
    """An example, in the dtype in which it is compared.

    Attributes
    ----------
    outputs : tuple of ndarray
        What compute gives.
    weights : dict of int to ndarray
        A random gradient for each floating-point output, by its number.
    """

    subject: Subject
    example: Example
    dtype: np.dtype
    outputs: tuple[np.ndarray, ...]
    weights: Mapping[int, np.ndarray]

    @classmethod
    def of(cls, subject: Subject, example: Example) -> _Comparison:
        """Take float64 if the op takes it, and gives it."""
        widened = _widened(subject, example)
        if widened is not None:
            example, outputs = widened
        else:
            outputs = subject.call(example)
        random = np.random.default_rng(0)
        weights = {}
        for number, output in enumerate(outputs):
            # Integers and texts have no derivative.
            if is_float(output):
                drawn = random.normal(size=output.shape)
                weights[number] = drawn.astype(output.dtype)
        coarsest: np.dtype = np.dtype(np.float64)
        for array in (*example.inputs, *outputs):
            if array is not None and is_float(array):
                coarsest = max(coarsest, array.dtype, key=unit)
        # Arrays of float64 say nothing of what compute casts them to on the way.
        if coarsest == np.float64 and _rounds(subject, example, outputs):
            coarsest = np.dtype(np.float32)
        return cls(subject, example, coarsest, outputs, weights)

    @property
    def tolerance(self) -> float:
        """Return the tolerance of the dtype that is compared in."""
        return TOLERANCES[dtype(self.dtype).name].gradient

    def gradients(self) -> list[InputGradient]:
        """Compare the gradients of all floating-point inputs."""
        moved = []
        for number, array in enumerate(self.example.inputs):
            if array is not None and is_float(array) and array.size:
                moved.append((number, array))
        if not self.weights or not moved:
            return []
        # All outputs at once, then each alone, as a loss may use one of them only.
        combinations: list[tuple[int, ...]] = [tuple(self.weights)]
        if len(self.weights) > 1:
            combinations += [(number,) for number in self.weights]
        analytic = [self._backward(outputs) for outputs in combinations]
        of_all = analytic[0]
        compared = []
        order = list(self.weights)
        for number, array in moved:
            elements = self._elements(number, array, of_all[number])
            terms = partial(self._terms, number)
            # The outputs' derivatives add up, so one set of differences serves all combinations.
            differences = central_differences(terms, array, elements, unit(self.dtype))
            for outputs, gradients in zip(combinations, analytic, strict=True):
                columns = [order.index(output) for output in outputs]
                numeric = differences.values[:, columns].sum(axis=1)
                errors = differences.errors[:, columns].sum(axis=1)
                result = self._compare(
                    array, elements, gradients[number], numeric, errors, differences.kinks
                )
                compared.append(replace(result, name=self._name(number, outputs)))
        if all(result.outcome != _WRONG for result in compared):
            for note in self._faults(of_all):
                compared.append(InputGradient(str(self.example), "backward", _WRONG, note=note))
        return compared

    def _faults(self, first: Sequence[np.ndarray | None]) -> Iterator[str]:
        """Yield what is wrong with a backward that is right for one set of gradients, once."""
        outputs, factor = tuple(self.weights), -3
        # A gradient is linear in those of the outputs; a lost sign or an abs shows with a negative factor.
        expected: list[np.ndarray | None] = []
        for gradient in first:
            expected.append(None if gradient is None else factor * gradient)
        if not self._are_equal(self._backward(outputs, factor), expected):
            yield f"for {factor} times the gradients of the outputs it does not return {factor} times those of the inputs"
            return
        instance = self.subject.instance(self.example)
        once = self.subject.call(self.example, instance)
        twice = self.subject.call(self.example, instance)
        for a, b in zip(once, twice, strict=True):
            # An op that draws numbers has another gradient each time.
            if not np.array_equal(a, b, equal_nan=is_float(a)):
                return
        instance = self.subject.instance(self.example)
        first_call = self._backward(outputs, instance=instance)
        second_call = self._backward(outputs, instance=instance)
        if not self._are_equal(first_call, second_call):
            yield "for the same arrays it returns something else the second time: sessions keep one instance"

    def _are_equal(
        self, gradients: Sequence[np.ndarray | None], expected: Sequence[np.ndarray | None]
    ) -> bool:
        for a, b in zip(gradients, expected, strict=True):
            if a is None or b is None:
                continue
            wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
            finite = wide_b[np.isfinite(wide_b)]
            scale = float(np.abs(finite).max(initial=0.0))
            allowed = self.tolerance * scale
            if not np.allclose(wide_a, wide_b, rtol=0, atol=allowed, equal_nan=True):
                return False
        return True

    def _backward(
        self, outputs: Sequence[int], factor: int = 1, instance: Any = None
    ) -> tuple[np.ndarray, ...]:
        """Call backward, of a new instance if none is given, on arrays that cannot be written, as in a session."""
        ports = self.subject.schema.inputs
        inputs: Arrays = self.example.copies()
        # Backward gets None for each trailing optional input that is left out, as in a session.
        if not ports or not ports[-1].variadic:
            absent = (None,) * (len(ports) - len(inputs))
            inputs = (*inputs, *absent)
        adjoints: list[np.ndarray | None] = [None] * len(self.outputs)
        for number in outputs:
            weights = self.weights[number]
            adjoints[number] = np.asarray(weights * factor, weights.dtype)
        results = tuple(output.copy() for output in self.outputs)
        for array in (*inputs, *results, *adjoints):
            if array is not None:
                array.setflags(write=False)
        if instance is None:
            instance = self.subject.instance(self.example)
        returned = instance.backward(inputs, results, tuple(adjoints))
        version = self.subject.version
        return checked_gradients(returned, inputs, version.cls.backward, version.schema, version.op)  # type: ignore[attr-defined]

    def _terms(self, number: int, moved: np.ndarray) -> list[np.ndarray]:
        """Call the op with an input moved; return the outputs times the weights of their sums."""
        inputs = list(self.example.inputs)
        inputs[number] = moved
        outputs = self.subject.call(Example(tuple(inputs), self.example.attrs))
        terms = []
        for output_number, weight in self.weights.items():
            # In float64, as a sum in float16 would lose what a step changes.
            wide = outputs[output_number].astype(np.float64)
            terms.append(wide * weight)
        return terms

    def _elements(
        self, number: int, array: np.ndarray, gradient: np.ndarray
    ) -> list[tuple[int, ...]]:
        """Choose the elements to be moved: all, or some at random and those that sums of the rest point to."""
        chosen = drawn_places(array.size)
        if chosen.size < array.size:
            terms, precision = partial(self._terms, number), unit(self.dtype)
            suspects = suspected_places(terms, array, gradient, chosen, precision, self.tolerance)
            chosen = np.union1d(chosen, suspects)
        indices = np.transpose(np.unravel_index(chosen, array.shape))
        return [tuple(index) for index in indices.tolist()]

    def _name(self, number: int, outputs: Sequence[int]) -> str:
        name = self.subject.schema.port(number).name
        if len(outputs) < len(self.weights):
            name += f", of output {outputs[0]} alone"
        return name

    def _compare(
        self,
        array: np.ndarray,
        elements: Sequence[tuple[int, ...]],
        gradient: np.ndarray,
        numeric: np.ndarray,
        errors: np.ndarray,
        kinks: np.ndarray,
    ) -> InputGradient:
        """Compare the elements of one gradient that are at no kink."""
        result = InputGradient(
            str(self.example),
            "",
            _UNDECIDED,
            dtype(self.dtype).name,
            self.tolerance,
            size=array.size,
            tried=len(elements),
            kinks=int(kinks.sum()),
        )
        if kinks.all():
            return result
        analytic = np.array([float(gradient[element]) for element in elements])
        off = np.abs(analytic - numeric)
        # NaN and infinities that differences do not have are as wrong as can be.
        off = np.where(np.isfinite(off), off, np.inf)
        off = np.where(kinks, 0.0, off)
        scale = float(np.abs(numeric[~kinks]).max())
        # Where all derivatives are nearly zero, their own size would allow nothing.
        allowed = self.tolerance * max(scale, 1e-3)
        wrong = off > allowed + 4 * np.where(kinks, 0.0, errors)
        worst = int(np.argmax(off))
        outcome = _RIGHT
        if wrong.any():
            outcome = _WRONG
        return replace(
            result,
            outcome=outcome,
            wrong=int(wrong.sum()),
            index=elements[worst],
            analytic=float(analytic[worst]),
            numeric=float(numeric[worst]),
            note=_common_factor(analytic[wrong], numeric[wrong]),
        )


def _widened(subject: Subject, example: Example) -> tuple[Example, tuple[np.ndarray, ...]] | None:
    """Call an op with its example in float64; return None where it does not take it, or gives less."""
    inputs = []
    for array in example.inputs:
        if array is not None and is_float(array):
            array = array.astype(np.float64)
        inputs.append(array)
    wide = Example(tuple(inputs), example.attrs)
    try:
        subject.schema.check_inputs(wide.types, subject.op.name)
        outputs = subject.call(wide)
    except Exception:
        # An op need not take every dtype that its ports leave open.
        return None
    if _rounds(subject, wide, outputs):
        return None
    for output in outputs:
        if is_float(output) and output.dtype != np.float64:
            return None
    return wide, outputs


def _rounds(subject: Subject, example: Example, outputs: tuple[np.ndarray, ...]) -> bool:
    """Tell whether an op calculates in less than the float64 that it is given."""
    for number, array in enumerate(example.inputs):
        if array is None or not is_float(array):
            continue
        # A move of 2**-40 then changes next to nothing of what a larger one changes.
        results = []
        for relative in (2.0**-40, 2.0**-8):
            inputs = list(example.inputs)
            inputs[number] = array * (1 + relative)
            results.append(subject.call(Example(tuple(inputs), example.attrs)))
        for before, slightly, clearly in zip(outputs, *results, strict=True):
            # A shape can depend on the values, and then no element has a counterpart.
            if not is_float(before) or not before.shape == slightly.shape == clearly.shape:
                continue
            changed = clearly != before
            changed_slightly = (slightly != before)[changed]
            if changed.any() and changed_slightly.mean() < 0.1:
                return True
    return False


def unit(kind: np.dtype) -> float:
    """Return the relative rounding error of a floating-point dtype."""
    import ml_dtypes

    return float(ml_dtypes.finfo(kind).eps)  # type: ignore[no-untyped-call]  # NumPy's own lacks bfloat16


def _common_factor(analytic: np.ndarray, numeric: np.ndarray) -> str:
    """Say by which factor all wrong elements differ, if there is one."""
    # The ratio of two numbers near zero is one of their rounding errors.
    magnitudes = np.abs(numeric)
    large = magnitudes > 1e-6 * magnitudes.max(initial=0.0)
    ratios = analytic[large] / numeric[large]
    if len(ratios) < 2 or not np.isfinite(ratios).all():
        return ""
    if np.ptp(ratios) > 1e-3 * np.abs(ratios).max():
        return ""
    return f"backward / differences is {ratios.mean():.6g} in all of them"
