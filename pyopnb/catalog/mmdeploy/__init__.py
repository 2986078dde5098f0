"""Operators of mmdeploy and mmcv, which export the detectors of OpenMMLab."""
