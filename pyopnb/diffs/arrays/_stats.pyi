# What the native module offers; tests/diffs/arrays/test_stub.py compares it with the compiled one.
from collections.abc import Sequence
from typing import Any

import numpy as np

_Buffer = bytes | np.ndarray

class HullBuilder:
    def __init__(self) -> None: ...
    def add(self, t: _Buffer, d: _Buffer) -> None: ...
    def corners(self) -> tuple[tuple[float, float], ...]: ...

class Stats:
    def __init__(
        self,
        dtype: str,
        shape: Sequence[int],
        rtol: float,
        atol: float,
        stride: int,
        smallest_normal: float,
        values: _Buffer,
        order: _Buffer,
    ) -> None: ...
    def add(self, a: _Buffer, b: _Buffer, at: int, threads: int) -> None: ...
    def totals(self) -> tuple[int, int, int]: ...
    def result(self) -> dict[str, Any]: ...
