from .conversion import convert as convert
from .conversion import update_registered_converter as update_registered_converter
from .fitted import FittedEstimator as FittedEstimator
from .fitted import RunsInPython as RunsInPython
from .fitted import filled as filled
from .inputs import feeds as feeds
