"""Graphs made by hand: from nodes, and from text; and what no graph may have."""
