"""Ops that ONNX Runtime does not take when the library is registered."""


def test_an_op_that_a_domain_did_not_take_is_offered_again(fresh):
    fresh("""
from registering import Registering

runtime = Registering(pyopnb.get_library_path())
op("case::First", lambda self, x: x)
assert runtime(7)
op("case::Second", lambda self, x: x)
runtime.is_full = lambda: True
assert not runtime(7)
runtime.is_full = lambda: False
assert runtime(7)
print(dict(runtime.ops))
# Other options have a domain with just these ops, and none that got its ops in between.
assert runtime(8) and runtime(9)
print(runtime.offered)
""").clean("{1: 2}\n[(7, 1, 1), (8, 2, 2), (9, 2, 2)]\n")


def test_options_do_not_get_an_op_of_others_whose_domain_was_full(fresh):
    fresh("""
from registering import Registering

runtime = Registering(pyopnb.get_library_path())
op("case::First", lambda self, x: x)
assert runtime(7)
op("case::Second", lambda self, x: x)
op("case::Third", lambda self, x: x)
runtime.is_full = lambda: runtime.ops[1] == 2
assert not runtime(7)
for name in ("case::Second", "case::Third"):
    pyopnb.registry.remove(name)
runtime.is_full = lambda: False
assert runtime(8)
print(runtime.offered)
""").clean("[(7, 1, 1), (8, 2, 1)]\n")
