"""Operators of mmcv 1.x with names that other domains use for something else."""
