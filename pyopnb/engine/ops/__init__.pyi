from . import attr_kinds as attr_kinds
from . import op_run as op_run
from . import output_types as output_types
from . import running_text as running_text
