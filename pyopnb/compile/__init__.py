"""Ops that are compiled: written in C++, or in the Python that Numba compiles."""
