from . import precision as precision
from . import sampling as sampling
