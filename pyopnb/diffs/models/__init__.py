"""Differences between two models, by structure and not by names or order."""
