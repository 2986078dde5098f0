"""Ops in modules that are edited, reloaded or replaced: the text matches the running code."""

from __future__ import annotations

import importlib.util
import os
import runpy
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

import pyopnb

TEXT = """
import pyopnb
import numpy as np
@pyopnb.pyop("rl::Op")
class Op:
    def __init__(self, k: float = 1.0):
        self.k = np.float32(k)
    def compute(self, x):
        return 1 * self.k * np.abs(x)
"""
X = np.float32([1])


class Module:
    """A module of the user's own beside the notebook."""

    def __init__(self, folder, name):
        self.path, self.name = folder / f"{name}.py", name

    def write(self, text):
        self.path.write_text(text, encoding="utf-8")
        importlib.invalidate_caches()

    def load(self):
        # Two saves within the resolution of a file's time are not the subject here.
        Path(importlib.util.cache_from_source(self.path)).unlink(missing_ok=True)
        module = sys.modules.get(self.name)
        return importlib.import_module(self.name) if module is None else importlib.reload(module)


@pytest.fixture
def module(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)
    yield lambda name="rl_ops": Module(tmp_path, name)
    for name in set(sys.modules) - before:
        del sys.modules[name]


def run():
    return pyopnb.call("rl::Op", X).tolist()


def saved(folder):
    """What the saved model computes in a fresh process, or the refusal."""
    model = pyopnb.parse("(float[N] x) => (float[N] y) { y = rl.Op(x) }")
    try:
        pyopnb.save(model, folder / "m.onnx")
    except pyopnb.errors.DefinitionError as error:
        return str(error)
    code = (
        "import numpy as np, pyopnb; m = pyopnb.load('m.onnx', ops=['rl::Op']);"
        "print(pyopnb.run(m.model, x=np.float32([1]))['y'].tolist())"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", f"import sys; sys.path.append('.'); {code}"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def newest():
    return pyopnb.registry.history("rl::Op")[-1].source


ABOVE = '@pyopnb.pyop("rl::Other")\nclass Other:\n    def compute(self, x):\n        return -x\n'


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("1 * self.k", "100 * self.k"),
        ("= 1.0", "= 100.0"),
        ("import numpy as np\n", f"import numpy as np\n{ABOVE}K = 100\n"),
    ],
)
def test_reloaded_module_has_its_new_text(module, tmp_path, old, new):
    ops = module()
    ops.write(TEXT)
    ops.load()
    assert "1 * self.k" in newest()
    edited = TEXT.replace(old, new).replace(
        "1 * self.k", "K * self.k" if "K =" in new else "1 * self.k"
    )
    ops.write(edited)
    ops.load()
    assert run() == [100.0]
    assert newest().strip() in edited
    assert saved(tmp_path) == "[100.0]"


def test_script_that_runs_again_has_its_new_text(tmp_path):
    script = tmp_path / "script.py"
    for factor in (1, 100):
        script.write_text(TEXT.replace("1 * self", f"{factor} * self"), encoding="utf-8")
        runpy.run_path(str(script))
    assert "100 * self" in newest()
    assert saved(tmp_path) == "[100.0]"


def test_file_of_same_time_and_size_is_no_other_text(module, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    ops = module()
    ops.write(TEXT)
    os.utime(ops.path, (1e9, 1e9))
    ops.load()
    ops.write(TEXT.replace("1 * self", "7 * self"))
    os.utime(ops.path, (1e9, 1e9))
    importlib.reload(sys.modules["rl_ops"])  # the cache of Python has not noticed the change
    assert run() == [1.0]
    assert newest() is None
    assert "Op (" in saved(tmp_path)
    ops.load()
    assert run() == [7.0]
    assert "7 * self" in newest()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("1 * self.k", "100 * self.k"),
        ("= 1.0", "= 100.0"),
        ("    def compute", "    def infer(self, x):\n        return x\n    def compute"),
        ("        return", "        x = x + 99\n        return"),
    ],
)
def test_file_edited_and_not_reloaded_does_not_count(module, tmp_path, old, new):
    ops = module()
    ops.write(TEXT.replace("@pyopnb", "#@pyopnb"))
    cls = ops.load().Op
    ops.write(TEXT.replace("@pyopnb", "#@pyopnb").replace(old, new))
    pyopnb.pyop("rl::Op")(cls)
    assert run() == [1.0]
    assert newest() is None
    assert "Op (" in saved(tmp_path)


