"""Ops, arrays, traces and graphs held against each other."""
