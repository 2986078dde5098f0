"""Ops with ``backward`` that the tests of this folder share, as text: they are defined as a file or a cell is."""

USER_RELU = '''
@pyopnb.pyop("demo::UserRelu")
class UserRelu:
    """OneFlow's example, with a slope."""
    def __init__(self, slope: float = 0.0):
        self.slope = slope
    def compute(self, x):
        return np.where(x > 0, x, self.slope * x).astype(x.dtype)
    def backward(self, inputs, outputs, grads):
        (y,), (dy,) = outputs, grads
        return np.where(y > 0, dy, self.slope * dy).astype(dy.dtype)
'''

SCALE = '''
@pyopnb.pyop("demo::Scale")
class Scale:
    """x * w + b, with w and b of the last axis; b can be left out."""
    def compute(self, x, w, b=None):
        return x * w if b is None else x * w + b
    def backward(self, inputs, outputs, grads):
        (x, w, b), (dy,) = inputs, grads
        axes = tuple(range(x.ndim - 1))
        return dy * w, (dy * x).sum(axis=axes), None if b is None else dy.sum(axis=axes)
'''
