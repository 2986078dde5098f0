"""Copies of models with other nodes in them."""
