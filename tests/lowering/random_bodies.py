"""Random bodies of all dtypes: a seed decides on the dtypes, the expression and the inputs.

``python tests/lowering/random_bodies.py 20000`` runs that many, and prints what became of them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable

import numpy as np
from judge import FLOATS, INTEGERS, Tally, nasty, run_body

__all__ = ["body_of", "run_seeds"]

UNARY = [
    "-{a}", "abs({a})", "np.sign({a})", "np.square({a})", "{a} ** 2", "{a} ** 3", "{a} ** 0.5",
    "np.sqrt(np.abs({a}))", "np.exp(-np.abs({a}))", "np.log1p(np.abs({a}))", "np.expm1({a})",
    "np.log(np.abs({a}) + 1)", "np.tanh({a})", "np.floor({a})", "np.ceil({a})", "np.trunc({a})",
    "np.rint({a})", "np.round({a}, 1)", "{a} // 3", "{a} % 3", "{a} // -3", "{a} % -3", "{a} // 0.7",
    "{a} % 0.7", "{a} / 3", "{a} + 1", "{a} * 2", "{a} - 1", "2 - {a}", "{a} > 0", "{a} == -1",
    "{a} > 300", "{a} <= 1", "{a} != 2", "np.clip({a}, 0, None)", "np.clip({a}, None, 5)",
    "np.clip({a}, 0, 300)", "np.clip({a}, -1, 1)", "np.maximum({a}, 0)", "np.minimum({a}, 1)",
    "{a}.sum(1, keepdims=True) + {a}", "{a}.sum(0)", "{a}.mean(1, keepdims=True) - {a}", "{a}.max(0) - {a}",
    "{a}.min(1)[:, None] + {a}", "np.cumsum({a}, 1)", "np.cumsum({a}, 0)", "np.sort({a}, 1)",
    "np.argsort({a}, 1, kind='stable')", "np.argmax({a}, 1)[:, None] + {a}", "np.argmin({a}, 0) * {a}",
    "np.median({a}, 1, keepdims=True)", "np.where({a} > 0, {a}, -1)", "np.where({a} > 1, {a}, 0)",
    "np.nan_to_num({a})", "np.isnan({a})", "np.isfinite({a}) * {a}", "{a}.astype(np.float32)",
    "{a}.astype(np.int32)", "{a}.astype(np.int64)", "{a}.astype(np.uint8)", "{a}.astype(np.float64)",
    "({a} > 0).astype(np.int8)", "{a}[::-1]", "{a}[:, ::-1]", "{a}[:, :1] + {a}", "{a}[-1] - {a}",
    "np.roll({a}, 1, 1)", "np.tril({a})", "np.flip({a}, 0)", "{a}.T.T", "{a} @ {a}.T @ {a}",
    "np.pad({a}, ((1, 0), (0, 0)))[1:]", "{a} * {a}.shape[0]", "{a} > {a}.shape[1]",
    "{a} + np.arange({a}.shape[1])", "{a} >> 1", "{a} << 1", "~{a}", "{a} & 3", "{a} | 1",
    "np.diff({a}, axis=1, prepend=0)", "np.count_nonzero({a}, axis=1)[:, None] * {a}",
    "np.any({a} > 2, axis=0) | ({a} > 1)", "np.all({a} > 0, axis=1, keepdims=True) * {a}",
    "np.isclose({a}, 1) * {a}", "np.var({a}, 1, keepdims=True) + {a}", "np.linalg.norm({a}, axis=1, keepdims=True)",
]  # fmt: skip
BINARY = [
    "{a} + {b}", "{a} - {b}", "{a} * {b}", "{a} / {b}", "{a} // {b}", "{a} % {b}",
    "np.maximum({a}, {b})", "np.minimum({a}, {b})", "{a} > {b}", "{a} == {b}", "{a} <= {b}",
    "np.where({a} > {b}, {a}, {b})", "np.where({a} == {b}, 0, {b})", "{a} & {b}", "{a} | {b}", "{a} ^ {b}",
    "np.logaddexp({a}, {b})", "{a} @ {b}.T @ {b}", "np.clip({a}, {b}, None)",
    "np.logical_and({a}, {b})", "np.concatenate([{a}, {b}], 0)[: {a}.shape[0]]", "{a} + {b}.sum(0)",
    "np.select([{a} > 1, {b} > 0], [{a}, {b}], 3)", "np.clip({a}, 0, {b})", "np.isclose({a}, {b})",
]  # fmt: skip
DTYPES = [*FLOATS, *INTEGERS, np.bool_, np.float32, np.int64]


def body_of(seed: int) -> tuple[str, list[tuple[np.ndarray, ...]]]:
    """Make an expression of ``x``, ``y`` and ``z``, and inputs for it."""
    random = np.random.default_rng(seed)

    def expression(depth: int) -> str:
        chance = random.random()
        if depth == 0 or chance < 0.1:
            return str(random.choice(["x", "x", "y", "z"]))
        if chance < 0.65:
            return f"({random.choice(UNARY)})".format(a=expression(depth - 1))
        return f"({random.choice(BINARY)})".format(a=expression(depth - 1), b=expression(depth - 1))

    text = expression(int(random.integers(1, 4)))
    first, other = (DTYPES[int(place)] for place in random.integers(0, len(DTYPES), 2))
    draws = []
    for variety, (rows, columns) in enumerate([(4, 5), (3, 7), (5, 1), (1, 4), (20, 18)]):
        shape = (rows, columns)
        draws.append(
            tuple(nasty(dtype, shape, random, variety % 3) for dtype in (first, first, other))
        )
    return text, draws


def run_seeds(seeds: Iterable[int]) -> Tally:
    """Lower the body of each seed, and judge it."""
    tally = Tally()
    for seed in seeds:
        text, draws = body_of(seed)
        dtypes = f"{draws[0][0].dtype}, {draws[0][2].dtype}"
        source = f"import numpy as np\nclass Judged:\n    def compute(self, x, y, z):\n        return {text}\n"
        run_body(source, draws, tally, f"seed {seed} ({dtypes}): {text}")
    return tally


if __name__ == "__main__":
    first, count = (
        (0, int(sys.argv[1])) if len(sys.argv) == 2 else (int(sys.argv[1]), int(sys.argv[2]))
    )
    print(run_seeds(range(first, first + count)))
