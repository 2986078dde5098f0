# What the native module offers; tests/diffs/arrays/test_stub.py compares it with the compiled one.
from collections.abc import Sequence
from typing import Any

import numpy as np

def same(a: np.ndarray, b: np.ndarray) -> bool: ...

class Stats:
    def __init__(
        self,
        dtype: str,
        shape: Sequence[int],
        rtol: float,
        atol: float,
        details: bool,
        smallest_normal: float,
        values: np.ndarray,
        order: np.ndarray,
    ) -> None: ...
    def add(self, a: np.ndarray, b: np.ndarray, at: int, threads: int) -> None: ...
    def totals(self) -> tuple[int, int, int]: ...
    def result(self) -> dict[str, Any]: ...
