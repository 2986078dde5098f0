"""Netron in the output of a cell, from the installed package, without port and network."""
