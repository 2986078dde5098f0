from .gradient_model import grad as grad
from .ranks import make_inputs as make_inputs
