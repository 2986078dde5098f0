from .cpp import cpp_class as cpp_class
from .cpp import cpp_op as cpp_op
from .library import write_library as write_library
