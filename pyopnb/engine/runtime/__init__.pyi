import pathlib

from . import feed_checks as feed_checks
from . import node_kernel as node_kernel
from . import node_plans as node_plans
from . import one_run as one_run
from . import ortvalues as ortvalues
from . import runtime_options as runtime_options

INCLUDE_FOLDER: pathlib.Path
