"""The trap of a package folder at the top: Python started beside the sources finds them without the compiled module."""

import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pyopnb


def test_sources_without_the_compiled_module_say_what_to_type(tmp_path):
    built = shutil.ignore_patterns("*.so", "*.pyd", "__pycache__")
    shutil.copytree(Path(pyopnb.__file__).parent, tmp_path / "pyopnb", ignore=built)
    # -S leaves out the .pth of an editable install, whose finder would serve the built package; the
    # dependencies are put back.
    code = f"import sys; sys.path.append({sysconfig.get_path('purelib')!r})\nimport pyopnb\npyopnb.get_library_path()"
    done = subprocess.run(
        [sys.executable, "-S", "-c", code], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 1, done.stdout
    assert "\nImportError: " in done.stderr, done.stderr
    assert "pip install" in done.stderr, done.stderr
    assert str(tmp_path) in done.stderr, "the copy was not what Python imported"
