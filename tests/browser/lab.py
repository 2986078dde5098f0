"""A real JupyterLab, driven in a real Chromium.

    with lab(folder, base_url="/user/alice/") as server, browser() as chromium,
    tab(new_context(chromium), server) as page:
        page.open_notebook("first.ipynb")
        page.run_all()
        page.screenshot("first")

The user's own settings, workspaces, runtime files and trusted notebooks are neither read nor
written: they are redirected to a temporary folder. A tab can reach its server only; other requests
are recorded in ``blocked``. Linux only, like all tests.

What a page shows arrives at some time, and on a busy machine late. So nothing is read once:
`expect` of playwright and `Tab.expect` wait for a value, and every step ends when the page or
the kernel says that it has. ``PYOPNB_TEST_SLOWDOWN=8`` makes pages run 8 times slower, which
shows what was forgotten.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import random
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
from PIL import Image
from playwright.sync_api import (
    FrameLocator,
    Locator,
    Page,
    expect,
    sync_playwright,
)

LIMIT = float(
    os.environ.get("PYOPNB_TEST_LIMIT", "180")
)  # seconds; a page that fails waits so long for each thing
SLOWDOWN = float(os.environ.get("PYOPNB_TEST_SLOWDOWN", "1"))  # of the processor, as a page sees it
SCREENSHOTS = Path(__file__).parents[2] / "build" / "screenshots"

CURRENT = "window.jupyterapp.shell.currentWidget"

# Polled, not awaited: if the page reloads, its pending promises never settle.
_RESTORED = """() => {
    const app = window.jupyterapp;
    if (app.wasRestored === undefined) {
        app.wasRestored = false;
        app.restored.then(() => { app.wasRestored = true; });
    }
    return app.wasRestored;
}"""

# The launcher of an empty JupyterLab may come after the document and before it.
_OPENED = """path => {
    const {shell} = window.jupyterapp;
    const panel = [...shell.widgets('main')].find(widget => widget.context?.path === path);
    if (panel && panel !== shell.currentWidget) {
        shell.activateById(panel.id);
    }
    return panel === shell.currentWidget && panel.context.isReady;
}"""


@dataclass
class Lab:
    """A running JupyterLab server."""

    root: Path
    origin: str
    base_url: str
    token: str
    home: Path
    folder: str = ""  # of a test module, below what the server shows

    def url(self, path: str) -> str:
        return f"{self.origin}{self.base_url}{path}"

    def path(self, name: str) -> str:
        """A file of the folder, as the server calls it."""
        return f"{self.folder}/{name}".lstrip("/")

    def api(self, path: str, method: str = "GET") -> bytes:
        """What the server answers to a request."""
        headers = {"Authorization": f"token {self.token}"}
        request = urllib.request.Request(self.url(f"api/{path}"), headers=headers, method=method)
        with urllib.request.urlopen(request, timeout=LIMIT) as answer:
            return answer.read()

    def kernels(self) -> list[str]:
        return [kernel["id"] for kernel in json.loads(self.api("kernels"))]

    @contextlib.contextmanager
    def without(self, extension: str) -> Iterator[None]:
        """Disable an extension for pages loaded within the block."""
        config = self.home / "config" / "labconfig" / "page_config.json"
        before = config.read_text()
        config.write_text(json.dumps({"disabledExtensions": {extension: True}}))
        try:
            yield
        finally:
            config.write_text(before)


@contextlib.contextmanager
def lab(root, base_url="/", token=None):
    """Start a server on a folder; always stop it and all its processes at the end."""
    token = secrets.token_hex(16) if token is None else token
    with tempfile.TemporaryDirectory(prefix="lab-") as folder:
        home, port = Path(folder), _free_port()
        server = Lab(Path(root), f"http://127.0.0.1:{port}", base_url, token, home)
        log = home / "log"
        with log.open("wb") as out:
            process = subprocess.Popen(
                _command(server, port),
                cwd=root,
                env=_environment(home),
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
        try:
            _wait_until_ready(server, process, log)
            yield server
        finally:
            _stop(process)


def _free_port():
    """A port below the ones that the system gives on request, such as to the kernels of other tests."""
    while True:
        port = random.randrange(10_000, 32_768)
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            return port


def _command(server, port):
    return [
        *(sys.executable, "-P", "-m", "jupyterlab", "--no-browser", "--allow-root"),
        *("--ServerApp.ip=127.0.0.1", f"--ServerApp.port={port}", "--ServerApp.port_retries=0"),
        *(f"--ServerApp.base_url={server.base_url}", f"--IdentityProvider.token={server.token}"),
        *(f"--ServerApp.root_dir={server.root}", "--LabApp.expose_app_in_browser=True"),
        "--JupyterNotebookApp.expose_app_in_browser=True",
        *(
            "--LabApp.news_url=None",
            "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
        ),
    ]


_SETTINGS: dict[str, dict[str, Any]] = {
    "apputils-extension/notification": {
        "fetchNews": "false",
        "checkForUpdates": False,
        "doNotDisturbMode": True,
    },
    "completer-extension/manager": {
        "providerTimeout": int(LIMIT * 1000)
    },  # by default a kernel has one second to answer
    "docmanager-extension/plugin": {
        "autosave": False
    },  # a command to save does nothing while another save is under way
}


def _environment(home):
    for plugin, settings in _SETTINGS.items():
        path = home / "settings" / "@jupyterlab" / f"{plugin}.jupyterlab-settings"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(settings))
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
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("JUPYTER", "IPYTHON", "PYTEST_"))
    }
    return inherited | {name: str(value) for name, value in own.items()}


def _wait_until_ready(server, process, log):
    end = time.monotonic() + LIMIT
    while True:
        try:
            urllib.request.urlopen(server.url("api"), timeout=5).close()
            return
        except (urllib.error.URLError, ConnectionError, TimeoutError) as error:
            if process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(
                    f"JupyterLab did not start:\n{log.read_text(errors='replace')[-4000:]}"
                ) from error
            time.sleep(0.1)


def _stop(process):
    """Stop the server and its kernels, which have sessions of their own."""
    descendants = _descendants(process.pid)
    process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(20)
    if process.poll() is None:
        process.kill()
        process.wait()
    for pid, started in descendants:
        with contextlib.suppress(ProcessLookupError):
            while (
                _started(pid) == started is not None
            ):  # still the same process, not a new one with its id
                os.kill(pid, signal.SIGKILL)
                time.sleep(0.05)


def _descendants(pid):
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (fields := _stat(int(entry.name))):
            parents[int(entry.name)] = int(fields[1])
    pids = [pid]
    for ancestor in pids:
        pids += [child for child, parent in parents.items() if parent == ancestor]
    return [(child, _started(child)) for child in pids[1:]]


def _started(pid):
    fields = _stat(pid)
    return fields[19] if fields else None


def _stat(pid):
    """The fields of /proc/…/stat after the name; empty for a process that has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []
    return [] if fields[0] in "ZX" else fields


