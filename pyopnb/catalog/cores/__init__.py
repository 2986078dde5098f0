"""The algorithms that several operators of the catalog share."""
