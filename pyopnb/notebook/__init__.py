"""Magics and live outputs for IPython. No other room imports it."""