def test_lines_that_moved_are_found(module, tmp_path):
    ops = module()
    text = TEXT.replace("@pyopnb", "def five(x):\n    return 5 * x\n@pyopnb")
    ops.write(text.replace("np.abs(x)", "five(x)"))
    ops.load()
    ops.write("# a comment\n\n\n" + text.replace("np.abs(x)", "five(x)"))
    assert run() == [5.0]
    assert saved(tmp_path) == "[5.0]"


@pytest.mark.parametrize(
    ("helper", "edited", "use"),
    [
        ("def by(x):\n    return 2 * x\n", "def by(x):\n    return 3 * x\n", "by(x)"),
        ("def by(x, k=2):\n    return k * x\n", "def by(x, k=3):\n    return k * x\n", "by(x)"),
        ("K = 2\ndef by(x):\n    return K * x\n", "K = 3\ndef by(x):\n    return K * x\n", "by(x)"),
        ("by = lambda x: 2 * x\n", "by = lambda x: 3 * x\n", "by(x)"),
        (
            "class by:\n    def __new__(cls, x):\n        return 2 * x\n",
            "class by:\n    def __new__(cls, x):\n        return 3 * x\n",
            "by(x)",
        ),
        ("by = 2\n", "by = 3\n", "by * x"),
    ],
)
@pytest.mark.parametrize("way", ["same file", "from import", "import"])
def test_helper_that_was_edited_and_not_reloaded_is_refused_by_name(
    module, tmp_path, helper, edited, use, way
):
    ops, helpers = module(), module("rl_helpers")
    helpers.write(helper)
    imports = {"same file": helper, "from import": "from rl_helpers import by\n"}
    head = imports.get(way, "import rl_helpers\n")
    text = TEXT.replace("np.abs(x)", use if way != "import" else f"rl_helpers.{use}")
    ops.write(head + text)
    ops.load()
    assert saved(tmp_path) == "[2.0]"
    (ops if way == "same file" else helpers).write(edited + (text if way == "same file" else ""))
    assert run() == [2.0]
    found = saved(tmp_path)
    # A constant of its own file is written with its value.
    assert found == "[2.0]" or "by" in found or "rl_helpers.K" in found
    assert "3.0" not in found
    if way != "same file":
        assert "importlib.reload" in found
        helpers.load()
    ops.load()
    assert run() == [3.0]
    assert saved(tmp_path) == "[3.0]"


def test_base_in_another_module_that_was_reloaded_alone(module, tmp_path):
    ops, helpers = module(), module("rl_helpers")
    base = "class Base:\n    def compute(self, x):\n        return 2 * x\n"
    helpers.write(base)
    ops.write(
        "import pyopnb\nfrom rl_helpers import Base\n"
        '@pyopnb.pyop("rl::Op")\nclass Op(Base):\n    pass\n'
    )
    ops.load()
    assert saved(tmp_path) == "[2.0]"
    helpers.write(base.replace("2 * x", "3 * x"))
    helpers.load()
    assert run() == [2.0]
    assert "Base (" in saved(tmp_path)
    ops.load()
    assert run() == [3.0]
    assert saved(tmp_path) == "[3.0]"


def test_archive_that_was_replaced(module, tmp_path, monkeypatch):
    archive = tmp_path / "rl_archive.zip"
    monkeypatch.syspath_prepend(str(archive))
    for factor in (1, 100):
        with zipfile.ZipFile(archive, "w") as file:
            file.writestr("rl_zipped.py", "K = 3\n" + TEXT.replace("1 * self", f"{factor} * self"))
        importlib.invalidate_caches()
        sys.modules.pop("rl_zipped", None)
        importlib.import_module("rl_zipped")
        assert f"{factor} * self" in newest()
        assert "K = 3" not in newest()
        assert saved(tmp_path) == f"[{factor:.1f}]"


def test_text_that_was_executed_is_no_file_of_that_name(tmp_path):
    path = tmp_path / "ops.py"
    path.write_text(TEXT, encoding="utf-8")
    exec(compile(TEXT.replace("1 * self", "9 * self"), str(path), "exec"), {"__name__": "made"})
    assert run() == [9.0]
    assert newest() is None


def test_file_that_is_gone_keeps_the_text_of_its_version(module, tmp_path):
    ops = module()
    ops.write("K = 4\n" + TEXT.replace("1 * self", "K * self"))
    ops.load()
    ops.path.unlink()
    assert saved(tmp_path) == "[4.0]"


def test_class_that_was_changed_in_place_is_refused(module, tmp_path):
    ops = module()
    ops.write(TEXT.replace("    def __init__", "    scale = 1\n    def __init__"))
    cls = ops.load().Op
    cls.scale = 5
    assert "Op (" in saved(tmp_path)
