"""Differences between two runs: their nodes aligned, and the first that differs."""
