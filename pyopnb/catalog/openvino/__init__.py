"""Operators of OpenVINO's own."""
