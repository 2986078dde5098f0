from . import node_edits as node_edits
