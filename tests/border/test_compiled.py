"""Ops in C++ at the border: odd sizes, what they do wrong, many sessions, redefinition and removal while threads are inside.

The sanitizers' lanes compile the ops for them as well, by ``$CXXFLAGS``.
"""

import pytest
from systems import needs_compiler

pytestmark = pytest.mark.one_python  # compilers take long

SCRIPT = r'''
SOURCE = """
#include <chrono>
#include <thread>
// Repeats x, adds w to it where there is one, and tells the rank, and the length of the mode.
template <typename T = AnyOf<float, int64_t>>
void Grow(Input<T> x, std::optional<Input<T>> w, std::vector<Input<bool>> masks, Output<T> y, Output<T> facts,
          std::string mode = "sum", std::vector<int64_t> more = {}, int64_t how = 0, int64_t wait = 0) {
  if (w && w->size() != x.size()) throw std::invalid_argument(std::to_string(w->size()) + " elements, not " + std::to_string(x.size()));
  if (how == 1) return;
  if (how == 2) y.allocate({-1});
  if (how == 3) y.allocate(x.shape());
  if (how == 4) throw 5;
  if (how == 5) y.allocate({int64_t{1} << 40, int64_t{1} << 40});
  if (how == 6) x.dim(x.rank());
  std::this_thread::sleep_for(std::chrono::milliseconds(wait));
  std::vector<int64_t> shape(x.shape().begin(), x.shape().end());
  shape.insert(shape.begin(), more.begin(), more.end());
  T* out = y.allocate(shape);
  const int64_t times = x.size() ? y.size() / x.size() : 0;
  for (int64_t n = 0; n < times; ++n)
    for (int64_t i = 0; i < x.size(); ++i) out[n * x.size() + i] = FACTOR * x[i] + (w ? (*w)[i] : T{0});
  T* told = facts.allocate({3});
  told[0] = static_cast<T>(x.rank()), told[1] = static_cast<T>(mode.size()), told[2] = static_cast<T>(masks.size());
}
"""
FACTORS = [pyopnb.cpp_op(SOURCE.replace("FACTOR", factor), "demo::Grow") for factor in "23"]
pyopnb.registry.rollback("demo::Grow")
call = lambda *inputs, **attrs: pyopnb.call("demo::Grow", *inputs, outputs=2, **attrs)

# Shapes of all ranks, with and without elements, and attrs of all lengths.
for shape in [(), (0,), (1,), (3,), (2, 0), (0, 2, 3), (2, 3, 4), (1, 1, 1, 1, 5), (1,) * 12]:
    for dtype in (np.float32, np.int64):
        x = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)
        y, facts = call(x, x, *[np.ones(2, bool)] * len(shape), mode="m" * len(shape) * 7, more=[2] * min(len(shape), 2))
        assert y.shape == (2,) * min(len(shape), 2) + shape and (y == 3 * x).all()
        assert facts.tolist() == [len(shape), 7 * len(shape), len(shape)]

# What it does wrong is an error.
for how in range(1, 7):
    try:
        call(np.ones((2, 3), np.float32), how=how)
        print(how, "no error")
    except Exception as error:
        print(how, type(error).__name__)
try:
    call(np.ones(3, np.float32), np.ones(4, np.float32))
except ValueError as error:
    print(error)

# Sessions that come and go on threads, bare ones among them, while versions change; each run sees one of the two.
graph = "(float[N] x) => (float[N] y, float[3] n) {{ y, n = demo.Grow<mode = \"{}\", wait = {}>(x) }}"
wrong = []

def runs(make):
    for n in range(4):
        session = make(pyopnb.parse(graph.format("a" * n, n)))
        for _ in range(5):
            y, facts = session.run(None, {"x": X})
            if not ((y == 2 * X).all() or (y == 3 * X).all()) or facts[1] != n:
                wrong.append((y, facts))

threads = [threading.Thread(target=runs, args=(make,)) for make in (pyopnb.Session, bare)]
for thread in threads:
    thread.start()
number = 0
while any(thread.is_alive() for thread in threads):
    pyopnb.registry.rollback("demo::Grow", number := number % 2 + 1)
    time.sleep(0.01)
print("wrong", wrong)

# Removal, and the last reference to a session, while two threads are inside.
session = pyopnb.Session(pyopnb.parse(graph.format("", 300)))
results = []
threads = [threading.Thread(target=lambda run: results.append(run(None, {"x": X})[0]), args=(session.run,)) for _ in range(2)]
for thread in threads:
    thread.start()
time.sleep(0.1)
pyopnb.registry.remove("demo::Grow")
del session, FACTORS
gc.collect()
for thread in threads:
    thread.join()
print("removed", len(results), all((y == 2 * X).all() or (y == 3 * X).all() for y in results))
'''


@needs_compiler
def test_ops_in_cpp_at_the_border(fresh, tmp_path, monkeypatch):
    monkeypatch.setenv("PYOPNB_CACHE", str(tmp_path))
    fresh(SCRIPT).clean(
        "1 ResultError\n2 ValueError\n3 RuntimeError\n4 RuntimeError\n5 MemoryError\n6 IndexError\n"
        "4 elements, not 3\nwrong []\nremoved 2 True\n"
    )
