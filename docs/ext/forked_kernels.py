"""Fork the kernels of the pages from one process that has done their imports already.

The imports take half of the time of a page. ``forked_kernels.py serve SOCKET`` does them and
waits. Jupyter starts ``forked_kernels.py ask SOCKET ARGUMENT...`` instead of a kernel: it has a
kernel forked, hands it Jupyter's arguments, folder and environment, passes interrupts on, and ends
with it. pyopnb itself is not imported in advance: each page does that in its kernel, as its reader
does.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

__all__ = ["forked_kernels"]


@contextmanager
def forked_kernels(name: str) -> Iterator[None]:
    """Let Jupyter know kernels of this name while the block runs."""
    with tempfile.TemporaryDirectory(prefix="kernels-") as folder:
        path = f"{folder}/socket"
        command = [sys.executable, __file__]
        spec = {
            "argv": [*command, "ask", path, "-f", "{connection_file}"],
            "display_name": name,
            "language": "python",
        }
        home = Path(folder, "kernels", name)
        home.mkdir(parents=True)
        (home / "kernel.json").write_text(json.dumps(spec))
        before = os.environ.get("JUPYTER_PATH")
        os.environ["JUPYTER_PATH"] = os.pathsep.join(filter(None, [folder, before]))
        reading, writing = os.pipe()
        # The command is this file.
        server = subprocess.Popen([*command, "serve", path], stdout=writing)  # noqa: S603
        os.close(writing)
        try:
            with open(reading) as said:
                said.readline()  # that it listens
            yield
        finally:
            server.kill()  # kernels that still run end with it
            server.wait()


def serve(path: str) -> None:
    """Fork a kernel for each process that asks for one."""
    del sys.path[0]  # this folder; a kernel looks in the folder of its page
    import ipykernel.kernelapp
    import ipywidgets  # noqa: F401, TID251
    import onnx  # noqa: F401
    import onnxruntime  # noqa: F401, TID251

    # Most pages take their data from here, and the import takes longer than their cells.
    import sklearn.datasets  # noqa: F401

    signal.signal(
        signal.SIGCHLD, _wait_for_ended
    )  # so that their time is counted as this process's
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path)
        listening.listen()
        print("ready", flush=True)
        os.dup2(2, 1)  # the pipe is no longer read
        while True:
            asked, _ = listening.accept()
            with asked:
                wish = json.loads(asked.makefile().readline())
                child = os.fork()
                if child:
                    asked.sendall(f"{child}\n".encode())
                    continue
                listening.close()
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                os.chdir(wish["folder"])
                os.environ.clear()
                os.environ.update(wish["environment"])
                # A kernel looks whether its parent lives, and ends with it.
                parent = f"--IPKernelApp.parent_handle={os.getppid()}"
                # It warns that what it says on this machine is not encrypted.
                sys.argv[1:] = [*wish["arguments"], parent, "--log-level=ERROR"]
                ipykernel.kernelapp.launch_new_instance()
                os._exit(0)  # closes the connection, which tells who asked


def _wait_for_ended(*_: object) -> None:
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def ask(path: str, *arguments: str) -> None:
    """Ask the server for a kernel, and wait until it ends."""
    wish = {"arguments": arguments, "folder": os.getcwd(), "environment": dict(os.environ)}
    with socket.socket(socket.AF_UNIX) as asking:
        asking.connect(path)
        asking.sendall(f"{json.dumps(wish)}\n".encode())
        answer = asking.makefile()
        kernel = int(answer.readline())

        def pass_on(number: int, _: object) -> None:
            # A kernel that was told to end may have done so.
            with suppress(ProcessLookupError):
                os.kill(kernel, number)

        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, pass_on)
        answer.read()


if __name__ == "__main__":
    {"serve": serve, "ask": ask}[sys.argv[1]](*sys.argv[2:])
