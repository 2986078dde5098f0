"""Models that a function once choked on, as hexadecimal digits."""

KEPT: list[str] = []
