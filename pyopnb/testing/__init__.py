"""Assertions for users' tests, and a check whether an op is ready for use."""

from pyopnb.testing.assertions import assert_close

__all__ = ["assert_close"]
