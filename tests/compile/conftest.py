"""One cache of compiled libraries for all tests of this folder, so that each text is compiled once.

They are compiled without optimizations, which takes a fifth less; what %%cppop gives as it comes is
tried in tests/notebook.
"""

import pytest


@pytest.fixture(scope="package", autouse=True)
def cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYOPNB_CACHE", str(tmp_path_factory.mktemp("cache")))
        patch.setenv("CXXFLAGS", "-O0")
        yield
