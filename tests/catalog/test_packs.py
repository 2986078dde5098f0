"""Packages that are installed can add operators to the catalog."""

import subprocess
import sys
import textwrap

import pytest

SQUASH = '''
    """Squash, of the package acme. Defined in acme/squash."""

    import numpy as np

    NAMES = ("acme::Squash",)


    class Squash:
        """Squash numbers into an interval."""

        def __init__(self, limit: float = {limit}):
            self.limit = np.float32(limit)

        def infer(self, x):
            return x

        def compute(self, x):
            return np.clip(x, -self.limit, self.limit)
'''


def install(folder, pack, **files):
    """Lay a package out as pip installs it, with the entry point that its pyproject.toml declares."""
    package = folder / f"{pack}_ops"
    package.mkdir()
    (package / "__init__.py").write_text("", encoding="utf-8")
    for name, text in files.items():
        (package / f"{name}.py").write_text(textwrap.dedent(text), encoding="utf-8")
    metadata = folder / f"{pack}-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {pack}\nVersion: 1.0\n", encoding="utf-8"
    )
    (metadata / "entry_points.txt").write_text(
        f"[pyopnb.catalog]\n{pack} = {pack}_ops\n", encoding="utf-8"
    )


@pytest.fixture
def run(tmp_path):
    def run(code):
        setting_up = f"""
            import sys, warnings
            import numpy as np
            sys.path.insert(0, {str(tmp_path)!r})
            import pyopnb
            import onnx
            graph = onnx.parser.parse_model('''<ir_version: 8, opset_import: ["": 13, "acme": 1]>
                g (float[N] x) => (float[N] y) {{ y = acme.Squash(x) }}''')
            X = np.float32([-9, 9])
        """
        text = textwrap.dedent(setting_up) + textwrap.dedent(code)
        done = subprocess.run([sys.executable, "-P", "-c", text], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def test_a_folder_with_one_file_an_operator_is_a_pack(run, tmp_path):
    """Another one that does not load is named, and takes nothing else away."""
    install(tmp_path, "acme", squash=SQUASH.format(limit=2.0))
    install(tmp_path, "zeta", broken="import nothing_of_this_name")
    output = run(
        """
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            print(pyopnb.missing(graph)[0].is_in_catalog, len(pyopnb.catalog("EfficientIdxNMS").rows))
            print(caught[0].message)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            session = pyopnb.Session(graph, fill=True)
        print(len(caught), session(x=X)["y"].tolist())
        print("class Squash" in pyopnb.skeleton(graph, "Squash"))
        print(pyopnb.call("acme::Squash", X).tolist(), len(pyopnb.catalog("squash").rows))
        """
    )
    found, warned, filled, skeleton, called = output.splitlines()
    assert found == "True 1"
    assert "the pack zeta" in warned and "nothing_of_this_name" in warned
    assert (filled, skeleton, called) == ("1 [-2.0, 2.0]", "True", "[-2.0, 2.0] 1")


def test_of_two_packs_with_one_operator_the_user_chooses(run, tmp_path):
    install(tmp_path, "acme", squash=SQUASH.format(limit=2.0))
    install(tmp_path, "zeta", squash=SQUASH.format(limit=3.0))
    output = run(
        """
        def fill():
            pyopnb.registry.clear()
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                filled = pyopnb.fill(graph)
            print([str(w.message) for w in caught if "several packs" in str(w.message)])
            print(pyopnb.Session(filled)(x=X)["y"].tolist())

        fill()
        pyopnb.catalog.prefer("zeta")
        fill()
        try:
            pyopnb.catalog.prefer("nobody")
        except ValueError as error:
            print(error)
        """
    )
    told, first, silent, second, refused = output.splitlines()
    assert "acme::Squash is in several packs" in told and 'prefer("zeta")' in told
    assert (first, silent, second) == ("[-2.0, 2.0]", "[]", "[-3.0, 3.0]")
    assert refused == "pack: expected one of pyopnb, acme, zeta, got nobody"
