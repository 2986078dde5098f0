from .mapping import Batches as Batches
from .mapping import map as map
from .sweeping import Sweep as Sweep
from .sweeping import sweep as sweep
