"""Mistakes in lines: ``%pyop``, the head of ``%%pyop``, and the command line."""

from __future__ import annotations

from mistake import Mistake

MISTAKES = (
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
        "a misspelled op to look up",
        """
        %%pyop -q -d demo
        class Half:
            def compute(self, x):
                return x / 2
        ---
        %pyop history «demo::Hlaf»
        """,
        ("op demo::Hlaf: expected an op of the registry",),
        "'version' in str(_)",
    ),
    Mistake(
        "a misspelled op to remove",
        """
        %%pyop -q -d demo
        class Half:
            def compute(self, x):
                return x / 2
        ---
        %pyop remove «demo::Hlaf»
        """,
        ("op demo::Hlaf: expected an op of the registry",),
        "'demo::Half' not in pyopnb.registry",
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
        "a version to compare with that is not there",
        """
        %%pyop -q -d demo
        class Half:
            def compute(self, x):
                return x / 2
        ---
        %%pyop -q -d demo
        class Half:
            def compute(self, x):
                return x * 0.5
        ---
        %pyop diff demo::Half 1 «9»
        """,
        ("op demo::Half: expected one of versions 1, 2, got 9",),
        "len(pyopnb.registry.history('demo::Half')) > 1",
    ),
    Mistake(
        "a misspelled op to roll back",
        """
        %%pyop -q -d demo
        class Half:
            def compute(self, x):
                return x / 2
        ---
        %%pyop -q -d demo
        class Half:
            def compute(self, x):
                return x / 2
        ---
        %pyop rollback «demo::Hlaf»
        """,
        ("op demo::Hlaf: expected an op of the registry",),
        "pyopnb.registry['demo::Half'].current.restored is not None",
    ),
    Mistake(
        "a misspelled op to save",
        """
        %%pyop -q -d demo
        class Half:
            def compute(self, x):
                return x / 2
        ---
        %pyop save halves.py «demo::Hlaf» --overwrite
        """,
        ("op demo::Hlaf: expected an op of the registry",),
        "'class Half' in __import__('pathlib').Path('halves.py').read_text()",
    ),
    Mistake(
        "a node without a cell",
        """
        m = pyopnb.model(pyopnb.node("Abs", "x", "y"), {"x": "float32[N]"}, "y")
        ---
        %pyop skeleton m «z»
        """,
        ("where 'z': expected a node's name, an op type or an output's name of the model",),
        "True",
    ),
    Mistake(
        "a misspelled model to look into",
        """
        onnx.save(pyopnb.model(pyopnb.node("Abs", "x", "y"), {"x": "float32[N]"}, "y"), "model.onnx")
        np.save("reference.npy", np.float32([1, 2]))
        ---
        %pyop missing «modle.onnx»
        """,
        ("Load model modle.onnx failed. File doesn't exist",),
        "len(_) == 0",
    ),
    Mistake(
        "a misspelled model on the command line",
        """
        onnx.save(pyopnb.model(pyopnb.node("Abs", "x", "y"), {"x": "float32[N]"}, "y"), "model.onnx")
        np.save("reference.npy", np.float32([1, 2]))
        ---
        !python -m pyopnb show «modle.onnx»
        """,
        ("pyopnb: Load model modle.onnx failed. File doesn't exist",),
        "True",
    ),
    Mistake(
        "a misspelled file of arrays on the command line",
        """
        onnx.save(pyopnb.model(pyopnb.node("Abs", "x", "y"), {"x": "float32[N]"}, "y"), "model.onnx")
        np.save("reference.npy", np.float32([1, 2]))
        ---
        !python -m pyopnb diff «refrence.npy» reference.npy
        """,
        ("pyopnb: file refrence.npy does not exist",),
        "True",
    ),
    Mistake(
        "a picture of an unknown format on the command line",
        """
        onnx.save(pyopnb.model(pyopnb.node("Abs", "x", "y"), {"x": "float32[N]"}, "y"), "model.onnx")
        np.save("reference.npy", np.float32([1, 2]))
        ---
        !python -m pyopnb show model.onnx --save «model.pdf»
        """,
        ("expected a name that ends in .html, .svg, .png, got model.pdf",),
        "__import__('os').path.exists('model.svg')",
        advice=r"Try: save\('(.*)'\)",
    ),
)
