"""Takes the place of the package ziglang in Wine and qemu: gives each command to zig for Linux.

zig for Windows does not start in Wine, and zig for aarch64 would compile ten times slower in qemu.
$PYOPNB_ZIG is zig for Linux, and $PYOPNB_ZIG_TARGET the system to compile for.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

# What Wine starts on Linux has no handle to wait for: the last file says that it has ended.
SCRIPT = '"$@" <in >out 2>err; echo $? >code.part; mv code.part code'


def linux_path(argument: str) -> str:
    r"""Translate an argument with a path of Windows, such as ``-IZ:\a\b``: Wine links its drives."""
    drive = re.search(r"([A-Za-z]):[\\/]", argument)
    if drive is None:
        return argument
    place = f"{os.environ['WINEPREFIX']}/dosdevices/{drive[1].lower()}:/"
    return argument[: drive.start()] + place + argument[drive.end() :].replace("\\", "/")


def run_on_linux(command: list[str]) -> int:
    """Run a command outside Wine; what it reads and writes goes through files."""
    import _winapi

    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "in").write_bytes(sys.stdin.buffer.read())
        line = subprocess.list2cmdline(["sh", "-c", SCRIPT, "sh", *map(linux_path, command)])
        shell = r"Z:\bin\sh"
        _winapi.CreateProcess(shell, line, None, None, False, 0, None, folder, None)
        while not Path(folder, "code").exists():
            time.sleep(0.02)
        sys.stdout.buffer.write(Path(folder, "out").read_bytes())
        sys.stderr.buffer.write(Path(folder, "err").read_bytes())
        return int(Path(folder, "code").read_text(encoding="ascii"))


def main() -> int:
    zig = os.environ["PYOPNB_ZIG"]
    kind, *arguments = sys.argv[1:]
    command = [zig, kind, "-target", os.environ["PYOPNB_ZIG_TARGET"], *arguments]
    if sys.platform == "win32":
        return run_on_linux(command)
    os.execv(zig, command)


if __name__ == "__main__":
    sys.exit(main())