def executable():
    """The system's Chromium; None lets playwright use its own. The search order is as in tests/lanes/chromium.sh."""
    names = (os.environ.get("PYOPNB_CHROMIUM"), "chromium", "chromium-browser", "google-chrome")
    paths = (path for name in names if name and (path := shutil.which(name)))
    return next(
        (
            path
            for path in paths
            if subprocess.run([path, "--version"], capture_output=True).returncode == 0
        ),
        None,
    )


_NOBODY = "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"  # the only host that a page finds


@contextlib.contextmanager
def browser():
    """A Chromium without a window."""
    with sync_playwright() as playwright:
        # Chromium's sandbox does not work as root, which CI machines often use.
        chromium = playwright.chromium.launch(
            executable_path=executable(),
            args=["--no-sandbox", "--disable-dev-shm-usage", f"--host-resolver-rules={_NOBODY}"],
        )
        try:
            yield chromium
        finally:
            chromium.close()


@dataclass
class Tab:
    """A page of JupyterLab, the requests that were blocked, and the errors that it logged."""

    page: Page
    server: Lab
    blocked: list[str] = field(default_factory=list)
    console_errors: list[str] = field(default_factory=list)
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def go(self, path: str = "lab") -> None:
        """Load JupyterLab in its default theme with nothing open; the path ``lab/tree/x.ipynb`` opens that file."""
        self.page.goto("about:blank")  # the previous page would keep its documents open
        settings = self.server.home / "settings" / "@jupyterlab" / "apputils-extension"
        (settings / "themes.jupyterlab-settings").unlink(missing_ok=True)
        # Not by "reset" in the URL, which makes JupyterLab reload itself.
        for workspace in (self.server.home / "workspaces").glob("*"):
            workspace.unlink()
        self.page.goto(self.server.url(f"{path}?token={self.server.token}"))
        self.page.wait_for_function("() => window.jupyterapp && window.jupyterapp.shell")
        self.page.wait_for_function(_RESTORED)

    def command(self, name: str, **args: Any) -> None:
        """Run a command of JupyterLab and wait for it."""
        self._wait_for(self.start(name, **args))

    def start(self, name: str, **args: Any) -> int:
        """Run a command of JupyterLab."""
        return self._begin("window.jupyterapp.commands.execute(...argument)", [name, args])

    def _begin(self, promise: str, argument: Any = None) -> int:
        number = next(self._numbers)
        settled = "window.settled = {...window.settled, [number]: error}"
        script = f"([number, argument]) => {{ ({promise}).then(() => '', error => `${{error}}`).then(error => {{ {settled} }}) }}"
        self.page.evaluate(script, [number, argument])
        return number

    def _wait_for(self, number: int) -> None:
        """Wait for a promise of the page, which must be kept. There is a time limit, which awaiting it would not have."""
        self.page.wait_for_function("number => window.settled?.[number] !== undefined", arg=number)
        error = self.page.evaluate("number => window.settled[number]", number)
        assert error == "", error

    def open_notebook(self, path: str, *, kernel: bool = True) -> None:
        """Open a notebook, and wait for its kernel unless it should have none."""
        path = self.server.path(path)
        self.go()
        preference = {} if kernel else {"kernelPreference": {"shouldStart": False}}
        self.command("docmanager:open", path=path, factory="Notebook", **preference)
        self.page.wait_for_function(_OPENED, arg=path)
        self.page.wait_for_selector(".jp-Notebook .jp-Cell")
        if kernel:
            self.wait_idle()

    def open_in_notebook(self, path: str) -> None:
        """Open a notebook in Notebook 7, the other front end built from parts of JupyterLab, and wait for its kernel."""
        path = self.server.path(path)
        self.go(f"notebooks/{path}")
        self.page.wait_for_function(_OPENED, arg=path)
        self.page.wait_for_selector(".jp-Notebook .jp-Cell")
        self.wait_idle()

    def kernels(self) -> int:
        """The number of kernels running on the server."""
        return len(self.server.kernels())

    def wait_idle(self) -> None:
        self.page.wait_for_function(
            f"() => {CURRENT}?.context?.sessionContext?.session?.kernel?.status === 'idle'"
        )

    def run_all(self) -> None:
        """Run all cells and wait for the last."""
        self.command("notebook:run-all-cells")
        # At the first error, even one that is expected, the command ends and says of all
        # cells that they are idle, while the kernel still runs them. It answers a request
        # that comes after them last.
        kernel = f"{CURRENT}.context.sessionContext.session.kernel"
        self._wait_for(self._begin(f"{kernel}.requestExecute({{code: '', silent: true}}).done"))
        self.expect(self.never_run, [])
        self.wait_idle()

    def choose(self, number: int) -> None:
        """Make a cell the active one."""
        self.page.evaluate(f"number => {{ {CURRENT}.content.activeCellIndex = number }}", number)

    def run(self, number: int) -> None:
        """Run one cell and wait for it."""
        self.choose(number)
        self.command("notebook:run-cell")
        self.expect(lambda: number in self.unfinished(), False)
        self.wait_idle()

    def edit(self, number: int, source: str) -> None:
        """Replace the text of a cell."""
        script = f"([number, source]) => {{ {CURRENT}.content.widgets[number].model.sharedModel.setSource(source) }}"
        self.page.evaluate(script, [number, source])

    def save(self) -> None:
        self.command("docmanager:save")

    def shut_down(self) -> None:
        """End the notebook's kernel."""
        self._wait_for(self._begin(f"{CURRENT}.context.sessionContext.shutdown()"))

    def restart(self) -> None:
        """Restart the notebook's kernel."""
        self._wait_for(self._begin(f"{CURRENT}.context.sessionContext.restartKernel()"))
        self.wait_idle()

    def errors(self) -> list[str]:
        """The exceptions in the outputs of all cells."""
        outputs = "cell.model.outputs?.toJSON() ?? []"
        raised = "output.output_type === 'error').map(output => `${output.ename}: ${output.evalue}`"
        return list(
            self.page.evaluate(
                f"() => {CURRENT}.content.widgets.flatMap(cell => ({outputs}).filter(output => {raised}))"
            )
        )

    def unfinished(self) -> list[int]:
        """The code cells that have not run to their end."""
        waits = "cell.model.type === 'code' && !(cell.model.executionCount > 0 && cell.model.executionState === 'idle')"
        indices = f"{CURRENT}.content.widgets.flatMap((cell, index) => {waits} ? [index] : [])"
        return list(self.page.evaluate(f"() => {indices}"))

    def never_run(self) -> list[str]:
        """The text of the code cells that have not run to their end, apart from empty ones, which never run."""
        source = f"number => {CURRENT}.content.widgets[number].model.sharedModel.getSource()"
        texts = [self.page.evaluate(source, number) for number in self.unfinished()]
        return [text for text in texts if text.strip()]

    def count(self, number: int) -> int:
        """The execution count of a cell."""
        return int(
            self.page.evaluate(
                f"number => {CURRENT}.content.widgets[number].model.executionCount", number
            )
        )

    def html(self, number: int) -> str:
        """The HTML of a cell's output, as it would be saved."""
        data = "model.outputs.toJSON()[0]?.data?.['text/html']"
        return str(
            self.page.evaluate(
                f"number => [{CURRENT}.content.widgets[number].{data} ?? ''].flat().join('')",
                number,
            )
        )

    def trusted(self, number: int) -> bool:
        return bool(
            self.page.evaluate(f"number => {CURRENT}.content.widgets[number].model.trusted", number)
        )

    def cell(self, number: int) -> Locator:
        return self.page.locator(f'.jp-Notebook .jp-Cell[data-windowed-list-index="{number}"]')

    def output(self, number: int) -> Locator:
        """The output area of a cell."""
        return self.cell(number).locator(".jp-Cell-outputArea")

    def frame(self, around: Locator) -> FrameLocator:
        """The page inside the first iframe of an element, also after the iframe was moved, which loads it again."""
        return around.frame_locator("iframe").first

    def netron(self, around: Locator, nodes: int) -> FrameLocator:
        """The page of Netron inside an element, once it shows that many nodes."""
        expect(around.locator("iframe")).to_be_visible()
        frame = self.frame(around)
        expect(frame.locator("g.node")).to_have_count(nodes)
        expect(frame.locator("g.node").first).to_be_visible()
        return frame

    def theme(self, name: str) -> None:
        self.command("apputils:change-theme", theme=name)
        light = "false" if "Dark" in name else "true"
        expect(self.page.locator("body")).to_have_attribute("data-jp-theme-light", light)
        expect(self.page.locator("#jupyterlab-splash")).to_have_count(0)

    def eventually(self, check: Callable[[], bool]) -> bool:
        """Whether a condition becomes true in time, while the page continues."""
        end = time.monotonic() + LIMIT
        while not check():
            if time.monotonic() > end:
                return False
            self.page.wait_for_timeout(100)
        return True

    def expect(self, read: Callable[[], Any], value: Any) -> None:
        """Assert that a function returns a value in time, while the page continues."""
        assert self.eventually(lambda: read() == value), f"{read()!r} instead of {value!r}"

    def blank(self) -> list[str]:
        """The outputs that show nothing, or whose pictures or widgets are missing."""
        outputs = self.page.locator(".jp-Notebook .jp-OutputArea-output").all()
        return [
            output.inner_html()[:500]
            for output in outputs
            if not self.eventually(lambda output=output: self.shows(output))
        ]

    def shows(self, output: Locator) -> bool:
        """Whether an output shows text, a frame or a widget, or pictures of which none is broken or empty."""
        output.scroll_into_view_if_needed()
        text, pictures = output.inner_text().strip(), output.locator("img:visible").all()
        if any(word in text for word in ("model not found", "Error displaying", "Loading widget")):
            return False
        if any(
            picture.evaluate("picture => !(picture.complete && picture.naturalWidth)")
            for picture in pictures
        ):
            return False
        drawings = output.locator(
            "svg:visible"
        ).all()  # inner_text does not look into shadow roots, as locators do
        if any(
            not drawing.locator(":is(g, use, path, rect, text):visible").count()
            for drawing in drawings
        ):
            return False
        return bool(
            text
            or pictures
            or drawings
            or output.locator("iframe:visible, [role=slider]:visible").count()
        )

    def screenshot(self, name: str) -> Path:
        """Save a picture of the page in build/ for inspection."""
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        path = SCREENSHOTS / f"{name}.png"
        self.page.screenshot(path=path)
        return path

    def excerpt(self, name: str, number: int, width: int, height: int) -> Path:
        """Save a picture of the notebook from one cell on, in few colors to keep the file small."""
        around = self.cell(number)

        def in_position():  # outputs that are drawn late move it
            around.evaluate("cell => cell.scrollIntoView({block: 'start'})")
            before = around.bounding_box()
            self.page.wait_for_timeout(500)
            return before is not None and 80 < before["y"] < 200 and around.bounding_box() == before

        assert self.eventually(in_position)
        box = around.bounding_box()
        assert box is not None
        path = self.screenshot(name)
        with Image.open(path) as picture:
            left, top = int(box["x"]), int(box["y"])
            part = picture.crop((left, top, left + width, top + height))
            part.convert("RGB").quantize(128).save(path, optimize=True)
        return path


