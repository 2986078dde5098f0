"""Differences between two of a kind: arrays, models, traces, versions of an op."""
