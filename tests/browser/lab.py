"""A real JupyterLab, driven in a real Chromium.

    with lab(folder, base_url="/user/alice/") as server, browser() as chromium, tab(chromium, server) as page:
        page.open_notebook("first.ipynb")
        page.run_all()
        page.screenshot("first")

Nothing of the person's own is read or written: settings, workspaces, runtime files and trust live in a folder of their own.
A tab may reach its server and nothing else; what it tried is in ``blocked``. Linux only, as the project's tests are.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import nbformat
from limits import LIMIT
from PIL import Image
from playwright.sync_api import Browser, Frame, Locator, Page, expect, sync_playwright

SCREENSHOTS = Path(__file__).parents[2] / "build" / "screenshots"

CURRENT = "window.jupyterapp.shell.currentWidget"

# Asked again and again, and not awaited: a promise that a page drops while it loads itself anew is never kept.
_RESTORED = """() => {
    const app = window.jupyterapp;
    if (app.wasRestored === undefined) {
        app.wasRestored = false;
        app.restored.then(() => { app.wasRestored = true; });
    }
    return app.wasRestored;
}"""


@dataclass
class Lab:
    """A JupyterLab server that runs."""

    root: Path
    origin: str
    base_url: str
    token: str
    home: Path

    def url(self, path: str) -> str:
        return f"{self.origin}{self.base_url}{path}"

    @contextlib.contextmanager
    def without(self, extension: str) -> Iterator[None]:
        """Disable an extension for pages that are loaded meanwhile."""
        config = self.home / "config" / "labconfig" / "page_config.json"
        before = config.read_text()
        config.write_text(json.dumps({"disabledExtensions": {extension: True}}))
        try:
            yield
        finally:
            config.write_text(before)


@contextlib.contextmanager
def lab(root: Path, base_url: str = "/", token: str | None = None) -> Iterator[Lab]:
    """Start a server on a folder, and stop it and all that it started, whatever happens."""
    token = secrets.token_hex(16) if token is None else token
    with tempfile.TemporaryDirectory(prefix="lab-") as folder, _free_port() as port:
        home = Path(folder)
        server = Lab(Path(root), f"http://127.0.0.1:{port}", base_url, token, home)
        log = home / "log"
        with log.open("wb") as out:
            process = subprocess.Popen(
                _command(server, port), cwd=root, env=_environment(home), stdout=out, stderr=out, start_new_session=True
            )
        try:
            _wait_until_it_answers(server, process, log)
            yield server
        finally:
            _stop(process)


@contextlib.contextmanager
def _free_port() -> Iterator[int]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    yield port


def _command(server: Lab, port: int) -> list[str]:
    return [
        *(sys.executable, "-P", "-m", "jupyterlab", "--no-browser", "--allow-root"),
        *("--ServerApp.ip=127.0.0.1", f"--ServerApp.port={port}", "--ServerApp.port_retries=0"),
        *(f"--ServerApp.base_url={server.base_url}", f"--IdentityProvider.token={server.token}"),
        *(f"--ServerApp.root_dir={server.root}", "--LabApp.expose_app_in_browser=True"),
        "--JupyterNotebookApp.expose_app_in_browser=True",
        *("--LabApp.news_url=None", "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate"),
    ]


def _environment(home: Path) -> dict[str, str]:
    apputils = home / "settings" / "@jupyterlab" / "apputils-extension"
    apputils.mkdir(parents=True)
    quiet = {"fetchNews": "false", "checkForUpdates": False, "doNotDisturbMode": True}
    (apputils / "notification.jupyterlab-settings").write_text(json.dumps(quiet))
    config = home / "config" / "labconfig"
    config.mkdir(parents=True)
    (config / "page_config.json").write_text("{}")
    own = {
        "JUPYTER_CONFIG_DIR": home / "config",
        "JUPYTER_DATA_DIR": home / "data",
        "JUPYTER_RUNTIME_DIR": home / "runtime",
        "JUPYTERLAB_SETTINGS_DIR": home / "settings",
        "JUPYTERLAB_WORKSPACES_DIR": home / "workspaces",
        "IPYTHONDIR": home / "ipython",
        "JUPYTER_PLATFORM_DIRS": "1",
        "JUPYTER_PREFER_ENV_PATH": "1",
    }
    left = {name: value for name, value in os.environ.items() if not name.startswith(("JUPYTER", "IPYTHON", "PYTEST_"))}
    return left | {name: str(value) for name, value in own.items()}


def _wait_until_it_answers(server: Lab, process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + LIMIT
    while True:
        try:
            urllib.request.urlopen(server.url("api"), timeout=5).close()
            return
        except (urllib.error.URLError, ConnectionError, TimeoutError) as error:
            if process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"JupyterLab does not start:\n{log.read_text(errors='replace')[-4000:]}") from error
            time.sleep(0.1)


def _stop(process: subprocess.Popen[bytes]) -> None:
    """End the server and its kernels, which are in sessions of their own."""
    family = _descendants(process.pid)
    process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(20)
    for pid, started in [(process.pid, _started(process.pid)), *family]:
        if started is not None and _started(pid) == started:  # still the same process, and not another with its number
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    process.wait()


def _descendants(pid: int) -> list[tuple[int, str | None]]:
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (fields := _stat(int(entry.name))):
            parents[int(entry.name)] = int(fields[1])
    found = [pid]
    for one in found:
        found += [child for child, parent in parents.items() if parent == one]
    return [(one, _started(one)) for one in found[1:]]


def _started(pid: int) -> str | None:
    fields = _stat(pid)
    return fields[19] if fields else None


def _stat(pid: int) -> list[str]:
    """The fields of /proc/…/stat behind the name; empty for a process that is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


