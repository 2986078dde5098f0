"""Compare the gradients that ``backward`` returns with central differences of ``compute``."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from pyopnb.common import Table, plural
from pyopnb.diffs import array_diffs
from pyopnb.engine import Op, check_arguments, checked_gradients, dtype, find_op
from pyopnb.errors import DefinitionError
from pyopnb.testing.central import central_differences, move_element, step_sizes
from pyopnb.testing.sampling import moved_places
from pyopnb.testing.subject import OpExample, Subject, read_examples
from pyopnb.testing.trials import format_exception
from pyopnb.testing.verification.jitter import precision_of
from pyopnb.testing.verification.values import Arrays, largest

__all__ = ["GradientReport", "InputGradient", "check_grad", "check_gradients"]

_RIGHT, _WRONG, _UNDECIDED = "right", "wrong", "undecided"


@dataclass(frozen=True)
class InputGradient:
    """The finding for the gradient of one input.

    Attributes
    ----------
    example : str
        The types of the example's inputs, and its attrs.
    name : str
        The name of the input, and of the output if the gradient of only one output was passed.
    outcome : str
        ``"right"``, ``"wrong"``, or ``"undecided"`` if differences cannot determine any element's
        derivative.
    text : str
        How many elements were moved, and where ``backward`` and the differences differ most; or the
        exception.
    dtype : str
        The dtype in which the op was called.
    tried, kinks : int
        How many elements were moved, and how many of these are at a kink and were left out.
    index : tuple of int
        The index of the element that differs most.
    """

    example: str
    name: str
    outcome: str
    text: str
    dtype: str = ""
    tried: int = 0
    kinks: int = 0
    index: tuple[int, ...] = ()

    def __str__(self) -> str:
        where = self.name
        if self.index:
            where += f"[{','.join(map(str, self.index))}]"
        return f"{where}: {self.outcome}, {self.text}"


class GradientReport:
    """The gradients that `check_grad` has compared; true if all are right.

    Attributes
    ----------
    op : str
        Name and version.
    gradients : tuple of InputGradient
        For each example one per input; for an op with several outputs, one per output and input.
    """

    def __init__(self, op: str, gradients: Sequence[InputGradient]) -> None:
        self.op, self.gradients = op, tuple(gradients)

    @property
    def ok(self) -> bool:
        """Tell whether there is at least one gradient and all of them are right."""
        return bool(self.gradients) and not self.failures

    @property
    def failures(self) -> tuple[InputGradient, ...]:
        """Return the gradients that are not right."""
        return tuple(gradient for gradient in self.gradients if gradient.outcome != _RIGHT)

    def __bool__(self) -> bool:
        return self.ok

    def __repr__(self) -> str:
        return repr(self._table())

    def _repr_html_(self) -> str:
        return self._table()._repr_html_()

    def _table(self) -> Table:
        rows = [(str(gradient), gradient.example) for gradient in self.gradients]
        return Table(
            (f"{self.op}: backward compared with differences of compute", "example"),
            rows,
            f"{self.op}: no floating-point input to check",
        )


@check_arguments
def check_grad(
    op: str | type | Op, /, *inputs: Any, examples: Sequence[Any] = (), **attrs: Any
) -> GradientReport:
    """Test whether an op's ``backward`` is the gradient of its ``compute``.

    Every floating-point input is moved element by element, and the change of the outputs is
    compared with the result of ``backward``, for random gradients of the outputs. The op is called
    in float64 if it accepts that, otherwise in the example's own dtype with a looser tolerance. If
    the one-sided differences of an element disagree, the element is at a kink; it is left out and
    counted.

    Parameters
    ----------
    op : str or type
        The name of an op in the registry, or its class.
    *inputs, examples, **attrs
        As for `check`. Without inputs and examples, some are generated from the
        hints of ``compute``.

    Returns
    -------
    GradientReport
        True if all gradients are right. If the op raises, the report has the exception.

    Raises
    ------
    UnknownName
        The registry has no such op.
    DefinitionError
        The op's class has no ``backward``.
    InputError
        As for `check`.

    Notes
    -----
    If an input has more than 100 elements, 100 random ones are moved singly and the others in
    groups. If the derivative along a group is not the sum of the group's gradient, the group is
    halved until an element is left, which is then moved singly. The tolerance allows for the
    rounding of a difference. If kinks lie closer together than float16 can step, a right gradient
    may still be called wrong.

    With several outputs, each is also differentiated alone, with None as the gradient of the
    others. Each call gets a new instance, so that an op that draws random numbers draws the same
    ones. A gradient that is right is computed again for other gradients of the outputs, and twice
    on one instance, because it must be linear and must not keep state.

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
    >>> report.ok, report.gradients[0].text.partition("; ")[2]
    (False, 'backward / differences is 0.666667 in all of them')
    """
    target = find_op(op)
    if target.current.gradient is None:
        raise DefinitionError(
            f"op {target.name}",
            expected="backward in its class",
            got=f"{target.current}",
            next="def backward(self, inputs, outputs, grads): …",
        )
    subject = Subject(target, read_examples(target, inputs, examples, attrs))
    return GradientReport(str(target.current), check_gradients(subject))


def check_gradients(subject: Subject) -> list[InputGradient]:
    """Compare the gradients of an op under test, as `check_grad` does."""
    gradients: list[InputGradient] = []
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        # Moved inputs can leave the op's domain.
        warnings.simplefilter("ignore")
        for example in subject.examples:
            try:
                gradients += _Comparison(subject, example).gradients()
            except Exception as error:
                # An op may raise anything, and that is the result.
                note = format_exception(error)
                gradients.append(InputGradient(str(example), "backward", _WRONG, note))
    return gradients


class _Comparison:
    """An example in the dtype of the comparison, and random gradients of its float outputs."""

    def __init__(self, subject: Subject, example: OpExample) -> None:
        self._subject, self._title = subject, str(example)
        self._use(example, subject.call(example), np.dtype(np.float32))

    def _use(self, example: OpExample, outputs: tuple[np.ndarray, ...], coarsest: np.dtype) -> None:
        """Compare at an example, with an op that computes in ``coarsest`` or in less."""
        self._example, self._outputs = example, outputs
        # An op may compute in less than float64, although its arrays are float64.
        for array in (*example.inputs, *outputs):
            if array is not None and array_diffs.is_float(array):
                coarsest = max(coarsest, array.dtype, key=precision_of)
        self._dtype = dtype(coarsest).name
        self._precision, _ = precision_of(coarsest)
        self._tolerance = array_diffs.TOLERANCES[self._dtype].gradient
        random = np.random.default_rng(0)
        self._weights: dict[int, np.ndarray] = {}
        for number, output in enumerate(outputs):
            # Integers and texts have no derivative.
            if array_diffs.is_float(output):
                self._weights[number] = random.normal(size=output.shape).astype(output.dtype)

    def _widen(self) -> None:
        """Go on in float64 if compute and backward take it."""
        # A session calls backward in the dtype of the example: an exception there is the result.
        self._backward(tuple(self._weights))
        example, outputs = self._example, self._outputs
        wide = example.cast(np.float64)
        wide_outputs = _outputs_in_float64(self._subject, wide)
        if wide_outputs is None:
            return
        self._use(wide, wide_outputs, np.dtype(np.float64))
        try:
            self._backward(tuple(self._weights))
        except Exception:
            # Backward may be written for the example's dtype alone.
            self._use(example, outputs, np.dtype(np.float32))

    def gradients(self) -> list[InputGradient]:
        """Compare the gradients of all floating-point inputs."""
        if not self._floats() or not self._weights:
            return []
        self._widen()
        # All outputs at once, then each alone, as a loss may use one of them only.
        chosen: list[tuple[int, ...]] = [tuple(self._weights)]
        if len(self._weights) > 1:
            chosen += zip(self._weights)
        results = []
        for outputs in chosen:
            gradients = self._backward(outputs)
            for number, array in self._floats():
                name = self._subject.schema.port(number).name
                if outputs != chosen[0]:
                    name += f", of output {outputs[0]} alone"
                terms = partial(self._terms, number, outputs)
                results.append(self._compared(name, terms, array, gradients[number]))
        if all(result.outcome != _WRONG for result in results):
            for note in self._faults():
                results.append(InputGradient(self._title, "backward", _WRONG, note))
        return results

    def _floats(self) -> list[tuple[int, np.ndarray]]:
        """List the floating-point inputs that have elements, with their positions."""
        floats = []
        for number, array in enumerate(self._example.inputs):
            if array is not None and array_diffs.is_float(array) and array.size:
                floats.append((number, array))
        return floats

    def _faults(self) -> Iterator[str]:
        """Yield the faults of a backward that is right in a single call."""
        outputs, factor = tuple(self._weights), -3
        instance = self._subject.instance(self._example)
        first = self._backward(outputs, instance=instance)
        # A gradient is linear in the gradients of the outputs; a lost sign or an abs shows
        # with a negative factor.
        expected = [None if array is None else factor * array for array in first]
        if not self._are_equal(self._backward(outputs, factor), expected):
            yield (
                f"for {factor} times the gradients of the outputs "
                f"it does not return {factor} times the gradients of the inputs"
            )
            return
        again = self._backward(outputs, instance=instance)
        # An op that draws numbers has another gradient each time.
        caller = self._subject.instance(self._example)
        results = [self._subject.call(self._example, caller) for _ in range(2)]
        if self._are_equal(*results) and not self._are_equal(again, first):
            yield (
                "for the same arrays it returns something else the second time: "
                "sessions keep one instance"
            )

    def _are_equal(
        self, arrays: Sequence[np.ndarray | None], expected: Sequence[np.ndarray | None]
    ) -> bool:
        for array, reference in zip(arrays, expected, strict=True):
            if array is None or reference is None or not array_diffs.is_float(reference):
                continue
            allowed = self._tolerance * largest(reference)
            values, wide = array.astype(np.float64), reference.astype(np.float64)
            if not np.allclose(values, wide, rtol=0, atol=allowed, equal_nan=True):
                return False
        return True

    def _backward(
        self, outputs: Sequence[int], factor: int = 1, instance: Any = None
    ) -> tuple[np.ndarray, ...]:
        """Call backward on read-only arrays, as a session does; by a new instance by default."""
        ports = self._subject.schema.inputs
        inputs: Arrays = self._example.copies()
        # Backward gets None for each trailing optional input that is left out, as in a session.
        if not ports or not ports[-1].variadic:
            inputs += (None,) * (len(ports) - len(inputs))
        adjoints: list[np.ndarray | None] = [None] * len(self._outputs)
        for number in outputs:
            weights = self._weights[number]
            adjoints[number] = np.asarray(weights * factor, weights.dtype)
        results = tuple(output.copy() for output in self._outputs)
        for array in (*inputs, *results, *adjoints):
            if array is not None:
                array.setflags(write=False)
        if instance is None:
            instance = self._subject.instance(self._example)
        returned = instance.backward(inputs, results, tuple(adjoints))
        version = self._subject.version
        return checked_gradients(returned, inputs, version.cls.backward, version.schema, version.op)  # type: ignore[attr-defined]

    def _terms(self, number: int, chosen: Sequence[int], moved: np.ndarray) -> np.ndarray:
        """Call the op with an input moved; return the outputs times the weights of their sum."""
        inputs = list(self._example.inputs)
        inputs[number] = moved
        outputs = self._subject.call(OpExample(tuple(inputs), self._example.attrs))
        terms = []
        for output in chosen:
            # In float64, as a sum in float16 would lose the change of a step.
            wide = outputs[output].astype(np.float64)
            terms.append(np.ravel(wide * self._weights[output]))
        return np.concatenate(terms)

    def _compared(
        self, name: str, terms: Any, array: np.ndarray, gradient: np.ndarray
    ) -> InputGradient:
        """Compare the elements of one gradient that are at no kink."""
        places = moved_places(terms, array, gradient, self._precision, self._tolerance)
        sizes = step_sizes(array)
        moves = [move_element(terms, array, place, sizes[place]) for place in places.tolist()]
        numeric, errors, kinks = central_differences(moves, self._precision)
        text = f"{places.size:,} of {plural(array.size, 'element')} moved in {self._dtype}"
        if kinks.any():
            text += f", {kinks.sum():,} at a kink left out"
        result = InputGradient(
            self._title, name, _RIGHT, text, self._dtype, places.size, int(kinks.sum())
        )
        if kinks.all():
            text = f"differences cannot determine the derivative of any element: {text}"
            return replace(result, outcome=_UNDECIDED, text=text)
        analytic = gradient.ravel()[places].astype(np.float64)
        off = np.abs(analytic - numeric)
        # NaN and infinities that differences do not have are as wrong as can be.
        off = np.where(np.isfinite(off), off, np.inf)
        # Where all derivatives are nearly zero, their own size would allow nothing.
        scale = max(float(np.abs(numeric[~kinks]).max()), 1e-3)
        allowed = self._tolerance * scale + 4 * errors
        excess = np.where(kinks, 0.0, off - allowed)
        worst = int(np.argmax(excess))
        wrong = excess > 0
        if not wrong.any():
            return result
        text = (
            f"backward says {analytic[worst]:.7g}, differences say {numeric[worst]:.7g} "
            f"({text}, {wrong.sum():,} differ)"
        )
        text += _common_factor(analytic[wrong], numeric[wrong])
        position = np.unravel_index(places[worst], array.shape)
        index = tuple(map(int, position))
        return replace(result, outcome=_WRONG, text=text, index=index)


def _outputs_in_float64(subject: Subject, wide: OpExample) -> tuple[np.ndarray, ...] | None:
    """Call an op with float64; return None where it does not take that, or calculates in less."""
    try:
        subject.schema.check_inputs(wide.types, subject.op.name)
        outputs = subject.call(wide)
        # Rounding inside of the op hides so small a change of the inputs, but not a larger one.
        slightly = subject.call(wide.cast(np.float64, 1 + 2.0**-40))
        clearly = subject.call(wide.cast(np.float64, 1 + 2.0**-8))
    except Exception:
        # An op need not take every dtype that its ports leave open.
        return None
    for output, slight, clear in zip(outputs, slightly, clearly, strict=True):
        if not array_diffs.is_float(output):
            continue
        if output.dtype != np.float64:
            return None
        # A shape can depend on the values, and then no element has a counterpart.
        if not output.shape == slight.shape == clear.shape:
            continue
        changed = clear != output
        changed_slightly = (slight != output)[changed]
        if changed.any() and changed_slightly.mean() < 0.1:
            return None
    return outputs


def _common_factor(analytic: np.ndarray, numeric: np.ndarray) -> str:
    """Say by which factor all wrong elements differ, if there is one."""
    if analytic.size < 2 or not np.all(np.isfinite(analytic)) or not np.all(numeric):
        return ""
    ratios = analytic / numeric
    if np.ptp(ratios) > 1e-3 * np.abs(ratios).max():
        return ""
    return f"; backward / differences is {ratios.mean():.6g} in all of them"
