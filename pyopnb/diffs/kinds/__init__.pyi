from . import array_diffs as array_diffs
from . import findings as findings
from . import model_diffs as model_diffs
from . import trace_diffs as trace_diffs
