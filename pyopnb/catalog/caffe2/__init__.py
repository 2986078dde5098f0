"""Operators of Caffe2, which detectron2's tracer exports."""
