"""Training in ONNX Runtime.

A model, its gradient and an optimizer's update are one graph, whose weights stay in memory.
"""

from __future__ import annotations

from pyopnb.training.fitting import train
from pyopnb.training.optimizers import SGD, Adagrad, Adam, Momentum, Optimizer
from pyopnb.training.training import Training

__all__ = ["SGD", "Adagrad", "Adam", "Momentum", "Optimizer", "Training", "train"]
