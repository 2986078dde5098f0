"""All models of the corpus; they need the dependency group corpus. `make test-corpus` runs this, as a part of `make test-all`."""

import from_onnx  # noqa: F401  # enters models
import from_python  # noqa: F401
import from_scikit  # noqa: F401
import from_torch  # noqa: F401
import pytest
from entries import names
from trial import pairs, tried


def test_at_least_sixty_models() -> None:
    assert len(names()) >= 60


@pytest.mark.parametrize(("name", "way"), pairs(names()))
def test_way(name: str, way: str) -> None:
    tried(name, way)
