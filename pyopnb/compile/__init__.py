"""Ops that are written in C++."""
