"""A real Chromium before a real process: what every test of the dashboard has, and what none may leave behind."""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pytest

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
WHY = "chromium is not installed here; `make browser` installs it with apt"
WAIT_MS = 20_000  # for anything; a slow machine takes its time
TOWN = Path(__file__).parent / "town.py"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All in one worker: they share the processes and the browser."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.xdist_group("browser"))
            if CHROMIUM is None:
                item.add_marker(pytest.mark.skip(reason=WHY))


class Town(NamedTuple):
    """Where the demo is, and who may come in."""

    url: str
    ops: str  # the same, mounted in an application of somebody's own
    tokens: dict[str, str]


def _town(file: Path, *tokens: str) -> Iterator[Town]:
    command = [sys.executable, str(TOWN), str(file), *tokens]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as run:
        assert run.stdin is not None
        assert run.stdout is not None
        try:
            yield Town(**json.loads(run.stdout.readline() or '{"error": "the demo did not start"}'))
        finally:
            run.kill()  # which it bears at any moment; a good end would wait for the bell


@pytest.fixture(scope="session")
def town(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Town]:
    """Open to this machine: nobody ever made a token."""
    yield from _town(tmp_path_factory.mktemp("town") / "town.db")


@pytest.fixture(scope="session")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Town]:
    """Closed: an admin and a reader have tokens."""
    yield from _town(tmp_path_factory.mktemp("guarded") / "town.db", "boss=admin", "eye=read")


@pytest.fixture(scope="module")  # while it is there no other test of the process can have an event loop
def chromium() -> Iterator[Any]:
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=WAIT_MS)
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-dev-shm-usage"])
        yield browser
        browser.close()


class Watch:
    """A page, and everything that went wrong or out on it."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.problems: list[str] = []
        self.hosts: set[str] = set()
        self.expected: tuple[str, ...] = ()
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
        watch.expected = expected
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