def executable() -> str | None:
    """The Chromium of the system; None leaves it to playwright's own. As tests/lanes/chromium.sh looks for it."""
    names = (os.environ.get("PYOPNB_CHROMIUM"), "chromium", "chromium-browser", "google-chrome")
    found = (path for name in names if name and (path := shutil.which(name)))
    return next((path for path in found if subprocess.run([path, "--version"], capture_output=True).returncode == 0), None)


@contextlib.contextmanager
def browser() -> Iterator[Browser]:
    """A Chromium without a window."""
    with sync_playwright() as playwright:
        # No sandbox of Chromium's own: it cannot have one as root, as most machines of CI are.
        chromium = playwright.chromium.launch(executable_path=executable(), args=["--no-sandbox", "--disable-dev-shm-usage"])
        try:
            yield chromium
        finally:
            chromium.close()


@dataclass
class Tab:
    """A page of JupyterLab, and what happened in it."""

    page: Page
    server: Lab
    blocked: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def go(self, path: str = "lab") -> None:
        """Load JupyterLab in its own theme, with nothing open; ``lab/tree/x.ipynb`` opens a file, and a notebook its kernel."""
        self.page.goto("about:blank")  # a page that is still there would keep what it has open
        settings = self.server.home / "settings" / "@jupyterlab" / "apputils-extension"
        (settings / "themes.jupyterlab-settings").unlink(missing_ok=True)
        # Not "reset" in the address, which makes JupyterLab load itself once more.
        for workspace in (self.server.home / "workspaces").glob("*"):
            workspace.unlink()
        self.page.goto(self.server.url(f"{path}?token={self.server.token}"))
        self.page.wait_for_function("() => window.jupyterapp && window.jupyterapp.shell")
        self.page.wait_for_function(_RESTORED)

    def command(self, name: str, **args: Any) -> None:
        """Run one of JupyterLab's commands and wait for it."""
        self.start(name, **args)
        self.page.wait_for_function("() => window.ended !== undefined")  # which ends in time, as a promise may not
        assert self.page.evaluate("() => window.ended") == ""

    def start(self, name: str, **args: Any) -> None:
        """Run one of JupyterLab's commands."""
        execute = "window.jupyterapp.commands.execute(name, args).then(() => '', error => `${error}`)"
        script = f"([name, args]) => {{ delete window.ended; {execute}.then(said => {{ window.ended = said }}) }}"
        self.page.evaluate(script, [name, args])

    def open_notebook(self, path: str, *, kernel: bool = True) -> None:
        """Open a notebook, and wait for its kernel unless it is to have none."""
        self.go()
        preference = {} if kernel else {"kernelPreference": {"shouldStart": False}}
        self.command("docmanager:open", path=path, factory="Notebook", **preference)
        self.page.wait_for_function(f"() => {CURRENT}?.context?.isReady")
        self.page.wait_for_selector(".jp-Notebook .jp-Cell")
        if kernel:
            self.wait_idle()

    def open_in_notebook(self, path: str) -> None:
        """Open a notebook in Notebook 7, the other front end that is made of JupyterLab's parts, and wait for its kernel."""
        self.go(f"notebooks/{path}")
        self.page.wait_for_selector(".jp-Notebook .jp-Cell")
        self.wait_idle()

    def kernels(self) -> int:
        """How many kernels run on the server."""
        request = urllib.request.Request(
            self.server.url("api/kernels"), headers={"Authorization": f"token {self.server.token}"}
        )
        with urllib.request.urlopen(request, timeout=LIMIT) as answer:
            return len(json.load(answer))

    def wait_idle(self) -> None:
        self.page.wait_for_function(f"() => {CURRENT}?.context?.sessionContext?.session?.kernel?.status === 'idle'")

    def run_all(self) -> None:
        """Run all cells and wait for the last."""
        self.command("notebook:run-all-cells")
        self.wait_idle()

    def choose(self, number: int) -> None:
        """Make a cell the active one."""
        self.page.evaluate(f"number => {{ {CURRENT}.content.activeCellIndex = number }}", number)

    def run(self, number: int) -> None:
        """Run one cell and wait for it."""
        self.choose(number)
        self.command("notebook:run-cell")
        self.wait_idle()

    def edit(self, number: int, source: str) -> None:
        """Give a cell another text."""
        script = f"([number, source]) => {{ {CURRENT}.content.widgets[number].model.sharedModel.setSource(source) }}"
        self.page.evaluate(script, [number, source])

    def save(self) -> None:
        self.command("docmanager:save")

    def shut_down(self) -> None:
        """End the notebook's kernel."""
        end = f"{CURRENT}.context.sessionContext.shutdown().then(() => '', error => `${{error}}`)"
        self.page.evaluate(f"() => {{ delete window.ended; {end}.then(said => {{ window.ended = said }}) }}")
        self.page.wait_for_function("() => window.ended !== undefined")
        assert self.page.evaluate("() => window.ended") == ""

    def errors(self) -> list[str]:
        """What the cells' outputs have of exceptions."""
        outputs = "cell.model.outputs?.toJSON() ?? []"
        raised = "output.output_type === 'error').map(output => `${output.ename}: ${output.evalue}`"
        return list(
            self.page.evaluate(f"() => {CURRENT}.content.widgets.flatMap(cell => ({outputs}).filter(output => {raised}))")
        )

    def never_run(self) -> list[str]:
        """The code cells that were not run to their end."""
        waits = "cell.model.type === 'code' && !(cell.model.executionCount > 0 && cell.model.executionState === 'idle')"
        texts = "map(cell => cell.model.sharedModel.getSource())"
        return list(self.page.evaluate(f"() => {CURRENT}.content.widgets.filter(cell => {waits}).{texts}"))

    def count(self, number: int) -> int:
        """The number in brackets beside a cell."""
        return int(self.page.evaluate(f"number => {CURRENT}.content.widgets[number].model.executionCount", number))

    def trusted(self, number: int) -> bool:
        return bool(self.page.evaluate(f"number => {CURRENT}.content.widgets[number].model.trusted", number))

    def cell(self, number: int) -> Locator:
        return self.page.locator(f'.jp-Notebook .jp-Cell[data-windowed-list-index="{number}"]')

    def output(self, number: int) -> Locator:
        """What a cell shows below itself."""
        return self.cell(number).locator(".jp-Cell-outputArea")

    def frame(self, around: Locator) -> Frame:
        """The page inside the first frame of something."""
        handle = around.locator("iframe").first.element_handle()
        frame = handle.content_frame() if handle else None
        assert frame is not None, "no frame"
        return frame

    def theme(self, name: str) -> None:
        self.command("apputils:change-theme", theme=name)
        light = "false" if "Dark" in name else "true"
        expect(self.page.locator("body")).to_have_attribute("data-jp-theme-light", light)
        expect(self.page.locator("#jupyterlab-splash")).to_have_count(0)

    def eventually(self, check: Callable[[], bool]) -> bool:
        """Whether something becomes true in time, while the page goes on."""
        end = time.monotonic() + LIMIT
        while not check():
            if time.monotonic() > end:
                return False
            self.page.wait_for_timeout(100)
        return True

    def blank(self) -> list[str]:
        """The outputs in which nobody sees anything, and those whose pictures or widgets are missing."""
        outputs = self.page.locator(".jp-Notebook .jp-OutputArea-output").all()
        return [output.inner_html()[:500] for output in outputs if not self.eventually(lambda output=output: self.seen(output))]

    def seen(self, output: Locator) -> bool:
        """Whether an output has a text that it is meant to have, a frame, or pictures, none of them broken."""
        output.scroll_into_view_if_needed()
        text, pictures = output.inner_text().strip(), output.locator("img:visible").all()
        if any(word in text for word in ("model not found", "Error displaying", "Loading widget")):
            return False
        if any(picture.evaluate("picture => !(picture.complete && picture.naturalWidth)") for picture in pictures):
            return False
        return bool(text or pictures or output.locator("iframe:visible, [role=slider]:visible").count())

    def screenshot(self, name: str) -> Path:
        """Keep a picture of the page in build/, to be looked at."""
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        path = SCREENSHOTS / f"{name}.png"
        self.page.screenshot(path=path)
        return path

    def excerpt(self, name: str, number: int, width: int, height: int) -> Path:
        """Keep a picture of the notebook from one cell on, in few colours, so that its file is small."""
        around = self.cell(number)

        def there() -> bool:  # what is drawn late pushes it away
            around.evaluate("cell => cell.scrollIntoView({block: 'start'})")
            box = around.bounding_box()
            return box is not None and 80 < box["y"] < 200

        assert self.eventually(there)
        box = around.bounding_box()
        assert box is not None
        path = self.screenshot(name)
        with Image.open(path) as picture:
            left, top = int(box["x"]), int(box["y"])
            part = picture.crop((left, top, left + width, top + height))
            part.convert("RGB").quantize(128).save(path, optimize=True)
        return path


