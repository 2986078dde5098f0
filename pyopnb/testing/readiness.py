"""Test whether an op is ready for use, with one named verdict for each test."""

from __future__ import annotations

import html
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pyopnb.common import Table
from pyopnb.engine import Op, check_arguments, find_op
from pyopnb.testing.gradients import GradientReport, check_gradients
from pyopnb.testing.subject import Subject, read_examples
from pyopnb.testing.trials import TRIALS, Failed, NotApplicable, format_exception

__all__ = ["CheckReport", "Verdict", "check"]

_PASS, _FAIL, _SKIP = "pass", "fail", "n/a"


@dataclass(frozen=True)
class Verdict:
    """The outcome of one test.

    Attributes
    ----------
    outcome : str
        ``"pass"``, ``"fail"`` or ``"n/a"`` (not applicable).
    text : str
        The finding; for a failure, also the expected result and the advice.
    """

    name: str
    outcome: str
    text: str

    @property
    def ok(self) -> bool:
        """Tell whether the test did not fail."""
        return self.outcome != _FAIL

    def __str__(self) -> str:
        return f"{self.name}: {self.outcome}, {self.text}"


class CheckReport(dict[str, Verdict]):
    """The verdicts of `check` by the names of the tests; true if no test failed.

    Attributes
    ----------
    op : str
        Name and version.
    examples : tuple of str
        The types of the examples' inputs, and their attrs.
    """

    def __init__(self, op: str, examples: Sequence[str], verdicts: Mapping[str, Verdict]) -> None:
        super().__init__(verdicts)
        self.op, self.examples = op, tuple(examples)

    def __bool__(self) -> bool:
        return self.ok

    @property
    def ok(self) -> bool:
        """Tell whether no test failed."""
        return not self.failures

    @property
    def failures(self) -> tuple[Verdict, ...]:
        """Return the verdicts of the tests that failed."""
        return tuple(verdict for verdict in self.values() if not verdict.ok)

    def _summary(self) -> str:
        verdict = "ready for use"
        if self.failures:
            verdict = f"not ready for use: {', '.join(failure.name for failure in self.failures)}"
        return f"{self.op}: {verdict}. Tried {'; '.join(self.examples)}"

    def __repr__(self) -> str:
        return f"{self._summary()}\n{self._table()}"

    def _repr_html_(self) -> str:
        return f"<div>{html.escape(self._summary())}</div>{self._table()._repr_html_()}"

    def _table(self) -> Table:
        rows = [(verdict.name, verdict.outcome, verdict.text) for verdict in self.values()]
        return Table(("test", "verdict", "what was found"), rows)


@check_arguments
def check(
    op: str | type | Op, /, *inputs: Any, examples: Sequence[Any] = (), **attrs: Any
) -> CheckReport:
    """Test whether an op is ready for use in models.

    Parameters
    ----------
    op : str or type
        The name of an op in the registry, or its class.
    *inputs
        As for `call`: anything that numpy.asarray converts, and None for an optional input that is
        left out. Without inputs and examples, some are generated from the hints of ``compute``.
    examples : sequence
        More examples: each an array, for an op with one input, or a tuple with an array for each
        input. Its last item may be a dict of attrs for this example.
    **attrs
        Attrs for all examples.

    Returns
    -------
    CheckReport
        True if the op is ready for use; a dict with a verdict for each of these tests:

        - ``schema``: hints and ``infer`` agree with inputs and results of ``compute``,
        - ``inputs_unmodified``: the op does not write into its inputs, and keeps no view of memory
          that is used again,
        - ``shapes``: the results have the promised shapes at several sizes, with
          symbols for the dimensions,
        - ``repeatable``: two calls and two instances give the same bits,
        - ``threads``: many threads in one session give the same bits as one,
        - ``empty``: inputs with no elements work, or a ``ValueError`` or
          ``NotImplementedError`` says why not,
        - ``runtime``: ONNX Runtime gives the same bits as a plain call of the class,
        - ``precision``: float16, bfloat16 and float32 are at most 64 units in the last place from
          the op's own float64,
        - ``operator``: the results agree with the ONNX operator of that name, by ONNX Runtime's
          kernel or else by the ONNX reference implementation,
        - ``gradient``, if the class has ``backward``: it is the gradient of ``compute``, according
          to `check_grad`.

    Raises
    ------
    UnknownName
        There is no such op in the registry.
    InputError
        An example is not made of arrays, or does not have one for each input. Errors of the op
        itself are not raised; they are in the verdicts.

    Examples
    --------
    >>> import numpy as np, pyopnb
    >>> @pyopnb.pyop("doctest::Count")
    ... class Count:
    ...     def __init__(self):
    ...         self.runs = 0
    ...     def compute(self, x):
    ...         self.runs += 1
    ...         return x + np.float32(self.runs)
    >>> report = check("doctest::Count", np.zeros(3, np.float32))
    >>> bool(report), [verdict.name for verdict in report.failures]
    (False, ['repeatable'])
    """
    target = find_op(op)
    subject = Subject(target, read_examples(target, inputs, examples, attrs))
    trials = dict(TRIALS)
    if subject.version.gradient is not None:
        trials["gradient"] = (_try_gradient, ("schema", "repeatable"))
    verdicts: dict[str, Verdict] = {}
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        # Empty and extreme inputs are bound to cause some.
        warnings.simplefilter("ignore")
        for name, (trial, earlier) in trials.items():
            failed = [test for test in earlier if not verdicts[test].ok]
            verdicts[name] = _judge(name, trial, subject, failed)
    return CheckReport(str(target.current), list(map(str, subject.examples)), verdicts)


def _try_gradient(subject: Subject) -> str:
    report = GradientReport(str(subject.version), check_gradients(subject))
    for gradient in report.gradients:
        if gradient.outcome == "wrong":
            advice = "correct backward; pyopnb.check_grad has the other inputs"
            raise Failed(f"{gradient}. Try: {advice}")
    if not report.ok:
        raise NotApplicable("; ".join(map(str, report.failures)) or "no floating-point input")
    return "; ".join(map(str, report.gradients))


def _judge(
    name: str, trial: Callable[[Subject], str], subject: Subject, failed_before: Sequence[str]
) -> Verdict:
    # The trial of the schema is the first to run the op, and if it fails, the others' errors
    # would all be that one.
    if not subject.runs and name != "schema":
        return Verdict(name, _SKIP, "the op does not run on the examples: see schema")
    if failed_before:
        return Verdict(name, _SKIP, f"see {failed_before[0]} first")
    try:
        return Verdict(name, _PASS, trial(subject))
    except NotApplicable as reason:
        return Verdict(name, _SKIP, str(reason))
    except Failed as finding:
        return Verdict(name, _FAIL, str(finding))
    except KeyboardInterrupt:
        # The interrupt is the user's, and no finding.
        raise
    except BaseException as error:
        # An op may raise anything, and that is the finding.
        return Verdict(name, _FAIL, format_exception(error))
