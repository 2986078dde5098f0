# Sets that are joined step by step.
from .disjoint_sets import DisjointSets as DisjointSets

# What shows itself in a notebook.
from .displayable import Displayable as Displayable

# Doors of rooms, and packages that must be installed or built.
from .installed import open_door as open_door
from .installed import require as require
from .installed import require_native as require_native

# Items by number or name.
from .named_items import NamedItems as NamedItems

# Caches, files that are written whole, names handed down to lower rooms, and calls under a lock.
from .system import caches as caches
from .system import file_writes as file_writes
from .system import hand_downs as hand_downs
from .system import locks as locks

# Tables of text and HTML.
from .text_table import Table as Table

# Texts of messages, and how far long work is.
from .told import messages as messages
from .told import progress as progress

# The two texts that nearly every message has.
from .told.messages import plural as plural
from .told.messages import sanitize as sanitize
