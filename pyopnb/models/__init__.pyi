# Which nodes are meant, and nodes replaced by ops.
from .edit import node_edits as node_edits
from .edit.replace import replace as replace

# Values on their way through a model.
from .edit.wrap import wrap as wrap

# Models with their ops from files.
from .loading import Loaded as Loaded
from .loading import load as load

# Ops as Python modules.
from .module_files import load_module as load_module
from .module_files import save_module as save_module

# Models with their ops to files.
from .saving import save as save

# The catalog operator of a node.
from .support import catalog_names as catalog_names

# What the installed runtime has and lacks.
from .support import lacking as lacking
from .support.missing import MissingNode as MissingNode
from .support.missing import missing as missing

# The text form.
from .text_form.parse import parse as parse
from .text_form.write import text as text

# Types of all values of a model.
from .types import Types as Types
