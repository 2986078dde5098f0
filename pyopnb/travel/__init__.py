"""Ops that travel: with a model, or as a module."""
