"""Results that change between their check and their delivery."""


def test_a_result_that_gets_another_dtype_meanwhile_is_refused(fresh):
    # Its bytes stay as many, and its elements become half as many: memory for these is too small.
    fresh("""
import warnings

class ChangesTheFirst:
    def __init__(self, first):
        self.first = first

    def __array__(self, *arguments, **options):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # NumPy 2.5 deprecates it
            self.first.dtype = np.float64
        return np.ones(3, np.float32)

def compute(self, x) -> ("float32[...]", "float32[...]"):
    first = np.ones(100_000, np.float32)
    return first, ChangesTheFirst(first) if x[0] < 0 else first[:3]

op("case::Two", compute)
session = pyopnb.Session(
    pyopnb.model([pyopnb.node("case::Two", "x", ["y", "z"])], {"x": "float32[N]"}, ["y", "z"])
)
for sign in (1, -1, -1, 1):
    try:
        y, z = session(np.float32([sign]))
        print(y.shape, z.shape)
    except RuntimeError as error:
        print(error)
""").clean(
        "(100000,) (3,)\n"
        + 2 * "result 0 got another dtype while it was delivered\n"
        + "(100000,) (3,)\n"
    )
