from . import elsewhere as elsewhere
from . import optimized_run as optimized_run
from . import reference_run as reference_run
