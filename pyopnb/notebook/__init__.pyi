from .extension import load as load
from .extension import unload as unload
from .live.interact import interact as interact
from .live.watch import watch as watch
