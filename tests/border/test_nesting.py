"""Runs inside runs without end: ONNX Runtime recurses on the C stack, which no RecursionError of Python guards.

Apart from test_misbehavior.py, because each level unwinds through all outer ones, which takes
minutes where every allocation is traced.
"""

from systems import needs_small_stacks

SCRIPT = """
made = []

@pyopnb.pyop("case::OwnSession")
class OwnSession:
    def compute(self, x): return make(chain("case::OwnSession")).run(None, {"x": x})[0]

@pyopnb.pyop("case::OneSession")
class OneSession:
    def compute(self, x): return made[0].run(None, {"x": x})[0]

@pyopnb.pyop("case::Good")
class Good:
    def compute(self, x): return x + 1

for op in ("case::OwnSession", "case::OneSession"):
    made[:] = [make(chain(op))]
    try:
        made[0].run(None, {"x": X})
    except Exception as error:
        notes = [note for note in getattr(error, "__notes__", ()) if "node 'n0'" in note]
        print(type(error).__name__, len(notes), str(error)[:50])
    made.clear()
    print(make(chain("case::Good")).run(None, {"x": X})[0])
"""


def test_in_sessions_of_pyopnb(fresh):
    # Two notes, not sixty: of the innermost run, which did not reach compute, and of all around
    # it, with its inputs.
    ended = "RecursionError 2 runs are nested 60 deep: compute runs a session wh\n[ 2. -1.  4.]\n"
    fresh("make = pyopnb.Session\n" + SCRIPT).clean(ended * 2)


def test_in_bare_sessions(fresh):
    # The text of the 60th run is inside the text of the 59th …: the end is cut.
    done = fresh("make = bare\n" + SCRIPT)
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert [line.split()[0] for line in lines] == ["Fail", "[", "Fail", "["]
    assert lines[1] == lines[3] == "[ 2. -1.  4.]"


@needs_small_stacks
def test_on_threads_of_small_stacks(fresh):
    """The stack ends before runs are nested as deep as they may be: 512 kB are what some systems give a thread."""
    fresh("""
    made = []

    @pyopnb.pyop("case::OneSession")
    class OneSession:
        def compute(self, x): return made[0].run(None, {"x": x})[0]

    @pyopnb.pyop("case::OwnSession")
    class OwnSession:
        def compute(self, x): return make(chain("case::OwnSession")).run(None, {"x": x})[0]

    def job():
        made[:] = [make(chain(op))]
        try:
            made[0].run(None, {"x": X})
        except Exception as error:
            # The text of the innermost bare run is cut from those around it.
            said.add((type(error).__name__, make is bare or "the stack of this thread has no room" in str(error)))

    said = set()
    for size in (256, 384, 512):
        threading.stack_size(size << 10)
        for make in (pyopnb.Session, bare):
            for op in ("case::OneSession", "case::OwnSession"):
                thread = threading.Thread(target=job)
                thread.start()
                thread.join()
    print(sorted(said))
    """).clean("[('Fail', True), ('RecursionError', True)]\n")
