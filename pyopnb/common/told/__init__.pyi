from . import messages as messages
from . import progress as progress
