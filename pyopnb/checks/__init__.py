"""Whether an op is fit to be used."""
