"""Quantizers of vendors and research tools."""
