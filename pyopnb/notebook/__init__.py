"""Magics and live outputs: what pyopnb adds to IPython. The only room that imports it."""
