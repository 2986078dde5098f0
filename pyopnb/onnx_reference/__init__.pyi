from .evaluator import Evaluator as Evaluator
from .evaluator_ops import reference_ops as reference_ops
from .filling import fill as fill
from .operator import has_reference as has_reference
from .operator import reference as reference
from .skeletons import skeleton as skeleton