def _is_widget_manager_error(error):
    """Whether this is the error that the widget manager always raises for a notebook without a kernel."""
    return "reading 'kernel'" in error.message and "@jupyter-widgets/jupyterlab-manager" in (
        error.stack or ""
    )


def new_context(chromium, *, dark=False, size=(1280, 900)):
    """A profile of its own. What it has loaded once, all of its tabs have."""
    context = chromium.new_context(
        viewport={"width": size[0], "height": size[1]},
        color_scheme="dark" if dark else "light",
        service_workers="block",
    )
    context.set_default_timeout(LIMIT * 1000)
    expect.set_options(timeout=LIMIT * 1000)
    return context


@contextlib.contextmanager
def tab(context, server):
    """A tab that finds no other host, as on a machine without network, and that records what it asked of them."""
    page = context.new_page()
    if SLOWDOWN > 1:
        context.new_cdp_session(page).send("Emulation.setCPUThrottlingRate", {"rate": SLOWDOWN})
    opened = Tab(page, server)
    allowed = (server.origin, server.origin.replace("http", "ws", 1), "blob:", "data:", "about:")

    # Not by routes, which would make Chromium fetch and compile all of JupyterLab for each page.
    def record(request):
        if not request.url.startswith(allowed):
            opened.blocked.append(request.url)

    page.on("request", record)
    page.on(
        "pageerror",
        lambda error: (
            None
            if _is_widget_manager_error(error)
            else opened.console_errors.append(error.stack or error.message)
        ),
    )
    page.on(
        "console",
        lambda message: (
            opened.console_errors.append(message.text) if message.type == "error" else None
        ),
    )
    try:
        yield opened
    finally:
        page.close()


def write_notebook(path, *sources, outputs=None):
    """Write a notebook of code cells, with the outputs of some."""
    cells = []
    for number, source in enumerate(sources):
        cell = nbformat.v4.new_code_cell(source)
        for data in (outputs or {}).get(number, ()):
            cell.outputs.append(nbformat.v4.new_output("display_data", data=data))
            cell.execution_count = 1
        cells.append(cell)
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel}), path)
