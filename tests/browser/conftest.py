"""A real Chromium before what `make demo` starts: what every test of the dashboard has, and what none may leave behind."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import pytest

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
WHY = "chromium is not installed here; `make browser` installs it with apt"
WAIT_MS = 120_000  # for anything; a slow machine takes its time
ROOT = Path(__file__).parents[2]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """None without a browser. They run in one worker (tests/scheduling.py): they share it, and the processes."""
    for item in items:
        if CHROMIUM is None and Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.skip(reason=WHY))


class Town(NamedTuple):
    """Where the demo is, and who may come in."""

    url: str
    store: str


def _town(folder: Path) -> Iterator[Town]:
    """`make demo` as it stands in the Makefile, but for its folder and for which Python it is run by."""
    stamp = folder / "stamp"
    stamp.touch()  # newer than pyproject.toml: what runs this test is what there is
    where = [f"DEMO={folder}", f"BIN={Path(sys.executable).parent}", f"STAMP={stamp}"]
    yield from _started(
        ["make", "--silent", "demo", *where], ", dashboard at ", lambda url: Town(url, f"sqlite:{folder}/town.db")
    )


def _started(command: list[str], words: str, make: Callable[[str], Any], **settings: Any) -> Iterator[Any]:
    """A program of which one line says `words` and then where it answers; at the end it and all of its children are killed."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("WAKEFUL_")}
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=ROOT,
        env=env | settings,
        start_new_session=True,
    ) as run:
        assert run.stdout is not None
        said: list[str] = []
        try:
            for line in run.stdout:
                said.append(line)
                if words in line:
                    break
            else:
                raise AssertionError("".join(["it did not start:\n", *said]))
            # What it goes on to say must be read, or it would wait for that one day.
            Thread(target=lambda lines: list(lines), args=(run.stdout,), daemon=True).start()
            yield make(said[-1].partition(words)[2].split()[0])
        finally:
            os.killpg(run.pid, signal.SIGKILL)  # which it bears at any moment; a good end would wait for the bell


@pytest.fixture(scope="session")
def town(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Town]:
    """Open to this machine: nobody ever made a token."""
    yield from _town(tmp_path_factory.mktemp("town"))


@pytest.fixture(scope="session")
def longest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The program of longest.py."""
    command = [sys.executable, "-m", "wakeful.cli", "dev", "tests/browser/longest.py", "--store"]
    yield from _started([*command, f"sqlite:{tmp_path_factory.mktemp('longest')}/all.db"], ", dashboard at ", str)


@pytest.fixture(scope="session")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Town]:
    """Closed by its first token."""
    yield from _town(tmp_path_factory.mktemp("guarded"))


@pytest.fixture(scope="session")
def tokens(guarded: Town) -> dict[str, str]:
    """Of an admin and of a reader, made while it runs, on the command line as anybody makes them."""
    found = {}
    for name, scope in (("boss", "admin"), ("eye", "read")):
        command = [sys.executable, "-m", "wakeful.cli", "tokens", "create", name, "--scope", scope, "--json"]
        made = subprocess.run([*command, "--store", guarded.store], capture_output=True, text=True, check=True)
        found[name] = json.loads(made.stdout)["token"]
    return found


@pytest.fixture(scope="session")
def mounted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The dashboard as a part of somebody's own application: that of examples/web_starlette.py, with a schedule put in."""
    store = f"sqlite:{tmp_path_factory.mktemp('mounted')}/wakeful.db"
    command = [sys.executable, "-m", "uvicorn", "--app-dir", "examples", "--port", "0", "web_starlette:web"]
    for url in _started(command, "running on ", str, WAKEFUL_STORE=store):
        job = json.dumps({"when": "every weekday at 9am", "zone": "Asia/Tokyo", "url": "https://localhost"}).encode()
        asked = Request(f"{url}/tenants/zoe/jobs/report", job, {"content-type": "application/json"}, method="PUT")
        urlopen(asked, timeout=WAIT_MS / 1000).close()
        yield f"{url}/durable"


@pytest.fixture(scope="module")  # while it is there no other test of the process can have an event loop
def chromium() -> Iterator[Any]:
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=WAIT_MS)
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-dev-shm-usage"])
        yield browser
        browser.close()


# A request that ends with its page: htmx calls that an error. One that fails says more than this.
ABORTED = ("htmx:afterRequest", "htmx:sendAbort")


class Watch:
    """A page, and everything that went wrong or out on it."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.problems: list[str] = []
        self.hosts: set[str] = set()
        self.expected: tuple[str, ...] = ABORTED
        page.set_default_timeout(WAIT_MS)
        page.on("console", self._said)
        page.on("pageerror", lambda error: self.problems.append(f"script: {error}"))
        page.on("request", lambda request: self.hosts.add(urlsplit(request.url).hostname or request.url))

    def _said(self, message: Any) -> None:
        if message.type in ("error", "warning") and not any(part in message.text for part in self.expected):
            self.problems.append(f"{message.type}: {message.text} at {self.page.url}")

    def check(self) -> None:
        assert self.problems == []
        assert self.hosts <= {"127.0.0.1"}, "a request left the machine"


class Pages:
    """Makes pages of a kind, and checks all of them at the end."""

    def __init__(self, browser: Any) -> None:
        self._browser = browser
        self._watches: list[Watch] = []
        self._contexts: list[Any] = []

    def open(
        self, url: str, *, theme: str = "light", width: int = 1280, height: int = 900, expected: tuple[str, ...] = ()
    ) -> Any:
        context = self._browser.new_context(viewport={"width": width, "height": height}, color_scheme=theme)
        self._contexts.append(context)
        watch = Watch(context.new_page())
        watch.expected = (*ABORTED, *expected)
        self._watches.append(watch)
        watch.page.goto(url)
        return watch.page

    def close(self) -> None:
        for context in self._contexts:
            context.close()
        for watch in self._watches:
            watch.check()


@pytest.fixture
def pages(chromium: Any) -> Iterator[Pages]:
    """`pages.open(url, …)`: at the end no page has had an error, or asked another machine for anything."""
    found = Pages(chromium)
    yield found
    found.close()
