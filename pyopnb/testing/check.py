"""Is an op fit to be used? One named verdict a test."""

from __future__ import annotations

import html
import json
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from pyopnb.models.edit.replace import find_op
from pyopnb.ops.errors import hide_internal_frames, sanitize
from pyopnb.ops.registry import Op
from pyopnb.testing.subject import Subject, example_of, made_example
from pyopnb.testing.trials import TRIALS, Failed, Skipped, raised

__all__ = ["Fitness", "Verdict", "check"]

_PASS, _FAIL, _SKIP = "pass", "fail", "n/a"


@dataclass(frozen=True)
class Verdict:
    """What one test says of an op.

    Attributes
    ----------
    name : str
    outcome : str
        ``"pass"``, ``"fail"`` or ``"n/a"`` (not applicable).
    text : str
        What was found; of a failure also what was expected and what to change.
    """

    name: str
    outcome: str
    text: str

    @property
    def ok(self) -> bool:
        """Whether it is not a failure."""
        return self.outcome != _FAIL

    def __str__(self) -> str:
        return f"{self.name}: {self.outcome}, {self.text}"


class Fitness(Mapping[str, Verdict]):
    """The verdicts of `check`, by the names of the tests; true if none is a failure.

    Attributes
    ----------
    op : str
        Name and version.
    examples : tuple of str
        The types of the examples' inputs, and their attrs.
    made : bool
        Whether the examples were made from the hints, as none was given.
    """

    def __init__(self, op: str, examples: Sequence[str], made: bool, verdicts: Sequence[Verdict]) -> None:
        self.op, self.examples, self.made = op, tuple(examples), made
        self._verdicts = {verdict.name: verdict for verdict in verdicts}

    def __getitem__(self, name: str) -> Verdict:
        return self._verdicts[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._verdicts)

    def __len__(self) -> int:
        return len(self._verdicts)

    def __bool__(self) -> bool:
        return self.ok

    @property
    def ok(self) -> bool:
        """Whether no test failed."""
        return all(verdict.ok for verdict in self._verdicts.values())

    @property
    def failures(self) -> tuple[Verdict, ...]:
        """The verdicts that are failures."""
        return tuple(verdict for verdict in self._verdicts.values() if not verdict.ok)

    def to_json(self) -> str:
        """All of it as JSON."""
        held = {"op": self.op, "ok": self.ok, "examples": self.examples, "made": self.made}
        return json.dumps({**held, "verdicts": [asdict(verdict) for verdict in self._verdicts.values()]})

    def _head(self) -> str:
        failed = ", ".join(verdict.name for verdict in self.failures)
        tried = "; ".join(self.examples[:3]) + ("; …" if len(self.examples) > 3 else "")
        said = f"not fit: {failed}" if failed else "fit"
        return f"{self.op}: {said}. Tried {tried}{', made from the hints' if self.made else ''}"

    def __repr__(self) -> str:
        wide = max(map(len, self._verdicts), default=0)
        rows = [f"  {v.name:{wide}}  {v.outcome:4}  {_on_one_line(v.text)}" for v in self._verdicts.values()]
        return "\n".join([self._head(), *rows])

    def _repr_html_(self) -> str:
        # A half transparent grey is seen on white and on black; an untrusted notebook keeps inline styles alone.
        cell = "text-align:left;vertical-align:top;padding:2px 12px 2px 0;border-bottom:1px solid rgba(128,128,128,0.4)"
        rows = "".join(
            f'<tr><td style="{cell};font-family:monospace">{v.name}</td>'
            f'<td style="{cell};font-weight:{"normal" if v.ok else "bold"}">{v.outcome}</td>'
            f'<td style="{cell}">{html.escape(_on_one_line(v.text))}</td></tr>'
            for v in self._verdicts.values()
        )
        return f'<div>{html.escape(_on_one_line(self._head()))}</div><table style="border-collapse:collapse">{rows}</table>'


def _on_one_line(text: str) -> str:
    return sanitize(" ".join(text.split()), 1000)


@hide_internal_frames
def check(op: str | type | Op, /, *examples: Any, **attrs: Any) -> Fitness:
    """Try whether an op is fit to be used in models.

    Parameters
    ----------
    op : str or type
        The name of an op in the registry, or its class.
    *examples
        Each an array, for an op of one input, or a tuple of arrays, one an input, None for one that is left out. Its last item
        may be a dict of attrs of this example. Without examples, some are made from the hints of ``compute``.
    **attrs
        Attrs of all examples.

    Returns
    -------
    Fitness
        True if the op is fit; a verdict for each of these tests:

        - ``schema``: hints, ``infer`` and attrs' defaults against what ``compute`` takes and returns,
        - ``inputs_unmodified``: nothing is written into the inputs, and no view of them is kept where it cannot be,
        - ``shapes``: what the op promises against what it returns, at several sizes, with symbols for the dimensions,
        - ``repeatable``: two runs, two instances and two sessions give the same bits,
        - ``threads``: many threads in one session give the bits of one,
        - ``empty``, ``scalar``: inputs with no elements and with no dimensions work, or a ``ValueError``,
          ``NotImplementedError`` or error of pyopnb says why not,
        - ``runtime``: ONNX Runtime gives the bits of a plain call of the class,
        - ``precision``: float16, bfloat16 and float32 against the op's own float64, at most 64 units in the last place away,
        - ``kernel``: ONNX Runtime's own operator of that name, where there is one that takes the examples,
        - ``reference``: ONNX's reference implementation of it, where ONNX Runtime has no kernel.

    Raises
    ------
    UnknownOp
        The registry does not have the op.
    FeedError
        An example is not made of arrays. What the op does wrong is never raised: it is in the verdicts.

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
    >>> fitness = check("doctest::Count", np.zeros(3, np.float32))
    >>> bool(fitness), [verdict.name for verdict in fitness.failures]
    (False, ['repeatable'])
    """
    target = find_op(op)
    made = not examples
    given = (
        [example_of(item, attrs, number) for number, item in enumerate(examples)] if examples else [made_example(target, attrs)]
    )
    subject = Subject(target, given)
    verdicts: dict[str, Verdict] = {}
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # empty and extreme inputs are meant to be strange
        for name, (test, first) in TRIALS.items():
            verdicts[name] = _verdict(name, test, first, subject, verdicts)
    texts = [str(example) for example in given]
    return Fitness(str(target.current), texts, made, list(verdicts.values()))


def _verdict(
    name: str, test: Callable[[Subject], str], first: Sequence[str], subject: Subject, verdicts: Mapping[str, Verdict]
) -> Verdict:
    if not subject.ran and name != "schema":
        return Verdict(name, _SKIP, "the op does not run on the examples: see schema")
    if seen := [other for other in first if not verdicts[other].ok]:
        return Verdict(name, _SKIP, f"first what {seen[0]} says")
    try:
        return Verdict(name, _PASS, test(subject))
    except Skipped as why:
        return Verdict(name, _SKIP, str(why))
    except Failed as why:
        return Verdict(name, _FAIL, str(why))
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a bad op may raise whatever it likes: that is what is being found out
        return Verdict(name, _FAIL, raised(error))
