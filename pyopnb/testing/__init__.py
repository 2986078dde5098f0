"""Assertions for users' tests, and whether an op is ready to be used."""

from pyopnb.testing.assertions import assert_close

__all__ = ["assert_close"]
