# The comparison of two of a kind.
from .api import diff as diff

# What a comparison of arrays finds.
from .arrays.diff import Diff as Diff

# What diffs of other rooms derive from, and how long their text is.
from .base import MAX_LINES as MAX_LINES
from .base import Comparable as Comparable
from .base import DiffBase as DiffBase
from .base import fit_lines as fit_lines

# A part of a model.
from .extraction import extract as extract

# What diffs of arrays, models and runs consist of, and what searches find.
from .kinds import array_diffs as array_diffs
from .kinds import findings as findings
from .kinds import model_diffs as model_diffs
from .kinds import trace_diffs as trace_diffs

# Which nodes matter.
from .node_sensitivity import sensitivity as sensitivity

# The smallest model that still fails.
from .reduction import reduce as reduce

# Whether runs agree with each other.
from .run_stability import stability as stability

# The first node at which two runs differ.
from .traces.bisect import first_divergence as first_divergence
