from .evaluator import Evaluator as Evaluator
from .filling import fill as fill
from .operator import has_reference as has_reference
from .operator import reference as reference
from .skeletons import skeleton as skeleton