def _theirs(error: Any) -> bool:
    """Whether the widgets' own extension stumbled over a notebook that has no kernel, which it always does."""
    return "reading 'kernel'" in error.message and "@jupyter-widgets/jupyterlab-manager" in (error.stack or "")


@contextlib.contextmanager
def tab(chromium: Browser, server: Lab, *, dark: bool = False, size: tuple[int, int] = (1280, 900)) -> Iterator[Tab]:
    """A tab with nothing of another's; every request that is not for the server is refused, as on a machine without network."""
    context = chromium.new_context(
        viewport={"width": size[0], "height": size[1]}, color_scheme="dark" if dark else "light", service_workers="block"
    )
    context.set_default_timeout(LIMIT * 1000)
    expect.set_options(timeout=LIMIT * 1000)
    page = context.new_page()
    one = Tab(page, server)
    own = (server.origin, server.origin.replace("http", "ws", 1), "blob:", "data:")

    def gate(route: Any) -> None:
        url = route.request.url
        if url.startswith(own):
            route.continue_()
        else:
            one.blocked.append(url)
            route.abort()

    context.route("**/*", gate)
    page.on("pageerror", lambda error: None if _theirs(error) else one.complaints.append(error.stack or error.message))
    page.on("console", lambda said: one.complaints.append(said.text) if said.type == "error" else None)
    try:
        yield one
    finally:
        context.close()


def write_notebook(path: Path, *sources: str, outputs: dict[int, list[dict[str, Any]]] | None = None) -> None:
    """Write a notebook of code cells, with what some of them show."""
    cells = []
    for number, source in enumerate(sources):
        cell = nbformat.v4.new_code_cell(source)
        for data in (outputs or {}).get(number, ()):
            cell.outputs.append(nbformat.v4.new_output("display_data", data=data))
            cell.execution_count = 1
        cells.append(cell)
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel}), path)
