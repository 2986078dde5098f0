"""Differences between arrays, and between results and nested values made of them."""
