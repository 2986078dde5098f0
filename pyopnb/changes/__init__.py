"""What changed: between two models, and between two versions of an op."""
