from . import caches as caches
from . import file_writes as file_writes
from . import hand_downs as hand_downs
from . import locks as locks
