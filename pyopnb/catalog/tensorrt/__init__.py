"""Plugins of TensorRT, from NVIDIA/TensorRT and from the projects that export to it."""
