"""What only some systems have: marks that skip with the reason, and what each system has in its own way."""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

WINDOWS = sys.platform == "win32"
X86_64 = platform.machine() in ("x86_64", "AMD64")
IN_QEMU = "PYOPNB_ZIG_TARGET" in os.environ and not WINDOWS
IN_WINE = WINDOWS and hasattr(ctypes.WinDLL("ntdll"), "wine_get_version")


def can_link() -> bool:
    """Tell whether symbolic links can be made and read: Windows asks for a right, and Wine makes none."""
    with tempfile.TemporaryDirectory() as folder:
        link = Path(folder, "link")
        with contextlib.suppress(OSError):
            link.symlink_to(Path(folder, "absent"))
        return link.is_symlink()


# ---- what other systems do not have

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="Windows has no fork")
needs_sent_signals = pytest.mark.skipif(
    WINDOWS, reason="on Windows, a signal that is sent to a process ends it"
)
needs_timer_signals = pytest.mark.skipif(
    not hasattr(signal, "setitimer"), reason="Windows has no timer signals"
)
needs_memory_limits = pytest.mark.skipif(
    sys.platform != "linux", reason="only Linux bounds a process with RLIMIT_AS"
)
needs_getrusage = pytest.mark.skipif(WINDOWS, reason="Windows has no getrusage")
needs_modes = pytest.mark.skipif(WINDOWS, reason="files have no mode bits on Windows")
needs_free_names = pytest.mark.skipif(
    WINDOWS, reason="names of files have no <, > or \\ on Windows"
)
needs_compiler = pytest.mark.skipif(
    # Linux on x86-64 must have one: what it says of compilers is tested there.
    not (sys.platform == "linux" and X86_64)
    and not any(map(shutil.which, ("g++", "clang++", "c++")))
    and importlib.util.find_spec("ziglang") is None,
    reason="no C++ compiler here. Try: pip install ziglang",
)
needs_other_programs = pytest.mark.skipif(
    IN_QEMU, reason="qemu-user runs Python alone, and not the programs that a test makes"
)
needs_shell = pytest.mark.skipif(WINDOWS, reason="the script is for a POSIX shell")
needs_links = pytest.mark.skipif(not can_link(), reason="no symbolic links can be made here")
needs_small_stacks = pytest.mark.skipif(
    WINDOWS, reason="on Windows, no thread has a smaller stack than python.exe reserves"
)
needs_nchwc = pytest.mark.skipif(
    not X86_64, reason="ONNX Runtime convolves blocks of channels on x86-64 alone"
)
needs_faults_of_division = pytest.mark.skipif(
    not X86_64, reason="on ARM, an integer divided by 0 is 0, and ends no process"
)
needs_gray_images = pytest.mark.skipif(
    IN_WINE, reason="the image decoder of Wine knows no gray PNG"
)


# ---- what each system has in its own way


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """End a process that was started with ``start_new_session``, and what it has started."""
    if WINDOWS:
        process.kill()
    else:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def interrupt_main() -> None:
    """Interrupt the main thread as Ctrl-C would."""
    if WINDOWS:
        signal.raise_signal(signal.SIGINT)  # Ctrl-C comes on a thread of its own there
    else:
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)


def ended_by_crash(code: int) -> bool:
    """Tell whether an exit code says that a signal, or an exception of Windows, ended the process."""
    return code < 0 or code >= 0xC0000000
