"""Operators that ONNX Runtime lacks and that models in the wild hold, each in a file of its own.

A file has a class as a user would write it in a ``%%pyop`` cell, and ``NAMES``: the names, with
their domains, that the operator has in model files. Nothing of this is imported by ``import
pyopnb``.
"""
