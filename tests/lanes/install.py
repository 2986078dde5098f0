"""Installs into a lane's environment: with uv, which takes a fifth of pip's time, or else with pip.

Usage: install.py ENVIRONMENT ARGUMENT..., where the arguments are as for ``pip install``, or
install.py ENVIRONMENT --wheel FOLDER OPTION..., which builds a wheel of this folder, with a Python
that has pip, and uv where possible. uv does not read the configuration of pip, so it gets its own
options; if uv has no such option, or fails, pip does it. A page of
``--find-links`` that cannot be reached is left out, as pip leaves it out after half a minute.
Nothing is compiled before it is imported: most files of JupyterLab or torch never are.

What slows down every process of Jupyter's goes again: see `SLOW`.
"""

from __future__ import annotations

import ast
import importlib.util
import os
import ssl
import subprocess
import sys
import urllib.error
import urllib.request

# What pip calls it, what uv does, and what is between several. See `pip config list` and uv's page
# on environment variables.
WORDS = {
    "index-url": ("UV_DEFAULT_INDEX", " "),
    "extra-index-url": ("UV_INDEX", " "),
    "find-links": ("UV_FIND_LINKS", ","),
    "constraint": ("UV_CONSTRAINT", " "),
    "cert": ("SSL_CERT_FILE", " "),
    "timeout": ("UV_HTTP_TIMEOUT", " "),
    "default-timeout": ("UV_HTTP_TIMEOUT", " "),
}
# They do not change what is installed, or where it comes from.
SILENT = {"cache-dir", "disable-pip-version-check", "no-cache-dir", "no-color", "no-compile", "no-input", "no-python-version-warning",
          "no-warn-script-location", "progress-bar", "quiet", "require-virtualenv", "retries", "root-user-action", "verbose"}  # fmt: skip
PIP = [sys.executable, "-m", "pip"]
UV = [sys.executable, "-m", "uv"]
# jsonschema imports it where it is there, to check texts that should be IRIs, of which Jupyter's
# files have none. The import builds 38 parsers, which takes 3 s of CPU in each process that imports
# nbformat. binder/ keeps it, as its lock says.
SLOW = "rfc3987-syntax"


def configured() -> dict[str, str]:
    """Return how `pip install` is configured; of several places, the later one counts."""
    listed = subprocess.run(
        [*PIP, "config", "list"], check=True, capture_output=True, text=True
    ).stdout
    settings = {}
    for line in sorted(listed.splitlines(), key=lambda line: line.startswith(":env:")):
        where, _, rest = line.partition(".")
        name, _, value = rest.partition("=")
        if where in ("global", "install", ":env:"):
            settings[name] = ast.literal_eval(value)
    return settings


def words(settings: dict[str, str]) -> dict[str, str] | None:
    """Return the settings as uv's environment variables, or None where one has no such variable."""
    found = {"UV_INDEX_STRATEGY": "unsafe-best-match"}  # of all indexes, as pip does
    for name, value in settings.items():
        if name in WORDS:
            variable, between = WORDS[name]
            found[variable] = between.join(value.split())
        elif name not in SILENT:
            return None
    return found


def reachable(arguments: list[str]) -> list[str]:
    """Return the arguments without the pages that do not answer."""
    kept: list[str] = []
    for argument in arguments:
        if kept and kept[-1] == "--find-links" and argument.startswith("https:"):
            try:
                urllib.request.urlopen(argument, timeout=60).close()
            except (urllib.error.URLError, TimeoutError) as error:
                # Of certificates, pip may know more than this Python.
                if not isinstance(getattr(error, "reason", None), ssl.SSLError):
                    print(
                        f"Left out, as it cannot be reached: {argument} ({error})", file=sys.stderr
                    )
                    kept.pop()
                    continue
        kept.append(argument)
    return kept


def main(environment: str, *given: str) -> int:
    """Install, or build a wheel after ``--wheel``, and return the exit code."""
    arguments = reachable(list(given))
    python = f"{environment}/Scripts/python.exe" if os.name == "nt" else f"{environment}/bin/python"
    told = words(configured()) if importlib.util.find_spec("uv") else None
    if arguments[0] == "--wheel":
        return build_wheel(python, told, arguments[1:])
    if told is not None:
        again = ["--refresh-package", "pyopnb", "--reinstall-package", "pyopnb"]
        uv = [*UV, "pip", "install", "-q", "--python", python, *again, *arguments]
        if subprocess.run(uv, env={**told, **os.environ}).returncode == 0:
            slow = [*UV, "pip", "uninstall", "-q", "--python", python, SLOW]
            return subprocess.run(slow).returncode
        print("uv could not; pip is asked instead", file=sys.stderr)
    pip = [*PIP, "--python", python]
    # pip takes a wheel of the same version for the one that is there.
    if "--target" not in arguments:
        subprocess.run([*pip, "uninstall", "-q", "-y", "pyopnb"], check=False)
    code = subprocess.run([*pip, "install", "-q", "--no-compile", *arguments]).returncode
    return code or subprocess.run([*pip, "uninstall", "-q", "-y", SLOW]).returncode


def build_wheel(python: str, told: dict[str, str] | None, arguments: list[str]) -> int:
    """Build the wheel of this folder for an environment's Python into the folder that comes first."""
    folder, *options = arguments
    if told is not None:
        uv = [*UV, "build", "-q", "--wheel", "--python", python, "-o", folder, *options, "."]
        if subprocess.run(uv, env={**told, **os.environ}).returncode == 0:
            return 0
        print("uv could not; pip is asked instead", file=sys.stderr)
    pip = [*PIP, "--python", python, "wheel", "-q", "--no-deps", "-w", folder, *options, "."]
    return subprocess.run(pip).returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
