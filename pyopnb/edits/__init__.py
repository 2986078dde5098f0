"""Copies of models in which other nodes stand."""
