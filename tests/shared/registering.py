"""The part of the C interface of ONNX Runtime that registers ops, to see the calls of a library."""

import ctypes
from collections import Counter

_POINTER = ctypes.c_void_p
_SIZES = ctypes.POINTER(ctypes.c_size_t)
_PARAMETERS = {  # by slot of OrtApi
    0: (ctypes.c_int, ctypes.c_char_p),  # CreateStatus
    2: (_POINTER,),  # GetErrorMessage
    26: (ctypes.c_char_p, ctypes.POINTER(_POINTER)),  # CreateCustomOpDomain
    27: (_POINTER, _POINTER),  # CustomOpDomain_Add
    28: (_POINTER, _POINTER),  # AddCustomOpDomain
    130: (_POINTER, ctypes.c_char_p, ctypes.c_char_p),  # AddSessionConfigEntry
    238: (_POINTER, ctypes.c_char_p, _POINTER, _SIZES),  # GetSessionConfigEntry
}
_FAILURE = ctypes.create_string_buffer(b"full")


class Registering:
    """Registers the ops of a library with numbers for options and domains.

    Parameters
    ----------
    library : path
    """

    def __init__(self, library):
        self.register = ctypes.CDLL(str(library)).RegisterCustomOps
        self.register.restype, self.register.argtypes = _POINTER, [_POINTER, _POINTER]
        self.domains = 0
        self.ops = Counter()  # by domain
        self.offered = []  # options, domain, and how many ops it had
        self.is_full = lambda: False  # whether a domain takes no op
        self.entries = {}
        slots = {26: self.create, 27: self.add, 28: self.offer, 130: self.set, 238: self.get}
        slots |= {0: lambda *_: ctypes.addressof(_FAILURE), 2: lambda status: status}
        self.table = (_POINTER * 500)()
        self.kept = []
        for slot, parameters in _PARAMETERS.items():
            function = ctypes.CFUNCTYPE(_POINTER, *parameters)(slots[slot])
            self.kept.append(function)
            self.table[slot] = ctypes.cast(function, _POINTER)
        # ReleaseStatus is called while a Python error is set, so it must not be in Python.
        self.table[93] = ctypes.cast(ctypes.pythonapi.Py_IsInitialized, _POINTER)
        get_api = ctypes.CFUNCTYPE(_POINTER, ctypes.c_uint32)(
            lambda _: ctypes.addressof(self.table)
        )
        self.kept.append(get_api)
        self.base = (_POINTER * 2)(ctypes.cast(get_api, _POINTER))

    def __call__(self, options):
        """Register with these options, and tell whether ONNX Runtime would be content."""
        return self.register(options, self.base) is None

    def create(self, name, made):
        self.domains += 1
        made[0] = self.domains

    def add(self, domain, op):
        if self.is_full():
            return ctypes.addressof(_FAILURE)
        self.ops[domain] += 1

    def offer(self, options, domain):
        self.offered.append((options, domain, self.ops[domain]))

    def set(self, options, key, value):
        self.entries[options, key] = value

    def get(self, options, key, text, size):
        if (options, key) not in self.entries:
            return ctypes.addressof(_FAILURE)
        value = self.entries[options, key]
        size[0] = len(value) + 1
        if text:
            ctypes.memmove(text, value, len(value))
