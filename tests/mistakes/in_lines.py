"""Mistakes in lines: ``%pyop``, the head of ``%%pyop``, and the command line."""

from __future__ import annotations

from mistake import Mistake

MISTAKES = (
    Mistake(
        "one dash before a long option",
        """
        %%pyop -q «-domain» lab
        class Half:
            def compute(self, x):
                return x / 2
        """,
        ("%%pyop: expected --domain, got -domain",),
        "pyopnb.call('lab::Half', np.float32([2])).tolist() == [1]",
    ),
    Mistake(
        "a full name for the domain of a cell",
        """
        %%pyop -q «-d lab::Halve»
        class Half:
            def compute(self, x):
                return x / 2
        """,
        ("%%pyop, --domain: expected a domain, got lab::Halve",),
        "pyopnb.call('lab::Halve', np.float32([2])).tolist() == [1]",
    ),
    Mistake(
        "a misspelled subcommand",
        """
        %%pyop -q -d demo
        class Half:
            def compute(self, x):
                return x / 2
        ---
        %pyop «hist» demo::Half
        """,
        (
            "%pyop: expected history, rollback",
            "got hist.",
        ),
        "'version' in str(_)",
        advice=r"Try: %pyop (\w+)",
    ),
    Mistake(
        "a version that is not there",
        """
        %%pyop -q -d demo
        class Half:
            def compute(self, x):
                return x / 2
        ---
        %pyop source demo::Half «7»
        """,
        ("op demo::Half: expected version 1, got 7",),
        "len(pyopnb.registry.history('demo::Half')) == 2",
    ),
    Mistake(
        "an input of --run by another name",
        """
        %%pyop -d demo --run «y»=np.float32([2])
        class Half:
            def compute(self, x):
                return x / 2
        """,
        ("demo::Half, version 1, y: expected one of x, got y",),
        "_.tolist() == [1]",
        advice=r"write (\w+) for y",
    ),
    Mistake(
        "the variable of a model is misspelled",
        """
        clipper = pyopnb.model(pyopnb.node("Abs", "x", "y"), {"x": "float32[N]"}, "y")
        ---
        %pyop missing «cliper»
        """,
        ("model: expected a variable with a model, or a file, got cliper",),
        "str(_).startswith('0 of 1') or not len(_)",
    ),
)
