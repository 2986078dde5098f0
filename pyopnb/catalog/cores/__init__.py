"""The algorithms that several operators of the catalogue share."""
