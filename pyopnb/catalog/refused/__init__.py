"""Operators that cannot run faithfully in NumPy: each file says why, and what to do instead."""
