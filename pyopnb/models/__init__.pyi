# The catalog operator of a node.
from .catalog_names import misuse as misuse
from .catalog_names import node_entry as node_entry

# Sets that are joined step by step.
from .disjoint_sets import DisjointSets as DisjointSets

# Nodes replaced by ops.
from .edit.replace import open_for_edit as open_for_edit
from .edit.replace import put_ops as put_ops
from .edit.replace import replace as replace

# Which nodes are meant.
from .edit.select import Where as Where
from .edit.select import select_sites as select_sites

# A model in float64.
from .edit.widen import widen as widen

# Values on their way through a model.
from .edit.wrap import wrap as wrap

# Models with their ops from files.
from .loading import Loaded as Loaded
from .loading import load as load

# Ops as Python modules.
from .module_files import load_module as load_module
from .module_files import save_module as save_module

# The longest source of an op in a file.
from .op_metadata import MAX_SOURCE as MAX_SOURCE

# Models with their ops to files.
from .saving import save as save

# What the installed runtime has and lacks.
from .support.kernels import has_kernel as has_kernel
from .support.lacking import unserved_outputs as unserved_outputs
from .support.missing import MissingNode as MissingNode
from .support.missing import missing as missing
from .support.unsupported import MIXED as MIXED
from .support.unsupported import WRONG_ATTR as WRONG_ATTR

# The text form.
from .text_form.parse import parse as parse
from .text_form.write import text as text

# Types of all values of a model.
from .types import Types as Types
